#!/usr/bin/env python3
"""Times scaled_dot_product_attention beside PyTorch 2 on the CPU: float32, 8 heads of 64, forward alone
and with backward. Both sides take turns.

    python3 benchmarks/attention/compare.py build/default/bin/bench_attention [--threads 1,2]
            [--lengths 128,256,512,1024,2048] [--rounds 7]

Prints medians over the rounds in milliseconds, of wall and of processor time, which suits a busy
machine, and the ratios of the two sides, PyTorch's over Ferrite's: above 1 Ferrite is faster.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from side_by_side import Worker


def serve():
    """PyTorch's side of main.cpp."""
    import os
    import torch
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    print(json.dumps({"name": f"PyTorch {torch.__version__}"}), flush=True)
    for line in sys.stdin:
        direction, length, causal = line.split()
        backward = direction == "backward"
        q, k, v = (torch.randn(1, 8, int(length), 64, requires_grad=backward) for _ in range(3))
        grad = torch.randn(1, 8, int(length), 64)

        def call():
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal == "1")
            if backward:
                out.backward(grad)
            for t in (q, k, v):
                t.grad = None

        call()
        wall, processor, begin = [], [], time.perf_counter()
        while len(wall) < 3 or time.perf_counter() - begin < 0.25:
            start, used = time.perf_counter(), time.process_time()
            call()
            wall.append(1e3 * (time.perf_counter() - start))
            processor.append(1e3 * (time.process_time() - used))
        print(json.dumps({"wall": statistics.median(wall), "processor": statistics.median(processor)}),
              flush=True)


def compare(options):
    for threads in map(int, options.threads.split(",")):
        sides = [Worker([sys.executable, __file__, "--serve"], threads),
                 Worker([options.program], threads)]
        print(f"{sides[0].info['name']} and Ferrite, {threads} threads: wall ms, ratio; processor ms, ratio")
        for causal in "01":
            for length in options.lengths.split(","):
                for direction in ("forward", "backward"):
                    found = [[], []]
                    for round in range(options.rounds):
                        for i in ((0, 1) if round % 2 else (1, 0)):
                            found[i].append(sides[i].measure(f"{direction} {length} {causal}"))
                    text = f"{'causal' if causal == '1' else '':6} {length:>5} {direction:8}"
                    for clock in ("wall", "processor"):
                        a, b = ([x[clock] for x in side] for side in found)
                        ratio = statistics.median(x / y for x, y in zip(a, b))
                        text += (f"  {statistics.median(a):8.2f} {statistics.median(b):8.2f}"
                                 f" {ratio:5.2f}")
                    print(text, flush=True)
        for side in sides:
            side.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
        parser.add_argument("program")
        parser.add_argument("--threads", default="1,2")
        parser.add_argument("--lengths", default="128,256,512,1024,2048")
        parser.add_argument("--rounds", type=int, default=7)
        compare(parser.parse_args())
