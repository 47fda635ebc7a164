"""The report of compare.py: the targets, and the Markdown."""

import build_times
import side_by_side as sbs

data = sbs.part("data")
host_cost = sbs.part("host_cost")
startup = sbs.part("startup")
training = sbs.part("training")

# Target training speeds relative to PyTorch, or libtorch if that is faster.
TRAINING = {("lenet5", 64): 3.5, ("lenet5", 256): 3.5, ("d2l", 64): 2.0, ("d2l", 256): 2.0,
            ("resnet18-28", 32): 2.2, ("resnet18-32", 32): 2.2}
TWO_THREADS = 1.85
ADD = {"add_recorded": ("an addition, recorded", 1 / 4),
       "chain10_backward": ("a chain of 10 additions, forward and backward", 1 / 3)}
LOADER = {"memory": (10, 0, "images/s of the DataLoader, images in memory"),
          "jpg": (1.5, 1, "images/s and core of the DataLoader, folder of JPEG files"),
          "png": (1.5, 1, "images/s and core of the DataLoader, folder of PNG files")}
STARTUP_SECONDS = 0.3
MEMORY = 0.8
BUILD = {"clean_seconds": (180, "a build of library and examples from scratch, without ccache"),
         "touch_seconds": (20, "a rebuild of an operation's test after the operation was touched")}


# ---- Targets

def target(what, wanted, measured=None, reached=None):
    """`measured` is text; None if nothing was measured."""
    return {"what": what, "wanted": wanted, "measured": measured, "reached": reached}


def at_least(what, wanted, value, unit="times PyTorch"):
    return target(what, f"at least {wanted:.3g} {unit}",
                  None if value is None else f"{value:.2f}", None if value is None else value >= wanted)


def at_most(what, wanted, value, unit):
    return target(what, f"at most {wanted:.3g} {unit}",
                  None if value is None else f"{value:.3g}", None if value is None else value <= wanted)


def results(report, part="training"):
    """{(model, batch, threads): result} of training in float32."""
    found = report["parts"].get(part, {}).get("results", [])
    return {(r["model"], r["batch"], r["threads"]): r for r in found
            if r["mode"] == "train" and r["precision"] == "float32" and not r["busy_core"]}


def ratio(result):
    """The ratio of Ferrite's speed to the fastest of the others; None if one is missing."""
    best = training.fastest(result) if result else {}
    theirs = training.others(best)
    return best["Ferrite"][1] / theirs[1] if theirs and "Ferrite" in best else None


def own_speed(result):
    return training.fastest(result).get("Ferrite", (None, None))[1] if result else None


def training_targets(report):
    measured = results(report)
    rows = []
    for (model, batch), wanted in TRAINING.items():
        for threads in (1, 2):
            rows.append(at_least(f"training {model}, batch {batch}, {threads} thread(s)", wanted,
                                 ratio(measured.get((model, batch, threads)))))
    for model in ("resnet18-28", "resnet18-32"):
        one, two = (own_speed(measured.get((model, 32, threads))) for threads in (1, 2))
        rows.append(at_least(f"training {model}, batch 32, two threads", TWO_THREADS,
                             two / one if one and two else None, "times one thread"))
    return rows


def ops_targets(report):
    measured = report["parts"].get("ops", {}).get("results", {})
    rows = []
    for case, (text, wanted) in ADD.items():
        answers = measured.get(case, {})
        share = (sbs.median(answers["Ferrite"], host_cost.KEY) /
                 sbs.median(answers["libtorch"], host_cost.KEY)
                 if {"Ferrite", "libtorch"} <= set(answers) else None)
        rows.append(at_most(f"{text}, of one element", wanted, share, "of libtorch's time"))
    return rows


def loader_targets(report):
    measured = report["parts"].get("loader", {}).get("results", [])
    rows = []
    for case, (wanted, which, text) in LOADER.items():
        found = [both[which] for r in measured if r["case"] == case and (both := data.ratios(r))]
        rows.append(at_least(text, wanted, min(found, default=None)))
    return rows


def startup_targets(report):
    part = report["parts"].get("startup", {})
    cases = [("from process start to the end of LeNet-5's first training step", part.get("results", {}))]
    cases += [(f"the same of {what}", part.get("examples", {}).get(case, {}))
              for case, what in startup.EXAMPLES.items()]
    return [at_most(what, STARTUP_SECONDS,
                    max((sbs.median(a["Ferrite"], startup.KEY) for a in results.values()
                         if a.get("Ferrite")), default=None), "seconds")
            for what, results in cases]


def memory_targets(report):
    measured = {**results(report, "memory"), **results(report)}
    rows = []
    for model in ("resnet18-28", "resnet18-32"):
        shares = []
        for (name, batch, _), r in measured.items():
            best = training.fastest(r)
            if name == model and batch == 32 and {"PyTorch", "Ferrite"} <= set(best):
                shares.append(training.peak(r, best["Ferrite"][0]) /
                              training.peak(r, best["PyTorch"][0]))
        rows.append(at_most(f"memory of training {model}, batch 32", MEMORY,
                            max(shares, default=None), "of PyTorch's"))
    return rows


