"""Common code of the side-by-side benchmarks: programs that measure on request, so that the two sides
take turns on one machine and meet the same conditions."""

import contextlib
import datetime
import functools
import importlib.util
import json
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


SIDES = ("PyTorch", "libtorch", "Ferrite")
# Variables that affect speed; all sides inherit them.
SETTINGS = ("ATEN_", "CUDA_LAUNCH", "CUDA_VISIBLE", "DNNL_", "FERRITE_", "GOMP_", "KMP_", "LD_PRELOAD",
            "MALLOC_", "MKL_", "OMP_", "ONEDNN_", "TORCH_")


class Lost(RuntimeError):
    """A program ended without an answer; holds its last line on stderr."""


class Worker:
    """A program that reads a line, measures, and answers with a line of JSON."""

    def __init__(self, command, threads=1):
        # Set for both sides; each also has its own call.
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), FERRITE_NUM_THREADS=str(threads))
        self.command = [str(c) for c in command]
        self.errors = tempfile.TemporaryFile()
        start = time.perf_counter()
        try:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                            env=env)
        except OSError as error:
            raise Lost(str(error)) from error
        self.info = self.read()
        self.seconds_to_first_line = time.perf_counter() - start

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            status = self.process.wait()
            self.errors.seek(0)
            text = self.errors.read().decode(errors="replace")
            print(f"{shlex.join(self.command)}\n{text}", file=sys.stderr)
            said = [t.strip() for t in text.splitlines() if t.strip()]
            self.close()
            raise Lost(f"ended with status {status}" + (f": {said[-1]}" if said else ""))
        return json.loads(line)

    def measure(self, request="measure"):
        with contextlib.suppress(BrokenPipeError):  # the following read then reports the end
            self.process.stdin.write(request + "\n")
            self.process.stdin.flush()
        return self.read()

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


@contextlib.contextmanager
def workers(commands, threads=1, lost=None):
    """{name: Worker} of {name: command}, closed at the end. One that does not start ends
    everything, or is left out and goes to `lost`, {name: reason}, where that is given."""
    started = {}
    try:
        for name, command in commands.items():
            try:
                started[name] = Worker(command, threads)
            except Lost as error:
                if lost is None:
                    raise
                lost[name] = str(error)
        yield started
    finally:
        for worker in started.values():
            worker.close()


def run(main):
    """Runs a script's main(); if a program that it needs has ended, exits with a message."""
    try:
        main()
    except Lost as error:
        sys.exit(f"{pathlib.Path(sys.argv[0]).name}: a program that it measures {error}")


def probe(command):
    """The description that a program gives of itself for --probe; raises Lost."""
    worker = Worker([*command, "--probe"])
    worker.close()
    return worker.info


