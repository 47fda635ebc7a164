#!/usr/bin/env python3
"""Compares the host's cost of operations on few elements: PyTorch from Python, libtorch from C++
where bench_host_cost_libtorch was built, and Ferrite. One thread; medians over the rounds. On a CUDA
device that is the cost of queueing them: in runs short enough for the device's queue, between which
the device catches up while no time is taken. What cannot run here is listed with the reason."""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import side_by_side as sbs  # noqa: E402

CASES = {
    "add": "add, nothing recorded",
    "add_recorded": "add, recorded",
    "add_backward": "add, forward and backward",
    "chain10_backward": "chain of 10, forward and backward",
    "chain20_backward": "chain of 20, forward and backward",
    "cross_entropy": "cross-entropy of 4 x 10, forward and backward",
    "sgd_step": "step of SGD with momentum, 100 tensors of 16",
    "adam_step": "step of Adam, 100 tensors of 16",
}
KEY = "nanoseconds"


def parse(argv=None):
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1 ...")
    p.add_argument("--rounds", type=int, default=9, help="measurements of each case and program")
    p.add_argument("--repeats", type=int, default=20000,
                   help="runs of the case per measurement; a fiftieth for optimizer steps")
    sbs.add_options(p, "bench_host_cost")
    return p.parse_args(argv)


def measure(args, report, save):
    """Like measure() of training/compare.py."""
    report["results"], report["not_run"] = {}, {}
    commands = sbs.sides(args, HERE / "torch_ops.py", "bench_host_cost", report["not_run"],
                         ["--device", args.device, "--repeats", args.repeats])
    with sbs.workers(commands, lost=report["not_run"]) as started:
        if "Ferrite" not in started:
            raise sbs.Lost(f"Ferrite's side {report['not_run']['Ferrite']}")
        report["programs"] = {n: w.info for n, w in started.items()}
        for case in CASES:
            print(f"{CASES[case]}...", file=sys.stderr)
            report["results"][case] = sbs.interleave(started, args.rounds, case)
            save()


def tables(report):
    return [table(report)] + sbs.not_run_lines(report["not_run"])


def table(report):
    names = list(report["programs"])
    others = [n for n in names if n != "Ferrite"]
    rows = []
    for case, answers in report["results"].items():
        medians = {n: sbs.median(answers[n], KEY) for n in names}
        rows.append([CASES[case]] + [f"{medians[n]:,.0f}" for n in names] +
                    [f"{medians[n] / medians['Ferrite']:.1f}" for n in others])
    return "Nanoseconds:\n\n" + sbs.markdown(
        ["operation"] + names + [f"{n} / Ferrite" for n in others], rows)


if __name__ == "__main__":
    sbs.run(lambda: sbs.run_part(parse, measure, tables))
