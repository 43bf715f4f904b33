#!/usr/bin/env python3
"""hogs.py TUTTI [PEER...] - how ranks wait beside foreign load, and while they wait long.

Beside hogs: all_reduce of 64 bytes with no, one or two foreign busy loops (the first on CPU 1, the second on CPU 0),
for tutti with each TUTTI_WAIT and for the peers named (openmpi, openmpi_ucx). Spinning alone is left out where ranks
outnumber CPUs. Waiting long: 8 ranks wait in a barrier for a ninth one that is stopped; their CPU time is read from
/proc/PID/stat. Prints CSV: kind,mode,ranks,hogs,value,unit,placement,other,round.
"""
import contextlib
import csv
import os
import shlex
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "peers"))
import compare  # noqa: E402
import other_load  # noqa: E402

FIELDS = "kind,mode,ranks,hogs,value,unit,placement,other,round".split(",")
WAITS = ["spin", "yield", "sleep", "auto"]
RANKS = (2, 4, 8)
HOGS = (0, 1, 2)
BENCH = "--ops all_reduce --min 64 --max 64 --cap 3"
IDLE_RANKS = 8
SETTLE_S = 1.0  # from the bench's first line until it is well within its timed loops
IDLE_S = 5.0


@contextlib.contextmanager
def busy_loops(count, cpus):
    """`count` processes that only compute, each on a CPU of its own, from the second CPU on."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"],
                              preexec_fn=lambda cpu=cpus[(1 + i) % len(cpus)]: os.sched_setaffinity(0, {cpu}))
             for i in range(count)]
    try:
        yield [loop.pid for loop in loops]
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def commands(tutti, peers, ranks, cpus):
    """(mode, command line) of everything that is compared."""
    for wait in WAITS:
        if wait != "spin" or ranks <= cpus:
            yield wait, f"env TUTTI_WAIT={wait} {shlex.quote(tutti)} bench --csv --ranks {{ranks}}"
    for peer in peers:
        yield peer, compare.peer_command(peer)


def beside_hogs(tutti, peers, rnd, quick):
    cpus = sorted(os.sched_getaffinity(0))
    options = shlex.split(BENCH + (" --time 0.01 --reps 2" if quick else " --time 0.1"))
    for ranks in (2,) if quick else RANKS:
        for count in HOGS:
            for mode, command in commands(tutti, peers, ranks, len(cpus)):
                with busy_loops(count, cpus) as ours:
                    line = shlex.split(command.replace("{ranks}", str(ranks))) + options
                    rows, _ = compare.run_one(mode, line, rnd, 0, 120, ours)
                print(f"# hogs round {rnd} {mode} ranks={ranks} hogs={count} rows={len(rows)}", file=sys.stderr)
                for row in rows:
                    yield dict(zip(FIELDS, ["hogs", mode, ranks, count, row["median_us"], "us", row["placement"],
                                            row["other"], rnd]))


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def waiting_long(tutti, rnd, quick):
    """Percent of a CPU that each of the waiting ranks uses."""
    command = [tutti, "bench", "barrier", "--csv", "--no-check", "--ranks", str(IDLE_RANKS + 1), "--reps", "1000",
               "--time", "100", "--cap", "1000"]
    bench = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    late = None
    try:
        bench.stdout.readline()  # the heading: all have joined
        time.sleep(SETTLE_S)
        ranks = [pid for pid in other_load.descendants(bench.pid) if pid != bench.pid]
        late, waiting = ranks[-1], ranks[:-1]
        os.kill(late, signal.SIGSTOP)
        time.sleep(SETTLE_S)
        before, start = [cpu_ticks(pid) for pid in waiting], time.monotonic()
        time.sleep(0.5 if quick else IDLE_S)
        after, elapsed = [cpu_ticks(pid) for pid in waiting], time.monotonic() - start
    finally:
        bench.kill()  # no rank outlives it
        bench.wait()
    for used in sorted(b - a for a, b in zip(before, after)):
        yield dict(zip(FIELDS, ["idle", "auto", IDLE_RANKS, 0, f"{100 * used / other_load.TICK / elapsed:.2f}", "%",
                                "-", "-", rnd]))


def measure(tutti, peers, rnd, quick=False):
    yield from beside_hogs(tutti, peers, rnd, quick)
    yield from waiting_long(tutti, rnd, quick)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    writer = csv.DictWriter(sys.stdout, FIELDS)
    writer.writeheader()
    for row in measure(os.path.abspath(sys.argv[1]), sys.argv[2:], 0):
        writer.writerow(row)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
