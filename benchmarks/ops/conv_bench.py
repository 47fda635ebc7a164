"""Times PyTorch on the layers of conv_bench.cpp, in the same form.

    python3 benchmarks/ops/conv_bench.py [--threads 1,2] [--only text] [--processor-time]
"""

import argparse
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--threads", default="1,2")
parser.add_argument("--only", default="")
parser.add_argument("--processor-time", action="store_true")
args = parser.parse_args()  # before torch, so that --help needs none

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

# Name, batch, channels in, size, channels out, kernel, stride, padding.
LAYERS = [
    ("lenet5.conv1", 256, 1, 28, 6, 5, 1, 2),
    ("lenet5.conv2", 256, 6, 14, 16, 5, 1, 0),
    ("d2l.conv1", 256, 1, 28, 20, 3, 1, 0),
    ("d2l.conv2", 256, 20, 13, 50, 5, 1, 0),
    ("resnet.conv1", 32, 1, 28, 64, 3, 1, 1),
    ("resnet.64", 32, 64, 28, 64, 3, 1, 1),
    ("resnet.64-128", 32, 64, 28, 128, 3, 2, 1),
    ("resnet.down", 32, 64, 28, 128, 1, 2, 0),
    ("resnet.128", 32, 128, 14, 128, 3, 1, 1),
    ("resnet.256", 32, 256, 7, 256, 3, 1, 1),
    ("resnet.512", 32, 512, 4, 512, 3, 1, 1),
    ("resnet.128-256", 32, 128, 14, 256, 3, 2, 1),
    ("resnet.256-512", 32, 256, 7, 512, 3, 2, 1),
    ("resnet.down256", 32, 128, 14, 256, 1, 2, 0),
    ("resnet.down512", 32, 256, 7, 512, 1, 2, 0),
    ("resnet.stem", 8, 3, 224, 64, 7, 2, 3),
    ("bottleneck.in", 8, 256, 56, 64, 1, 1, 0),
    ("bottleneck.out", 8, 64, 56, 256, 1, 1, 0),
]
FORMATS = [("nchw", torch.contiguous_format), ("nhwc", torch.channels_last)]


def median_seconds(call, clock, budget=0.25):
    """The median time of a call, over calls that together take about `budget` seconds."""
    call()
    times = []
    while len(times) < 5 or sum(times) < budget:
        start = clock()
        call()
        times.append(clock() - start)
    return sorted(times)[len(times) // 2]


def measure(layer, format_name, memory_format, threads, clock):
    name, n, c, size, o, k, stride, padding = layer
    torch.set_num_threads(threads)
    x = torch.randn(n, c, size, size).contiguous(memory_format=memory_format)
    w = torch.randn(o, c, k, k).contiguous(memory_format=memory_format)
    if c == 1 and memory_format == torch.channels_last:  # strides alone tell the two apart
        x = x.as_strided(x.shape, (size * size, 1, size, 1))
        w = w.as_strided(w.shape, (k * k, 1, k, 1))
    b = torch.randn(o)
    y = F.conv2d(x, w, b, stride, padding)
    grad = torch.randn_like(y)

    def backward(*mask):
        return lambda: torch.ops.aten.convolution_backward(
            grad, x, w, [o], [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1, list(mask))

    with torch.no_grad():
        seconds = [
            median_seconds(lambda: F.conv2d(x, w, b, stride, padding), clock),
            median_seconds(backward(True, False, False), clock) if c > 1 else 0,
            median_seconds(backward(False, True, True), clock),
        ]
    work = 2e-9 * y.numel() * c * k * k
    print(f"{name:<14} {format_name} {threads}",
          *[f" {s * 1e3:>8.3f} ms {work / s if s else 0:>6.1f}" for s in seconds], flush=True)


print(f"PyTorch {torch.__version__}")
print("layer          format threads  forward ms, GFLOP/s  data  weights")
for layer in LAYERS:
    if args.only in layer[0]:
        for threads in map(int, args.threads.split(",")):
            for format_name, memory_format in FORMATS:
                measure(layer, format_name, memory_format, threads,
                        time.process_time if args.processor_time else time.perf_counter)
