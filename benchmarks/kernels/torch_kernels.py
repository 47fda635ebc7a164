#!/usr/bin/env python3
"""The kernels of bench_kernels in PyTorch: PyTorch's side of compare.py.

Every line on stdin is a case as bench_kernels lists it, with the bytes that it measured, and is
answered by a line of JSON: seconds of one call, or why there are none.
"""

import argparse
import json
import math
import statistics
import sys
import time

parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("--device", default="cpu")
parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: PyTorch's choice")
parser.add_argument("--budget", type=float, default=0.2,
                    help="seconds for each measurement; 0: one call, to see that it runs")
parser.add_argument("--cold", type=float, default=256,
                    help="MiB of copies of the operands to cycle through; 0: always the same ones")
args = parser.parse_args()  # before torch, so that --help needs none

import torch  # noqa: E402

aten = torch.ops.aten
device = torch.device(args.device)
if args.threads:
    torch.set_num_threads(args.threads)
# As in Ferrite: float32 without TF32.
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True

TURN, TURNS, MAX_COPIES, MAX_CALLS = 5e-3, 5, 64, 2000
PARAMETERS = 62  # as kParameters in optimizers.cpp
OPS = {}


def op(f):
    """An op makes its operands from a case and returns the call."""
    OPS[f.__name__] = f
    return f


def values(case, shape=None, dtype=None):
    t = torch.rand(case["shape"] if shape is None else shape, device=device) * 0.9 + 0.05
    t = t.to(dtype or getattr(torch, case["dtype"]))
    return t.contiguous(memory_format=torch.channels_last) if case["channels_last"] and t.dim() == 4 \
        else t


def index(shape, limit):
    return torch.randint(limit, shape, device=device)


def unary(name, f):
    def make(case):
        x, out = values(case), values(case)
        return lambda: f(x, out)
    OPS[name] = make


def binary(name, f):
    def make(case):
        a, b, out = values(case), values(case), values(case)
        return lambda: f(a, b, out)
    OPS[name] = make


unary("device_copy", lambda x, out: out.copy_(x))
unary("copy", lambda x, out: out.copy_(x))
unary("fill", lambda x, out: out.fill_(1))
unary("mul_scalar", lambda x, out: torch.mul(x, 1.5, out=out))
unary("relu", lambda x, out: torch.clamp_min(x, 0, out=out))
unary("exp", lambda x, out: torch.exp(x, out=out))
unary("tanh", lambda x, out: torch.tanh(x, out=out))
unary("gelu", lambda x, out: aten.gelu.out(x, out=out))
unary("silu", lambda x, out: aten.silu.out(x, out=out))
unary("uniform", lambda x, out: out.uniform_())
unary("normal", lambda x, out: out.normal_())
unary("dropout", lambda x, out: torch.dropout(x, 0.5, True))
unary("sum", lambda x, out: torch.sum(x))
unary("norm", lambda x, out: torch.linalg.vector_norm(x))
unary("sum_of_rows", lambda x, out: torch.sum(x, 1))
unary("sum_of_narrow_rows", lambda x, out: torch.sum(x, 1))
unary("sum_of_columns", lambda x, out: torch.sum(x, 0))
unary("max_of_rows", lambda x, out: torch.amax(x, 1))
unary("argmax_of_rows", lambda x, out: torch.argmax(x, 1))
unary("cumsum_of_rows", lambda x, out: torch.cumsum(x, 1, out=out))
unary("sort_rows", lambda x, out: torch.sort(x, dim=1, stable=True))
unary("topk_of_rows", lambda x, out: torch.topk(x, 5, 1))
unary("log_softmax", lambda x, out: torch.log_softmax(x, 1))
unary("log_softmax_of_narrow_rows", lambda x, out: torch.log_softmax(x, 1))
binary("add", lambda a, b, out: torch.add(a, b, out=out))
binary("add_scaled", lambda a, b, out: torch.add(a, b, alpha=0.5, out=out))
binary("lt", lambda a, b, out: torch.lt(a, b))
binary("relu_backward", lambda a, b, out: aten.threshold_backward(a, b, 0))
binary("gelu_backward", lambda a, b, out: aten.gelu_backward(a, b))
binary("log_softmax_backward",
       lambda a, b, out: aten._log_softmax_backward_data(a, b, 1, a.dtype))


@op
def add_row(case):
    x, row, out = values(case), values(case, case["shape"][1:]), values(case)
    return lambda: torch.add(x, row, out=out)


