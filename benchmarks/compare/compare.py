#!/usr/bin/env python3
"""Measures Ferrite beside PyTorch (Python) and libtorch (C++) on this machine's CPU, and writes a
Markdown report and a JSON: training and forward passes of LeNet and ResNet-18, the cost of an
operation, data loading, start-up, memory, and what of the project's targets is reached.

Builds the programs that it needs first. All sides take turns on the same threads; figures are
medians over rounds. What cannot run here (no PyTorch, no libtorch) is listed with the reason, and
the rest is measured. The files are written after each group: a run that is cut short keeps what it
has.
"""

import argparse
import contextlib
import json
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import build_times  # noqa: E402
import report as reports  # noqa: E402
import side_by_side as sbs  # noqa: E402

data = sbs.part("data")
host_cost = sbs.part("host_cost")
startup = sbs.part("startup")
training = sbs.part("training")

PARTS = ("training", "ops", "loader", "startup", "memory")
ALL_PARTS = (*PARTS, "build")


def words(text):
    return [w for w in text.replace(",", " ").split() if w]


def choices(*allowed):
    def parse_list(text):
        for word in words(text):
            if word not in allowed:
                raise argparse.ArgumentTypeError(f"no '{word}'; there are {', '.join(allowed)}")
        return words(text)
    return parse_list


def numbers(text):
    return [int(w) for w in words(text)]


def parse(argv=None):
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--quick", action="store_true",
                   help="fewer rounds, and one form of ResNet-18, with batches of 32: some minutes")
    p.add_argument("--only", type=choices(*ALL_PARTS), default=list(PARTS), metavar="PARTS",
                   help=f"some of {','.join(PARTS)}; or build, the build time, which is "
                        "measured only if named")
    p.add_argument("--models", type=choices(*training.MODELS), default=list(training.MODELS),
                   help=f"of {','.join(training.MODELS)}")
    p.add_argument("--batches", type=numbers, help="images per step (default: two sizes per model)")
    p.add_argument("--threads", type=numbers, default=[1, 2], help="(default: 1,2)")
    p.add_argument("--modes", type=choices(*training.MODES), default=list(training.MODES),
                   help="train,forward")
    p.add_argument("--layouts", type=choices(*training.LAYOUTS), default=list(training.LAYOUTS),
                   help="contiguous,channels_last")
    p.add_argument("--all-layouts", action="store_true",
                   help="measure ResNet-18's larger batch in both layouts, not only in that which was "
                        "better for the smaller one")
    p.add_argument("--rounds", type=int, help="measurements per program")
    p.add_argument("--seconds", type=float, help="duration of a measurement of training")
    p.add_argument("--data", type=pathlib.Path, metavar="DIR",
                   help="folder with Fashion-MNIST, for start-up on its files")
    p.add_argument("--add", action="store_true",
                   help="keep results in the JSON of the same name that this run does not measure")
    p.add_argument("--out", type=pathlib.Path, metavar="NAME",
                   help="writes NAME.md and NAME.json (default: compare in the build folder)")
    p.add_argument("--build", type=pathlib.Path, help="build folder (default: build/default)")
    p.add_argument("--no-build", action="store_true", help="do not build: the programs exist")
    p.add_argument("--python", help="a Python that has PyTorch (default: the first that is found)")
    p.add_argument("--pytorch", choices=("found", "pypi"), default="found",
                   help="pypi: today's PyTorch and torchvision, which are installed into build/torch "
                        "(some gigabytes) where they are not; libtorch's programs are built against "
                        "them, in a build folder of their own (default: build/compare)")
    p.add_argument("--executions", type=choices(*training.EXECUTIONS), metavar="WAYS",
                   help="of " + ",".join(training.EXECUTIONS) + " (default: eager; with --pytorch "
                        "pypi compile-default and compile-max-autotune too)")
    args = p.parse_args(argv)
    if args.rounds is not None and args.rounds < 2:
        p.error("--rounds must be 2 or more")
    pypi = args.pytorch == "pypi"
    if pypi and args.python:
        p.error("--pytorch pypi and --python exclude each other")
    args.python = args.python or (TORCH / "bin" / "python" if pypi else sbs.find_python())
    args.build = args.build or sbs.ROOT / "build" / ("compare" if pypi else "default")
    args.executions = args.executions or (
        ["eager", "compile-default", "compile-max-autotune"] if pypi else ["eager"])
    args.out = args.out or args.build / "compare"
    return args


# ---- Building

TORCH = sbs.ROOT / "build" / "torch"  # where tests/differential.sh looks for PyTorch too


