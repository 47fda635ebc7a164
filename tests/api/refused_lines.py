#!/usr/bin/env python3
"""Compiles the lines of refused_lines.txt and compares the first error of each.

refused_lines.py LIST COMPILER [OPTION...]
"""
import re
import subprocess
import sys

PROLOGUE = """
#include <ferrite/ferrite.h>
using namespace ferrite;
"""


def read(path):
    lines = [l.strip() for l in open(path) if l.strip() and not l.startswith("#")]
    return [tuple(part.strip() for part in l.split("=>")) for l in lines]


def source(cases):
    out = [PROLOGUE]
    for number, (line, _) in enumerate(cases):
        out += [f"void f{number}(Tensor& x, Tensor& w, nn::Sequential& net, optim::SGD& sgd,",
                f"    optim::Optimizer& optimizer) {{", f'#line 1 "case_{number}"', line, "}"]
    return "\n".join(out)


def first_errors(output):
    """The first error after each first mention of a case."""
    errors, case = {}, None
    for line in output.splitlines():
        if match := re.search(r"\bcase_(\d+)\b", line):
            case = int(match[1])
        if "error:" in line and case is not None:
            errors.setdefault(case, line.split("error:", 1)[1].strip())
    return errors


def main():
    cases = read(sys.argv[1])
    command = sys.argv[2:] + ["-std=c++20", "-fsyntax-only", "-x", "c++", "-"]
    run = subprocess.run(command, input=source(cases), capture_output=True, text=True)
    errors = first_errors(run.stderr)
    wrong = 0
    for number, (line, expected) in enumerate(cases):
        got = errors.get(number, "it compiles")
        if expected not in got:
            wrong += 1
            print(f"{line}\n  expected: {expected}\n  got:      {got}")
    print(f"{len(cases) - wrong} of {len(cases)} lines are refused as written")
    return 1 if wrong or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
