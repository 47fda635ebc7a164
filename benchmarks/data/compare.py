#!/usr/bin/env python3
"""Compares how fast the DataLoaders of PyTorch and of Ferrite make batches, in turn, on one machine:
of images in memory (60,000 of 28 x 28), and of folders of JPEG and PNG files, which this script
writes, with RandomResizedCrop(224) and RandomHorizontalFlip. Batches are shuffled, float32 and
normalized on both sides. Medians over the rounds. What cannot run here is listed with the reason."""

import argparse
import contextlib
import itertools
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import make_images  # noqa: E402
import side_by_side as sbs  # noqa: E402

CASES = {"memory": "28 x 28, in memory", "jpg": "JPEG files, augmented",
         "png": "PNG files, augmented"}
BATCHES = {"memory": [64, 256], "jpg": [32], "png": [32]}
SOURCES = {"PyTorch Dataset": "dataset", "PyTorch TensorDataset uint8": "uint8",
           "PyTorch TensorDataset float32": "tensors"}
KEY, CPU = "images_per_second", "processor_seconds_per_image"


def parse():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    p.add_argument("--batches", nargs="+", type=int, metavar="N",
                   help="images a batch (default: 64 and 256 in memory, 32 of files)")
    p.add_argument("--workers", nargs="+", type=int, default=[0, 2], metavar="N",
                   help="processes of PyTorch, threads of Ferrite that prepare batches")
    p.add_argument("--samples", type=int, default=60000, help="images in memory")
    p.add_argument("--files", type=int, default=120, metavar="N", help="images written")
    p.add_argument("--rounds", type=int, default=7, help="measurements of each program")
    p.add_argument("--seconds", type=float, default=0.3,
                   help="that a measurement takes, or an epoch where that is longer")
    sbs.add_options(p, "bench_data")
    args = p.parse_args()
    if args.rounds < 2:
        p.error("--rounds must be 2 or more")
    return args


def commands_of(args, case, batch, workers, folder):
    ours, theirs = [sbs.ferrite_program(args, "bench_data")], [args.python, HERE / "torch_data.py"]
    common = ["--batch", batch, "--workers", workers, "--seconds", args.seconds]
    if case != "memory":
        common += ["--source", "folder", "--images", folder]
        return {"PyTorch": theirs + common, "Ferrite": ours + common}
    common += ["--samples", args.samples]
    return {**{n: [*theirs, *common, "--source", s] for n, s in SOURCES.items()},
            "Ferrite": [*ours, *common, "--source", "memory"],
            "Ferrite TensorDataset": [*ours, *common, "--source", "tensors"]}


def measure(args, report, case, folder):
    for batch, workers in itertools.product(args.batches or BATCHES[case], args.workers):
        print(f"{case}, batch {batch}, {workers} workers...", file=sys.stderr)
        lost = {}
        commands = commands_of(args, case, batch, workers, folder)
        with sbs.workers(commands, 1, lost) as started:
            report["programs"].update({n: w.info for n, w in started.items()})
            answers = sbs.interleave(started, args.rounds, lost=lost)
        report["results"].append({"case": case, "batch": batch, "workers": workers,
                                  "answers": answers, "not_run": lost})
        sbs.write_json(args, report)  # what there is, should the next one be cut short


def main():
    args = parse()
    report = {"machine": sbs.machine(), "programs": {}, "files": {}, "results": []}
    for case in args.cases:
        with contextlib.ExitStack() as stack:
            folder = None
            if case != "memory":
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                size = make_images.make(folder, case, args.files)
                report["files"][case] = {"count": args.files, "bytes": size}
            measure(args, report, case, folder)
    if not report["programs"]:
        sys.exit("nothing ran: " + "; ".join(f"{n} {r}" for result in report["results"]
                                             for n, r in result["not_run"].items()))
    sbs.finish(args, report, tables(report))


def tables(report):
    rows, best_rows, not_run = [], [], []
    for r in report["results"]:
        answers = r["answers"]
        medians = {n: sbs.median(a, KEY) for n, a in answers.items()}
        shown = [CASES[r["case"]], r["batch"], r["workers"]]
        for name, a in answers.items():
            rows.append(shown + [name, f"{medians[name]:,.0f}", f"{100 * sbs.spread(a, KEY):.0f} %",
                                 f"{1e6 * sbs.median(a, CPU):,.2f}", f"{a[-1]['mean']:.2f}",
                                 f"{a[-1]['deviation']:.2f}"])
        best = {side: max((n for n in medians if n.startswith(side)), key=medians.get, default=None)
                for side in ("PyTorch", "Ferrite")}
        if all(best.values()):
            cpu = {side: sbs.median(answers[n], CPU) for side, n in best.items()}
            best_rows.append(shown + [
                best["Ferrite"], best["PyTorch"],
                f"{medians[best['Ferrite']] / medians[best['PyTorch']]:.2f}",
                f"{cpu['PyTorch'] / cpu['Ferrite']:.2f}"])
        not_run += [f"- {CASES[r['case']]}, {n}: {reason}" for n, reason in r["not_run"].items()]
    head = ["images", "batch", "workers"]
    result = ["Batches, shuffled, float32 and normalized. CPU is the time of all processors that an "
              "image costs, in microseconds; mean and deviation are of the values of a batch.\n\n" +
              sbs.markdown(head + ["program", "images/s", "spread", "CPU", "mean", "deviation"], rows)]
    if best_rows:
        result.append("The fastest of each:\n\n" + sbs.markdown(
            head + ["Ferrite", "PyTorch", "images/s, ratio", "per core, ratio"], best_rows))
    return result + (["Not run:\n\n" + "\n".join(dict.fromkeys(not_run))] if not_run else [])


if __name__ == "__main__":
    sbs.run(main)
