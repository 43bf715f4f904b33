"""The main job's promise: the same seed gives the same losses on 1, 2 and 4 ranks.

check_curves.py TUTTI FASHION_MNIST PRECISION STEPS TOLERANCE [ARGS...] trains for STEPS steps on
each number of ranks and compares the loss of every step, relative to that of one rank.
"""
import os
import re
import subprocess
import sys
import tempfile


def losses_of(tutti, program, ranks, arguments, folder):
    path = os.path.join(folder, f"losses-{ranks}")
    run = subprocess.run([tutti, "run", "-n", str(ranks), "--prefix", "", "--", program,
                          "--losses", path, *arguments], capture_output=True, text=True, timeout=280)
    print(f"-- {ranks} ranks\n{run.stdout}{run.stderr}", flush=True)
    if run.returncode != 0:
        sys.exit(f"{ranks} ranks: exit status {run.returncode}")
    last = run.stdout.splitlines()[-1]
    match = re.fullmatch(r"accuracy=(0\.\d+) ranks=(\d+) seconds=[\d.]+", last)
    if not match or int(match[2]) != ranks:
        sys.exit(f"{ranks} ranks: last line is '{last}'")
    with open(path, encoding="utf-8") as file:
        return [float(line) for line in file], float(match[1])


def main(tutti, program, precision, steps, tolerance, *arguments):
    arguments = ["--precision", precision, "--steps", steps, *arguments]
    with tempfile.TemporaryDirectory() as folder:
        curves = {n: losses_of(tutti, program, n, arguments, folder) for n in (1, 2, 4)}
    one, accuracy = curves[1]
    if int(steps) and len(one) != int(steps):
        sys.exit(f"{len(one)} losses written, expected {steps}")
    if not one[-1] < one[0]:
        sys.exit(f"the loss did not fall: {one[0]} at first, {one[-1]} at last")
    failed = False
    for ranks in (2, 4):
        losses, other = curves[ranks]
        if len(losses) != len(one):
            sys.exit(f"{ranks} ranks wrote {len(losses)} losses, one rank {len(one)}")
        worst = max(range(len(one)), key=lambda i: abs(losses[i] - one[i]) / one[i])
        error = abs(losses[worst] - one[worst]) / one[worst]
        print(f"{ranks} ranks: largest relative difference {error:.2e} at step {worst + 1}, "
              f"accuracy {other} (one rank: {accuracy})")
        failed |= not error <= float(tolerance) or abs(other - accuracy) > 0.005
    sys.exit(f"differs by more than {tolerance}, or in accuracy by more than 0.005" if failed else 0)


main(*sys.argv[1:])
