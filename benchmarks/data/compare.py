#!/usr/bin/env python3
"""Compares the speed of the DataLoaders of PyTorch and Ferrite, in turns, on one machine:
of images in memory (60,000 of 28 x 28), and of folders of JPEG and PNG files, which this script
writes, with RandomResizedCrop(224) and RandomHorizontalFlip. Batches are shuffled, float32 and
normalized on both sides. Medians over the rounds. What cannot run here is listed with the reason."""

import argparse
import contextlib
import itertools
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import side_by_side as sbs  # noqa: E402

CASES = {"memory": "28 x 28, in memory", "jpg": "JPEG files, augmented",
         "png": "PNG files, augmented"}
BATCHES = {"memory": [64, 256], "jpg": [32], "png": [32]}
SOURCES = {"PyTorch Dataset": "dataset", "PyTorch TensorDataset uint8": "uint8",
           "PyTorch TensorDataset float32": "tensors"}
KEY, CPU = "images_per_second", "processor_seconds_per_image"


def parse(argv=None):
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    p.add_argument("--batches", nargs="+", type=int, metavar="N",
                   help="images per batch (default: 64 and 256 in memory, 32 of files)")
    p.add_argument("--workers", nargs="+", type=int, default=[0, 2], metavar="N",
                   help="processes of PyTorch, threads of Ferrite that prepare batches")
    p.add_argument("--samples", type=int, default=60000, help="images in memory")
    p.add_argument("--files", type=int, default=120, metavar="N", help="images written")
    p.add_argument("--rounds", type=int, default=7, help="measurements per program")
    p.add_argument("--seconds", type=float, default=0.3,
                   help="duration of a measurement, which takes at least one epoch")
    sbs.add_options(p, "bench_data")
    args = p.parse_args(argv)
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


def measure_case(args, report, save, case, folder):
    for batch, workers in itertools.product(args.batches or BATCHES[case], args.workers):
        print(f"{CASES[case]}, batch {batch}, {workers} worker(s)...", file=sys.stderr)
        lost = {}
        commands = commands_of(args, case, batch, workers, folder)
        with sbs.workers(commands, 1, lost) as started:
            report["programs"].update({n: w.info for n, w in started.items()})
            answers = sbs.interleave(started, args.rounds, lost=lost)
        for name, reason in lost.items():
            report["not_run"][f"{CASES[case]}, {name}"] = reason
        report["results"].append({"case": case, "batch": batch, "workers": workers,
                                  "answers": answers})
        save()


def make_files(args, kind, folder):
    """Runs in the Python with PyTorch, which also has numpy and Pillow."""
    made = subprocess.run([args.python, HERE / "make_images.py", folder, "--kind", kind, "--count",
                           str(args.files)], capture_output=True, text=True)
    if made.returncode != 0:
        raise sbs.Lost(f"no images were made: {(made.stderr.strip() or 'no reason').splitlines()[-1]}")
    return {"count": args.files,
            "bytes": sum(f.stat().st_size for f in pathlib.Path(folder).rglob("*." + kind))}


def measure(args, report, save):
    """Measures what the arguments ask for, and calls save() after each part."""
    report.update(results=[], not_run={}, programs={}, files={})
    for case in args.cases:
        with contextlib.ExitStack() as stack:
            folder = None
            if case != "memory":
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                try:
                    report["files"][case] = make_files(args, case, folder)
                except sbs.Lost as error:
                    report["not_run"][CASES[case]] = str(error)
                    continue
            measure_case(args, report, save, case, folder)


def best(result):
    """{side: (its fastest program, images per second, processor seconds per image)}"""
    found = {}
    for name, answers in result["answers"].items():
        side, entry = name.split()[0], (name, sbs.median(answers, KEY), sbs.median(answers, CPU))
        found[side] = max(found.get(side, entry), entry, key=lambda e: e[1])
    return found


def ratios(result):
    """The ratios (images/s, images/s per core) of Ferrite's fastest to PyTorch's fastest, or None."""
    sides = best(result)
    if not {"PyTorch", "Ferrite"} <= set(sides):
        return None
    (_, ours, our_cpu), (_, theirs, their_cpu) = sides["Ferrite"], sides["PyTorch"]
    return ours / theirs, their_cpu / our_cpu


HEAD = ["images", "batch", "workers"]


def shown(result):
    return [CASES[result["case"]], result["batch"], result["workers"]]


def summary(report):
    """A table of the fastest of each side."""
    rows = []
    for r in report["results"]:
        sides, both = best(r), ratios(r)
        rows.append(shown(r) + [(f"{sides[s][i]:,.0f}" if i else sides[s][i]) if s in sides else "-"
                                for s in ("Ferrite", "PyTorch") for i in (0, 1)] +
                    ([f"{value:.2f}" for value in both] if both else ["-", "-"]))
    return sbs.markdown(HEAD + ["Ferrite", "images/s", "PyTorch", "images/s", "ratio",
                                "ratio per core"], rows)


def tables(report):
    rows = [shown(r) + [name, f"{sbs.median(a, KEY):,.0f}", f"{100 * sbs.spread(a, KEY):.0f} %",
                        f"{1e6 * sbs.median(a, CPU):,.2f}", f"{a[-1]['mean']:.2f}",
                        f"{a[-1]['deviation']:.2f}"]
            for r in report["results"] for name, a in r["answers"].items()]
    result = ["Batches, shuffled, float32 and normalized. CPU is the processor time "
              "per image, in microseconds; mean and deviation are those of a batch.\n\n" +
              sbs.markdown(HEAD + ["program", "images/s", "spread", "CPU", "mean", "deviation"], rows),
              "The fastest of each:\n\n" + summary(report)]
    reasons = [f"- {name}: {reason}" for name, reason in report["not_run"].items()]
    return result + (["Not run:\n\n" + "\n".join(reasons)] if reasons else [])


if __name__ == "__main__":
    sbs.run(lambda: sbs.run_part(parse, measure, tables))
