#!/usr/bin/env python3
"""Trains LeNet and ResNet-18 with PyTorch, libtorch and Ferrite in turn and compares speed and
memory.

All sides hold the same batches on the device, so that nothing but training steps (forward, loss,
backward, SGD with momentum), or forward passes, is measured: images per second, medians over the
rounds. Every way to run the step that is asked for and cannot be run here is listed with the
reason. Without PyTorch there is Ferrite's side alone.
"""

import argparse
import contextlib
import itertools
import math
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import side_by_side as sbs  # noqa: E402

IMAGES = ("lenet5", "d2l", "resnet18-28", "resnet18-32", "resnet18-224")
TEXTS = ("transformer-64", "transformer-256", "transformer-512", "lstm-64", "lstm-256", "gpt2-64",
         "gpt2-256")
MODELS = (*IMAGES, *TEXTS)
BATCHES = {"lenet5": [64, 256], "d2l": [64, 256], "resnet18-28": [256], "resnet18-32": [256],
           "resnet18-224": [128], **dict.fromkeys(TEXTS, [16]), "gpt2-64": [4], "gpt2-256": [4]}
CPU_BATCHES = {"resnet18-28": [32], "resnet18-32": [32], "resnet18-224": [8]}
LAYOUTS = ("contiguous", "channels_last")
SHORT = {"contiguous": "NCHW", "channels_last": "NHWC"}
MODES = ("train", "forward")
EXECUTIONS = ("eager", "graph", "compile-default", "compile-reduce-overhead",
              "compile-max-autotune", "onnxruntime", "optimized")
DEFAULT_EXECUTIONS = ("eager", "graph", "compile-reduce-overhead", "compile-max-autotune")
# What runs in one mode alone, and why.
ONE_MODE = {"graph": ("train", "only training steps run as graphs"),
            "onnxruntime": ("forward", "onnxruntime runs forward passes"),
            "optimized": ("forward", "only forward passes are optimized")}
KEY = "images_per_second"


def parse(argv=None):
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1 ...")
    p.add_argument("--models", nargs="+", choices=MODELS, default=list(IMAGES))
    p.add_argument("--batches", nargs="+", type=int, metavar="N",
                   help="images or texts per step (default: 64 and 256 for LeNet, 256 or 128 for "
                        "ResNet-18, 32 or 8 for it on the CPU; 16 texts, 4 for GPT-2)")
    p.add_argument("--threads", nargs="+", type=int, metavar="N",
                   help="of the CPU (default: 1 and 2 with --device cpu, else 4)")
    p.add_argument("--precisions", nargs="+", choices=("float32", "tf32", "amp"),
                   help="(default: float32 and amp, on cuda tf32 too)")
    p.add_argument("--layouts", nargs="+", choices=LAYOUTS, default=list(LAYOUTS),
                   help="amp is measured in the last of them alone")
    p.add_argument("--executions", nargs="+", choices=EXECUTIONS,
                   default=list(DEFAULT_EXECUTIONS),
                   help="op by op; the whole step as one CUDA graph; torch.compile by mode; forward "
                        "passes by onnxruntime, and by Ferrite's nn::optimize_for_inference")
    p.add_argument("--modes", nargs="+", choices=MODES, default=["train"],
                   help="whole training steps; the forward pass of evaluation, without gradients")
    p.add_argument("--best-layouts", action="store_true",
                   help="of a model's batches after the first, only in the layouts that were the "
                        "fastest of their side at the first")
    p.add_argument("--amp-dtype", choices=("float16", "bfloat16"),
                   help="(default: float16 with a loss scale on cuda, bfloat16 on the CPU)")
    p.add_argument("--no-cudnn-benchmark", action="store_true",
                   help="do not try out convolutions' plans")
    p.add_argument("--rounds", type=int, default=9, help="measurements per program")
    p.add_argument("--limit", type=float, metavar="SECONDS",
                   help="after which three rounds of a group are enough (default: none)")
    p.add_argument("--seconds", type=float, default=0.5, help="approximate duration of a measurement")
    p.add_argument("--steps", type=int, default=0,
                   help="training steps per measurement, instead of --seconds")
    p.add_argument("--warmup", type=int, default=10, help="steps before the first measurement")
    p.add_argument("--data", type=int, default=4, metavar="N",
                   help="batches held in memory, used in turn")
    p.add_argument("--busy-core", action="store_true",
                   help="measure again next to a process that keeps a core busy")
    sbs.add_options(p, "bench_training")
    args = p.parse_args(argv)
    if args.rounds < 2:
        p.error("--rounds must be 2 or more")
    args.on_cpu = args.device.startswith("cpu")
    args.threads = args.threads or ([1, 2] if args.on_cpu else [4])
    args.precisions = args.precisions or (["float32", "amp"] if args.on_cpu else
                                          ["float32", "tf32", "amp"])
    return args


