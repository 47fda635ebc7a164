#!/usr/bin/env python3
"""Tests of the scripts that compare: with programs that answer what they are told to, so without
PyTorch and without a clock."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "compare")]

import compare  # noqa: E402
import report as reports  # noqa: E402
import side_by_side as sbs  # noqa: E402

training = sbs.part("training")

# Answers each line by one of JSON that repeats it, as often as the argument says.
ECHO = """
import json, sys
print(json.dumps({"framework": "Echo", "version": "1", "lacks": {}}), flush=True)
for i, line in zip(range(int(sys.argv[1])), sys.stdin):
    print(json.dumps({"said": line.strip(), "number": i}), flush=True)
print("out of answers", file=sys.stderr)
"""


def echo(answers=100):
    return [sys.executable, "-c", ECHO, answers]


@contextlib.contextmanager
def silence():
    with contextlib.redirect_stderr(io.StringIO()):
        yield


def result(model, mode, batch, threads, speeds, peak=100):
    """A case of training: `speeds` is {program: images a second}."""
    return {"model": model, "mode": mode, "batch": batch, "threads": threads,
            "precision": "float32", "busy_core": False, "programs": {},
            "answers": {name: [{"images_per_second": s * factor, "loss": 1.0, "steps": 10, "cpu_seconds": 1 / s,
                                "memory": {"peak_bytes": (peak if "Ferrite" in name else 200) << 20}}
                               for factor in (0.9, 1, 1.1)] for name, s in speeds.items()}}


SPEEDS = {"PyTorch NCHW float32 eager": 100, "PyTorch NHWC float32 eager": 150,
          "libtorch NCHW float32 eager": 160, "libtorch NHWC float32 eager": 140,
          "Ferrite NCHW float32 eager": 300, "Ferrite NHWC float32 eager": 320}


def run_of(complete=True):
    return dict(sbs.machine(), complete=complete)


class Workers(unittest.TestCase):
    def test_interleave_asks_every_program_once_a_round(self):
        with sbs.workers({"a": echo(), "b": echo()}) as started:
            answers = sbs.interleave(started, 3, "hello")
        self.assertEqual([a["number"] for a in answers["a"]], [0, 1, 2])
        self.assertEqual({a["said"] for a in answers["b"]}, {"hello"})
        self.assertTrue(all(w.process.poll() is not None for w in started.values()))

    def test_interleave_makes_do_with_three_rounds_after_the_limit(self):
        with sbs.workers({"a": echo()}) as started:
            self.assertEqual(len(sbs.interleave(started, 9, limit=0)["a"]), 3)
            self.assertEqual(len(sbs.interleave(started, 5, limit=1e6)["a"]), 5)

    def test_a_program_that_ends_is_left_out_with_what_it_said_last(self):
        lost = {}
        with silence(), sbs.workers({"a": echo(), "b": echo(1), "c": ["/no/such/program"]},
                                    lost=lost) as started:
            answers = sbs.interleave(started, 3, lost=lost)
        self.assertEqual(set(answers), {"a"})
        self.assertEqual(len(answers["a"]), 3)
        self.assertIn("out of answers", lost["b"])
        self.assertIn("/no/such/program", lost["c"])

    def test_without_a_place_for_losses_they_end_everything(self):
        with silence(), self.assertRaises(sbs.Lost):
            with sbs.workers({"c": [sys.executable, "-c", ""]}):
                pass

    def test_spread_is_half_the_distance_of_the_quartiles(self):
        answers = [{"v": v} for v in (1, 2, 3, 4, 5)]
        self.assertEqual(sbs.median(answers, "v"), 3)
        self.assertAlmostEqual(sbs.spread(answers, "v"), (4.5 - 1.5) / 2 / 3)


class Training(unittest.TestCase):
    def test_ratio_is_to_the_best_of_the_others(self):
        r = result("lenet5", "train", 64, 1, SPEEDS)
        self.assertEqual(training.others(training.fastest(r)), ("libtorch NCHW float32 eager", 160))
        self.assertAlmostEqual(reports.ratio(r), 2.0)
        text = training.summary({"results": [r]})
        self.assertIn("| lenet5 | training | 64 | 1 | 100 | 150 | 160 | 140 | 300 | 320 | 2.00 | - | 10 % |",
                      text)

    def test_compiled_programs_count_and_have_a_column(self):
        speeds = dict(SPEEDS, **{"PyTorch NCHW float32 compile-default": 200,
                                 "PyTorch NHWC float32 compile-max-autotune": 400})
        r = result("lenet5", "train", 64, 1, speeds)
        self.assertAlmostEqual(reports.ratio(r), 0.8)
        self.assertIn("| 100 | 150 | 400 | 160 | 140 | 300 | 320 | 0.80 |",
                      training.summary({"results": [r]}))
        self.assertIsNone(training.compile_times({"results": [r]}))
        r["programs"] = {"PyTorch NHWC float32 compile-max-autotune":
                         {"execution": "compile-max-autotune", "first_step_seconds": {"train": 31.26}}}
        self.assertIn("| lenet5 | train | 64 | 1 | NHWC compile-max-autotune | 31.3 |",
                      training.compile_times({"results": [r]}))

    def test_share_of_the_peak_counts_no_gradient_of_images(self):
        flops = {"direct": 1000, "winograd": 400, "direct_first": 100, "winograd_first": 100}
        report = {"limits": {"1": {"flops_per_second": 1e6, "bytes_per_second": 1e9}}}
        for mode, share in (("train", "58 % / 22 %"), ("forward", "20 % / 8 %")):
            r = result("lenet5", mode, 64, 1, SPEEDS)
            r["programs"] = {"Ferrite NHWC float32 eager": {"flops": flops}}
            self.assertEqual(training.share_of_peak(r, 200, report), share)
        self.assertEqual(training.share_of_peak(r, 200, {}), "-")

    def test_alone_it_has_no_ratio(self):
        r = result("lenet5", "train", 64, 1, {n: s for n, s in SPEEDS.items() if "Ferrite" in n})
        self.assertIsNone(reports.ratio(r))
        self.assertIn("| lenet5 | training | 64 | 1 | 300 | 320 | - | - | 10 % |",
                      training.summary({"results": [r]}))
        training.tables({"device": "cpu", "results": [r], "not_run": []})

    def test_best_layouts_are_those_that_won_in_a_mode(self):
        args = training.parse(["--best-layouts", "--python", sys.executable])
        forward = dict(SPEEDS, **{"Ferrite NCHW float32 eager": 400})
        chosen = training.best_layouts(args, [result("lenet5", "train", 64, 1, SPEEDS),
                                              result("lenet5", "forward", 64, 1, forward)])
        self.assertEqual(chosen, {"PyTorch": ["channels_last"], "libtorch": ["contiguous"],
                                  "Ferrite": ["contiguous", "channels_last"]})

    def test_a_program_without_amp_is_listed_with_the_reason(self):
        args = training.parse(["--precisions", "amp", "--executions", "eager", "--modes", "train",
                               "forward", "--python", sys.executable])
        side = training.Side("libtorch", echo(), ("eager",))
        side.lacks = {"amp": "no autocast"}
        case = {"model": "lenet5", "precision": "amp", "batch": 64, "threads": 1}
        not_run = {}
        layouts = {"libtorch": list(training.LAYOUTS)}
        self.assertEqual(training.group_commands(args, [side], case, layouts, not_run), {})
        self.assertEqual(not_run, {"libtorch NHWC amp eager": "no autocast"})
        side.lacks = {}
        commands = training.group_commands(args, [side], case, layouts, {})
        self.assertEqual(commands["libtorch NHWC amp eager"][-2:], ["--mode", "both"])


class Targets(unittest.TestCase):
    def report(self, **parts):
        return {"runs": [run_of()], "parts": parts, "failed": {}, "seconds": {}}

    def find(self, report, text):
        found = [t for t in reports.targets(report) if text in t["what"]]
        self.assertEqual(len(found), 1, text)
        return found[0]

    def test_what_was_not_measured_is_neither_reached_nor_missed(self):
        for t in reports.targets(self.report()):
            self.assertIsNone(t["reached"], t["what"])
            self.assertIsNone(t["measured"], t["what"])

    def test_training(self):
        slow = dict(SPEEDS, **{"Ferrite NHWC float32 eager": 310})
        fast = dict(SPEEDS, **{"Ferrite NHWC float32 eager": 3.5 * 160})
        report = self.report(training={"device": "cpu", "not_run": [], "results": [
            result("lenet5", "train", 64, 1, fast), result("lenet5", "train", 64, 2, slow),
            result("lenet5", "forward", 256, 1, SPEEDS)]})
        self.assertTrue(self.find(report, "lenet5, batch 64, 1 thread")["reached"])
        missed = self.find(report, "lenet5, batch 64, 2 thread")
        self.assertEqual((missed["measured"], missed["reached"]), ("1.94", False))
        self.assertIsNone(self.find(report, "lenet5, batch 256, 1 thread")["reached"])

    def test_two_threads_against_one(self):
        double = {n: 1.7 * s for n, s in SPEEDS.items()}
        report = self.report(training={"device": "cpu", "not_run": [], "results": [
            result("resnet18-32", "train", 32, 1, SPEEDS),
            result("resnet18-32", "train", 32, 2, double)]})
        found = self.find(report, "resnet18-32, batch 32, two threads")
        self.assertEqual((found["measured"], found["reached"]), ("1.70", False))

    def test_memory_is_compared_with_pytorch_alone_and_measured_by_either_part(self):
        r = result("resnet18-28", "train", 32, 2, SPEEDS, peak=150)
        for part in ("training", "memory"):
            report = self.report(**{part: {"device": "cpu", "results": [r], "not_run": []}})
            found = self.find(report, "memory of training resnet18-28")
            self.assertEqual((found["measured"], found["reached"]), ("0.75", True))

    def test_the_slowest_of_the_loaders_cases_counts(self):
        def case(name, workers, ours, theirs):
            sides = {"Ferrite": ours, "PyTorch Dataset": theirs, "PyTorch TensorDataset": theirs / 2}
            return {"case": name, "batch": 64, "workers": workers, "answers": {
                n: [{"images_per_second": v, "processor_seconds_per_image": 1 / v}] * 3
                for n, v in sides.items()}}

        report = self.report(loader={"results": [
            case("memory", 0, 1200, 100), case("memory", 2, 900, 100), case("jpg", 0, 160, 100)]})
        found = self.find(report, "images in memory")
        self.assertEqual((found["measured"], found["reached"]), ("9.00", False))
        self.assertTrue(self.find(report, "JPEG")["reached"])
        self.assertIsNone(self.find(report, "PNG")["reached"])

    def test_operations_and_start_up(self):
        def answers(**values):
            return {n: [{"nanoseconds": v, "seconds": v}] * 3 for n, v in values.items()}

        report = self.report(
            ops={"results": {"add_recorded": answers(libtorch=1000, Ferrite=250),
                             "chain10_backward": answers(libtorch=1000, Ferrite=400)}},
            startup={"results": {"1": answers(Ferrite=0.1), "2": answers(Ferrite=0.4)},
                     "examples": {"files": {"1": answers(PyTorch=2, Ferrite=0.2)}}})
        self.assertTrue(self.find(report, "an addition, recorded")["reached"])
        self.assertFalse(self.find(report, "a chain of 10")["reached"])
        self.assertFalse(self.find(report, "process start")["reached"])
        self.assertTrue(self.find(report, "from its files")["reached"])
        self.assertIsNone(self.find(report, "digits")["reached"])

    def test_build(self):
        part = {"jobs": 2, "touched": "ops/x.cpp", "configure_seconds": 9, "clean_seconds": 170}
        report = self.report(build=part)
        self.assertTrue(self.find(report, "from scratch")["reached"])
        self.assertIsNone(self.find(report, "was touched")["reached"])
        report["targets"] = reports.targets(report)
        self.assertIn("| library and examples, from scratch | 170 |", reports.markdown(report))


class Compare(unittest.TestCase):
    def args(self, *words):
        return compare.parse([*words, "--no-build", "--python", sys.executable])

    def test_lists_are_of_commas_or_spaces_and_checked(self):
        args = self.args("--only", "ops,startup", "--threads", "1 2 4")
        self.assertEqual((args.only, args.threads), (["ops", "startup"], [1, 2, 4]))
        with silence(), self.assertRaises(SystemExit):
            self.args("--only", "oops")

    def test_quick_measures_less(self):
        def models(*words):
            return [m for c in compare.training_commands(self.args(*words))
                    for m in training.parse(c).models]

        self.assertEqual(models(), list(training.MODELS))
        self.assertEqual(models("--quick"), ["lenet5", "d2l", "resnet18-28"])
        self.assertEqual(models("--models", "d2l"), ["d2l"])

    def test_the_build_is_configured_where_it_has_no_benchmarks(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            self.assertEqual(len(compare.build_commands(folder)), 2)
            (folder / "CMakeCache.txt").write_text("FERRITE_BENCHMARKS:BOOL=OFF\n")
            self.assertIn("-DFERRITE_BENCHMARKS=ON", compare.build_commands(folder)[0])
            (folder / "CMakeCache.txt").write_text("FERRITE_BENCHMARKS:BOOL=ON\n")
            self.assertEqual(len(compare.build_commands(folder)), 1)

    def test_what_is_measured_again_replaces_what_was(self):
        old, new = (result("lenet5", "train", 64, 1, {"Ferrite NCHW float32 eager": s})
                    for s in (1, 2))
        missing = {"model": "lenet5", "precision": "float32", "batch": 64, "threads": 1,
                   "reason": "no PyTorch"}
        part = {"results": [old, new],
                "not_run": [dict(missing, name="PyTorch NCHW float32 eager")] * 2 +
                           [dict(missing, name="Ferrite NCHW float32 eager")]}
        compare.newest(part)
        self.assertEqual(part["results"], [new])
        self.assertEqual([e["name"] for e in part["not_run"]], ["PyTorch NCHW float32 eager"])

    def test_a_part_that_fails_is_listed_and_the_others_are_measured(self):
        def fails(args, part, save):
            raise sbs.Lost("has no program")

        def works(args, part, save):
            part.update(device="cpu", not_run=[], programs={},
                        results=[result("lenet5", "train", 64, 1, SPEEDS)])
            save()

        with tempfile.TemporaryDirectory() as folder:
            args = self.args("--only", "ops,training", "--out", f"{folder}/a/b")
            report = compare.previous(args)
            report["runs"].append(run_of())
            whole, compare.MEASURE = compare.MEASURE, {"ops": fails, "training": works}
            try:
                with silence():
                    compare.measure(args, report)
            finally:
                compare.MEASURE = whole
            text = pathlib.Path(f"{folder}/a/b.md").read_text()
            self.assertIn("- ops: has no program", text)
            self.assertIn("| lenet5 | training | 64 | 1 |", text)
            self.assertEqual(set(json.loads(pathlib.Path(f"{folder}/a/b.json").read_text())["parts"]),
                             {"training"})
            # Another run can add to it.
            self.assertIn("training", compare.previous(self.args("--add", "--out", f"{folder}/a/b"))
                          ["parts"])


if __name__ == "__main__":
    unittest.main()
