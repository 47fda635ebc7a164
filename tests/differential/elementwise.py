"""Cases of elementwise ops, and PyTorch's results of them."""

import math

import torch
import torch.nn.functional as F

from tensors import (ALL, DTYPES, FLOATS, INTEGERS, NAMES, NUMBERS, broadcast_shape, make_input,
                     shape_of)

FUNCTION = 4  # units in the last place of functions; 0 is to the bit
SUM = 16  # of the largest number involved

UNARY = {name: getattr(torch, name) for name in [
    "neg", "abs", "sign", "square", "floor", "ceil", "round", "trunc", "reciprocal", "isnan",
    "isinf", "isfinite", "logical_not", "relu", "sqrt", "exp", "exp2", "expm1", "log", "log1p",
    "log2", "rsqrt", "sin", "cos", "tan", "erf", "sigmoid", "tanh", "asin", "acos", "atan", "sinh",
    "cosh", "asinh", "acosh", "atanh", "log10", "erfc", "sinc", "deg2rad", "rad2deg", "frac",
    "positive", "sgn", "signbit", "isposinf", "isneginf", "isreal", "erfinv", "lgamma", "digamma"]}
UNARY |= {name: getattr(F, name) for name in [
    "silu", "relu6", "logsigmoid", "selu", "hardsigmoid", "hardswish", "mish", "tanhshrink",
    "softsign"]}
INPLACE = ["neg_", "abs_", "square_", "floor_", "ceil_", "round_", "trunc_", "exp_", "log_", "sqrt_",
           "rsqrt_", "reciprocal_", "sin_", "cos_", "relu_", "sigmoid_", "tanh_", "sign_", "exp2_",
           "expm1_", "log1p_", "log2_", "tan_", "erf_", "asin_", "acos_", "atan_", "sinh_", "cosh_",
           "asinh_", "acosh_", "atanh_", "log10_", "erfc_", "sinc_", "deg2rad_", "rad2deg_",
           "frac_", "sgn_", "erfinv_", "lgamma_", "digamma_"]
BINARY = ["mul", "div", "pow", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge",
          "logical_and", "logical_or", "logical_xor", "atan2", "floor_divide", "remainder", "fmod",
          "hypot", "copysign", "logaddexp", "logaddexp2", "xlogy", "fmax", "fmin", "float_power"]
BITWISE = ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"]
BINARY_INPLACE = ["mul_", "div_", "pow_", "floor_divide_", "remainder_", "fmod_", "atan2_", "hypot_",
                  "copysign_", "xlogy_", "eq_", "lt_", "ge_", "logical_and_", "logical_xor_"]
SCALAR = ["add", "sub", "mul", "div", "pow", "eq", "ne", "lt", "le", "gt", "ge", "floor_divide",
          "remainder", "fmod", "copysign", "xlogy"]
EXACT = {"neg", "abs", "sign", "floor", "ceil", "round", "trunc", "relu", "maximum", "minimum",
         "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "isnan",
         "isinf", "isfinite", "logical_not", "where", "to", "copy", "fill", "clamp", "hardtanh",
         "positive", "sgn", "signbit", "frac", "copysign", "isposinf", "isneginf", "isreal", "fmax",
         "fmin"}
WHOLE = INTEGERS + ["bool"]


def one(rng, dtypes=ALL, inplace=False, **options):
    return make_input(rng, shape_of(rng), rng.choice(dtypes), expands=not inplace, **options)


def unary(inplace, dtypes=FLOATS * 2 + ALL):
    return lambda rng: ([one(rng, dtypes, inplace)], {})


def two(rng, inplace=False, dtypes=FLOATS + ALL, one_dtype=0.5):
    """Broadcast, of one dtype or of two; sometimes one is 0-dimensional."""
    shape = shape_of(rng)
    a = rng.choice(dtypes)
    b = a if rng.random() < one_dtype else rng.choice(dtypes)
    left = shape if inplace or rng.random() < 0.6 else broadcast_shape(rng, shape)
    right = [] if rng.random() < 0.2 else broadcast_shape(rng, shape)
    ins = [make_input(rng, left, a, expands=not inplace), make_input(rng, right, b)]
    return ins if inplace or rng.random() < 0.5 else ins[::-1]