class Side:
    """A framework's program, and the features that it lacks here."""

    def __init__(self, name, command, executions):
        self.name, self.command, self.executions = name, command, executions
        try:
            self.info = sbs.probe(command)
            self.lacks = self.info["lacks"]
        except sbs.Lost as error:
            self.info, self.lacks = None, {"": str(error)}

    def reason(self, args, model, precision, execution):
        """The reason why it cannot run this variant; None if it can."""
        if "" in self.lacks:
            return self.lacks[""]
        if model in TEXTS and self.name == "libtorch":
            return "its program has only the networks of images"
        if model in TEXTS and execution in ("onnxruntime", "optimized"):
            return "only networks of images are optimized for inference"
        if args.on_cpu and precision == "tf32":
            return "TF32 needs a CUDA device"
        if args.on_cpu and execution == "graph":
            return "CUDA graphs need a CUDA device"
        needs = [] if args.on_cpu else ["cuda"]
        needs += ["amp"] if precision == "amp" else []
        needs += ["compile"] if execution.startswith("compile-") else []
        needs += ["onnxruntime"] if execution == "onnxruntime" else []
        return next((self.lacks[n] for n in needs if n in self.lacks), None)


class Absent(Side):
    """A side whose program was not built."""

    def __init__(self, name, reason, executions):
        self.name, self.command, self.executions = name, [], executions
        self.info, self.lacks = None, {"": reason}


def make_sides(args):
    absent = {}
    libtorch = sbs.libtorch_program(args, "bench_training_libtorch", absent)
    return [Side("PyTorch", [args.python, HERE / "torch_training.py"], EXECUTIONS[:-1]),
            Side("libtorch", [libtorch], ("eager",)) if libtorch else
            Absent("libtorch", absent["libtorch"], ("eager",)),
            Side("Ferrite", [sbs.ferrite_program(args, "bench_training")], ("eager", "graph", "optimized"))]


def limits(args, sides, threads):
    """What the processor can do at most with so many threads, measured by Ferrite's program."""
    ferrite = sides[-1]
    return sbs.probe([*ferrite.command, "--threads", threads])["limits"] if ferrite.info else None


def label(side, precision, layout, execution):
    return f"{side.name} {SHORT[layout]} {precision} {execution}"


def group_commands(args, sides, case, layouts, not_run):
    """{name: command} of what takes turns; what cannot run goes to not_run, {name: reason}.
    `layouts` are those of each side."""
    precision = case["precision"]
    common = ["--model", case["model"], "--device", args.device, "--precision", precision,
              "--batch", case["batch"], "--threads", case["threads"], "--steps", args.steps,
              "--seconds", args.seconds, "--warmup", args.warmup, "--batches", args.data]
    common += ["--no-cudnn-benchmark"] if args.no_cudnn_benchmark else []
    if precision == "amp" and args.amp_dtype:
        common += ["--amp-dtype", args.amp_dtype]
    commands = {}
    for side in sides:
        of_side = layouts[side.name][-1:] if precision == "amp" else layouts[side.name]
        of_side = LAYOUTS[:1] if case["model"] in TEXTS else of_side
        for execution, layout in itertools.product(args.executions, of_side):
            if execution not in side.executions:
                continue
            name = label(side, precision, layout, execution)
            if reason := side.reason(args, case["model"], precision, execution):
                not_run[name] = reason
                continue
            only, why = ONE_MODE.get(execution, (None, None))
            if only and only not in args.modes:
                not_run[name] = why
                continue
            modes = [only] if only else args.modes
            commands[name] = [*side.command, *common, "--layout", layout, "--execution", execution,
                              "--mode", modes[0] if len(modes) == 1 else "both"]
    return commands


