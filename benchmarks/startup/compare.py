#!/usr/bin/env python3
"""Compares how long programs take from the start of the process to the end of the first training
step of LeNet-5: PyTorch from Python, libtorch from C++ where its program was built, and Ferrite.
Each measurement is a fresh process, whose files are in the page cache; medians over the rounds."""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import side_by_side as sbs  # noqa: E402

KEY = "seconds"


def parse(argv=None):
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--threads", nargs="+", type=int, default=[1, 2], metavar="N", help="of the CPU")
    p.add_argument("--rounds", type=int, default=9, help="processes of each program")
    sbs.add_options(p, "bench_startup")
    args = p.parse_args(argv)
    if args.rounds < 2:
        p.error("--rounds must be 2 or more")
    return args


def start(command, threads):
    """Seconds until it has answered, and the answer."""
    worker = sbs.Worker([*command, "--threads", threads], threads)
    worker.close()
    return {KEY: worker.seconds_to_first_line, **worker.info}


def measure(args, report, save):
    """What training/compare.py's measure() does."""
    report["results"], report["not_run"], report["programs"] = {}, {}, {}
    commands = {"PyTorch": [args.python, HERE / "torch_startup.py"]}
    if libtorch := sbs.libtorch_program(args, "bench_startup_libtorch", report["not_run"]):
        commands["libtorch"] = [libtorch]
    commands["Ferrite"] = [sbs.ferrite_program(args, "bench_startup")]
    for threads in args.threads:
        print(f"start-up, {threads} thread(s)...", file=sys.stderr)
        answers = {name: [] for name in commands}
        for turn in range(args.rounds + 1):  # the first reads the files
            names = list(commands)
            at = turn % max(1, len(names))
            for name in names[at:] + names[:at]:
                try:
                    answer = start(commands[name], threads)
                except sbs.Lost as error:
                    report["not_run"][name] = str(error)
                    del commands[name], answers[name]
                    continue
                if turn == 0:
                    report["programs"][name] = answer
                else:
                    answers[name].append(answer)
        if not answers:
            raise sbs.Lost("no program came to the end of its first step")
        report["results"][str(threads)] = answers
        save()


def main():
    args = parse()
    report = {"machine": sbs.machine()}
    measure(args, report, lambda: sbs.write_json(args, report))
    sbs.finish(args, report, tables(report))


def tables(report):
    names = [n for n in sbs.SIDES if any(n in a for a in report["results"].values())]
    rows = []
    for threads, answers in report["results"].items():
        medians = {n: sbs.median(a, KEY) for n, a in answers.items()}
        rows.append([threads] + [f"{medians[n]:.3f}" if n in medians else "-" for n in names] +
                    [f"{100 * max(sbs.spread(a, KEY) for a in answers.values()):.0f} %"])
    return ["Seconds from the start of the process to the end of the first training step of "
            "LeNet-5, batch 64:\n\n" + sbs.markdown(["threads"] + names + ["spread up to"], rows)
            ] + sbs.not_run_lines(report["not_run"])


if __name__ == "__main__":
    sbs.run(main)