def build_targets(report):
    part = report["parts"].get("build", {})
    return [at_most(text, wanted, part.get(key), "seconds") for key, (wanted, text) in BUILD.items()]


def targets(report):
    return [*training_targets(report), *ops_targets(report), *loader_targets(report),
            *startup_targets(report), *memory_targets(report), *build_targets(report)]


# ---- Markdown

def targets_table(rows):
    verdict = {True: "yes", False: "**no**", None: ""}
    return sbs.markdown(["target", "wanted", "measured", "reached"],
                        [[t["what"], t["wanted"], t["measured"] or "not measured",
                          verdict[t["reached"]]] for t in rows])


def environment(report):
    """The machine and the programs, one per line."""
    programs = [info for part in report["parts"].values()
                for info in part.get("programs", {}).values()]
    versions = dict.fromkeys(
        f"{i['framework']} {i['version']}" +
        (f" (uses {i['capability']})" if i.get("capability") else "") for i in programs)
    # A shorter form of the same version, reported by another part's program.
    versions = [v for v in versions if not any(w != v and w.startswith(v + " (") for w in versions)]
    versions.sort(key=lambda v: sbs.SIDES.index(v.split()[0]))
    run = report["runs"][-1]
    lines = [f"{run['cpu']}, {run['cores']} cores" +
             (f", {run['memory_bytes'] / 2**30:.0f} GiB" if run.get("memory_bytes") else ""),
             f"instruction sets: {' '.join(run['instruction_sets']) or 'unknown'}",
             run["system"], ", ".join(versions)]
    for r in report["runs"]:
        settings = "".join(f"{name}={value} " for name, value in r["environment"].items())
        lines.append(f"{r['date']}, Ferrite at {r['ferrite_revision']}, load {r['load']:.1f}: "
                     f"`{settings}{r['command']}`" + ("" if r["complete"] else " (cut short)"))
    return "\n".join(f"- {line}" for line in lines)


def sections(report):
    parts = report["parts"]
    if "training" in parts and parts["training"].get("results"):
        yield "Training and forward passes", (
            "Images per second, float32. A training step is forward, cross entropy, backward and SGD "
            "with momentum; forward is evaluation without gradients. The ratio is that of Ferrite's "
            "better layout to the best of the others. The last but one column is what Ferrite reaches of "
            "the machine's limit: its multiplications and additions as direct sums, and by Winograd's "
            "algorithm where that applies.\n\n" + training.summary(parts["training"]) +
            "\n\nThe limits of the machine:\n\n" + training.limits_text(parts["training"]))
        if times := training.compile_times(parts["training"]):
            yield "Compile times", times
    if "ops" in parts and parts["ops"].get("results"):
        yield "Operations on one element", host_cost.table(parts["ops"])
    if "loader" in parts and parts["loader"].get("results"):
        yield "Data loading", ("Batches, shuffled, float32 and normalized, by the fastest way of "
                               "each side.\n\n" + data.summary(parts["loader"]))
    if "startup" in parts and parts["startup"].get("results"):
        yield "Start-up", startup.tables(dict(parts["startup"], not_run={}))[0]
    both = [r for name in ("memory", "training") for r in parts.get(name, {}).get("results", [])]
    if any(r["mode"] == "train" for r in both):
        yield "Memory", ("The peak resident memory of the whole process, in the layout in which each "
                         "side trains fastest.\n\n" + training.memory({"results": both}))


    if "clean_seconds" in parts.get("build", {}):
        yield "Building", build_times.table(parts["build"])


def not_run(report):
    lines = [f"- {name}: {reason}" for name, reason in report["failed"].items()]
    for name, part in report["parts"].items():
        reasons = part.get("not_run")
        if isinstance(reasons, dict):
            lines += [f"- {name}, {side}: {reason}" for side, reason in reasons.items()]
        elif reasons:
            lines += [f"- {name}, {line[2:]}" for text in training.not_run_text(part)
                      for line in text.splitlines() if line.startswith("- ")]
    return lines


def markdown(report):
    text = ["# Ferrite beside PyTorch", environment(report), "## Targets",
            "The training ratios are to the faster of PyTorch and libtorch, each in its better "
            "layout.\n\n" + targets_table(report["targets"])]
    for title, body in sections(report):
        text += [f"## {title}", body]
    if lines := not_run(report):
        text += ["## Not run", "\n".join(lines)]
    if report["seconds"]:
        text.append("Measured in " + ", ".join(f"{seconds:.0f} s ({name})" for name, seconds in
                                               report["seconds"].items()) + ".")
    return "\n\n".join(text) + "\n"