def finds_torch():
    with contextlib.suppress(OSError):
        return subprocess.run([TORCH / "bin" / "python", "-c", "import torch, torchvision"],
                              stderr=subprocess.DEVNULL).returncode == 0
    return False


def install_pytorch():
    """PyTorch and torchvision of PyPI, in a virtual environment."""
    for command in ([sys.executable, "-m", "venv", TORCH],
                    [TORCH / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check",
                     "torch", "torchvision", "numpy"]):
        if finds_torch():
            return
        print(" ".join(map(str, command)), file=sys.stderr, flush=True)
        if subprocess.run(command).returncode != 0:
            sys.exit("this failed: --pytorch pypi needs python3-venv, access to PyPI and some gigabytes")


def libtorch_options():
    """What CMake needs to find the libtorch of build/torch, and no other."""
    found = next(TORCH.glob("lib/python3*/site-packages/torch"), None)
    return ["-U", "TORCH_*", f"-DCMAKE_PREFIX_PATH={found}"] if found else []


def build_commands(folder, pypi=False):
    """What makes the programs in a build folder: configures it where it is not, is without
    benchmarks, or is to use the libtorch of PyPI."""
    cache = folder / "CMakeCache.txt"
    commands = []
    libtorch = libtorch_options() if pypi else []
    if not cache.exists():
        in_place = folder.resolve().parent == sbs.ROOT / "build"  # named after a preset
        commands.append(["bash", sbs.ROOT / "scripts" / "configure.sh", folder.name,
                         "-DFERRITE_BENCHMARKS=ON"] if in_place and not pypi else
                        ["cmake", "-S", sbs.ROOT, "-B", folder, "-G", "Ninja",
                         "-DFERRITE_CUDA=OFF", "-DFERRITE_BENCHMARKS=ON", *libtorch])
    elif libtorch or "FERRITE_BENCHMARKS:BOOL=ON" not in cache.read_text():
        commands.append(["cmake", "-S", sbs.ROOT, "-B", folder, "-DFERRITE_BENCHMARKS=ON", *libtorch])
    commands.append(["cmake", "--build", folder, "--target", "compare_programs", "--parallel"])
    return [[str(word) for word in command] for command in commands]


def build(folder, pypi=False):
    for command in build_commands(folder, pypi):
        print(f"{' '.join(command)}", file=sys.stderr, flush=True)
        if subprocess.run(command, stdout=sys.stderr).returncode != 0:
            sys.exit("this failed; if packages are missing:  bash scripts/install_packages.sh\n"
                     f"then again:  {' '.join(command)}")


# ---- The measurements of each part

def common(args):
    return ["--build", str(args.build), "--python", str(args.python)]


def flags(name, values):
    return [name, *map(str, values)] if values else []


def training_commands(args):
    """The command lines of training/compare.py: the duration of a step differs by network."""
    groups = [(("lenet5", "d2l"), None, 3 if args.quick else 5, 0.08 if args.quick else 0.12),
              (("resnet18-28",) if args.quick else ("resnet18-28", "resnet18-32"),
               [32] if args.quick else [32, 128], 3 if args.quick else 7,
               0.4 if args.quick else 0.8),  # far longer than a first step with cold caches
              (() if args.quick else ("resnet18-224",), [8], 5, 0.25),
              (() if args.quick else training.TEXTS, None, 5, 0.25)]
    for models, batches, rounds, seconds in groups:
        chosen = [m for m in models if m in args.models]
        if not chosen:
            continue
        yield [*common(args), "--models", *chosen, *flags("--batches", args.batches or batches),
               *flags("--threads", args.threads), *flags("--modes", args.modes),
               *flags("--layouts", args.layouts), "--precisions", "float32",
               "--executions", *args.executions, "--rounds", str(args.rounds or rounds),
               "--limit", "4" if args.quick else "6",
               "--seconds", str(args.seconds or seconds), "--warmup", "5", "--data", "2",
               *([] if args.all_layouts or "lenet5" in models else ["--best-layouts"])]


def measure_training(args, part, save):
    part.setdefault("device", "cpu")

    def save_newest():
        newest(part)
        save()

    for command in training_commands(args):
        training.measure(training.parse(command), part, save_newest)


def newest(part):
    """Keeps the last result of each case that was measured again."""
    results = {case_of(r): r for r in part["results"]}
    part["results"][:] = results.values()
    not_run = {(json.dumps(e, sort_keys=True)): e for e in part["not_run"]}
    ran = {(*(r[k] for k in CASE[:4]), name) for r in part["results"] for name in r["answers"]}
    part["not_run"][:] = [e for e in not_run.values()
                          if (*(e[k] for k in CASE[:4]), e["name"]) not in ran]


