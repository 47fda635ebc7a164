#!/usr/bin/env python3
"""The host's cost of operations on few elements: PyTorch's side of compare.py.

Every line on stdin names a case (add, add_recorded, add_backward, chain10_backward,
chain20_backward, cross_entropy, sgd_step, adam_step) and is answered by a line of JSON.
"""

import argparse
import json
import sys
import time

parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1 ...")
parser.add_argument("--repeats", type=int, default=20000, help="runs of the case per measurement")
args = parser.parse_args()  # before torch, so that --help needs none

import torch  # noqa: E402

device = torch.device(args.device)
x = torch.ones(1, device=device)
w = torch.ones(1, device=device, requires_grad=True)
parameters = [torch.ones(16, device=device, requires_grad=True) for _ in range(100)]
for p in parameters:
    p.grad = torch.ones(16, device=device)
sgd = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)
adam = torch.optim.Adam(parameters)
logits = torch.randn(4, 10, device=device, requires_grad=True)
target = torch.ones(4, dtype=torch.int64, device=device)
# Number of runs that a device's queue accepts without blocking the host; any number on the CPU.
RUN = {"add": 400, "add_recorded": 400, "add_backward": 100, "chain10_backward": 20,
       "chain20_backward": 10, "cross_entropy": 20, "sgd_step": 10,
       "adam_step": 10} if device.type == "cuda" else {}


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
    "cross_entropy": lambda: torch.nn.functional.cross_entropy(logits, target).backward(),
    "sgd_step": sgd.step,
    "adam_step": adam.step,
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
    count = (args.repeats + 49) // 50 if name.endswith("_step") else args.repeats
    run(name, (count + 9) // 10)
    emit(case=name, nanoseconds=run(name, count) * 1e9 / count)
