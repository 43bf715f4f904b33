"""Damaged data ends the main job with an error that names the file.

check_bad_data.py TUTTI FASHION_MNIST writes small data sets, each wrong in one way, and runs the
program on each.
"""
import gzip
import os
import struct
import subprocess
import sys
import tempfile

COUNT = 480


def idx(magic, *extents, body):
    return struct.pack(f">{1 + len(extents)}I", magic, *extents) + body


LABELS = idx(0x801, COUNT, body=bytes(i % 10 for i in range(COUNT)))
IMAGES = idx(0x803, COUNT, 28, 28, body=bytes(COUNT * 784))
PACKED = gzip.compress(IMAGES)

# what is wrong -> (images, labels, part of the message)
CASES = {
    "nothing": (PACKED, LABELS, None),
    "more than announced": (IMAGES + b"x", LABELS, "more than the 480"),
    "no file": (None, LABELS, "cannot be opened"),
    "empty file": (b"", LABELS, "ends too early"),
    "a text": (b"hello world, this is a text", LABELS, "not an IDX file"),
    "labels as images": (LABELS, LABELS, "not an IDX file"),
    "cut short": (IMAGES[:-1], LABELS, "damaged or ends too early"),
    "cut short when packed": (PACKED[:-20], LABELS, "damaged or ends too early"),
    "damaged when packed": (PACKED[:40] + b"\xff" * 40 + PACKED[80:], LABELS, "damaged"),
    "other size": (idx(0x803, COUNT, 32, 28, body=bytes(COUNT * 900)), LABELS, "32 x 28"),
    "huge count": (IMAGES, idx(0x801, 0xffffffff, body=b""), "at most 10000000"),
    "fewer labels": (IMAGES, idx(0x801, 240, body=bytes(240)), "240 labels"),
    "label out of range": (IMAGES, LABELS[:-1] + b"\x0a", "label 10"),
}


def write(path, content):
    if content is not None:
        is_packed = content.startswith(PACKED[:10])
        with open(path, "wb") as file:
            file.write(content if is_packed else gzip.compress(content))


def run(program, folder):
    return subprocess.run([*program, "--data", folder, "--steps", "2"], capture_output=True, text=True,
                          timeout=60)


def main(tutti, program):
    program = [tutti, "run", "-n", "1", "--prefix", "", "--", program]
    failed = []
    for name, (images, labels, expected) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            for part in ("train", "t10k"):
                write(os.path.join(folder, f"{part}-images-idx3-ubyte.gz"), images)
                write(os.path.join(folder, f"{part}-labels-idx1-ubyte.gz"), labels)
            result = run(program, folder)
        print(f"{name}: status {result.returncode} {result.stderr.strip()}")
        if expected is None:
            good = result.returncode == 0
        else:
            good = result.returncode == 1 and expected in result.stderr and folder in result.stderr
        if not good:
            failed.append(name)
    sys.exit(f"wrong: {', '.join(failed)}" if failed else 0)


main(*sys.argv[1:])
