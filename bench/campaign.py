#!/usr/bin/env python3
"""campaign.py BUILD - the measurements behind bench/RESULTS.md, by one protocol stated before anything is measured.

Parts: `peers` (2, 4 and 8 ranks: tutti, every peer that is built, and the floor), `types` (f16 and bf16), `growth`
(2 to 16 ranks), `torch` (where PyTorch is installed), `hogs` (beside foreign load, and waiting long; hogs.py).
A part is ROUNDS rounds; in a round all programs take turns. Every row that any program printed is kept, with the
round and the load that others caused meanwhile; bench/report.py judges later which rows count.

A round that is complete is not measured again, so a run that was stopped goes on where it was, unless tutti was built
anew or other programs or sizes are asked for; --fresh begins anew. When all rounds are there, they are compressed into --raw (bench/raw), where report.py reads them.
"""
import argparse
import collections
import csv
import gzip
import importlib.util
import io
import itertools
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
import zlib

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.environ.get("TUTTI_PEERS", os.path.join(HERE, "peers"))
sys.path.insert(0, os.path.join(HERE, "peers"))
import compare  # noqa: E402
import hogs  # noqa: E402

# Part, ranks, bench options. Sizes: every 16th power from 4 bytes, and the edges of the size classes.
Step = collections.namedtuple("Step", "part ranks peers options")
POWERS = "--min 4 --factor 16 --max"
EDGES = "--min 4K --max 1M --factor 256"
TIMES = "--time 0.03 --reps 3 --cap 1"
COLLECTIVES = "all_reduce,all_gather,reduce_scatter,broadcast,all_to_all,barrier"
LARGEST = {2: "64M", 4: "64M", 8: "4M"}  # 64M at 8 ranks takes longer than all else together

# Program of bench/peers -> names of run_peer.sh.
PROGRAMS = {"mpi_bench.openmpi": ["openmpi", "openmpi_ucx"], "mpi_bench.mpich": ["mpich"], "gloo_bench": ["gloo_batch"]}
TUNED = ["openmpi", "openmpi_ucx", "mpich"]  # also with a malloc that keeps its memory, where that matters


def built_peers(folder):
    return [p for program, names in PROGRAMS.items() if os.access(f"{folder}/{program}", os.X_OK) for p in names]


def floor_peers(ranks, cpus):
    """Spinning is no floor where ranks outnumber CPUs."""
    return ["limit"] if ranks <= cpus else ["limit_yield", "limit_futex"]


def steps_of(parts, peers, cpus, quick):
    """All measurements of a round, lighter ones of `quick`: enough to see that everything runs."""
    steps = []
    if quick:
        all_ops = "--ops all_reduce,barrier --min 64 --max 64K --factor 1024 --time 0.01 --reps 2"
        for ranks in (2, 4):
            steps.append(Step("peers", ranks, ["tutti", *peers, *floor_peers(ranks, cpus)], all_ops))
        steps.append(Step("types", 2, ["tutti"], all_ops + " --dtypes f32,f16,bf16"))
        steps += [Step("growth", n, ["tutti", *floor_peers(n, cpus)[:1]], all_ops) for n in (2, 3)]
        return [step for step in steps if step.part in parts]
    for ranks, largest in LARGEST.items():
        everybody = ["tutti", *peers, *floor_peers(ranks, cpus)]
        steps.append(Step("peers", ranks, everybody, f"{POWERS} {largest} {TIMES}"))
        steps.append(Step("peers", ranks, everybody, f"{EDGES} {TIMES}"))
        tuned = [p + "_mal" for p in peers if p in TUNED]
        steps.append(Step("peers", ranks, tuned, f"--min 4M --factor 16 --max {largest} {TIMES}"))
    for ranks in (2, 4):
        steps.append(Step("types", ranks, ["tutti"],
                          f"--ops all_reduce --dtypes f32,f16,bf16 {POWERS} 64M {TIMES}"))
    for ranks in (2, 3, 4, 6, 8, 16):
        steps.append(Step("growth", ranks, ["tutti", *floor_peers(ranks, cpus)[:1]],
                          f"--ops {COLLECTIVES} --min 64 --factor 256 --max 4M --time 0.02 --reps 3 --cap 1"))
    if importlib.util.find_spec("torch"):
        for ranks in (2, 4):
            steps.append(Step("torch", ranks, ["tutti", "torch_gloo"], f"--ops all_reduce {POWERS} 64K {TIMES}"))
            steps.append(Step("torch", ranks, ["tutti", "torch_gloo"], f"--ops all_reduce {EDGES} {TIMES}"))
    return [step for step in steps if step.part in parts]


def command_of(peer, tutti):
    if peer == "tutti":
        return f"{shlex.quote(tutti)} bench --csv --ranks {{ranks}}"
    return f"{shlex.quote(PEERS + '/run_peer.sh')} {peer} {{ranks}}"


