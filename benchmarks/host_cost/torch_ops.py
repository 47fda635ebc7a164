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
parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1 ...")
parser.add_argument("--repeats", type=int, default=20000, help="runs of the case a measurement")
args = parser.parse_args()  # before torch, so that --help needs none

import torch  # noqa: E402

device = torch.device(args.device)
x = torch.ones(1, device=device)
w = torch.ones(1, device=device, requires_grad=True)
# Runs of a case that a device's queue takes without holding up the host; any number on the CPU.
RUN = {"add": 400, "add_recorded": 400, "add_backward": 100, "chain10_backward": 20,
       "chain20_backward": 10} if device.type == "cuda" else {}


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
    """Seconds in which `case` was called `repeats` times."""
    call, total = CASES[case], 0.0
    while repeats > 0:
        count = min(repeats, RUN.get(case, repeats))
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        for _ in range(count):
            call()
        total += time.perf_counter() - start
        repeats -= count
    return total


def emit(**values):
    print(json.dumps(values), flush=True)


torch.set_num_threads(1)
info = {"device": torch.cuda.get_device_name(device)} if device.type == "cuda" else {}
emit(ready=True, framework="PyTorch", version=torch.__version__, python=sys.version.split()[0],
     **info)
for line in sys.stdin:
    name = line.strip()
    if name not in CASES:
        sys.exit(f"no case '{name}'")
    run(name, args.repeats // 10)
    emit(case=name, nanoseconds=run(name, args.repeats) * 1e9 / args.repeats)
