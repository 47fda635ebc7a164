"""Cases of convolutions and poolings of one to three dimensions, sampling, norms, attention and bags
of embeddings, and PyTorch's results of them."""

import math

import torch
import torch.nn.functional as F

from layers import NORM, SUM, TYPES, affine, conv_arguments, optional, wide
from structured import indices
from tensors import FLOATS, Input, make_input, shape_of, values


def sizes(rng, n, low, high):
    return [rng.randint(low, high) for _ in range(n)]


def conv_case(n, transposed=False, same=False):
    def make(rng):
        groups, dtype = rng.choice([1, 1, 1, 2]), rng.choice(TYPES)
        c, o = groups * rng.randint(1, 3), groups * rng.randint(1, 3)
        batch = [] if rng.random() < 0.15 else [0 if rng.random() < 0.05 else rng.randint(1, 2)]
        kernel, image = sizes(rng, n, 1, 4 if same else 3), sizes(rng, n, 3, 7 if n < 3 else 5)
        weight = [c, o // groups] if transposed else [o, c // groups]
        ins = [make_input(rng, batch + [c] + image, dtype), make_input(rng, weight + kernel, dtype)]
        if rng.random() < 0.6:
            ins.append(make_input(rng, [o], dtype))
        strides = [1] * n if same else sizes(rng, n, 1, 2)
        return ins, {"stride": strides, "padding": sizes(rng, n, 0, 2), "groups": groups,
                     "dilation": sizes(rng, n, 1, 2), "same": same,
                     "output_padding": [rng.randint(0, s - 1) for s in strides]}
    return make


def same(a):
    return conv_arguments(a) | ({"padding": "same"} if a["same"] else {})


def image_case(rng, n, most):
    dtypes = FLOATS + ["float32", "float64"] * (4 if n == 3 else 0)  # PyTorch's: often of 32 bits
    shape = [rng.randint(0 if rng.random() < 0.1 else 1, 2), rng.randint(1, 3)] + sizes(rng, n, 1, most)
    return make_input(rng, shape if rng.random() < 0.8 else shape[1:], rng.choice(dtypes))


def pool_case(n, most=8):
    def make(rng):
        kernel = sizes(rng, n, 1, 3)
        return [image_case(rng, n, most)], {
            "kernel": kernel, "stride": sizes(rng, n, 1, 3),
            "padding": [rng.randint(0, k // 2) for k in kernel],
            "dilation": sizes(rng, n, 1, 2) if rng.random() < 0.3 else [1] * n,
            "ceil": rng.random() < 0.5, "include_pad": rng.random() < 0.5,
            "divisor": rng.choice([None, None, 3]) if n > 1 else None}
    return make


def max_pool(n):
    """PyTorch's, but for windows in the padding alone, as in layers.py."""
    f = getattr(F, f"max_pool{n}d")

    def pool(x, a):
        out, at = f(x[0], a["kernel"], a["stride"], a["padding"], a["dilation"], a["ceil"],
                    return_indices=True)
        if all(-p % d < s for s, p, d in zip(x[0].shape[-n:], a["padding"], a["dilation"])):
            return out, at
        nothing = x[0].flatten(-n)[..., :0].sum(-1).reshape(out.shape[:-n] + (1,) * n)
        return out.detach() + nothing, torch.full_like(at, -1)
    return pool


def avg_pool(n):
    f = getattr(F, f"avg_pool{n}d")
    return lambda x, a: f(x[0], a["kernel"], a["stride"], a["padding"], a["ceil"], a["include_pad"],
                          *([a["divisor"]] if n > 1 else []))


def adaptive_case(n):
    return lambda rng: ([image_case(rng, n, 7)], {"size": sizes(rng, n, 1, 5)})


def lp_case(n):
    def make(rng):
        ins, args = pool_case(n)(rng)
        return ins, args | {"p": rng.choice([1, 2, 2, 3, 0.5])}
    return make


def unpool_case(n):
    def make(rng):
        dtype, kernel = rng.choice(FLOATS), sizes(rng, n, 1, 3)
        stride = [rng.randint(1, k) for k in kernel]
        padding = [rng.randint(0, k // 2) for k in kernel]
        lead, image = sizes(rng, rng.choice([1, 2]), 1, 2), sizes(rng, n, 1, 4)
        out = [(i - 1) * s - 2 * p + k for i, s, p, k in zip(image, stride, padding, kernel)]
        g = torch.Generator().manual_seed(rng.getrandbits(40))
        places, count = max(math.prod(max(o, 0) for o in out), 1), math.prod(image)
        if places >= count:  # no two elements for one place
            at = torch.rand(lead + [places], generator=g).argsort(-1)[..., :count]
        else:
            at = torch.zeros(lead + [count], dtype=torch.int64)
        return [make_input(rng, lead + image, dtype), Input(at.reshape(lead + image))], {
            "kernel": kernel, "stride": stride, "padding": padding}
    return make


def unpool(n):
    f = getattr(F, f"max_unpool{n}d")
    return lambda x, a: f(x[0], x[1], a["kernel"], a["stride"], a["padding"])


def grid_case(rng):
    dtype, batch = rng.choice(TYPES), rng.randint(0 if rng.random() < 0.1 else 1, 2)
    padding, n = rng.choice(["zeros", "border", "reflection"]), rng.choice([2, 2, 3])
    mode = rng.choice(["bilinear", "nearest"] + ["bicubic"] * (n == 2))
    # Infinite points, reflected or at a border, end PyTorch's process.
    grid = make_input(rng, [batch] + sizes(rng, n, 1, 4) + [n], dtype,
                      "any" if padding == "zeros" and mode != "bicubic" else "plain")
    return [make_input(rng, [batch, rng.randint(1, 3)] + sizes(rng, n, 1, 5), dtype), grid], {
        "mode": mode, "padding": padding, "align_corners": rng.random() < 0.5}


def affine_grid_case(rng):
    batch, n = rng.randint(1, 3), rng.choice([2, 3])
    return [make_input(rng, [batch, n, n + 1], rng.choice(FLOATS))], {
        "size": [batch, 2] + sizes(rng, n, 1, 5), "align_corners": rng.random() < 0.5}


def rms_norm_case(rng):
    shape, dtype = sizes(rng, rng.randint(1, 3), 1, 6), rng.choice(FLOATS)
    normalized = shape[rng.randrange(len(shape)):]
    ins = [make_input(rng, shape, dtype)]
    if rng.random() < 0.7:
        ins.append(make_input(rng, normalized, dtype, "plain", plain=True))
    return ins, {"shape": normalized, "eps": rng.choice([None, 1e-5])}


def instance_norm_case(rng):
    c, dtype = rng.randint(1, 4), rng.choice(FLOATS)
    shape = [rng.randint(1, 3), c] + rng.choice([[5], [3, 4], [2, 2, 3]])
    running = rng.random() < 0.5
    ins = [make_input(rng, shape, dtype)]
    if running:
        ins += [Input(values(rng, [c], wide(dtype), "plain")),
                Input(values(rng, [c], wide(dtype), "positive"))]
    return ins + affine(rng, c, wide(dtype)), {
        "running": running, "training": not running or rng.random() < 0.6,
        "momentum": rng.choice([0.1, 0.5])}


def instance_norm(x, a):
    first = 3 if a["running"] else 1
    mean, var = (x[1].clone(), x[2].clone()) if a["running"] else (None, None)
    out = F.instance_norm(x[0], mean, var, optional(x, first), optional(x, first + 1), a["training"],
                          a["momentum"])
    return (out, mean, var) if a["running"] else out


def response_case(rng):
    shape = sizes(rng, rng.choice([3, 4, 5]), 1, 4)
    shape[1] = rng.randint(1, 6)
    return [make_input(rng, shape, rng.choice(FLOATS))], {
        "size": rng.randint(1, 5), "alpha": rng.choice([1e-4, 0.5]), "beta": rng.choice([0.75, 0.5]),
        "k": rng.choice([1, 2])}


def attention_case(rng):
    dtype = rng.choice(TYPES)
    lead = sizes(rng, rng.choice([0, 1, 2, 2]), 1, 3)
    length, keys = rng.choice([1, 3, 17, 70]), rng.choice([1, 4, 17, 70])
    width, value = rng.choice([1, 4, 8, 17]), rng.choice([1, 4, 8])
    gqa = len(lead) == 2 and rng.random() < 0.3
    heads = lead[:1] + [lead[1] * rng.randint(1, 3)] if gqa else lead
    ins = [make_input(rng, heads + [length, width], dtype), make_input(rng, lead + [keys, width], dtype),
           make_input(rng, lead + [keys, value], dtype)]
    causal = rng.random() < 0.3
    if not causal and rng.random() < 0.6:
        mask = rng.choice([[length, keys], heads + [length, keys], [1] * len(heads) + [length, keys],
                           heads + [1, keys], [length, 1]])
        ins.append(make_input(rng, mask, rng.choice(["bool", dtype])))
        if rng.random() < 0.3 and ins[3].base.is_floating_point():
            ins[3].base[ins[3].base > 0.5] = -math.inf
    return ins, {"causal": causal, "scale": rng.choice([None, None, 0.5]), "gqa": gqa}


def attention(x, a):
    """PyTorch's plain one, whose backward its own attention kernels for CPUs may not have."""
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return F.scaled_dot_product_attention(*x[:3], optional(x, 3), is_causal=a["causal"],
                                              scale=a["scale"], enable_gqa=a["gqa"])


def bag_case(rng):
    rows, dtype = rng.randint(1, 6), rng.choice(FLOATS)
    mode, offsets = rng.choice(["sum", "mean", "max"]), rng.random() < 0.6
    weight = make_input(rng, [rows, rng.randint(1, 5)], dtype)
    n = rng.randint(0, 9)
    ins = [indices(rng, [n] if offsets else [rng.randint(1, 4), rng.randint(0, 4)], rows), weight]
    last = offsets and rng.random() < 0.3
    if offsets:
        starts = [0] + sorted(rng.randint(0, n) for _ in range(rng.randint(0, 4)))
        ins.append(Input(torch.tensor(starts + [n] * last)))
    if mode == "sum" and rng.random() < 0.5:
        ins.append(make_input(rng, list(ins[0].base.shape), dtype))
    return ins, {"mode": mode, "offsets": offsets, "last": last,
                 "padding_idx": rng.choice([None, None, rng.randrange(rows)])}


def bag(x, a):
    return F.embedding_bag(x[0], x[1], x[2] if a["offsets"] else None, mode=a["mode"],
                           per_sample_weights=optional(x, 3 if a["offsets"] else 2),
                           include_last_offset=a["last"], padding_idx=a["padding_idx"])


def table():
    """name: (make, reference, units in the last place)."""
    t = {}
    for n in [1, 2]:
        t[f"conv{n}d_same"] = (conv_case(n, same=True), lambda x, a, f=getattr(F, f"conv{n}d"):
                               f(*x, **same(a)), SUM)
    t["conv3d"] = (conv_case(3), lambda x, a: F.conv3d(*x, **same(a)), SUM)
    for n in [1, 3]:
        t[f"conv_transpose{n}d"] = (
            conv_case(n, True), lambda x, a, f=getattr(F, f"conv_transpose{n}d"): f(
                *x, output_padding=a["output_padding"], **conv_arguments(a)), SUM)
        t[f"max_pool{n}d"] = (pool_case(n), max_pool(n), SUM)
        t[f"avg_pool{n}d"] = (pool_case(n), avg_pool(n), SUM)
        t[f"adaptive_avg_pool{n}d"] = (
            adaptive_case(n), lambda x, a, f=getattr(F, f"adaptive_avg_pool{n}d"):
            f(x[0], a["size"]), SUM)
        t[f"adaptive_max_pool{n}d"] = (
            adaptive_case(n), lambda x, a, f=getattr(F, f"adaptive_max_pool{n}d"):
            f(x[0], a["size"], return_indices=True), SUM)
    for n in [1, 2, 3]:
        t[f"lp_pool{n}d"] = (lp_case(n), lambda x, a, f=getattr(F, f"lp_pool{n}d"), n=n: f(
            x[0], a["p"], a["kernel"][0] if n == 1 else a["kernel"],
            a["stride"][0] if n == 1 else a["stride"], a["ceil"]), SUM)
        t[f"max_unpool{n}d"] = (unpool_case(n), unpool(n), 0)
    t["grid_sample"] = (grid_case, lambda x, a: F.grid_sample(
        *x, mode=a["mode"], padding_mode=a["padding"], align_corners=a["align_corners"]), SUM)
    t["affine_grid"] = (affine_grid_case, lambda x, a: F.affine_grid(
        x[0], a["size"], a["align_corners"]), SUM)
    t["rms_norm"] = (rms_norm_case, lambda x, a: F.rms_norm(
        x[0], a["shape"], optional(x, 1), a["eps"]), NORM)
    t["instance_norm"] = (instance_norm_case, instance_norm, NORM)
    t["local_response_norm"] = (response_case, lambda x, a: F.local_response_norm(
        x[0], a["size"], a["alpha"], a["beta"], a["k"]), SUM)
    t["scaled_dot_product_attention"] = (attention_case, attention, 128)
    t["embedding_bag"] = (bag_case, bag, SUM)
    return t
