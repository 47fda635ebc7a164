"""Random tensors: what a case's inputs hold and how they lie in memory."""

import math

import torch

DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float64": torch.float64,
    "int64": torch.int64,
    "int32": torch.int32,
    "int16": torch.int16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
    "complex64": torch.complex64,
    "complex128": torch.complex128,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
FLOATS = ["float32", "float16", "bfloat16", "float64"]
INTEGERS = ["int64", "int32", "int16", "int8", "uint8"]
NUMBERS = FLOATS + INTEGERS
ALL = NUMBERS + ["bool"]
SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 65504.0, 1e5, 3e38, -3e38, 1e-8,
           1e-40, 0.5]


def parts(t):
    """Complex numbers as pairs of real ones, in a last dimension."""
    return torch.view_as_real(t) if t.is_complex() else t


class Input:
    """A leaf, and the views that turn it into what the op gets."""

    def __init__(self, base, views=(), grad=False):
        self.base, self.views, self.grad = base, list(views), grad

    def leaf(self, dtype=None):
        base = self.base.clone()
        if dtype and base.is_floating_point():
            base = base.to(dtype)
        if dtype and base.is_complex():
            base = base.to(dtype.to_complex())
        return base.requires_grad_(self.grad)


def apply_view(t, view):
    kind, *args = view
    if kind == "transpose":
        return t.transpose(*args)
    if kind == "slice":
        dim, start, end, step = args
        return t[(slice(None),) * dim + (slice(start, end, step),)]
    if kind == "expand":
        return t.expand(args[0])
    return t.contiguous(memory_format=torch.channels_last)


def dims_of(rng, least=0, most=4):
    return rng.randint(least, most)


def size_of(rng):
    """Small, sometimes longer than a vector or a block of threads, rarely 0."""
    r = rng.random()
    return 0 if r < 0.03 else rng.randint(1, 5) if r < 0.9 else rng.choice([8, 17, 33])


def shape_of(rng, least=0, most=4, sizes=size_of):
    shape = [sizes(rng) for _ in range(dims_of(rng, least, most))]
    if rng.random() < 0.04 and shape:
        shape[-1] = rng.choice([257, 1031])
    while math.prod(shape) > 6000:
        shape[shape.index(max(shape))] = 2
    return shape


def values(rng, shape, dtype, fill="any"):
    """Numbers; of "any", one tensor in six has NaN, infinities and ends of ranges in it."""
    g = torch.Generator().manual_seed(rng.getrandbits(40))
    n = math.prod(shape)
    if dtype == "bool":
        t = torch.rand(n, generator=g) < 0.5
    elif dtype in INTEGERS:
        low, high = (0, 9) if dtype == "uint8" else (-5, 6)
        t = torch.randint(1 if fill == "positive" else low, high, (n,), generator=g)
        if fill == "any" and n and rng.random() < 0.15:
            t[torch.rand(n, generator=g) < 0.2] = rng.choice(
                {"uint8": [255, 200], "int8": [127, -128, 100], "int16": [2**15 - 1, -2**15, 300]}.get(
                    dtype, [2**31 - 1, -2**31, 100000]))
    else:
        t = torch.randn(n, generator=g, dtype=torch.float64)
        if fill == "any" and n and rng.random() < 0.3:  # ties, and bounds that are met
            t = (t * 2).round() / 2
        if fill == "positive":
            t = t.abs() + 0.1
        if fill == "unit":
            t = torch.rand(n, generator=g, dtype=torch.float64)
            if n and rng.random() < 0.15:
                t[torch.rand(n, generator=g) < 0.2] = rng.choice([0.0, 1.0])
        if fill == "any" and n and rng.random() < 0.17:
            where = torch.rand(n, generator=g) < rng.choice([0.05, 0.3, 1.0])
            chosen = torch.tensor([rng.choice(SPECIAL) for _ in range(n)], dtype=torch.float64)
            t = torch.where(where, chosen, t)
    return t.to(DTYPES[dtype]).reshape(shape)


def make_input(rng, shape, dtype, fill="any", grad=None, expands=True, plain=False):
    """A tensor of that shape, laid out in one of several ways."""
    shape = list(shape)
    kinds = ["contiguous"] * 3
    if not plain:
        kinds += ["sliced", "offset"] * (len(shape) > 0) + ["transposed"] * (len(shape) > 1)
        kinds += ["channels_last"] * (2 * (len(shape) == 4))
        kinds += ["expanded"] * (expands and any(s > 1 for s in shape))
    kind, base, views = rng.choice(kinds), list(shape), []
    if kind == "sliced":
        d, step = rng.randrange(len(shape)), rng.randint(2, 3)
        base[d] = shape[d] * step + 1
        views.append(["slice", d, 1, 1 + shape[d] * step, step])
    elif kind == "offset":
        base[0] += 1
        views.append(["slice", 0, 1, 1 + shape[0], 1])
    elif kind == "transposed":
        a, b = rng.sample(range(len(shape)), 2)
        base[a], base[b] = base[b], base[a]
        views.append(["transpose", a, b])
    elif kind == "channels_last":
        views.append(["channels_last"])
    elif kind == "expanded":
        base[rng.choice([i for i, s in enumerate(shape) if s > 1])] = 1
        views.append(["expand", shape])
    if grad is None:
        grad = dtype in FLOATS and rng.random() < 0.8
    return Input(values(rng, base, dtype, fill), views, grad and dtype in FLOATS)


def broadcast_shape(rng, shape):
    """A shape that broadcasts to `shape`."""
    out = [1 if rng.random() < 0.2 else s for s in shape]
    return out[rng.randint(0, len(out)):] if rng.random() < 0.3 else out
