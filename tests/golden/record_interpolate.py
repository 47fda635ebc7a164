"""Records interpolate.safetensors and interpolate_modes.safetensors."""

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


# tests/ops/resize_modes_test.cpp has the same list: a mode, the size of the input, options. No factor
# keeps a size with antialiasing: PyTorch copies then, but its gradient is not that of a copy.
OTHERS = [
    ("nearest", (7,), dict(size=11)), ("nearest", (5,), dict(scale_factor=2.3)),
    ("nearest", (3, 2, 4), dict(size=(5, 4, 3))), ("nearest", (2, 3, 3), dict(scale_factor=2)),
    ("nearest-exact", (7,), dict(size=3)), ("nearest-exact", (5,), dict(scale_factor=1.7)),
    ("nearest-exact", (5, 6), dict(size=(8, 4))),
    ("nearest-exact", (4, 3), dict(scale_factor=(0.6, 2.4))),
    ("nearest-exact", (3, 2, 4), dict(scale_factor=(1.4, 2, 0.8))),
    ("linear", (7,), dict(size=12)), ("linear", (6,), dict(scale_factor=0.7)),
    ("linear", (5,), dict(size=9, align_corners=True)),
    ("trilinear", (3, 4, 2), dict(size=(5, 3, 4))), ("trilinear", (2, 3, 3), dict(scale_factor=2)),
    ("trilinear", (3, 2, 4), dict(size=(5, 4, 2), align_corners=True)),
    ("trilinear", (2, 3, 4), dict(size=(2, 5, 3))),
    ("bicubic", (5, 4), dict(size=(9, 7))), ("bicubic", (7, 6), dict(size=(3, 4))),
    ("bicubic", (4, 5), dict(size=(7, 5), align_corners=True)),
    ("bicubic", (6, 10), dict(scale_factor=(1.7, 1.05))),
    ("bicubic", (1, 2), dict(scale_factor=(3, 2.5), recompute_scale_factor=True)),
    ("area", (7,), dict(size=3)), ("area", (5, 6), dict(size=(7, 4))),
    ("area", (3, 5, 4), dict(scale_factor=(0.7, 1.3, 0.5))),
    ("bilinear", (9, 5), dict(size=(4, 7), antialias=True)),
    ("bilinear", (9, 8), dict(scale_factor=(0.4, 0.3), antialias=True)),
    ("bilinear", (6, 7), dict(size=(3, 4), align_corners=True, antialias=True)),
    ("bicubic", (12, 9), dict(size=(5, 4), antialias=True)),
    ("bicubic", (8, 10), dict(scale_factor=(0.45, 1.15), antialias=True)),
    ("bicubic", (7, 11), dict(size=(9, 3), align_corners=True, antialias=True)),
]
# A mode, whether it has antialiasing, and the size of the result, of bytes.
BYTES = [("nearest", False, (7, 9)), ("nearest-exact", False, (4, 11)), ("bilinear", False, (9, 4)),
         ("bicubic", False, (9, 13)), ("bilinear", True, (3, 4)), ("bicubic", True, (4, 9))]


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

with Recorder("interpolate_modes") as r:
    for i, (mode, shape, options) in enumerate(OTHERS):
        record(r, f"other{i}", shape, mode=mode, **options)
    for i, (mode, antialias, size) in enumerate(BYTES):
        x = torch.randint(0, 256, (1, 3, 6, 7), dtype=torch.uint8)
        r.add(f"bytes{i}", x=x, y=F.interpolate(x, size, mode=mode, antialias=antialias))