@op
def where(case):
    a, b, mask = values(case), values(case), index(case["shape"], 2).bool()
    return lambda: torch.where(mask, a, b)


@op
def masked_fill(case):
    x, mask = values(case), index(case["shape"], 2).bool()
    return lambda: torch.masked_fill(x, mask, 0)


@op
def cast_to_float32(case):
    x, out = values(case), values(case, dtype=torch.float32)
    return lambda: out.copy_(x)


@op
def cast_from_float32(case):
    x, out = values(case, dtype=torch.float32), values(case)
    return lambda: out.copy_(x)


@op
def transpose(case):
    x, out = values(case), values(case, case["shape"][::-1])
    return lambda: out.copy_(x.t())


def between_formats(to):
    def make(case):
        x, y = values(case), values(case).contiguous(memory_format=torch.channels_last)
        return (lambda: y.copy_(x)) if to == torch.channels_last else (lambda: x.copy_(y))
    return make


OPS["nchw_to_nhwc"] = between_formats(torch.channels_last)
OPS["nhwc_to_nchw"] = between_formats(torch.contiguous_format)


@op
def cross_entropy(case):
    x, target = values(case), index(case["shape"][:1], case["shape"][1])
    return lambda: torch.nn.functional.cross_entropy(x, target)


@op
def cross_entropy_backward(case):
    x, target = values(case).requires_grad_(), index(case["shape"][:1], case["shape"][1])
    with torch.enable_grad():
        loss = torch.nn.functional.cross_entropy(x, target)
    return lambda: torch.autograd.grad(loss, x, retain_graph=True)


@op
def layer_norm(case):
    width = case["shape"][1:]
    x, w, b = values(case), values(case, width), values(case, width)
    return lambda: aten.native_layer_norm(x, width, w, b, 1e-5)


@op
def layer_norm_backward(case):
    width = case["shape"][1:]
    x, grad, w, b = values(case), values(case), values(case, width), values(case, width)
    _, mean, rstd = aten.native_layer_norm(x, width, w, b, 1e-5)
    return lambda: aten.native_layer_norm_backward(grad, x, width, mean, rstd, w, b, [True] * 3)


@op
def gather(case):
    x, out, i = values(case), values(case), index(case["shape"], case["shape"][1])
    return lambda: torch.gather(x, 1, i, out=out)


@op
def scatter_add(case):
    x, source, i = values(case), values(case), index(case["shape"], case["shape"][1])
    return lambda: x.scatter_add_(1, i, source)


@op
def index_select(case):
    x, out, i = values(case), values(case), index(case["shape"][:1], case["shape"][0])
    return lambda: torch.index_select(x, 0, i, out=out)


@op
def index_add(case):
    x, source, i = values(case), values(case), index(case["shape"][:1], case["shape"][0])
    return lambda: x.index_add_(0, i, source)


def parameters(case):
    each = max(math.prod(case["shape"]) // PARAMETERS, 1)
    made = [values(case, [each]).requires_grad_() for _ in range(PARAMETERS)]
    for p in made:
        p.grad = values(case, [each])
    return made


def optimizer(make):
    def ready(case):
        return make(parameters(case)).step
    return ready


def fastest(kind, **options):
    """The fused step, else the multi-tensor step, if this PyTorch has one."""
    def make(params):
        for more in ({"fused": True}, {"foreach": True}, {}):
            try:
                made = kind(params, **options, **more)
                made.step()
                return made
            except (TypeError, RuntimeError):
                continue
        raise RuntimeError("no step")
    return make


OPS["sgd_momentum"] = optimizer(fastest(torch.optim.SGD, lr=1e-3, momentum=0.9, weight_decay=5e-4))
OPS["adam"] = optimizer(fastest(torch.optim.Adam, lr=1e-3))


@op
def grad_norm(case):
    grads = [p.grad for p in parameters(case)]
    if hasattr(torch, "_foreach_norm"):
        return lambda: torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2)))
    return lambda: torch.linalg.vector_norm(
        torch.stack([torch.linalg.vector_norm(g) for g in grads]))


@op
def scale_all(case):
    tensors = [p.detach() for p in parameters(case)]
    return lambda: torch._foreach_mul_(tensors, 0.999)


@op
def linear(case):
    m, k = case["shape"]
    x, w = values(case), values(case, [case["outputs"], k])
    out = values(case, [m, case["outputs"]])
    return lambda: torch.mm(x, w.t(), out=out)