CASE = ("model", "precision", "batch", "threads", "mode", "busy_core")


def case_of(result):
    return tuple(result[k] for k in CASE)


def measure_ops(args, part, save):
    rounds = args.rounds or (5 if args.quick else 9)
    command = [*common(args), "--rounds", str(rounds), "--repeats", "2000" if args.quick else "5000"]
    part["device"] = "cpu"
    host_cost.measure(host_cost.parse(command), part, save)


def measure_startup(args, part, save):
    rounds = args.rounds or (3 if args.quick else 7)
    command = [*common(args), "--rounds", str(rounds), *flags("--threads", args.threads),
               *flags("--data", [args.data] if args.data else [])]
    startup.measure(startup.parse(command), part, save)


def measure_memory(args, part, save):
    """Runs a few steps, unless training has been measured, whose results include the peaks."""
    if "training" in args.only:
        return
    models = [m for m in ("lenet5", "resnet18-28", "resnet18-32") if m in args.models]
    command = [*common(args), "--models", *models, *flags("--batches", args.batches),
               *flags("--threads", args.threads[-1:]), *flags("--layouts", args.layouts),
               "--precisions", "float32", "--executions", "eager", "--rounds", "2", "--steps", "1",
               "--warmup", "2"]
    part.clear()
    part["device"] = "cpu"
    training.measure(training.parse(command), part, save)


def loader_commands(args):
    """The command lines of data/compare.py. With workers the files are measured alone: batches of
    what is in memory come faster than PyTorch's processes hand them over."""
    rounds = args.rounds or (3 if args.quick else 4)
    always = [*common(args), "--rounds", str(rounds), "--seconds", str(args.seconds or 0.2)]
    yield [*always, "--cases", "memory", "--workers", "0", "--batches", "256", "--samples",
           "6000" if args.quick else "12000"]
    files = ["--batches", "32", "--files", "64" if args.quick else "96"]
    yield [*always, "--cases", "jpg", "--workers", "0", *([] if args.quick else ["2"]), *files]
    if not args.quick:
        yield [*always, "--cases", "png", "--workers", "0", *files]


def measure_loader(args, part, save):
    part.update(results=[], not_run={}, programs={}, files={})
    for command in loader_commands(args):
        before, fresh = part["results"], {}

        def save_all(before=before, fresh=fresh):
            for key in ("not_run", "programs", "files"):
                part[key].update(fresh[key])
            part["results"] = before + fresh["results"]
            save()

        data.measure(data.parse(command), fresh, save_all)
        save_all()


MEASURE = {"training": measure_training, "ops": measure_ops, "loader": measure_loader,
           "startup": measure_startup, "memory": measure_memory, "build": build_times.measure}


# ---- The run

def write(args, report):
    args.out.parent.mkdir(parents=True, exist_ok=True)
    report["targets"] = reports.targets(report)
    name = str(args.out)
    pathlib.Path(name + ".json").write_text(json.dumps(report, indent=2) + "\n")
    pathlib.Path(name + ".md").write_text(reports.markdown(report))


def previous(args):
    path = pathlib.Path(str(args.out) + ".json")
    if args.add and path.exists():
        return json.loads(path.read_text())
    return {"runs": [], "parts": {}, "failed": {}, "seconds": {}}


def measure(args, report):
    for name in args.only:
        part = report["parts"].setdefault(name, {})
        report["failed"].pop(name, None)
        start = time.perf_counter()
        try:
            MEASURE[name](args, part, lambda: write(args, report))
        except (sbs.Lost, SystemExit) as error:
            report["failed"][name] = str(error)
            print(f"{name}: {error}", file=sys.stderr)
        if not part:
            del report["parts"][name]
        report["seconds"][name] = time.perf_counter() - start
        write(args, report)


def stop(number, frame):
    raise KeyboardInterrupt


def main():
    args = parse()
    pypi = args.pytorch == "pypi"
    if pypi:
        install_pytorch()
    if not args.no_build:
        build(args.build, pypi)
    signal.signal(signal.SIGTERM, stop)
    report = previous(args)
    report["runs"].append(dict(sbs.machine(), complete=False))
    try:
        measure(args, report)
        report["runs"][-1]["complete"] = True
    except KeyboardInterrupt:
        print("interrupted: writing the measurements so far", file=sys.stderr)
    write(args, report)
    print(reports.markdown(report))
    print(f"written to {args.out}.md and {args.out}.json", file=sys.stderr)
    sys.exit(0 if report["runs"][-1]["complete"] else 130)


if __name__ == "__main__":
    main()
