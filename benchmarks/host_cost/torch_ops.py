#!/usr/bin/env python3
"""The host's cost of operations on one element: PyTorch's side of compare.py.

Every line on stdin names a case (add, add_recorded, add_backward, chain10_backward,
chain20_backward) and is answered by a line of JSON.
"""

import argparse
import json
import sys
import time

parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("--repeats", type=int, default=20000, help="runs of the case a measurement")
args = parser.parse_args()  # before torch, so that --help needs none

import torch  # noqa: E402

x = torch.ones(1)
w = torch.ones(1, requires_grad=True)


def chain(length):
    t = w
    for _ in range(length):
        t = t + x
    t.backward()


CASES = {
    "add": lambda: x + x,
    "add_recorded": lambda: w + x,
    "add_backward": lambda: (w + x).backward(),
    "chain10_backward": lambda: chain(10),
    "chain20_backward": lambda: chain(20),
}


def run(case, repeats):
    for _ in range(repeats):
        case()


def emit(**values):
    print(json.dumps(values), flush=True)


torch.set_num_threads(1)
emit(ready=True, framework="PyTorch", version=torch.__version__, python=sys.version.split()[0])
for line in sys.stdin:
    name = line.strip()
    if name not in CASES:
        sys.exit(f"no case '{name}'")
    run(CASES[name], args.repeats // 10)
    start = time.perf_counter()
    run(CASES[name], args.repeats)
    emit(case=name, nanoseconds=(time.perf_counter() - start) * 1e9 / args.repeats)
