#!/usr/bin/env python3
"""Where the time of a build goes.

    scripts/build_times.py [BUILD] [--top N]
        what took longest the last time that it was made, and each folder's sum: seconds of the clock,
        of what Ninja has logged (a compiler cache makes them short)
    scripts/build_times.py [BUILD] --cpu PATTERN [--sample N] [--jobs N]
        compiles the sources whose path the regular expression finds anew, without a cache and without
        keeping what comes out, and prints the CPU seconds of each (every N-th of them)

BUILD is build/default unless said otherwise. A clean build without a cache:
    cmake --preset default && CCACHE_DISABLE=1 cmake --build --preset default --target examples
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent


def folder_of(path):
    """kernels/cuda of kernels/CMakeFiles/ferrite_kernels.dir/cuda/sort.cu.o; "link" of programs."""
    if not path.endswith(".o"):
        return "linked"
    if batch := re.search(r"batches/[^/]+/\d+_([^/.]+)\.", path):
        return "/".join(batch[1].split("_")[:2])
    path = re.sub(r"CMakeFiles/[^/]+\.dir/", "", path)
    parts = path.split("/")[:-1]
    return "/".join(parts[:2]) or "."


def logged(build):
    log = build / ".ninja_log"
    if not log.exists():
        sys.exit(f"{log} is not there: Ninja writes it, Make has no such thing")
    times = {}
    for line in log.read_text().splitlines():
        fields = line.split("\t")
        if not line.startswith("#") and len(fields) >= 4 and not fields[3].endswith((".ninja", ".cmake")):
            times[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    return times


def cpu_seconds(entry):
    """User and system time of one compile command, and whether it failed."""
    command = shlex.split(entry["command"])
    cache = [i for i, word in enumerate(command) if word.endswith("/ccache")]
    command = command[cache[0] + 1:] if cache else command
    command[command.index("-o") + 1] = "/dev/null" if entry["file"].endswith(".cpp") else os.devnull
    for flag in ("-MD", "-MMD"):
        if flag in command:
            command.remove(flag)
    for flag in ("-MT", "-MF"):
        if flag in command:
            at = command.index(flag)
            del command[at:at + 2]
    # Of this process alone, whatever runs beside it.
    script = ("import os, resource, subprocess, sys\n"
              "code = subprocess.run(sys.argv[1:], stderr=subprocess.DEVNULL).returncode\n"
              "use = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
              "print(use.ru_utime + use.ru_stime, code)")
    done = subprocess.run([sys.executable, "-c", script, *command], cwd=entry["directory"],
                          capture_output=True, text=True, check=True,
                          env={**os.environ, "CCACHE_DISABLE": "1"})
    seconds, code = done.stdout.split()
    return float(seconds), int(code)


def named(build, file):
    """A source's path in the tree; of a batch that in the build folder, nn/batches/..."""
    base = build.resolve() if pathlib.Path(file).is_relative_to(build.resolve()) else root
    return os.path.relpath(file, base)


def compiled(build, pattern, sample, jobs):
    entries = json.loads((build / "compile_commands.json").read_text())
    entries = [e for e in entries if re.search(pattern, named(build, e["file"]))][::sample]
    times = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for entry, (seconds, code) in zip(entries, pool.map(cpu_seconds, entries)):
            name = named(build, entry["file"])
            times[name + ".o"] = seconds
            print(f"{seconds:7.1f}  {name}{'' if code == 0 else '  (failed)'}", flush=True)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build/default")
    parser.add_argument("--top", type=int, default=20)
    parser.add_argument("--cpu", metavar="PATTERN")
    parser.add_argument("--sample", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    build = (root / options.build).resolve()
    if options.cpu is None:
        times = logged(build)
        for name, seconds in sorted(times.items(), key=lambda item: -item[1])[:options.top]:
            print(f"{seconds:7.1f}  {name}")
    else:
        times = compiled(build, options.cpu, options.sample, options.jobs)
    if not times:
        sys.exit("nothing found")
    sums = collections.defaultdict(lambda: [0, 0])
    for name, seconds in times.items():
        entry = sums[folder_of(name)]
        entry[0] += seconds
        entry[1] += 1
    print()
    for folder, (seconds, count) in sorted(sums.items(), key=lambda item: -item[1][0]):
        print(f"{seconds:7.1f}  {folder} ({count})")
    print(f"{sum(times.values()) * (options.sample if options.cpu else 1):7.1f}  in all")


if __name__ == "__main__":
    main()
