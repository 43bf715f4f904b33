#!/usr/bin/env python3
"""report.py [RAW] [--out FILE] - makes bench/RESULTS.md from the rows in bench/raw, and from nothing else.

A cell is (program, operation, type, ranks, bytes, placement). It counts with at least 3 rows of its placement that
were taken while others used less than 0.3 CPU; its time is their median. A ratio needs a counting cell of tutti and of
the program that it is compared with; where one is missing it is "not seen": listed, neither pass nor fail. The best
peer of a cell is the fastest of those that count there. Targets stand in targets.py.
"""
import argparse
import collections
import csv
import gzip
import json
import math
import os
import statistics
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import targets as T  # noqa: E402

LEAST_ROWS = 3
MOST_OTHER = 0.3
SLOWER = 1.10
CLASSES = ["small", "medium", "large"]
PLACEMENTS = ["near", "far"]
OPS = ["all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "barrier", "sendrecv", "bw"]

Cell = collections.namedtuple("Cell", "peer op dtype ranks bytes placement")


def size_class(size):
    return "small" if size <= 4096 else "medium" if size < 1 << 20 else "large"


def human(size):
    for unit in ("", "K", "M"):
        if size < 1024:
            return f"{size}{unit}"
        size //= 1024
    return f"{size}G"


def geomean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def read_part(raw, part):
    path = os.path.join(raw, part + ".csv.gz")
    if not os.path.exists(path):
        return []
    with gzip.open(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


class Times:
    """The rows of a part, as cells."""

    def __init__(self, rows):
        self.rows = len(rows)
        self.loaded = sum(float(row["other"]) >= MOST_OTHER for row in rows)
        taken = collections.defaultdict(list)
        for row in rows:
            place = row["placement"]
            if place in PLACEMENTS:
                cell = Cell(row["peer"], row["op"], row["dtype"], int(row["ranks"]), int(row["bytes"]), place)
                taken[cell] += [float(row["median_us"])] if float(row["other"]) < MOST_OTHER else []
        self.all = set(taken)
        self.time = {cell: statistics.median(v) for cell, v in taken.items() if len(v) >= LEAST_ROWS}
        # What was asked for: a size that some program measured in some placement.
        self.points = sorted({(c.op, c.dtype, c.ranks, c.bytes) for c in taken})

    def get(self, peer, op, dtype, ranks, size, place):
        return self.time.get(Cell(peer, op, dtype, ranks, size, place))

    def best(self, op, dtype, ranks, size, place, wanted):
        """(time, peer) of the fastest program for which wanted(peer, op)."""
        found = [(t, c.peer) for c, t in self.time.items()
                 if (c.op, c.dtype, c.ranks, c.bytes, c.placement) == (op, dtype, ranks, size, place)
                 and wanted(c.peer, op)]
        return min(found, default=(None, None))


def is_peer(peer, op):
    # Gloo's reduce_scatter overwrites a buffer that it still sends: its rows are no target (bench/peers/README.md).
    return (peer != "tutti" and not peer.startswith(("limit", "torch"))
            and not (op == "reduce_scatter" and peer.startswith("gloo")))


def is_floor(peer, _):
    return peer.startswith("limit")


def ratios(times, op, ranks, place, sizes, wanted, dtype="f32"):
    """(ratio, bytes, best's name, tutti's time, best's time) per size seen of a class, and the sizes not seen."""
    seen, unseen = [], []
    for point_op, point_type, point_ranks, size in times.points:
        if (point_op, point_ranks) != (op, ranks) or point_type not in (dtype, "-"):
            continue
        if op != "barrier" and size_class(size) != sizes:
            continue
        own = times.get("tutti", op, point_type, ranks, size, place)
        best, name = times.best(op, point_type, ranks, size, place, wanted)
        if own is None or best is None:
            unseen.append(size)
        else:
            seen.append((best / own, size, name, own, best))
    return seen, unseen


def verdict(value, target, at_most=False):
    if target is None:
        return ""
    if value is None:
        return "not seen"
    return "pass" if (value <= target if at_most else value >= target) else "**miss**"


def show(value, digits=2):
    return "-" if value is None else f"{value:.{digits}f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(str(x) for x in row) + " |" for row in rows] + [""]


def class_rows(times, ranks, place):
    """One line per operation and class: ratio to the best peer beside the target."""
    for op in OPS:
        for sizes in ("small",) if op == "barrier" else CLASSES:
            seen, unseen = ratios(times, op, ranks, place, sizes, is_peer)
            if not seen and not unseen:
                continue
            value = geomean([x[0] for x in seen])
            target = T.ratio(op, ranks, place, sizes)
            yield [op, "" if op == "barrier" else sizes, show(value), show(target), verdict(value, target),
                   show(min((x[0] for x in seen), default=None)), f"{len(seen)} of {len(seen) + len(unseen)}"]


def section_ratios(times):
    lines = []
    for ranks, place in [(2, "near"), (2, "far"), (4, "near"), (4, "far"), (8, "near"), (8, "far")]:
        rows = list(class_rows(times, ranks, place))
        if rows:
            lines += [f"### {ranks} ranks, {place}", ""]
            lines += table(["operation", "sizes", "ratio", "target", "", "least", "cells seen"], rows)
    return lines


def slow_cells(times):
    for op, dtype, ranks, size in times.points:
        for place in PLACEMENTS:
            own = times.get("tutti", op, dtype, ranks, size, place)
            best, name = times.best(op, dtype, ranks, size, place, is_peer)
            if own and best and own > SLOWER * best:
                target = T.ratio(op, ranks, place, size_class(size))
                excepted = "target is 1 or less" if target is not None and target <= 1 else ""
                yield [op, human(size), ranks, place, f"{own:.2f}", f"{best:.2f}", name, f"{own / best:.2f}", excepted]


def section_slow(times):
    rows = list(slow_cells(times))
    if not rows:
        return ["None.", ""]
    return table(["operation", "bytes", "ranks", "placement", "tutti us", "best us", "best peer", "times", "excepted"],
                 sorted(rows, key=lambda row: -float(row[7])))


def section_floor(times):
    rows = []
    for ranks in (2, 4):
        for op in OPS:
            for sizes in ("small",) if op == "barrier" else ("small", "large"):
                seen, unseen = ratios(times, op, ranks, "near", sizes, is_floor)
                if not seen and not unseen:
                    continue
                value = 1 / geomean([x[0] for x in seen]) if seen else None
                target = T.floor(op, ranks, sizes)
                rows.append([op, ranks, "" if op == "barrier" else sizes, show(value), show(target),
                             verdict(value, target, at_most=True), f"{len(seen)} of {len(seen) + len(unseen)}"])
    return table(["operation", "ranks", "sizes", "tutti / floor", "target, at most", "", "cells seen"], rows)


def section_types(times):
    rows = []
    for _, dtype, ranks, size in times.points:
        if dtype not in ("f16", "bf16"):
            continue
        for place in PLACEMENTS:
            own = times.get("tutti", "all_reduce", dtype, ranks, size, place)
            full = times.get("tutti", "all_reduce", "f32", ranks, size, place)
            # As many bytes are twice as many elements.
            value = own / full / 2 if own and full else None
            rows.append([dtype, ranks, human(size), place, show(own), show(full), show(value),
                         verdict(value, T.NARROW_PER_ELEMENT, at_most=True)])
    return table(["type", "ranks", "bytes", "placement", "us", "f32 us", "time per element / f32's",
                  f"at most {T.NARROW_PER_ELEMENT}"], rows)


def section_growth(times):
    counts = sorted({ranks for _, _, ranks, _ in times.points})
    lines = []
    for place in PLACEMENTS:
        rows = []
        for op in OPS:
            for size in sorted({b for o, _, _, b in times.points if o == op}):
                dtype = "-" if op == "barrier" else "f32"
                cells = []
                for ranks in counts:
                    own = times.get("tutti", op, dtype, ranks, size, place)
                    floor, _ = times.best(op, dtype, ranks, size, place, is_floor)
                    cells.append("-" if own is None else f"{own:.2f}" + (f" ({own / floor:.1f})" if floor else ""))
                if any(cell != "-" for cell in cells):
                    rows.append([op, "" if op == "barrier" else human(size), *cells])
        if rows:
            lines += [f"{place.capitalize()}, us (in brackets: times the floor):", ""]
            lines += table(["operation", "bytes", *(f"{n} ranks" for n in counts)], rows)
    return lines or ["Not seen.", ""]


def section_torch(times):
    rows = []
    for place in PLACEMENTS:
        for op, dtype, ranks, size in times.points:
            own = times.get("tutti", op, dtype, ranks, size, place)
            other = times.get("torch_gloo", op, dtype, ranks, size, place)
            rows.append([ranks, human(size), place, show(own), show(other), show(other / own if own and other else None, 0)])
    lines = table(["ranks", "bytes", "placement", "tutti us", "torch+gloo us", "ratio"], rows) if rows else []
    for name, fits, target in (("up to 64 KiB", lambda b: b <= 65536, 100), ("1 MiB", lambda b: b == 1 << 20, 30)):
        values = [times.get("torch_gloo", op, dtype, ranks, b, p) / times.get("tutti", op, dtype, ranks, b, p)
                  for op, dtype, ranks, b in times.points for p in PLACEMENTS
                  if fits(b) and times.get("torch_gloo", op, dtype, ranks, b, p) and times.get("tutti", op, dtype, ranks, b, p)]
        value = geomean(values)
        lines += [f"All ranks and placements, {name}: {show(value, 0)}, target at least {target}: {verdict(value, target)}.", ""]
    return lines


def hog_medians(rows):
    """(mode, ranks, hogs) -> median; the load beyond the hogs has to be as low as elsewhere."""
    taken = collections.defaultdict(list)
    for row in rows:
        if row["kind"] == "hogs":
            taken[row["mode"], int(row["ranks"]), int(row["hogs"])] += (
                [float(row["value"])] if float(row["other"]) < MOST_OTHER else [])
    return {key: statistics.median(v) if len(v) >= LEAST_ROWS else None for key, v in taken.items()}


def section_hogs(rows):
    if not rows:
        return ["Not measured.", ""]
    time = hog_medians(rows)
    modes = list(dict.fromkeys(mode for mode, _, _ in time))
    lines = table(["ranks", "hogs", *modes],
                  [[ranks, hogs, *(show(time.get((mode, ranks, hogs))) for mode in modes)]
                   for ranks, hogs in sorted({key[1:] for key in time})])
    checks = []
    for ranks, hogs in sorted({key[1:] for key in time if key[2] > 0}):
        own = time.get(("auto", ranks, hogs))
        mpi = [t for (mode, *where), t in time.items() if mode.startswith("openmpi") and where == [ranks, hogs] and t]
        value = min(mpi) / own if own and mpi else None
        checks.append([f"{ranks} ranks, {hogs} hogs: times faster than Open MPI", show(value, 0),
                       f">= {T.HOG_RATIO}", verdict(value, T.HOG_RATIO)])
    for hogs, most in T.HOG_SLOWDOWN.items():
        own, quiet = time.get(("auto", 2, hogs)), time.get(("auto", 2, 0))
        value = own / quiet if own and quiet else None
        checks.append([f"2 ranks, {hogs} hogs: times its own quiet time", show(value, 1), f"<= {most}",
                       verdict(value, most, at_most=True)])
    idle = [float(row["value"]) for row in rows if row["kind"] == "idle"]
    if idle:
        checks.append(["8 ranks that wait long: percent of a CPU, the busiest", show(max(idle)), f"< {T.IDLE_PERCENT}",
                       verdict(max(idle), T.IDLE_PERCENT, at_most=True)])
    return lines + table(["check", "value", "target", ""], checks)


def section_unseen(times):
    """Cells of the class tables that do not count, by what is missing."""
    rows = collections.defaultdict(list)
    for op, dtype, ranks, size in times.points:
        for place in PLACEMENTS:
            if dtype not in ("f32", "-"):
                continue
            missing = [] if times.get("tutti", op, dtype, ranks, size, place) else ["tutti"]
            if times.best(op, dtype, ranks, size, place, is_peer)[0] is None:
                missing.append("every peer")
            if missing:
                rows[ranks, place, op, " and ".join(missing)].append(human(size) if size else "-")
    if not rows:
        return ["None.", ""]
    return table(["ranks", "placement", "operation", "too few rows of", "bytes"],
                 [[*key, ", ".join(sizes)] for key, sizes in sorted(rows.items())])


def head(facts, parts):
    versions = ", ".join(f"{name} {text.removeprefix(name + ' ')}" for name, text in facts["versions"].items())
    counts = ", ".join(f"{name} {t.rows} ({t.loaded} beside too much other load)" for name, t in parts.items() if t.rows)
    return [
        "# Results",
        "",
        "Made by `bench/report.py` from the rows in `bench/raw`; do not edit. The protocol is in "
        "[docs/performance.md](../docs/performance.md#protocol).",
        "",
        *table(["", ""], [
            ["machine", f"{facts['cpu']}, {facts['cpus']} CPUs, {facts['memory_GiB']} GiB, {facts['system']}"],
            ["versions", versions],
            ["tuning table", facts["tuning"]],
            ["date", facts["date"]],
            ["command", "`make bench`" + (" (quick: a trial of the tools, not a measurement)" if facts["quick"] else "")],
            ["rounds", facts["rounds"]],
            ["rows", counts]]),
        f"A cell counts with at least {LEAST_ROWS} rows of one placement that were taken while others used less than "
        f"{MOST_OTHER} CPU. Ratio: time of the best peer / time of tutti, so above 1 tutti is faster; geometric mean over "
        "the sizes seen. small: up to 4 KiB, large: from 1 MiB.",
        "",
    ]


def report(raw):
    with open(os.path.join(raw, "machine.json")) as file:
        facts = json.load(file)
    parts = {part: Times(read_part(raw, part)) for part in ("peers", "types", "growth", "torch")}
    lines = head(facts, parts)
    lines += ["## Against the best peer", "", *section_ratios(parts["peers"])]
    lines += [f"## Cells more than {round(100 * (SLOWER - 1))} % slower than the best peer", "",
              *section_slow(parts["peers"])]
    lines += ["## Against the floor", "", *section_floor(parts["peers"])]
    lines += ["## Narrow floats", "", *section_types(parts["types"])]
    lines += ["## How time grows with ranks", "", *section_growth(parts["growth"])]
    if parts["torch"].rows:
        lines += ["## PyTorch with Gloo", "", *section_torch(parts["torch"])]
    lines += ["## Beside foreign load, and waiting long", "", *section_hogs(read_part(raw, "hogs"))]
    lines += ["## Not seen", "", *section_unseen(parts["peers"])]
    return "\n".join(lines).rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", nargs="?", default=os.path.join(HERE, "raw"))
    parser.add_argument("--out", help="default: RESULTS.md beside the folder RAW")
    a = parser.parse_args()
    out = a.out or os.path.join(os.path.dirname(os.path.abspath(a.raw)), "RESULTS.md")
    with open(out, "w") as file:
        file.write(report(a.raw))
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
