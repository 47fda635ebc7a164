#!/usr/bin/env python3
"""Runs benchmarks/compare on next to nothing, with the programs of the build folder that is given,
and looks at what it has written. Without PyTorch its sides must be listed with the reason."""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def check(condition, text):
    if not condition:
        sys.exit(f"not so: {text}")


def run(build, out, *options):
    command = [sys.executable, ROOT / "benchmarks" / "compare" / "compare.py", "--no-build",
               "--build", build, "--out", out, "--rounds", "2", "--seconds", "0.001", "--quick",
               "--models", "lenet5", "--batches", "2", "--threads", "1", *options]
    subprocess.run([str(c) for c in command], check=True, timeout=240)
    return json.loads(pathlib.Path(f"{out}.json").read_text())


def check_refused(build, option, value):
    """The program must name the option and what it takes."""
    command = [pathlib.Path(build) / "bin" / "bench_training", option, str(value)]
    done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, timeout=60,
                          capture_output=True, text=True)
    text = done.stdout + done.stderr
    check(done.returncode > 0 and option in text and "1000000000" in text,
          f"{option} {value} is refused with its limits, not with {text!r}")


def main():
    build = sys.argv[1]
    for option in ("--batch", "--batches", "--steps", "--warmup"):
        for value in (2**63 - 1, 2**64, 10**9 + 1):
            check_refused(build, option, value)
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/report"
        report = run(build, out, "--only", "training,ops")
        report = run(build, out, "--only", "startup", "--add")
        text = pathlib.Path(f"{out}.md").read_text()
    check(set(report["parts"]) >= {"training", "ops", "startup"}, "all parts are there")
    results = report["parts"]["training"]["results"]
    check({r["mode"] for r in results} == {"train", "forward"}, "both modes were measured")
    for r in results:
        names = {n.split()[0] for n in r["answers"]}
        missing = {e["name"].split()[0] for e in report["parts"]["training"]["not_run"]}
        check("Ferrite" in names, "Ferrite was measured")
        check(names | missing == {"PyTorch", "libtorch", "Ferrite"}, "every side is accounted for")
    for case, answers in report["parts"]["ops"]["results"].items():
        check(answers["Ferrite"], f"{case} was measured")
    check(report["parts"]["startup"]["results"]["1"]["Ferrite"], "start-up was measured")
    for title in ("Targets", "Training and forward passes", "Operations on one element", "Start-up",
                  "Memory"):
        check(f"## {title}" in text, f"the report has {title}")
    print(text[text.find("## Not run"):] if "## Not run" in text else "all sides were measured")


if __name__ == "__main__":
    main()