def measure_group(args, case, commands, report):
    """Appends the results of a case, one per mode; returns {name: reason} for programs that ended."""
    lost = {}
    with sbs.workers(commands, case["threads"], lost) as started:
        report["programs"].update({n: w.info for n, w in started.items()})
        for busy, mode in itertools.product((False, True) if args.busy_core else (False,),
                                            args.modes):
            running = {n: w for n, w in started.items()
                       if n not in lost and mode in w.info["steps"]}
            with sbs.busy_core() if busy else contextlib.nullcontext():
                answers = sbs.interleave(running, args.rounds, mode, lost, args.limit)
            report["results"].append(dict(case, mode=mode, busy_core=busy, answers=answers,
                                          programs={n: started[n].info for n in answers}))
    return lost


def best_layouts(args, results):
    """For each side, the layouts in which it was fastest in any mode."""
    chosen = {}
    for result in results:
        for side in sbs.SIDES:
            names = [n for n in result["answers"] if n.startswith(side + " ")]
            if names:
                best = max(names, key=lambda n: sbs.median(result["answers"][n], KEY))
                chosen.setdefault(side, set()).add(best.split()[1])
    return {side: [layout for layout in args.layouts
                   if SHORT[layout] in chosen.get(side, set(SHORT.values()))]
            for side in sbs.SIDES}


def measure(args, report, save):
    """Adds all requested measurements to the report, and calls save() after each group, so that
    an interrupted run keeps its results."""
    sides = make_sides(args)
    report.setdefault("sides", {}).update({s.name: s.info for s in sides})
    for key, empty in (("programs", {}), ("results", []), ("not_run", []), ("limits", {})):
        report.setdefault(key, empty)
    if args.on_cpu:
        report["limits"].update({str(n): limits(args, sides, n) for n in args.threads})
    for model, precision, threads in itertools.product(args.models, args.precisions, args.threads):
        default = CPU_BATCHES.get(model, BATCHES[model]) if args.on_cpu else BATCHES[model]
        layouts = {side: args.layouts for side in sbs.SIDES}
        for i, batch in enumerate(args.batches or default):
            case = {"model": model, "precision": precision, "batch": batch, "threads": threads}
            not_run = {}
            commands = group_commands(args, sides, case, layouts, not_run)
            print(f"{model}, {precision}, batch {batch}, {threads} thread(s): "
                  f"{len(commands)} programs...", file=sys.stderr)
            before = len(report["results"])
            if commands:
                not_run.update(measure_group(args, case, commands, report))
            report["not_run"] += [dict(case, name=n, reason=r) for n, r in not_run.items()]
            if args.best_layouts and i == 0:
                layouts = best_layouts(args, report["results"][before:])
            save()


def on_cpu(report):
    return report["device"].startswith("cpu")


def shown(case, report):
    """The columns of a case, with threads only for the CPU."""
    text = case["model"] + (", a core busy" if case.get("busy_core") else "")
    return [text, case["mode"], case["batch"], case["precision"]] + (
        [case["threads"]] if on_cpu(report) else [])