def number(rng):
    return rng.choice([True, 0, 1, 2, -1, 3, 7, 0.5, -1.5, 2.0, 0.1, 1e5, 65536.0, -0.25])


def binary(inplace, **options):
    return lambda rng: (two(rng, inplace, **options), {})


def scaled(inplace):
    return lambda rng: (two(rng, inplace), {"alpha": rng.choice([1, 1, 2, -3, 0.5])})


def with_scalar(inplace, dtypes=FLOATS + ALL):
    return lambda rng: ([one(rng, dtypes, inplace)], {"other": number(rng)})


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


def three(rng, inplace=False, dtypes=FLOATS * 2 + NUMBERS):
    """Broadcast, mostly of one dtype."""
    shape, dtype = shape_of(rng), rng.choice(dtypes)
    one_dtype = rng.random() < 0.8
    shapes = [shape if inplace or rng.random() < 0.6 else broadcast_shape(rng, shape)]
    shapes += [[] if rng.random() < 0.1 else broadcast_shape(rng, shape) for _ in range(2)]
    return [make_input(rng, s, dtype if one_dtype or i == 0 else rng.choice(NUMBERS),
                       expands=not (inplace and i == 0)) for i, s in enumerate(shapes)]


def blend(inplace=False, operands=3, dtypes=FLOATS * 2 + NUMBERS):
    return lambda rng: (three(rng, inplace, dtypes)[:operands], {"other": number(rng)})


def close_case(rng):
    ins = two(rng)
    if rng.random() < 0.7:  # else the dtypes differ, which is refused
        ins[1] = make_input(rng, list(view_shape(ins[1])), NAMES[ins[0].base.dtype])
    return ins, {"rtol": rng.choice([1e-5, 0.5]), "atol": rng.choice([1e-8, 0.5, 0]),
                 "equal_nan": rng.random() < 0.5}


def prelu_case(rng):
    shape, dtype = shape_of(rng), rng.choice(FLOATS)
    channels = [1, 1, shape[1] if len(shape) > 1 else 1]
    return [make_input(rng, shape, dtype), make_input(rng, [rng.choice(channels)], dtype)], {}


def glu_case(rng):
    shape = shape_of(rng, 1)
    d = rng.randrange(len(shape))
    shape[d] -= shape[d] % 2
    return [make_input(rng, shape, rng.choice(FLOATS))], {"dim": d - rng.choice([0, len(shape)])}


def add_kinds(t):
    """Activations and other functions with parameters."""
    alphas = dict(alpha=[1, 0.5, 2])
    t["celu"] = (options(**alphas), lambda x, a: F.celu(x[0], a["alpha"]), FUNCTION)
    t["celu_"] = (options(True, **alphas), lambda x, a: F.celu_(x[0], a["alpha"]), FUNCTION)
    t["selu_"] = (unary(True), lambda x, a: F.selu_(x[0]), FUNCTION)
    limits = dict(limit=[0.5, 1, 0, 0.3])
    t["hardshrink"] = (options(**limits), lambda x, a: F.hardshrink(x[0], a["limit"]), 0)
    t["softshrink"] = (options(**limits), lambda x, a: F.softshrink(x[0], a["limit"]), 1)
    ends = dict(limit=[0.5, -1, 0], value=[0, 1.5, -3])
    t["threshold"] = (options(**ends), lambda x, a: F.threshold(x[0], a["limit"], a["value"]), 0)
    t["threshold_"] = (options(True, **ends),
                       lambda x, a: F.threshold_(x[0], a["limit"], a["value"]), 0)
    t["rrelu"] = (unary(False), lambda x, a: F.rrelu(x[0]), 1)
    t["rrelu_"] = (unary(True), lambda x, a: F.rrelu_(x[0]), 1)
    t["prelu"] = (prelu_case, lambda x, a: F.prelu(*x), SUM)
    t["glu"] = (glu_case, lambda x, a: F.glu(x[0], a["dim"]), FUNCTION)
    eps = dict(eps=[None, None, 1e-6, 0.1, 0])
    t["logit"] = (options(**eps), lambda x, a: torch.logit(x[0], a["eps"]), SUM)
    t["logit_"] = (options(True, **eps), lambda x, a: x[0].logit_(a["eps"]), SUM)
    numbers = dict(nan=[0, 0, 1.5], posinf=[None, None, 7], neginf=[None, None, -2])
    for name in ["nan_to_num", "nan_to_num_"]:
        t[name] = (options(name[-1] == "_", FLOATS * 3 + ALL, **numbers), lambda x, a, name=name:
                   getattr(torch, name)(x[0], a["nan"], a["posinf"], a["neginf"]), 0)


