"""Runs a command and checks what it prints: check_output.py EXPECTED FILE_SECTION -- COMMAND...

EXPECTED is a text file of sections, each headed by "== NAME" and holding one regular expression per
line. The command must end with status 0, and each line it prints must match one expression of the
section, each expression one line; the order is free, because ranks print when they like.
"""
import re
import subprocess
import sys


def section(path, name):
    lines, inside = [], False
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines():
            if line.startswith("== "):
                inside = line == f"== {name}"
            elif inside and line:
                lines.append(line)
    if not lines:
        sys.exit(f"{path} has no section {name}")
    return lines


def main(arguments):
    path, name, dashes, *command = arguments
    if dashes != "--":
        sys.exit(__doc__)
    run = subprocess.run(command, capture_output=True, text=True, timeout=100)
    print(run.stdout + run.stderr)
    problems = [] if run.returncode == 0 else [f"exit status {run.returncode}, expected 0"]
    printed = run.stdout.splitlines()
    for pattern in section(path, name):
        match = next((line for line in printed if re.fullmatch(pattern, line)), None)
        if match is None:
            problems.append(f"no line matches: {pattern}")
        else:
            printed.remove(match)
    problems += [f"not expected: {line}" for line in printed]
    sys.exit("\n".join(problems) or 0)


main(sys.argv[1:])