def rate(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def fastest(result):
    """{side: (name, median)} of a result."""
    best = {}
    for name, answers in result["answers"].items():
        side, median = name.split()[0], sbs.median(answers, KEY)
        if side not in best or median > best[side][1]:
            best[side] = (name, median)
    return best


def others(best):
    """(name, median) of the fastest program of another framework; None if there is none."""
    return max((b for side, b in best.items() if side != "Ferrite"), key=lambda b: b[1],
               default=None)


def cpu_of(answers, batch):
    """Processor time an image of all threads, which other programs beside it disturb less."""
    return f"{statistics.median(1e3 * a['cpu_seconds'] / (a['steps'] * batch) for a in answers):.3g}"


def peak(result, name):
    return max(a["memory"]["peak_bytes"] for a in result["answers"][name])


def flops_of(result):
    """{"direct", "winograd"}: the multiplications and additions an image of a result's mode, with
    the sums as they are defined and with those of Winograd's algorithm where it applies."""
    info = next((p for p in result["programs"].values() if p.get("flops")), None)
    if not info:
        return None
    flops = info["flops"]
    return {way: flops[way] if result["mode"] == "forward" else
            3 * flops[way] - flops[way + "_first"] for way in ("direct", "winograd")}


def share_of_peak(result, speed, report):
    """"61 % / 34 %": of the processor's multiplications and additions in float32, by direct sums
    and by Winograd's algorithm. More than 100 % of the former is possible by the latter alone."""
    limit = report.get("limits", {}).get(str(result["threads"]))
    flops = flops_of(result)
    if not limit or not flops:
        return "-"
    return " / ".join(f"{100 * speed * flops[way] / limit['flops_per_second']:.0f} %"
                      for way in ("direct", "winograd"))


def limits_text(report):
    """The limits of the machine, one line for each number of threads."""
    return "\n".join(
        f"- {threads} thread(s): {limit['flops_per_second'] / 1e9:,.0f} GFLOP/s in float32 from "
        f"registers, {limit['bytes_per_second'] / 1e9:,.1f} GB/s read and written by a copy"
        for threads, limit in sorted(report.get("limits", {}).items()) if limit)


def compile_times(report):
    """The seconds of the first step of each program that compiles, or nothing."""
    rows = []
    for r in sorted(report["results"], key=order):
        for name, info in r["programs"].items():
            if info.get("execution", "").startswith("compile-"):
                rows.append([r["model"], r["mode"], r["batch"], r["threads"],
                             "{1} {3}".format(*name.split()),
                             f"{info['first_step_seconds'][r['mode']]:.1f}"])
    return sbs.markdown(["network", "", "batch", "threads", "torch.compile",
                         "seconds of the first step"], rows) if rows else None


def tables(report):
    head = ["model", "mode", "batch", "precision"] + (["threads"] if on_cpu(report) else [])
    rows, best_rows, strange = [], [], []
    for r in report["results"]:
        best = fastest(r)
        theirs = others(best)
        for name, answers in r["answers"].items():
            program, layout, _, execution = name.split()
            median = sbs.median(answers, KEY)
            rows.append(shown(r, report) + [
                f"{program} {layout} {execution}", rate(median),
                f"{100 * sbs.spread(answers, KEY):.0f} %", cpu_of(answers, r["batch"]),
                f"{median / theirs[1]:.2f}" if theirs else "", f"{peak(r, name) / 2**20:,.0f}",
                f"{answers[-1]['loss']:.3g}"])
            if not all(a["loss"] is not None and math.isfinite(a["loss"]) for a in answers):
                strange.append(f"{name} of {r['model']}, batch {r['batch']}: the loss is not finite.")
        if "Ferrite" in best:
            best_rows.append(shown(r, report) + best_row(r, best))
    result = ["Training, and forward passes without gradients. Memory is the peak, in MiB, of " +
              ("the process.\n\n" if on_cpu(report) else "the tensors on the device.\n\n") +
              sbs.markdown(head + ["program", "images/s", "spread", "CPU ms an image",
                              "of the others' best", "MiB",
                                   "loss"], rows)]
    result.append("The best of each, and the eager mode of the others:\n\n" + sbs.markdown(
        head + ["Ferrite", "images/s", "other", "images/s", "ratio", "ratio to eager", "MiB ratio"],
        best_rows))
    return result + strange + not_run_text(report)


def summary(report):
    """One row per case with its float32 programs: the eager ones by layout, and the fastest of
    those that compile."""
    def column(name):
        side, layout, precision, execution = name.split()
        if precision != "float32":
            return None
        if execution.startswith("compile-"):
            return f"{side} compiled"
        return f"{side} {layout}" if execution == "eager" else None

    present = {column(n) for r in report["results"] for n in r["answers"]} - {None}
    columns = [c for side in sbs.SIDES
               for c in (f"{side} NCHW", f"{side} NHWC", f"{side} compiled") if c in present]
    rows = []
    for r in sorted(report["results"], key=order):
        answers = {}  # of what compiles, the fastest
        for name, found in r["answers"].items():
            c = column(name)
            if c and (c not in answers or sbs.median(found, KEY) > sbs.median(answers[c], KEY)):
                answers[c] = found
        if r["busy_core"] or not answers:
            continue
        best = fastest(r)
        theirs = others(best)
        rows.append([r["model"], {"train": "training", "forward": "forward"}[r["mode"]], r["batch"],
                     r["threads"]] +
                    [rate(sbs.median(answers[c], KEY)) if c in answers else "" for c in columns] +
                    [f"{best['Ferrite'][1] / theirs[1]:.2f}" if theirs and "Ferrite" in best else "-",
                     share_of_peak(r, best["Ferrite"][1], report) if "Ferrite" in best else "-",
                     f"{100 * max(sbs.spread(a, KEY) for a in answers.values()):.0f} %"])
    return sbs.markdown(["network", "", "batch", "threads"] + columns + ["ratio", "of the peak", "spread up to"],
                        rows)


def order(result):
    return (MODES.index(result["mode"]), MODELS.index(result["model"]), result["batch"],
            result["threads"])


def memory(report):
    """The peak memory of training, in the layout in which each side is fastest."""
    rows = []
    for r in sorted(report["results"], key=order):
        if r["mode"] != "train" or r["busy_core"] or r["precision"] != "float32":
            continue
        peaks = {side: peak(r, name) for side, (name, _) in fastest(r).items()}
        ours = peaks.get("Ferrite")
        rows.append([r["model"], r["batch"], r["threads"]] +
                    [f"{peaks[s] / 2**20:,.0f}" if s in peaks else "-" for s in sbs.SIDES] +
                    [f"{ours / peaks[s]:.2f}" if ours and peaks.get(s) else "-"
                     for s in sbs.SIDES[:2]])
    return sbs.markdown(["network", "batch", "threads"] + [f"{s}, MiB" for s in sbs.SIDES] +
                        ["of PyTorch's", "of libtorch's"], rows)


def best_row(result, best):
    """Compares Ferrite's fastest program with that of the others, and with their fastest eager one."""
    (ours, our_median), theirs = best["Ferrite"], others(best)
    eager = max((sbs.median(a, KEY) for n, a in result["answers"].items()
                 if not n.startswith("Ferrite") and n.endswith(" eager")), default=None)

    def way(name):
        return "{1} {3}".format(*name.split())

    row = [way(ours), rate(our_median)]
    if not theirs:
        return row + ["-"] * 5
    name, median = theirs
    return row + [f"{name.split()[0]} {way(name)}", rate(median), f"{our_median / median:.2f}",
                  f"{our_median / eager:.2f}" if eager else "-",
                  f"{peak(result, ours) / peak(result, name):.2f}" if peak(result, name) else "-"]


def not_run_text(report):
    """One line per reason and case: the programs that could not run for it."""
    ways = {}  # {(reason, side, execution): {(model, precision): layouts}}
    for entry in report["not_run"]:
        side, layout, precision, execution = entry["name"].split()
        cases = ways.setdefault((entry["reason"], side, execution), {})
        layouts = cases.setdefault((entry["model"], precision), [])
        if layout not in layouts:
            layouts.append(layout)
    lines = {}  # executions with the same outcome
    for (reason, side, execution), cases in ways.items():
        where = "; ".join(f"{model} {precision} {', '.join(layouts)}"
                          for (model, precision), layouts in cases.items())
        lines.setdefault((side, reason, where), []).append(execution)
    if not lines:
        return []
    return ["Not run:\n\n" + "\n".join(f"- {side} {', '.join(executions)}: {reason} ({where})"
                                        for (side, reason, where), executions in lines.items())]


if __name__ == "__main__":
    sbs.run(lambda: sbs.run_part(parse, measure, tables))
