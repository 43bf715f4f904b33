# Other load: how much of the CPUs somebody else used while a program and its children were measured. The kernel's
# count of busy time (/proc/stat) minus what the program's processes and this one used (schedstat, in nanoseconds).
import os
import time

TICK = os.sysconf("SC_CLK_TCK")
LEAST_WINDOW = 0.25  # seconds; /proc/stat counts in hundredths
SCANS = 4  # looks for new processes; all of a bench are there by its first rows


def busy_seconds():
    """Since the start of the machine, over all CPUs; without steal, which is not load of this machine."""
    with open("/proc/stat") as file:
        user, nice, system, _idle, _iowait, irq, softirq = map(int, file.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / TICK


def descendants(pid):
    """`pid` and every process below it."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            children.setdefault(parent, []).append(int(name))
    found = [pid]
    for process in found:
        found += children.get(process, [])
    return found


def used_seconds(pid):
    """CPU time of all threads of a process so far; None once it has ended."""
    total = 0
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                total += int(file.read().split()[0])
    except (OSError, IndexError, ValueError):
        return None
    return total * 1e-9


class OtherLoad:
    """CPUs that others use while process `pid` and its children run. sample() gives the mean since the last call,
    over a quarter of a second at least. `ours`: other processes that are not others. A look costs a few milliseconds:
    take it between measurements."""

    def __init__(self, pid, ours=()):
        self.ours = list(ours)
        self.pid = pid
        self.scans = SCANS
        self.processes = [pid]
        self.used = {}
        self.history = [self._now()]

    def _now(self):
        if self.scans > 0:
            self.processes = descendants(self.pid) + self.ours
            self.scans -= 1
        for pid in self.processes:
            used = used_seconds(pid)
            if used is not None:
                self.used[pid] = used  # the last figure of a process that has ended stays
        return time.monotonic(), busy_seconds(), sum(self.used.values()) + time.process_time()

    def sample(self):
        now = self._now()
        old = self.history[-1]
        while now[0] - old[0] < LEAST_WINDOW and len(self.history) > 1:
            self.history.pop()
            old = self.history[-1]
        self.history.append(now)
        elapsed = max(now[0] - old[0], 1e-3)
        return max(0.0, (now[1] - old[1] - (now[2] - old[2])) / elapsed)
