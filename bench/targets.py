# What tutti is measured against: the least ratio (best peer's time / tutti's) per operation and class, and the other
# bounds that report.py sets beside the figures.

# small, medium, large; barrier has one.
_RATIO = {
    (2, "near"): {"all_reduce": (4, 2, 2), "reduce_scatter": (4, 2.5, 2), "all_gather": (3.3, 1.35, 1.6),
                  "broadcast": (2.5, 1.7, 1.5), "all_to_all": (3.3, 1.4, 1.2), "barrier": (4,),
                  "sendrecv": (1.5, 1.1, 1.3), "bw": (1.5, 1.5, 1.1)},
    (4, "near"): {"all_reduce": (2.2, 2.2, 2), "reduce_scatter": (2, 2, 2.5), "all_gather": (2, 1.4, 1.6),
                  "broadcast": (1.8, 1.7, 2), "all_to_all": (1.4, 1.1, 1.0), "barrier": (2,),
                  "sendrecv": (1, 1, 1), "bw": (1, 1, 1)},
    (8, "near"): {"all_reduce": (2.5, 2, 1.8), "reduce_scatter": (2.2, 1.7, 2.2), "all_gather": (2.2, 1.7, 1.6),
                  "broadcast": (1.25, 2, 1.7), "all_to_all": (2, 1.25, 0.9), "barrier": (2,),
                  "sendrecv": (1, 1, 1), "bw": (1, 1, 1)},
    (2, "far"): {"all_reduce": (1.6, 1.7, 1.7), "reduce_scatter": (1.6, 1.7, 1.7), "all_gather": (1.5, 1.2, 0.95),
                 "broadcast": (1.2, 1.5, 1.8), "all_to_all": (1.5, 1.15, 1.2), "barrier": (1.8,),
                 "sendrecv": (1, 1, 1), "bw": (1, 1, 1)},
}
NARROW_PER_ELEMENT = 0.9  # f16, bf16 all_reduce: time per element, of f32's
HOG_RATIO = 20  # small all_reduce beside hogs: times faster than Open MPI
HOG_SLOWDOWN = {1: 10, 2: 20}  # at 2 ranks: hogs -> times its own quiet time, at most
IDLE_PERCENT = 2  # of a CPU, of a rank that waits long


def ratio(op, ranks, place, sizes):
    """Least ratio, or None where none was set."""
    row = _RATIO.get((ranks, place), {}).get(op)
    return row and row[0 if op == "barrier" else ("small", "medium", "large").index(sizes)]


def floor(op, ranks, sizes):
    """tutti's time / floor, at most; near placement. Medium sizes move too little data across CPUs to tell."""
    if op == "barrier":
        return 1.3 if ranks == 2 else None
    if sizes == "small" and op not in ("sendrecv", "bw"):
        return 1.3
    return 2.1 if sizes == "large" and op in ("all_reduce", "reduce_scatter") else None
