"""Cases of products, convolutions, pooling, normalisation, resampling and losses, and PyTorch's
results of them."""

import math

import torch
import torch.nn.functional as F

from structured import indices
from tensors import FLOATS, Input, broadcast_shape, make_input, shape_of, values

SUM = 32  # units in the last place of the largest number that was summed
NORM = 1024  # which divides by deviations down to sqrt(eps)
TYPES = FLOATS * 3


def pair(rng, low, high):
    return [rng.randint(low, high), rng.randint(low, high)]


def maybe_none(rng):
    return 0 if rng.random() < 0.05 else rng.randint(1, 4)


def products(shapes):
    def make(rng):
        dtype = rng.choice(TYPES + ["int64", "int32"])
        return [make_input(rng, s, dtype) for s in shapes(rng)], {}
    return make


def matmul_shapes(rng):
    n, k, m = maybe_none(rng), maybe_none(rng), rng.choice([1, 3, 17])
    batch = [rng.randint(1, 3) for _ in range(rng.randint(0, 2))]
    a, b = rng.choice([([n, k], [k, m]), ([k], [k]), ([k], [k, m]), ([n, k], [k]),
                       (batch + [n, k], [k, m]), (batch + [n, k], broadcast_shape(rng, batch) + [k, m])])
    return a, b


def sizes(rng, *letters):
    known = {letter: maybe_none(rng) for letter in "bnkm"}
    return [[known[c] for c in word] for word in letters]


def addmm_case(rng):
    n, k, m = rng.randint(1, 5), maybe_none(rng), rng.randint(1, 5)
    dtype = rng.choice(FLOATS)
    return [make_input(rng, broadcast_shape(rng, [n, m]), dtype), make_input(rng, [n, k], dtype),
            make_input(rng, [k, m], dtype)], {"beta": rng.choice([1, 0.5, 2]),
                                              "alpha": rng.choice([1, -1, 0.5])}


def linear_case(rng):
    k, m = maybe_none(rng), rng.randint(1, 5)
    dtype = rng.choice(FLOATS)
    ins = [make_input(rng, shape_of(rng, 0, 2) + [k], dtype), make_input(rng, [m, k], dtype)]
    return ins + ([make_input(rng, [m], dtype)] if rng.random() < 0.6 else []), {}


