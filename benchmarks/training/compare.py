#!/usr/bin/env python3
"""Trains LeNet and ResNet-18 with PyTorch and with Ferrite in turn and compares speed and memory.

Both sides hold the same batches on the device, so that nothing but training steps (forward, loss,
backward, SGD with momentum) is measured: images per second, medians over the rounds. Every way to
run the step that is asked for and cannot be run here is listed with the reason. Without PyTorch
there is Ferrite's side alone.
"""

import argparse
import contextlib
import itertools
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import side_by_side as sbs  # noqa: E402

MODELS = ("lenet5", "d2l", "resnet18-28", "resnet18-32", "resnet18-224")
BATCHES = {"lenet5": [64, 256], "d2l": [64, 256], "resnet18-28": [256], "resnet18-32": [256],
           "resnet18-224": [128]}
CPU_BATCHES = {"resnet18-28": [32], "resnet18-32": [32], "resnet18-224": [8]}
LAYOUTS = ("contiguous", "channels_last")
SHORT = {"contiguous": "NCHW", "channels_last": "NHWC"}
EXECUTIONS = ("eager", "graph", "compile-reduce-overhead", "compile-max-autotune")
KEY = "images_per_second"


def parse():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1 ...")
    p.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    p.add_argument("--batches", nargs="+", type=int, metavar="N",
                   help="images a step (default: 64 and 256 for LeNet, 256 or 128 for ResNet-18; "
                        "32 or 8 for it on the CPU)")
    p.add_argument("--threads", nargs="+", type=int, metavar="N",
                   help="of the CPU (default: 1 and 2 with --device cpu, else 4)")
    p.add_argument("--precisions", nargs="+", choices=("float32", "tf32", "amp"),
                   help="(default: float32 and amp, on cuda tf32 too)")
    p.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS),
                   help="amp is measured in the last of them alone")
    p.add_argument("--executions", nargs="+", choices=EXECUTIONS, default=list(EXECUTIONS),
                   help="op by op; the whole step as one CUDA graph; torch.compile by mode")
    p.add_argument("--amp-dtype", choices=("float16", "bfloat16"),
                   help="(default: float16 with a loss scale on cuda, bfloat16 on the CPU)")
    p.add_argument("--no-cudnn-benchmark", action="store_true",
                   help="do not try out convolutions' plans")
    p.add_argument("--rounds", type=int, default=9, help="measurements of each program")
    p.add_argument("--seconds", type=float, default=0.5, help="that a measurement should take")
    p.add_argument("--steps", type=int, default=0,
                   help="training steps a measurement, instead of --seconds")
    p.add_argument("--warmup", type=int, default=10, help="steps before the first measurement")
    p.add_argument("--data", type=int, default=4, metavar="N",
                   help="batches held in memory, used in turn")
    p.add_argument("--busy-core", action="store_true",
                   help="measure again beside a process that keeps a core busy")
    sbs.add_options(p, "bench_training")
    args = p.parse_args()
    if args.rounds < 2:
        p.error("--rounds must be 2 or more")
    args.on_cpu = args.device.startswith("cpu")
    args.threads = args.threads or ([1, 2] if args.on_cpu else [4])
    args.precisions = args.precisions or (["float32", "amp"] if args.on_cpu else
                                          ["float32", "tf32", "amp"])
    return args


class Side:
    """A framework's program, and what it lacks here."""

    def __init__(self, name, command, executions):
        self.name, self.command, self.executions = name, command, executions
        try:
            self.info = sbs.probe(command)
            self.lacks = self.info["lacks"]
        except sbs.Lost as error:
            self.info, self.lacks = None, {"": str(error)}

    def reason(self, args, precision, execution):
        """Why it cannot run so; None where it can."""
        if "" in self.lacks:
            return self.lacks[""]
        if args.on_cpu and precision == "tf32":
            return "TF32 is of CUDA devices"
        if args.on_cpu and execution == "graph":
            return "graphs are of CUDA devices"
        needs = [] if args.on_cpu else ["cuda"]
        needs += ["amp"] if precision == "amp" else []
        needs += ["compile"] if execution.startswith("compile-") else []
        return next((self.lacks[n] for n in needs if n in self.lacks), None)


def label(side, precision, layout, execution):
    return f"{side.name} {SHORT[layout]} {precision} {execution}"


def group_commands(args, sides, model, batch, threads, precision, not_run):
    """{name: command} of what takes turns; what cannot run goes to not_run, {name: reason}."""
    common = ["--model", model, "--device", args.device, "--precision", precision, "--batch", batch,
              "--threads", threads, "--steps", args.steps, "--seconds", args.seconds,
              "--warmup", args.warmup, "--batches", args.data]
    common += ["--no-cudnn-benchmark"] if args.no_cudnn_benchmark else []
    if precision == "amp" and args.amp_dtype:
        common += ["--amp-dtype", args.amp_dtype]
    layouts = args.layouts[-1:] if precision == "amp" else args.layouts
    commands = {}
    for side in sides:
        for execution, layout in itertools.product(args.executions, layouts):
            if execution not in side.executions:
                continue
            name = label(side, precision, layout, execution)
            if reason := side.reason(args, precision, execution):
                not_run[name] = reason
            else:
                commands[name] = [*side.command, *common, "--layout", layout,
                                  "--execution", execution]
    return commands


