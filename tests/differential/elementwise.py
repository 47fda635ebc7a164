"""Cases of elementwise ops, and PyTorch's results of them."""

import math

import torch
import torch.nn.functional as F

from tensors import ALL, DTYPES, FLOATS, NUMBERS, Input, broadcast_shape, make_input, shape_of, values

FUNCTION = 4  # units in the last place of functions; 0 is to the bit
SUM = 16  # of the largest number involved

UNARY = {name: getattr(torch, name) for name in [
    "neg", "abs", "sign", "square", "floor", "ceil", "round", "trunc", "reciprocal", "isnan",
    "isinf", "isfinite", "logical_not", "relu", "sqrt", "exp", "exp2", "expm1", "log", "log1p",
    "log2", "rsqrt", "sin", "cos", "tan", "erf", "sigmoid", "tanh"]}
UNARY |= {"silu": F.silu, "relu6": F.relu6}
INPLACE = ["neg_", "abs_", "square_", "floor_", "ceil_", "round_", "trunc_", "exp_", "log_", "sqrt_",
           "rsqrt_", "reciprocal_", "sin_", "cos_", "relu_", "sigmoid_", "tanh_", "sign_", "exp2_",
           "expm1_", "log1p_", "log2_", "tan_", "erf_"]
BINARY = ["mul", "div", "pow", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge",
          "logical_and", "logical_or", "logical_xor", "atan2", "floor_divide", "remainder", "fmod"]
BINARY_INPLACE = ["mul_", "div_", "pow_"]
SCALAR = ["add", "sub", "mul", "div", "pow", "eq", "ne", "lt", "le", "gt", "ge", "floor_divide",
          "remainder", "fmod"]
EXACT = {"neg", "abs", "sign", "floor", "ceil", "round", "trunc", "relu", "maximum", "minimum",
         "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "isnan",
         "isinf", "isfinite", "logical_not", "where", "to", "copy", "fill", "clamp", "hardtanh"}


def one(rng, dtypes=ALL, inplace=False, **options):
    return make_input(rng, shape_of(rng), rng.choice(dtypes), expands=not inplace, **options)


def unary(inplace):
    return lambda rng: ([one(rng, FLOATS * 2 + ALL, inplace)], {})


def two(rng, inplace=False):
    """Broadcast, of one dtype or of two; sometimes one is 0-dimensional."""
    shape = shape_of(rng)
    a = rng.choice(FLOATS + ALL)
    b = a if rng.random() < 0.5 else rng.choice(ALL)
    left = shape if inplace or rng.random() < 0.6 else broadcast_shape(rng, shape)
    right = [] if rng.random() < 0.2 else broadcast_shape(rng, shape)
    ins = [make_input(rng, left, a, expands=not inplace), make_input(rng, right, b)]
    return ins if inplace or rng.random() < 0.5 else ins[::-1]


def number(rng):
    return rng.choice([True, 0, 1, 2, -1, 3, 7, 0.5, -1.5, 2.0, 0.1, 1e5, 65536.0, -0.25])


def binary(inplace):
    return lambda rng: (two(rng, inplace), {})


def scaled(inplace):
    return lambda rng: (two(rng, inplace), {"alpha": rng.choice([1, 1, 2, -3, 0.5])})


def with_scalar(inplace):
    return lambda rng: ([one(rng, FLOATS + ALL, inplace)], {"other": number(rng)})


def options(inplace=False, dtypes=FLOATS * 3 + NUMBERS, **choices):
    return lambda rng: ([one(rng, dtypes, inplace)],
                        {name: rng.choice(values) for name, values in choices.items()})


def bounds(inplace):
    def make(rng):
        low, high = rng.choice([(-1, 1), (-0.5, 1.5), (0, None), (None, 0.5), (2, 1), (1, None),
                                (0, 6), (None, 3), (-2.0, 300)])
        return [one(rng, FLOATS * 2 + ALL, inplace)], {"min": low, "max": high}
    return make


def condition(rng, shape):
    return make_input(rng, broadcast_shape(rng, shape), "bool")


def where_three(rng):
    a, b = two(rng)
    shape = torch.broadcast_shapes(*[torch.Size(view_shape(x)) for x in (a, b)])
    return [condition(rng, list(shape)), a, b], {}


def view_shape(x):
    from tensors import apply_view
    t = x.base
    for view in x.views:
        t = apply_view(t, view)
    return t.shape


def where_one(rng):
    x = one(rng)
    return [condition(rng, list(view_shape(x))), x], {"other": number(rng)}


def copy(rng):
    shape = shape_of(rng)
    return [make_input(rng, shape, rng.choice(ALL), expands=False),
            make_input(rng, broadcast_shape(rng, shape), rng.choice(FLOATS + ALL), fill="plain")], {}