def convolution(case):
    n, c, h, w = case["shape"]
    k, o = case["kernel"], case["outputs"]
    x, weight = values(case), values(case, [o, c, k, k])
    s, p = [case["stride"]] * 2, [case["padding"]] * 2
    forward = lambda: torch.conv2d(x, weight, None, s, p)  # noqa: E731
    grad = torch.rand_like(forward())

    def backward(mask):
        return aten.convolution_backward(grad, x, weight, None, s, p, [1, 1], False, [0, 0], 1,
                                         mask)
    return forward, backward


OPS["conv2d"] = lambda case: convolution(case)[0]


@op
def conv2d_data(case):
    _, backward = convolution(case)
    return lambda: backward([True, False, False])


@op
def conv2d_weight(case):
    _, backward = convolution(case)
    return lambda: backward([False, True, False])


def normalisation(case):
    c = case["shape"][1]
    wide = torch.float64 if case["dtype"] == "float64" else torch.float32
    x, w, b, mean, var = values(case), *(values(case, [c], wide) for _ in range(4))
    # cuDNN's, if PyTorch would use it.
    call = torch.batch_norm
    enabled = torch.backends.cudnn.enabled
    return x, w, lambda: call(x, w, b, mean, var, True, 0.1, 1e-5, enabled)


OPS["batch_norm"] = lambda case: normalisation(case)[2]


@op
def batch_norm_backward(case):
    x, w, _ = normalisation(case)
    x.requires_grad_(), w.requires_grad_()
    with torch.enable_grad():
        y = torch.batch_norm(x, w, w, None, None, True, 0.1, 1e-5, torch.backends.cudnn.enabled)
    grad = torch.rand_like(y)
    return lambda: torch.autograd.grad(y, [x, w], grad, retain_graph=True)


def windows(case):
    return [case["kernel"]] * 2, [case["stride"]] * 2, [case["padding"]] * 2


@op
def max_pool2d(case):
    x = values(case)
    return lambda: aten.max_pool2d_with_indices(x, *windows(case))


@op
def max_pool2d_backward(case):
    x = values(case)
    y, indices = aten.max_pool2d_with_indices(x, *windows(case))
    return lambda: aten.max_pool2d_with_indices_backward(y, x, *windows(case), [1, 1], False,
                                                         indices)


@op
def avg_pool2d(case):
    x = values(case)
    return lambda: aten.avg_pool2d(x, *windows(case))


@op
def avg_pool2d_backward(case):
    x = values(case)
    y = aten.avg_pool2d(x, *windows(case))
    return lambda: aten.avg_pool2d_backward(y, x, *windows(case), False, True, None)


class Timer:
    """Calls cycle through the copies of their operands; on a GPU they are timed by events."""

    def __init__(self, calls):
        self.calls, self.next = calls, 0

    def turn(self, count):
        cuda = device.type == "cuda"
        if cuda:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
        start = time.perf_counter()
        for _ in range(count):
            self.calls[self.next % len(self.calls)]()
            self.next += 1
        if cuda:
            end.record()
            end.synchronize()
            return begin.elapsed_time(end) * 1e-3 / count
        return (time.perf_counter() - start) / count


def measure(case):
    make = OPS[case["op"]]
    copies = math.ceil(args.cold * 2**20 / max(case["bytes"], 1))
    timer = Timer([make(case) for _ in range(min(max(copies, 1), MAX_COPIES))])
    once = timer.turn(1)
    if args.budget <= 0:
        return once
    once = min(once, timer.turn(1))
    count = int(min(max(TURN / max(once, 1e-9), 1), MAX_CALLS))
    timer.turn(count)
    times = []
    while len(times) < TURNS or sum(times) * count < args.budget:
        times.append(timer.turn(count))
    return statistics.median(times)


def emit(**answer):
    print(json.dumps(answer), flush=True)


torch.set_grad_enabled(False)
emit(ready=True, framework="PyTorch", version=torch.__version__, python=sys.version.split()[0],
     device=str(device), threads=torch.get_num_threads(),
     device_name=torch.cuda.get_device_name(device) if device.type == "cuda" else None)
for line in sys.stdin:
    case = json.loads(line)
    try:
        emit(seconds=measure(case))
    except (KeyError, RuntimeError, TypeError, AttributeError, NotImplementedError) as error:
        emit(error=f"{type(error).__name__}: {error}".split("\n")[0])
