"""Convolutions in one and two dimensions, and transposed ones."""

import torch
import torch.nn.functional as F

from recorder import Recorder


def distinct(*shape):
    """Small multiples of 1/8: their products and sums are exact in float32."""
    return torch.randint(-8, 9, shape) / 8


def record(r, case, f, x, w, b, **options):
    leaves = [t.clone().requires_grad_() for t in (x, w, b)]
    y = f(*leaves, **options)
    grad = distinct(*y.shape)
    y.backward(grad)
    r.add(case, x=x, w=w, b=b, out=y, grad=grad, dx=leaves[0].grad, dw=leaves[1].grad,
          db=leaves[2].grad)


# Input, weight and options: tests/ops/conv_golden_test.cpp has the same lists.
CONV2D = [
    ((2, 3, 7, 6), (4, 3, 3, 3), {}),
    ((2, 3, 7, 6), (4, 3, 3, 2), dict(stride=(2, 1), padding=(1, 0))),
    ((1, 4, 8, 9), (6, 2, 3, 3), dict(groups=2, dilation=2, padding=2)),
    ((2, 6, 5, 5), (6, 1, 3, 3), dict(groups=6, padding=1)),
    ((3, 5, 4, 4), (2, 5, 1, 1), dict(stride=2)),
    ((1, 2, 6, 7), (3, 2, 4, 3), dict(padding="same")),
    ((1, 2, 9, 5), (3, 2, 2, 5), dict(dilation=(3, 1), padding=(0, 2), stride=(1, 2))),
]
TRANSPOSED = [
    ((2, 3, 4, 5), (3, 4, 3, 3), {}),
    ((2, 3, 4, 5), (3, 4, 3, 2), dict(stride=2, padding=1, output_padding=(1, 0))),
    ((1, 4, 3, 3), (4, 3, 3, 3), dict(groups=2, stride=(1, 3), dilation=(2, 1))),
]
CONV1D = [
    ((2, 3, 9), (4, 3, 3), {}),
    ((2, 4, 9), (4, 2, 3), dict(stride=2, padding=2, dilation=2, groups=2)),
]

with Recorder("conv") as r:
    for i, (x, w, options) in enumerate(CONV2D):
        record(r, f"conv2d{i}", F.conv2d, distinct(*x), distinct(*w), distinct(w[0]), **options)
    for i, (x, w, options) in enumerate(TRANSPOSED):
        channels = w[1] * options.get("groups", 1)
        record(r, f"transposed{i}", F.conv_transpose2d, distinct(*x), distinct(*w),
               distinct(channels), **options)
    for i, (x, w, options) in enumerate(CONV1D):
        record(r, f"conv1d{i}", F.conv1d, distinct(*x), distinct(*w), distinct(w[0]), **options)