def measure_group(args, case, commands, report):
    lost = {}
    with sbs.workers(commands, case["threads"], lost) as started:
        report["programs"].update({n: w.info for n, w in started.items()})
        for busy in (False, True) if args.busy_core else (False,):
            running = {n: w for n, w in started.items() if n not in lost}
            with sbs.busy_core() if busy else contextlib.nullcontext():
                answers = sbs.interleave(running, args.rounds, lost=lost)
            report["results"].append(dict(case, busy_core=busy, answers=answers,
                                          programs={n: started[n].info for n in answers}))
    return lost


def main():
    args = parse()
    sides = [Side("PyTorch", [args.python, HERE / "torch_training.py"], EXECUTIONS),
             Side("Ferrite", [sbs.ferrite_program(args, "bench_training")], ("eager", "graph"))]
    report = {"machine": sbs.machine(), "device": args.device, "programs": {},
              "sides": {s.name: s.info for s in sides}, "results": [], "not_run": []}
    for model, precision in itertools.product(args.models, args.precisions):
        default = CPU_BATCHES.get(model, BATCHES[model]) if args.on_cpu else BATCHES[model]
        for threads, batch in itertools.product(args.threads, args.batches or default):
            case = {"model": model, "precision": precision, "batch": batch, "threads": threads}
            not_run = {}
            commands = group_commands(args, sides, model, batch, threads, precision, not_run)
            print(f"{model}, {precision}, batch {batch}, {threads} thread(s): "
                  f"{len(commands)} programs...", file=sys.stderr)
            if commands:
                not_run.update(measure_group(args, case, commands, report))
            report["not_run"] += [dict(case, name=n, reason=r) for n, r in not_run.items()]
            sbs.write_json(args, report)  # what there is, should the next one be cut short
    sbs.finish(args, report, tables(args, report))


def shown(case, args):
    """A case's columns: threads only where they are what computes."""
    text = case["model"] + (", a core busy" if case.get("busy_core") else "")
    return [text, case["batch"], case["precision"]] + ([case["threads"]] if args.on_cpu else [])


def rate(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def tables(args, report):
    head = ["model", "batch", "precision"] + (["threads"] if args.on_cpu else [])
    rows, best_rows, strange = [], [], []
    for r in report["results"]:
        medians = {n: sbs.median(a, KEY) for n, a in r["answers"].items()}
        best = {side: max((n for n in medians if n.startswith(side)), key=medians.get, default=None)
                for side in ("PyTorch", "Ferrite")}
        theirs = medians.get(best["PyTorch"])
        for name, answers in r["answers"].items():
            program, layout, _, execution = name.split()
            peak = max(a["memory"]["peak_bytes"] for a in answers)
            rows.append(shown(r, args) + [
                f"{program} {layout} {execution}", rate(medians[name]),
                f"{100 * sbs.spread(answers, KEY):.0f} %",
                f"{medians[name] / theirs:.2f}" if theirs else "", f"{peak / 2**20:,.0f}",
                f"{answers[-1]['loss']:.3g}"])
            if not all(math.isfinite(a["loss"]) for a in answers):
                strange.append(f"{name} of {r['model']}, batch {r['batch']}: the loss is not finite.")
        if best["Ferrite"]:
            best_rows.append(shown(r, args) + best_row(r, medians, best))
    result = ["Training. Memory is the peak, in MiB, of " +
              ("the process.\n\n" if args.on_cpu else "what tensors hold on the device.\n\n") +
              sbs.markdown(head + ["program", "images/s", "spread", "of PyTorch's best", "MiB",
                                   "loss"], rows)]
    result.append("The best of each, and PyTorch's eager mode:\n\n" + sbs.markdown(
        head + ["Ferrite", "images/s", "PyTorch", "images/s", "ratio", "ratio to eager", "MiB ratio"],
        best_rows))
    return result + strange + not_run_text(report)


def best_row(result, medians, best):
    """Ferrite's fastest program beside PyTorch's, and beside its faster eager one."""
    ours, theirs = best["Ferrite"], best["PyTorch"]
    eager = max((m for n, m in medians.items()
                 if n.startswith("PyTorch") and n.endswith(" eager")), default=None)

    def peak(name):
        return max(a["memory"]["peak_bytes"] for a in result["answers"][name])

    def way(name):
        return "{1} {3}".format(*name.split())

    return [way(ours), rate(medians[ours])] + (
        [way(theirs), rate(medians[theirs]), f"{medians[ours] / medians[theirs]:.2f}"]
        if theirs else ["-", "-", "-"]) + [
        f"{medians[ours] / eager:.2f}" if eager else "-",
        f"{peak(ours) / peak(theirs):.2f}" if theirs and peak(theirs) else "-"]


def not_run_text(report):
    """One line a reason and case: the programs that it kept from running."""
    ways = {}  # {(reason, side, execution): {(model, precision): layouts}}
    for entry in report["not_run"]:
        side, layout, precision, execution = entry["name"].split()
        cases = ways.setdefault((entry["reason"], side, execution), {})
        layouts = cases.setdefault((entry["model"], precision), [])
        if layout not in layouts:
            layouts.append(layout)
    lines = {}  # executions that the same thing befell
    for (reason, side, execution), cases in ways.items():
        where = "; ".join(f"{model} {precision} {', '.join(layouts)}"
                          for (model, precision), layouts in cases.items())
        lines.setdefault((side, reason, where), []).append(execution)
    if not lines:
        return []
    return ["Not run:\n\n" + "\n".join(f"- {side} {', '.join(executions)}: {reason} ({where})"
                                        for (side, reason, where), executions in lines.items())]


if __name__ == "__main__":
    main()