def add_blends(t):
    for name in ["lerp", "lerp_"]:
        inplace = name[-1] == "_"
        t[name] = (blend(inplace), lambda x, a, name=name: getattr(x[0], name)(x[1], x[2]), SUM)
        t["lerp_scalar" + "_" * inplace] = (blend(inplace, 2), lambda x, a, name=name:
                                            getattr(x[0], name)(x[1], a["other"]), SUM)
    for name in ["addcmul", "addcmul_", "addcdiv", "addcdiv_"]:
        t[name] = (blend(name[-1] == "_"), lambda x, a, name=name:
                   getattr(x[0], name)(x[1], x[2], value=a["other"]), SUM)
    t["heaviside"] = (binary(False, one_dtype=0.9), lambda x, a: torch.heaviside(*x), 0)
    t["bitwise_not"] = (unary(False, WHOLE), lambda x, a: torch.bitwise_not(x[0]), 0)
    for name in BITWISE:
        f = getattr(torch, name)
        t[name] = (binary(False, dtypes=WHOLE), lambda x, a, f=f: f(x[0], x[1]), 0)
        t[name + "_scalar"] = (with_scalar(False, WHOLE), lambda x, a, f=f: f(x[0], a["other"]), 0)
        t[name + "_"] = (binary(True, dtypes=WHOLE),
                         lambda x, a, name=name: getattr(x[0], name + "_")(x[1]), 0)
    t["polygamma"] = (options(n=[0, 1, 2, 3, 5]), lambda x, a: torch.polygamma(a["n"], x[0]), SUM)
    t["mvlgamma"] = (options(p=[1, 2, 4]), lambda x, a: torch.mvlgamma(x[0], a["p"]), SUM)
    t["ndtr"] = (unary(False), lambda x, a: torch.special.ndtr(x[0]), SUM)
    for name in ["tanhshrink", "logaddexp", "logaddexp2", "lgamma", "digamma", "lgamma_", "digamma_"]:
        # differences
        t[name] = t[name][:2] + (SUM,)
    t["rxlogy_scalar"] = (with_scalar(False), lambda x, a: torch.xlogy(a["other"], x[0]), FUNCTION)
    t["isclose"] = (close_case, lambda x, a: torch.isclose(x[0], x[1], **a), 0)


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
    t["clamp_tensor"] = (where_three, lambda x, a: torch.clamp(x[1], x[2]), 0)
    for mode in ["trunc", "floor"]:
        f = lambda x, y, mode=mode: torch.div(x, y, rounding_mode=mode)
        t["div_" + mode] = (binary(False), lambda x, a, f=f: f(x[0], x[1]), 0)
        t[f"div_{mode}_scalar"] = (with_scalar(False), lambda x, a, f=f: f(x[0], a["other"]), 0)
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
    t["rdiv_scalar"] = (with_scalar(False), lambda x, a: a["other"] / x[0], SUM)
    t["rpow_scalar"] = (with_scalar(False), lambda x, a: torch.pow(a["other"], x[0]), SUM)
    t["fill_"] = (with_scalar(True), lambda x, a: x[0].fill_(a["other"]), 0)
    t["copy_"] = (copy, lambda x, a: x[0].copy_(x[1]), 0)
    t["to"] = (cast, lambda x, a: x[0].to(DTYPES[a["dtype"]]), 0)
    t["where"] = (where_three, lambda x, a: torch.where(x[0], x[1], x[2]), 0)
    t["where_scalar"] = (where_one, lambda x, a: (torch.where(x[0], x[1], a["other"]),
                                                  torch.where(x[0], a["other"], x[1])), 0)
    add_kinds(t)
    add_blends(t)
    return t
