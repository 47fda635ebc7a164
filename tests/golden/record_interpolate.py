"""Records interpolate.safetensors."""

import torch
import torch.nn.functional as F

from recorder import Recorder

# tests/ops/resize_test.cpp has the same lists: (height, width) of the input, then one of size and
# scale_factor.
SIZES = [((5, 4), (10, 8)), ((5, 4), (3, 9)), ((7, 4), (21, 12)), ((6, 5), (6, 2)),
         ((1, 3), (4, 1)), ((8, 9), (1, 1)), ((6, 7), (13, 7))]
# PyTorch's nearest uses or ignores the factor, depending on layout, if the size stays the same or
# doubles: no factor here gives such a size, except exactly 1 and 2.
FACTORS = [((5, 4), (2, 2)), ((5, 4), (1.7, 0.6)), ((3, 3), (2.4, 1)), ((9, 5), (0.5, 3)),
           ((10, 8), (1.15, 1.3)), ((7, 6), (0.34, 0.2))]
MODES = {
    "nearest": dict(mode="nearest"),
    "bilinear": dict(mode="bilinear", align_corners=False),
    "corners": dict(mode="bilinear", align_corners=True),
    "recomputed": dict(mode="bilinear", recompute_scale_factor=True),
    "nearest_recomputed": dict(mode="nearest", recompute_scale_factor=True),
}


def record(r, case, shape, **options):
    x = torch.randn(1, 2, *shape, dtype=torch.float64, requires_grad=True)
    y = F.interpolate(x, **options)
    grad = torch.randn_like(y)
    y.backward(grad)
    r.add(case, x=x, y=y, grad=grad, dx=x.grad)


with Recorder("interpolate") as r:
    record(r, "bilinear_same", (10, 4), scale_factor=(1.05, 1.2), **MODES["bilinear"])
    for mode, options in MODES.items():
        for i, (shape, factor) in enumerate(FACTORS):
            record(r, f"{mode}_factor{i}", shape, scale_factor=factor, **options)
        if "recomputed" in mode:
            continue
        for i, (shape, size) in enumerate(SIZES):
            record(r, f"{mode}_size{i}", shape, size=size, **options)
