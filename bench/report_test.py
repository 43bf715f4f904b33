#!/usr/bin/env python3
"""What report.py makes of a few rows written by hand, and that campaign.py's steps are whole."""
import csv
import gzip
import json
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import campaign  # noqa: E402
import compare  # noqa: E402
import hogs  # noqa: E402
import report  # noqa: E402
import targets  # noqa: E402

FACTS = {"cpu": "a CPU", "cpus": 2, "memory_GiB": 4, "system": "Linux", "versions": {"tutti": "1"}, "rounds": 5,
         "date": "2026-01-01", "tuning": "built-in", "quick": False}


def row(peer, time, op="all_reduce", ranks=2, size=64, place="near", other=0.1, dtype="f32"):
    return dict(zip(compare.FIELDS, [peer, op, dtype, ranks, size, time, time, time, 1, 1, place, 80, 0, 0.5, other]))


def three(*arguments, **more):
    return [row(*arguments, **more) for _ in range(3)]


def times(*groups):
    return report.Times([{k: str(v) for k, v in r.items()} for group in groups for r in group])


class Cells(unittest.TestCase):
    def test_counts_with_three_quiet_rows_of_one_placement(self):
        two_quiet = [row("tutti", 1), row("tutti", 1), row("tutti", 1, other=0.3)]
        self.assertEqual(times(two_quiet).time, {})
        places = [row("tutti", 1), row("tutti", 1), row("tutti", 1, place="far")]
        self.assertEqual(times(places).time, {})
        mixed = three("tutti", 1, place="mixed")
        self.assertEqual(times(mixed).points, [])
        self.assertEqual(list(times([row("tutti", 3), row("tutti", 1), row("tutti", 2)]).time.values()), [2])

    def test_best_peer_is_no_floor_no_torch_and_not_gloos_reduce_scatter(self):
        found = times(three("limit", 1), three("torch_gloo", 1), three("openmpi", 5), three("mpich_mal", 4))
        self.assertEqual(found.best("all_reduce", "f32", 2, 64, "near", report.is_peer), (4, "mpich_mal"))
        self.assertEqual(found.best("all_reduce", "f32", 2, 64, "near", report.is_floor), (1, "limit"))
        self.assertFalse(report.is_peer("gloo_batch", "reduce_scatter"))
        self.assertTrue(report.is_peer("gloo_batch", "all_reduce"))


class Tables(unittest.TestCase):
    def line(self, found, ranks, place, op, sizes):
        return next(x for x in report.class_rows(found, ranks, place) if x[0] == op and x[1] == sizes)

    def test_ratio_is_the_geometric_mean_beside_its_target(self):
        found = times(three("tutti", 1), three("openmpi", 2), three("mpich", 3), three("tutti", 1, size=4096),
                      three("openmpi", 8, size=4096), three("openmpi", 8, size=4))
        self.assertEqual(self.line(found, 2, "near", "all_reduce", "small"),
                         ["all_reduce", "small", "4.00", "4.00", "pass", "2.00", "2 of 3"])
        slower = times(three("tutti", 2), three("openmpi", 2))
        self.assertEqual(self.line(slower, 2, "near", "all_reduce", "small")[4], "**miss**")

    def test_cells_with_too_few_rows_are_not_seen(self):
        found = times(three("tutti", 1), [row("openmpi", 2)])
        self.assertEqual(self.line(found, 2, "near", "all_reduce", "small")[4:], ["not seen", "-", "0 of 1"])
        text = "\n".join(report.section_unseen(found))
        self.assertIn("| 2 | near | all_reduce | every peer | 64 |", text)
        self.assertIn("| 2 | far | all_reduce | tutti and every peer | 64 |", text)

    def test_slow_cells_are_listed_with_their_exception(self):
        found = times(three("tutti", 3), three("openmpi", 2), three("tutti", 21, size=4), three("openmpi", 20, size=4),
                      three("tutti", 9, op="sendrecv", ranks=4), three("openmpi", 3, op="sendrecv", ranks=4))
        self.assertEqual(report.section_slow(found)[2:4],
                         ["| sendrecv | 64 | 4 | near | 9.00 | 3.00 | openmpi | 3.00 | target is 1 or less |",
                          "| all_reduce | 64 | 2 | near | 3.00 | 2.00 | openmpi | 1.50 |  |"])

    def test_floor_is_the_fastest_of_its_variants(self):
        found = times(three("tutti", 1.2), three("limit_yield", 1), three("limit_futex", 2))
        self.assertIn("| all_reduce | 2 | small | 1.20 | 1.30 | pass | 1 of 1 |", report.section_floor(found))

    def test_narrow_floats_count_per_element(self):
        found = times(three("tutti", 10), three("tutti", 10, dtype="bf16"), three("tutti", 19, dtype="f16"))
        lines = report.section_types(found)
        self.assertIn("| bf16 | 2 | 64 | near | 10.00 | 10.00 | 0.50 | pass |", lines)
        self.assertIn("| f16 | 2 | 64 | near | 19.00 | 10.00 | 0.95 | **miss** |", lines)

    def test_growth_has_a_column_per_number_of_ranks(self):
        found = times(three("tutti", 2), three("limit", 1), three("tutti", 9, ranks=3))
        self.assertIn("| all_reduce | 64 | 2.00 (2.0) | 9.00 |", report.section_growth(found))

    def test_hogs_are_set_beside_open_mpi_and_quiet(self):
        def hog(mode, count, time):
            return [dict(zip(hogs.FIELDS, map(str, ["hogs", mode, 2, count, time, "us", "near", 0.1, k])))
                    for k in range(3)]
        rows = hog("auto", 0, 1) + hog("auto", 1, 8) + hog("openmpi", 1, 100)
        rows.append(dict(zip(hogs.FIELDS, ["idle", "auto", "8", "0", "1.5", "%", "-", "-", "0"])))
        text = report.section_hogs(rows)
        self.assertIn("| 2 ranks, 1 hogs: times faster than Open MPI | 12 | >= 20 | **miss** |", text)
        self.assertIn("| 2 ranks, 1 hogs: times its own quiet time | 8.0 | <= 10 | pass |", text)
        self.assertIn("| 8 ranks that wait long: percent of a CPU, the busiest | 1.50 | < 2 | pass |", text)

    def test_every_operation_has_targets_where_there_are_any(self):
        for ranks, place in ((2, "near"), (2, "far"), (4, "near"), (8, "near")):
            for op in report.OPS:
                self.assertIsNotNone(targets.ratio(op, ranks, place, "small"), op)
        self.assertIsNone(targets.ratio("all_reduce", 4, "far", "small"))


