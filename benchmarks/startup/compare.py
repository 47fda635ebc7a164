#!/usr/bin/env python3
"""Compares the time of programs from the start of the process to the end of the first training
step of LeNet-5: on tensors of random numbers, PyTorch from Python, libtorch from C++ where its
program was built, and Ferrite; then examples/lenet, on the digits that it draws and, with --data, on
Fashion-MNIST's files, beside PyTorch on the same. Each measurement is a fresh process, whose files
are in the page cache; medians over the rounds."""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import side_by_side as sbs  # noqa: E402

KEY = "seconds"
SCRIPT = HERE / "torch_startup.py"
EXAMPLES = {"digits": "examples/lenet on the digits that it draws",
            "files": "examples/lenet on Fashion-MNIST, from its files"}


def parse(argv=None):
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--threads", nargs="+", type=int, default=[1, 2], metavar="N", help="CPU threads")
    p.add_argument("--rounds", type=int, default=9, help="processes per program")
    p.add_argument("--data", type=pathlib.Path, metavar="DIR",
                   help="folder with Fashion-MNIST, in fashion-mnist/ or itself")
    sbs.add_options(p, "bench_startup")
    args = p.parse_args(argv)
    if args.rounds < 2:
        p.error("--rounds must be 2 or more")
    return args


class Example(sbs.Worker):
    """A program of examples/, which prints a line after its first step and is then terminated."""

    def read(self):
        for line in iter(self.process.stdout.readline, ""):
            if line.startswith("first step"):
                return {}
        return super().read()  # raises Lost

    def close(self):
        self.process.kill()
        super().close()


def start(command, threads):
    """The seconds until the program's answer, and the answer."""
    kind = Example if pathlib.Path(command[0]).name == "lenet" else sbs.Worker
    worker = kind([*command, "--threads", threads], threads)
    worker.close()
    return {KEY: worker.seconds_to_first_line, **worker.info}


def example_programs(args, not_run):
    """{case: {side: command}}"""
    program = args.build / "bin" / "lenet"
    if not program.exists():
        not_run["examples/lenet"] = "it was not built"
        return {}
    lenet = [program, "--device", "cpu", "--batch-size", 64, "--max-steps", 1]
    cases = {"digits": {"Ferrite": lenet}}
    if args.data:
        cases["files"] = {"PyTorch": [args.python, SCRIPT, "--data", args.data],
                          "Ferrite": [*lenet, "--dataset", "fashion-mnist", "--data", args.data]}
    return cases


def in_turn(args, commands, threads, report, what):
    """{name: answers}; a program that ends early goes to report["not_run"]."""
    commands, answers = dict(commands), {name: [] for name in commands}
    for turn in range(args.rounds + 1):  # the first one fills the page cache
        names = list(commands)
        at = turn % max(1, len(names))
        for name in names[at:] + names[:at]:
            try:
                answer = start(commands[name], threads)
            except sbs.Lost as error:
                report["not_run"][f"{what}{name}"] = str(error)
                del commands[name], answers[name]
                continue
            if turn > 0:
                answers[name].append(answer)
            elif "framework" in answer:
                report["programs"][name] = answer
    return answers


def measure(args, report, save):
    """Like measure() of training/compare.py."""
    report["results"], report["examples"] = {}, {}
    report["not_run"], report["programs"] = {}, {}
    tensors = sbs.sides(args, SCRIPT, "bench_startup", report["not_run"])
    examples = example_programs(args, report["not_run"])
    for threads in args.threads:
        print(f"start-up, {threads} thread(s)...", file=sys.stderr)
        answers = in_turn(args, tensors, threads, report, "")
        if not answers:
            raise sbs.Lost("no program finished its first step")
        report["results"][str(threads)] = answers
        save()
        for case, commands in examples.items():
            answers = in_turn(args, commands, threads, report, f"{EXAMPLES[case]}, ")
            report["examples"].setdefault(case, {})[str(threads)] = answers
            save()


def table(results):
    names = [n for n in sbs.SIDES if any(a.get(n) for a in results.values())]
    rows = []
    for threads, answers in results.items():
        medians = {n: sbs.median(a, KEY) for n, a in answers.items() if a}
        rows.append([threads] + [f"{medians[n]:.3f}" if n in medians else "-" for n in names] +
                    [f"{100 * max((sbs.spread(a, KEY) for a in answers.values() if a), default=0):.0f} %"])
    return sbs.markdown(["threads"] + names + ["spread up to"], rows)


def tables(report):
    cases = [("LeNet-5, batch 64, on tensors of random numbers", report["results"])]
    cases += [(EXAMPLES[case], results) for case, results in report.get("examples", {}).items()]
    begin = "Seconds from the start of the process to the end of the first training step of "
    return ["\n\n".join(f"{begin if i == 0 else 'The same of '}{what}:\n\n{table(results)}"
                        for i, (what, results) in enumerate(cases))
            ] + sbs.not_run_lines(report["not_run"])


if __name__ == "__main__":
    sbs.run(lambda: sbs.run_part(parse, measure, tables))