def cast(rng):
    to = rng.choice(list(DTYPES))
    return [one(rng, ALL, fill="any" if to in FLOATS + ["bool"] else "plain")], {"dtype": to}


def table():
    """name: (make, reference, units in the last place)."""
    t = {}
    ulp = lambda name: 0 if name.rstrip("_") in EXACT else FUNCTION
    for name, f in UNARY.items():
        t[name] = (unary(False), lambda x, a, f=f: f(x[0]), ulp(name))
    for name in INPLACE:
        t[name] = (unary(True), lambda x, a, name=name: getattr(x[0], name)(), ulp(name))
    t["silu_"] = (unary(True), lambda x, a: F.silu(x[0], inplace=True), FUNCTION)
    t["relu6_"] = (unary(True), lambda x, a: F.relu6(x[0], inplace=True), 0)
    slopes = dict(slope=[0.01, 0.2, -0.5, 1])
    t["leaky_relu"] = (options(**slopes), lambda x, a: F.leaky_relu(x[0], a["slope"]), 1)
    t["leaky_relu_"] = (options(True, FLOATS, slope=[0.01, 0.2, 1]),
                        lambda x, a: F.leaky_relu_(x[0], a["slope"]), 1)
    t["elu"] = (options(alpha=[1, 0.5, 2]), lambda x, a: F.elu(x[0], a["alpha"]), FUNCTION)
    t["elu_"] = (options(True, FLOATS, alpha=[1, 0.5]), lambda x, a: F.elu_(x[0], a["alpha"]),
                 FUNCTION)
    t["gelu"] = (options(tanh=[True, False]),
                 lambda x, a: F.gelu(x[0], approximate="tanh" if a["tanh"] else "none"), SUM)
    t["softplus"] = (options(beta=[1, 2, 0.5], threshold=[20, 2]),
                     lambda x, a: F.softplus(x[0], a["beta"], a["threshold"]), FUNCTION)
    ends = dict(min=[-1, -0.5], max=[1, 2])
    t["hardtanh"] = (options(**ends), lambda x, a: F.hardtanh(x[0], a["min"], a["max"]), 0)
    t["hardtanh_"] = (options(True, **ends), lambda x, a: F.hardtanh_(x[0], a["min"], a["max"]), 0)
    t["clamp"] = (bounds(False), lambda x, a: torch.clamp(x[0], a["min"], a["max"]), 0)
    t["clamp_"] = (bounds(True), lambda x, a: x[0].clamp_(a["min"], a["max"]), 0)
    for name in BINARY:
        t[name] = (binary(False), lambda x, a, f=getattr(torch, name): f(x[0], x[1]), ulp(name))
    for name in BINARY_INPLACE:
        t[name] = (binary(True), lambda x, a, name=name: getattr(x[0], name)(x[1]), ulp(name))
    for name in ["add", "sub"]:
        t[name] = (scaled(False),
                   lambda x, a, f=getattr(torch, name): f(x[0], x[1], alpha=a["alpha"]), SUM)
        t[name + "_"] = (scaled(True), lambda x, a, name=name: getattr(x[0], name + "_")(
            x[1], alpha=a["alpha"]), SUM)
    for name in SCALAR:
        t[name + "_scalar"] = (with_scalar(False),
                               lambda x, a, f=getattr(torch, name): f(x[0], a["other"]), ulp(name))
    for name in ["add_", "sub_", "mul_", "div_", "pow_"]:
        t[name[:-1] + "_scalar_"] = (
            with_scalar(True), lambda x, a, name=name: getattr(x[0], name)(a["other"]), ulp(name))
    t["rsub_scalar"] = (with_scalar(False), lambda x, a: a["other"] - x[0], 1)
    t["rdiv_scalar"] = (with_scalar(False), lambda x, a: a["other"] / x[0], FUNCTION)
    t["rpow_scalar"] = (with_scalar(False), lambda x, a: torch.pow(a["other"], x[0]), FUNCTION)
    t["fill_"] = (with_scalar(True), lambda x, a: x[0].fill_(a["other"]), 0)
    t["copy_"] = (copy, lambda x, a: x[0].copy_(x[1]), 0)
    t["to"] = (cast, lambda x, a: x[0].to(DTYPES[a["dtype"]]), 0)
    t["where"] = (where_three, lambda x, a: torch.where(x[0], x[1], x[2]), 0)
    t["where_scalar"] = (where_one, lambda x, a: (torch.where(x[0], x[1], a["other"]),
                                                  torch.where(x[0], a["other"], x[1])), 0)
    return t
