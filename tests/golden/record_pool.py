"""Records pool.safetensors."""

import itertools

import torch
import torch.nn.functional as F

from recorder import Recorder


def distinct(*shape):
    """Values without ties, exact in float32."""
    n = torch.Size(shape).numel()
    return (torch.randperm(n).float() - n // 2).reshape(shape) / 16


def record(r, case, x, function):
    x = x.clone().requires_grad_()
    out = function(x)
    indices = None
    if isinstance(out, tuple):
        out, indices = out
    grad = (torch.randint(-8, 9, out.shape) / 4).to(out.dtype)
    out.backward(grad)
    r.add(case, out=out, grad=grad, dx=x.grad)
    if indices is not None:
        r.add(case, indices=indices)


with Recorder("pool") as r:
    x = distinct(1, 2, 7, 9)
    r.add("input", x=x)

    # kernel, stride, padding, dilation: tests/ops/pool_test.cpp has the same lists.
    windows = [
        ((2, 2), (2, 2), (0, 0), (1, 1)),
        ((3, 3), (2, 2), (1, 1), (1, 1)),
        ((3, 2), (1, 3), (1, 0), (2, 1)),
        ((2, 4), (3, 2), (1, 2), (1, 1)),
        ((5, 3), (4, 4), (2, 1), (1, 2)),
    ]
    for i, (k, s, p, d) in enumerate(windows):
        for ceil in (False, True):
            record(r, f"max{i}_{int(ceil)}", x,
                   lambda x: F.max_pool2d(x, k, s, p, d, ceil, return_indices=True))
    for i, (k, s, p, _) in enumerate(windows):
        for ceil, include in itertools.product((False, True), (False, True)):
            record(r, f"avg{i}_{int(ceil)}{int(include)}", x,
                   lambda x: F.avg_pool2d(x, k, s, p, ceil, include))
    record(r, "avg_override", x, lambda x: F.avg_pool2d(x, 3, 2, 1, True, True, 5))

    for size in [(1, 1), (3, 4), (7, 3), (9, 11)]:
        name = f"{size[0]}x{size[1]}"
        record(r, f"adaptive_avg_{name}", x, lambda x: F.adaptive_avg_pool2d(x, size))
        record(r, f"adaptive_max_{name}", x,
               lambda x: F.adaptive_max_pool2d(x, size, return_indices=True))

    # Ties, infinities and NaN.
    y = torch.tensor([[1, 1, 2, 0, -float("inf"), -float("inf")],
                      [1, 1, 2, 2, -float("inf"), -float("inf")],
                      [float("nan"), 3, 4, float("nan"), 5, float("inf")],
                      [1, float("nan"), 9, 9, float("inf"), 5]]).reshape(1, 1, 4, 6)
    r.add("special", x=y)
    record(r, "special_max", y, lambda x: F.max_pool2d(x, 2, return_indices=True))
    record(r, "special_max3", y, lambda x: F.max_pool2d(x, 3, 1, 1, return_indices=True))