@contextlib.contextmanager
def busy_core():
    """Keeps one core busy with a process during the block."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def interleave(started, rounds, request="measure", lost=None, limit=None):
    """{name: [answers]}: every worker once a round, in an order that turns. One that ends goes as
    with workers(). After `limit` seconds three rounds are enough."""
    answers = {name: [] for name in started}
    begin = time.perf_counter()
    for i in range(rounds):
        if limit is not None and i >= 3 and time.perf_counter() - begin > limit:
            break
        names = list(answers)
        turn = i % len(names) if names else 0
        for name in names[turn:] + names[:turn]:
            try:
                answers[name].append(started[name].measure(request))
            except Lost as error:
                if lost is None:
                    raise
                lost[name] = str(error)
                del answers[name]
    return answers


def median(answers, key):
    return statistics.median(a[key] for a in answers)


def spread(answers, key):
    """Half the interquartile range, relative to the median."""
    values = [a[key] for a in answers]
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / 2 / middle


def cpu_fields():
    with contextlib.suppress(OSError):
        fields = dict(line.split(":", 1) for line in
                      pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
                      if ":" in line)
        return {k.strip(): v.strip() for k, v in fields.items()}
    return {}


def cpu_model():
    return cpu_fields().get("model name") or platform.processor() or "unknown"


def instruction_sets():
    """The instruction sets that affect the measurements."""
    flags = cpu_fields().get("flags", cpu_fields().get("Features", "")).split()
    return [f for f in flags if f.startswith(("avx", "amx", "fma", "f16c", "sse4_2", "asimd", "sve",
                                              "bf16"))]


def memory_bytes():
    with contextlib.suppress(OSError, ValueError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def revision():
    try:
        return subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"],
                              capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def machine():
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "instruction_sets": instruction_sets(),
        "memory_bytes": memory_bytes(),
        "system": platform.platform(),
        "load": os.getloadavg()[0],
        "ferrite_revision": revision(),
        "environment": {name: value for name, value in sorted(os.environ.items())
                        if name.startswith(SETTINGS)},
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": shlex.join(sys.argv),
    }


def markdown(header, rows):
    """A table, the first column left-aligned."""
    lines = [header, [":--"] + ["--:"] * (len(header) - 1)] + rows
    return "\n".join("| " + " | ".join(str(c) for c in line) + " |" for line in lines)


@functools.cache
def find_python():
    candidates = [sys.executable, "python3", "/usr/bin/python3"]
    for python in candidates:
        with contextlib.suppress(OSError):
            looked = subprocess.run([python, "-c", "import importlib.util as u, sys\n"
                                     "sys.exit(u.find_spec('torch') is None)"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if looked.returncode == 0:
                return python
    return sys.executable


def not_run_lines(reasons):
    """[text] of {name: reason}, or nothing."""
    return ["Not run:\n\n" + "\n".join(f"- {n}: {r}" for n, r in reasons.items())] if reasons else []


@functools.cache
def part(folder):
    """The module benchmarks/<folder>/compare.py."""
    spec = importlib.util.spec_from_file_location(
        f"compare_{folder}", ROOT / "benchmarks" / folder / "compare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def add_options(parser, program):
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "default",
                        help="build folder, configured with -DFERRITE_BENCHMARKS=ON")
    parser.add_argument("--ferrite", type=pathlib.Path, metavar="PROGRAM",
                        help=f"Ferrite's side (default: bin/{program} in the build folder)")
    parser.add_argument("--python", default=find_python(),
                        help="a Python with PyTorch (default: the first that has it, of the one that "
                             "runs this script, python3 and /usr/bin/python3)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="also write all measurements to this file")


def ferrite_program(args, program):
    path = args.ferrite or args.build / "bin" / program
    if not path.exists():
        sys.exit(f"no {path}: configure with -DFERRITE_BENCHMARKS=ON and build {program}")
    return path


def libtorch_program(args, program, not_run):
    """libtorch's side; None if it was not built, with the reason in not_run["libtorch"]."""
    path = args.build / "bin" / program
    if path.exists():
        return path
    not_run["libtorch"] = (f"{path.name} was not built: install Debian's libtorch-dev, or set "
                           "CMAKE_PREFIX_PATH to a PyTorch's folder, and configure again")
    return None


def sides(args, script, program, not_run, options=()):
    """{side: command} of PyTorch's script and of the programs of libtorch and Ferrite, all with the
    same options; without libtorch's, and with the reason in not_run, where it was not built."""
    commands = {"PyTorch": [args.python, script, *options]}
    if libtorch := libtorch_program(args, f"{program}_libtorch", not_run):
        commands["libtorch"] = [libtorch, *options]
    commands["Ferrite"] = [ferrite_program(args, program), *options]
    return commands


def write_json(args, report):
    if args.json:
        args.json.write_text(json.dumps(report, indent=2) + "\n")


def run_part(parse, measure, tables):
    """Runs a benchmark's script on its own: measures and prints the tables."""
    args = parse()
    report = {"machine": machine()}
    if hasattr(args, "device"):
        report["device"] = args.device
    measure(args, report, lambda: write_json(args, report))
    finish(args, report, tables(report))


def finish(args, report, tables):
    """Prints the tables with the machine and versions; writes the JSON."""
    versions = ", ".join(dict.fromkeys(f"{i['framework']} {i['version']}"
                                       for i in report["programs"].values()))
    devices = ", ".join(dict.fromkeys(i["device"] for i in report["programs"].values()
                                      if i.get("device")))
    m = report["machine"]
    print((f"{devices}; " if devices else "") +
          f"{m['cpu']}, {m['cores']} cores; {versions}; Ferrite at {m['ferrite_revision']}; "
          f"{m['date']}\n")
    print("\n\n".join(tables))
    write_json(args, report)