def run_step(step, rnd, tutti, path, timeout):
    """One step of one round into `path`, which appears only when it is complete."""
    text = io.StringIO()
    writer = csv.DictWriter(text, compare.FIELDS, lineterminator="\n")
    writer.writeheader()
    commands = [(peer, command_of(peer, tutti)) for peer in step.peers]
    # Each round begins with another program, so that none always follows the same one.
    shift = rnd % max(len(commands), 1)
    compare.run_round(commands[shift:] + commands[:shift], step.ranks, rnd, shlex.split(step.options), timeout,
                      writer.writerows)
    store(path, text.getvalue())


def path_of(work, tutti, what, rnd):
    """Where a round of `what` lies: another one for other options, programs, or another build of tutti."""
    with open(tutti, "rb") as file:
        mark = zlib.crc32(repr(what).encode(), zlib.crc32(file.read()))
    return f"{work}/{what.part}-{what.ranks}-{mark:08x}-{rnd:02d}.csv"


def store(path, text):
    with open(path + ".part", "w") as file:
        file.write(text)
    os.replace(path + ".part", path)


def run_hogs(rnd, tutti, path, peers, quick):
    text = io.StringIO()
    writer = csv.DictWriter(text, hogs.FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(hogs.measure(tutti, peers, rnd, quick))
    store(path, text.getvalue())


def first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return next((line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()), None)


def package(name):
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", name], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def describe_machine(tutti, arguments):
    """What the figures hold for."""
    models = [x.split(":", 1)[1].strip() for x in open("/proc/cpuinfo") if x.startswith("model name")]
    memory = next(x for x in open("/proc/meminfo") if x.startswith("MemTotal")).split()[1]
    commit = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True)
    versions = {"tutti": first_line([tutti, "--version"]), "commit": commit.stdout.strip() or None,
                "compiler": first_line(["g++", "--version"]),
                "openmpi": first_line(["mpirun.openmpi", "--version"]), "ucx": package("libucx0"),
                "mpich": package("mpich"), "gloo": package("libgloo0"), "torch": package("python3-torch")}
    return {"cpu": models[0] if models else platform.processor(), "cpus": len(os.sched_getaffinity(0)),
            "memory_GiB": round(int(memory) / 2**20, 1), "system": " ".join(platform.uname()[i] for i in (0, 2, 4)),
            "versions": {k: v for k, v in versions.items() if v}, "date": time.strftime("%Y-%m-%d"),
            "tuning": os.environ.get("TUTTI_TUNING", "built-in"), **arguments}


def collect(done, raw):
    """All rounds of a part, one file of `raw` each; `done`: part -> files."""
    os.makedirs(raw, exist_ok=True)
    for part, files in done.items():
        # Neither a time nor a name in it: equal rows are equal bytes.
        with open(f"{raw}/{part}.csv.gz", "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as out:
            for number, path in enumerate(files):
                with open(path, "rb") as rows:
                    out.write(b"".join(rows.readlines()[1 if number else 0:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="build folder of tutti, built as a release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", default="peers,types,growth,torch,hogs")
    parser.add_argument("--work", default=os.path.join(HERE, "..", "build", "bench"), help="rounds that are done")
    parser.add_argument("--raw", default=os.path.join(HERE, "raw"))
    parser.add_argument("--quick", action="store_true", help="few sizes, short: does everything run?")
    parser.add_argument("--fresh", action="store_true", help="forget the rounds that are done")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one program; its rows so far are kept")
    a = parser.parse_args()
    tutti = os.path.abspath(f"{a.build}/src/cli/tutti")
    if not os.access(tutti, os.X_OK):
        parser.error(f"{tutti} is not there; build target tutti_command in {a.build}")
    if a.fresh:
        shutil.rmtree(a.work, ignore_errors=True)
    os.makedirs(a.work, exist_ok=True)
    parts = a.parts.split(",")
    peers = built_peers(os.environ.get("PEERS_BUILD", "/tmp/peers-build"))
    steps = steps_of(parts, peers, len(os.sched_getaffinity(0)), a.quick)
    if "hogs" in parts:
        steps.append(Step("hogs", "all", [p for p in peers if p.startswith("openmpi")], "quick" if a.quick else ""))
    began = time.time()
    done = collections.defaultdict(list)
    for rnd, (number, step) in itertools.product(range(a.rounds), enumerate(steps)):
        path = path_of(a.work, tutti, step, rnd)
        done[step.part].append(path)
        if os.path.exists(path):
            continue
        print(f"== round {rnd + 1} of {a.rounds}, step {number + 1} of {len(steps)}: {step.part}, {step.ranks} ranks "
              f"({time.time() - began:.0f} s so far)", file=sys.stderr, flush=True)
        if step.part == "hogs":
            run_hogs(rnd, tutti, path, step.peers, a.quick)
        else:
            run_step(step, rnd, tutti, path, a.timeout)
    collect(done, a.raw)
    facts = describe_machine(tutti, {"rounds": a.rounds, "parts": parts, "peers": peers, "quick": a.quick})
    store(f"{a.raw}/machine.json", json.dumps(facts, indent=1) + "\n")
    print(f"== done in {time.time() - began:.0f} s; rows are in {a.raw}", file=sys.stderr)


if __name__ == "__main__":
    main()