class Whole(unittest.TestCase):
    def test_report_is_made_from_the_compressed_rows_alone(self):
        with tempfile.TemporaryDirectory() as raw:
            with gzip.open(f"{raw}/peers.csv.gz", "wt", newline="") as file:
                writer = csv.DictWriter(file, compare.FIELDS)
                writer.writeheader()
                writer.writerows(three("tutti", 1) + three("openmpi", 5))
            with open(f"{raw}/machine.json", "w") as file:
                json.dump(FACTS, file)
            text = report.report(raw)
        self.assertIn("| all_reduce | small | 5.00 | 4.00 | pass | 5.00 | 1 of 1 |", text)
        self.assertIn("peers 6 (0 beside too much other load)", text)
        self.assertEqual(text, text.strip() + "\n")


class Campaign(unittest.TestCase):
    def test_every_round_has_tutti_all_peers_and_a_floor(self):
        steps = campaign.steps_of(["peers", "growth"], ["openmpi", "gloo_batch"], 2, quick=False)
        for ranks in (2, 4, 8):
            peers = [step.peers for step in steps if step.part == "peers" and step.ranks == ranks]
            floor = "limit" if ranks == 2 else "limit_yield"
            self.assertTrue(all({"tutti", "openmpi", "gloo_batch", floor} <= set(p) for p in peers[:2]))
            self.assertEqual(peers[2], ["openmpi_mal"])
        self.assertEqual([step.ranks for step in steps if step.part == "growth"], [2, 3, 4, 6, 8, 16])

    def test_rounds_are_joined_with_one_heading(self):
        with tempfile.TemporaryDirectory() as folder:
            files = [f"{folder}/{k}.csv" for k in range(2)]
            for k, path in enumerate(files):
                campaign.store(path, f"head\nrow {k}\n")
            campaign.collect({"peers": files}, folder)
            with gzip.open(f"{folder}/peers.csv.gz", "rt") as file:
                self.assertEqual(file.read(), "head\nrow 0\nrow 1\n")

    def test_a_round_of_another_build_or_other_options_lies_elsewhere(self):
        with tempfile.TemporaryDirectory() as folder:
            step = campaign.Step("peers", 2, ["tutti"], "--max 4")
            campaign.store(f"{folder}/tutti", "a build")
            first = campaign.path_of(folder, f"{folder}/tutti", step, 0)
            self.assertEqual(first, campaign.path_of(folder, f"{folder}/tutti", step, 0))
            self.assertNotEqual(first, campaign.path_of(folder, f"{folder}/tutti", step._replace(options="--max 8"), 0))
            campaign.store(f"{folder}/tutti", "another build")
            self.assertNotEqual(first, campaign.path_of(folder, f"{folder}/tutti", step, 0))


if __name__ == "__main__":
    unittest.main()
