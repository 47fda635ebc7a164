#!/usr/bin/env python3
"""Trains LeNet with PyTorch and with Ferrite in turn and compares their speed.

Both sides hold their batches in memory, so that nothing but training steps (forward, loss,
backward, SGD with momentum) is measured: images per second, medians over the rounds. The ratio is
Ferrite's best layout against PyTorch's best.
"""

import argparse
import contextlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import side_by_side as sbs  # noqa: E402

LAYOUTS = ("contiguous", "channels_last")
SHORT = {"contiguous": "NCHW", "channels_last": "NHWC"}
KEY = "images_per_second"


def parse():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--models", nargs="+", choices=("lenet5", "d2l"), default=["lenet5", "d2l"])
    p.add_argument("--batches", nargs="+", type=int, default=[64, 256], metavar="N",
                   help="images a step")
    p.add_argument("--threads", nargs="+", type=int, default=[1, 2], metavar="N")
    p.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS))
    p.add_argument("--rounds", type=int, default=9, help="measurements of each program")
    p.add_argument("--steps", type=int, default=40, help="training steps a measurement")
    p.add_argument("--busy-core", action="store_true",
                   help="measure again beside a process that keeps a core busy")
    sbs.add_options(p, "bench_training")
    args = p.parse_args()
    if args.rounds < 2:
        p.error("--rounds must be 2 or more")
    return args


def commands(args, model, batch, threads):
    program = sbs.ferrite_program(args, "bench_training")
    common = ["--model", model, "--batch", batch, "--threads", threads, "--steps", args.steps]
    result = {}
    for layout in args.layouts:
        result[f"PyTorch {SHORT[layout]}"] = [args.python, HERE / "torch_lenet.py", *common,
                                              "--layout", layout]
    for layout in args.layouts:
        result[f"Ferrite {SHORT[layout]}"] = [program, *common, "--layout", layout]
    return result


def best(answers, framework):
    return max(sbs.median(a, KEY) for name, a in answers.items() if name.startswith(framework))


def main():
    args = parse()
    report = {"machine": sbs.machine(), "programs": {}, "results": []}
    for model in args.models:
        for threads in args.threads:
            for batch in args.batches:
                with sbs.workers(commands(args, model, batch, threads), threads) as started:
                    report["programs"].update({n: w.info for n, w in started.items()})
                    for busy in (False, True) if args.busy_core else (False,):
                        print(f"{model}, {threads} thread(s), batch {batch}"
                              f"{', a core busy' if busy else ''}...", file=sys.stderr)
                        with sbs.busy_core() if busy else contextlib.nullcontext():
                            answers = sbs.interleave(started, args.rounds)
                        report["results"].append({"model": model, "threads": threads,
                                                  "batch": batch, "busy_core": busy,
                                                  "answers": answers})
    sbs.finish(args, report, tables(report))


def tables(report):
    names = list(report["results"][0]["answers"])
    rows, shares = [], []
    idle = {}
    for r in report["results"]:
        case = [r["model"], r["threads"], r["batch"]]
        medians = {n: sbs.median(r["answers"][n], KEY) for n in names}
        noise = max(sbs.spread(r["answers"][n], KEY) for n in names)
        ratio = best(r["answers"], "Ferrite") / best(r["answers"], "PyTorch")
        if not r["busy_core"]:
            idle[tuple(case)] = medians
        else:
            shares.append(case + [f"{medians[n] / idle[tuple(case)][n]:.2f}" for n in names])
        case[0] += ", a core busy" if r["busy_core"] else ""
        rows.append(case + [f"{medians[n]:,.0f}" for n in names] +
                    [f"{ratio:.2f}", f"{100 * noise:.0f} %"])
    head = ["model", "threads", "batch"]
    result = ["Images per second:\n\n" + sbs.markdown(head + names + ["ratio", "spread up to"],
                                                      rows)]
    if shares:
        result.append("Speed beside a process that keeps a core busy, as a share of the speed "
                      "alone:\n\n" + sbs.markdown(head + names, shares))
    return result


if __name__ == "__main__":
    main()