def conv_case(spatial, transposed=False):
    def make(rng):
        groups = rng.choice([1, 1, 1, 2])
        c, o = groups * rng.randint(1, 3), groups * rng.randint(1, 3)
        dtype = rng.choice(TYPES)
        kernel = [rng.randint(1, 3) for _ in range(spatial)]
        image = [rng.randint(3, 8) for _ in range(spatial)]
        batch = 0 if rng.random() < 0.05 else rng.randint(1, 3)
        weight = [c, o // groups] if transposed else [o, c // groups]
        ins = [make_input(rng, [batch, c] + image, dtype), make_input(rng, weight + kernel, dtype)]
        if rng.random() < 0.6:
            ins.append(make_input(rng, [o], dtype))
        strides = pair(rng, 1, 2)
        args = {"stride": strides, "padding": pair(rng, 0, 2), "dilation": pair(rng, 1, 2),
                "groups": groups, "output_padding": [rng.randint(0, s - 1) for s in strides]}
        if spatial == 1:
            args |= {name: args[name][0] for name in ["stride", "padding", "dilation"]}
        return ins, args
    return make


def pool_case(rng):
    kernel = pair(rng, 1, 4)
    shape = [rng.randint(0 if rng.random() < 0.1 else 1, 2), rng.randint(1, 3)] + pair(rng, 1, 8)
    return [make_input(rng, shape if rng.random() < 0.8 else shape[1:], rng.choice(FLOATS))], {
        "kernel": kernel, "stride": pair(rng, 1, 3), "padding": [rng.randint(0, k // 2) for k in kernel],
        "dilation": pair(rng, 1, 2) if rng.random() < 0.3 else [1, 1],
        "ceil": rng.random() < 0.5, "include_pad": rng.random() < 0.5,
        "divisor": rng.choice([None, None, 3])}


def max_pool2d(x, a):
    """PyTorch's; of windows in the padding alone it gives a position outside of the input, and its
    gradient is written there, which may end the process: here that is -1, and there is none."""
    values, at = F.max_pool2d(x, a["kernel"], a["stride"], a["padding"], a["dilation"], a["ceil"],
                              return_indices=True)
    if all(-p % d < size for size, p, d in zip(x.shape[-2:], a["padding"], a["dilation"])):
        return values, at
    nothing = x.flatten(-2)[..., :0].sum(-1)[..., None, None]
    return values.detach() + nothing, torch.full_like(at, -1)


def adaptive_case(rng):
    shape = [rng.randint(1, 2), rng.randint(1, 3)] + pair(rng, 1, 8)
    return [make_input(rng, shape, rng.choice(FLOATS))], {"size": pair(rng, 1, 5)}


def interpolate_case(rng):
    dims = rng.choice([1, 2, 2, 2, 3])
    linear = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}[dims]
    mode = rng.choice(["nearest", "nearest-exact", "area"] + 2 * linear)
    antialias = dims == 2 and mode in linear and rng.random() < 0.4
    image = [rng.randint(1, 7) for _ in range(dims)]
    shape = [rng.randint(0 if rng.random() < 0.1 else 1, 2), rng.randint(1, 3)] + image
    # PyTorch has no antialiasing of float16 on the CPU, and its nearest uses or ignores a factor
    # that keeps or doubles a size, as its antialiasing does in forward and backward. Its antialiased
    # results of one column repeat the first row, in one of its layouts.
    dtype = rng.choice(["float32", "float64"] if antialias else FLOATS)
    least = 2 if antialias else 1
    size, factor = [rng.randint(least, 9) for _ in image], None
    if rng.random() < 0.4:
        factors = [round(rng.uniform(1 / s, 3), 2) + 0.01 for s in image]
        made = [math.floor(s * f) for s, f in zip(image, factors)]
        if all(m != s and m != 2 * s and m >= least for m, s in zip(made, image)):
            size, factor = None, factors
    return [make_input(rng, shape, dtype)], {
        "size": size, "factor": factor, "mode": mode, "antialias": antialias,
        "recompute": factor is not None and rng.random() < 0.3,
        "align_corners": rng.choice([True, False]) if mode in linear else None}


def affine(rng, channels, dtype):
    if rng.random() < 0.3:
        return []
    return [make_input(rng, [channels], dtype, "plain", plain=True) for _ in range(2)]


def wide(dtype):
    return "float64" if dtype == "float64" else "float32"


def batch_norm_case(rng):
    c, dtype = rng.randint(1, 4), rng.choice(FLOATS)
    shape = [rng.randint(2, 4), c] + rng.choice([[], [5], [3, 4]])
    statistics = [Input(values(rng, [c], wide(dtype), "plain")),
                  Input(values(rng, [c], wide(dtype), "positive"))]
    return [make_input(rng, shape, dtype), *statistics, *affine(rng, c, wide(dtype))], {
        "training": rng.random() < 0.6, "momentum": rng.choice([0.1, 0.5]), "eps": 1e-5}


def layer_norm_case(rng):
    shape, dtype = [rng.randint(1, 5) for _ in range(rng.randint(1, 3))], rng.choice(FLOATS)
    normalized = shape[rng.randrange(len(shape)):]
    ins = [make_input(rng, shape, dtype)]
    if rng.random() < 0.7:
        ins += [make_input(rng, normalized, dtype, "plain", plain=True) for _ in range(2)]
    return ins, {"shape": normalized, "eps": 1e-5}


def group_norm_case(rng):
    groups, dtype = rng.randint(1, 3), rng.choice(FLOATS)
    c = groups * rng.randint(1, 3)
    shape = [rng.randint(1, 3), c] + rng.choice([[5], [3, 4]])
    return [make_input(rng, shape, dtype), *affine(rng, c, dtype)], {"groups": groups, "eps": 1e-5}


def loss_case(fill="any", target="any", mixed=True, **choices):
    def make(rng):
        shape, dtype = shape_of(rng, 0, 3), rng.choice(TYPES)
        other = rng.choice(FLOATS) if mixed and rng.random() < 0.2 else dtype
        args = {"reduction": rng.choice(["none", "mean", "sum"])}
        args |= {name: rng.choice(v) for name, v in choices.items()}
        return [make_input(rng, shape, dtype, fill), make_input(rng, shape, other, target)], args
    return make


def classes_case(log_probabilities):
    def make(rng):
        c, dtype = rng.randint(1, 6), rng.choice(TYPES)
        rest = rng.choice([[], [3], [2, 3]])
        batch = [rng.randint(1, 5)]
        target = indices(rng, batch + rest, c)
        return [make_input(rng, batch + [c] + rest, dtype, expands=False), target], {
            "reduction": rng.choice(["none", "mean", "sum"]),
            "ignore_index": rng.choice([-100, -100, 0]),
            "smoothing": rng.choice([0, 0, 0.1])}
    return make


def conv_arguments(a):
    return {name: a[name] for name in ["stride", "padding", "dilation", "groups"]}


def optional(x, i):
    return x[i] if i < len(x) else None


def batch_norm(x, a):
    mean, var = x[1].clone(), x[2].clone()
    out = F.batch_norm(x[0], mean, var, optional(x, 3), optional(x, 4), a["training"],
                       a["momentum"], a["eps"])
    return out, mean, var


def table():
    """name: (make, reference, units in the last place)."""
    t = {}
    t["matmul"] = (products(matmul_shapes), lambda x, a: torch.matmul(*x), SUM)
    for name, letters in {"mm": ("nk", "km"), "bmm": ("bnk", "bkm"), "mv": ("nk", "k"),
                          "dot": ("n", "n"), "outer": ("n", "m")}.items():
        t[name] = (products(lambda rng, letters=letters: sizes(rng, *letters)),
                   lambda x, a, f=getattr(torch, name): f(*x), SUM)
    t["addmm"] = (addmm_case, lambda x, a: torch.addmm(*x, beta=a["beta"], alpha=a["alpha"]), SUM)
    t["linear"] = (linear_case, lambda x, a: F.linear(*x), SUM)
    t["conv2d"] = (conv_case(2), lambda x, a: F.conv2d(*x, **conv_arguments(a)), SUM)
    t["conv1d"] = (conv_case(1), lambda x, a: F.conv1d(*x, **conv_arguments(a)), SUM)
    t["conv_transpose2d"] = (conv_case(2, True), lambda x, a: F.conv_transpose2d(
        *x, output_padding=a["output_padding"], **conv_arguments(a)), SUM)
    t["max_pool2d"] = (pool_case, lambda x, a: max_pool2d(x[0], a), SUM)
    t["avg_pool2d"] = (pool_case, lambda x, a: F.avg_pool2d(
        x[0], a["kernel"], a["stride"], a["padding"], a["ceil"], a["include_pad"], a["divisor"]), SUM)
    t["adaptive_avg_pool2d"] = (adaptive_case,
                                lambda x, a: F.adaptive_avg_pool2d(x[0], a["size"]), SUM)
    t["adaptive_max_pool2d"] = (adaptive_case, lambda x, a: F.adaptive_max_pool2d(
        x[0], a["size"], return_indices=True), SUM)
    t["interpolate"] = (interpolate_case, lambda x, a: F.interpolate(
        x[0], a["size"], a["factor"], a["mode"], a["align_corners"], a["recompute"] or None,
        a["antialias"]), SUM)
    t["batch_norm"] = (batch_norm_case, batch_norm, NORM)
    t["layer_norm"] = (layer_norm_case, lambda x, a: F.layer_norm(
        x[0], a["shape"], optional(x, 1), optional(x, 2), a["eps"]), NORM)
    t["group_norm"] = (group_norm_case, lambda x, a: F.group_norm(
        x[0], a["groups"], optional(x, 1), optional(x, 2), a["eps"]), NORM)

    r = lambda a: {"reduction": a["reduction"]}
    t["mse_loss"] = (loss_case(), lambda x, a: F.mse_loss(*x, **r(a)), SUM)
    t["l1_loss"] = (loss_case(), lambda x, a: F.l1_loss(*x, **r(a)), SUM)
    t["smooth_l1_loss"] = (loss_case(beta=[1, 0.5, 0, 2]),
                           lambda x, a: F.smooth_l1_loss(*x, beta=a["beta"], **r(a)), SUM)
    t["huber_loss"] = (loss_case(delta=[1, 0.5, 2]),
                       lambda x, a: F.huber_loss(*x, delta=a["delta"], **r(a)), SUM)
    t["bce_with_logits"] = (loss_case(target="unit", mixed=False), lambda x, a:
                            F.binary_cross_entropy_with_logits(*x, **r(a)), SUM)
    t["bce"] = (loss_case("unit", "unit", False),
                lambda x, a: F.binary_cross_entropy(*x, **r(a)), SUM)
    t["kl_div"] = (loss_case(target="unit", mixed=False, log_target=[True, False],
                             reduction=["none", "mean", "sum", "batchmean"]), lambda x, a:
                   F.kl_div(*x, log_target=a["log_target"], **r(a)), SUM)
    t["cross_entropy"] = (classes_case(False), lambda x, a: F.cross_entropy(
        *x, ignore_index=a["ignore_index"], label_smoothing=a["smoothing"], **r(a)), SUM)
    t["nll_loss"] = (classes_case(True), lambda x, a: F.nll_loss(
        *x, ignore_index=a["ignore_index"], **r(a)), SUM)
    return t
