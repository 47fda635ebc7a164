"""Differences from PyTorch 2 that are known and wanted, each with its reason."""

import math
import re

import torch

VALUE = "value|gradient value"
PRODUCTS = "matmul|mm|bmm|mv|dot|outer|addmm|linear|conv1d|conv2d|conv_transpose2d"
NORMS = "batch_norm|layer_norm|group_norm|var|std|norm"
SUMS = "sum|mean|cumsum_?|softmax|log_softmax|avg_pool2d|adaptive_avg_pool2d|index_add_?|scatter_add_?"
LOSSES = ".*_loss|bce|bce_with_logits|kl_div|cross_entropy"


def floats(case):
    return [x.base.double() for x in case.inputs if x.base.is_floating_point()]


def has_infinite(case):
    return any(not t.isfinite().all() for t in floats(case))


def is_huge(case):
    """Whether squares or a few sums of the numbers overflow."""
    for x in case.inputs:
        if x.base.is_floating_point() and x.base.numel():
            finite = x.base.double().abs().nan_to_num(0, 0, 0).max()
            if finite > math.sqrt(torch.finfo(x.base.dtype).max) / 8:
                return True
    return False


def edge(case):
    return has_infinite(case) or is_huge(case)


def mixed(case):
    return len(set(case.dtypes)) > 1


def always(case):
    return True


def has_ties(t):
    return t.unique().numel() < t.numel() or int(t.isnan().sum()) > 1


def adds_up_16_bits(case):
    """Whether the first input is expanded and of 16 bits: its gradient adds up rounded numbers."""
    return case.inputs[0].base.element_size() == 2 and any(
        kind == "expand" for kind, *_ in case.inputs[0].views)


def lacks_freedom(case):
    shape, dims = case.inputs[0].base.shape, case.args["dims"]
    for kind, *view in case.inputs[0].views:
        if kind == "expand":
            shape = view[0]
    sizes = [shape[d] for d in dims] if dims else shape
    return math.prod(sizes) <= case.args["correction"] or any(
        kind in ("slice", "transpose") for kind, *_ in case.inputs[0].views)


# (ops, kinds of difference, condition on the case, reason); the first two are regular expressions
# that match as a whole.
KNOWN = [
    (PRODUCTS, VALUE, has_infinite,
     "whether an infinity meets the zeros of a padding or of a tile is the algorithm's affair"),
    (f"{PRODUCTS}|{SUMS}|{NORMS}|{LOSSES}|(add|sub|mul|div|pow)_?|prod|prod_dim|interpolate", VALUE,
     is_huge, "near the end of the range it depends on the order of sums and products what overflows"),
    ("batch_norm|group_norm|layer_norm", VALUE, has_infinite,
     "statistics of what is infinite are NaN, as deviations from an infinite mean are"),
    ("group_norm|layer_norm|batch_norm", "gradient value", adds_up_16_bits,
     "an expanded input adds up rounded gradients that cancel; what remains is their rounding"),
    ("interpolate", VALUE, has_infinite,
     "a neighbour of weight 0 does not count, be it infinite; PyTorch gives NaN"),
    ("prod|prod_dim", "gradient value", has_infinite,
     "the product of the others, by division, is NaN for infinite factors in other places"),
    ("cross_entropy|nll_loss", "gradient value", edge,
     "a gradient of 0 gives 0, and not NaN, where the logits have no probabilities"),
    ("gelu", "value|gradient value", has_infinite,
     "gelu(inf) is inf; PyTorch's vector loops give NaN, its loops over elements do not"),
    ("fmod(_scalar)?", "value", is_huge,
     "where the quotient overflows PyTorch's vector loops give NaN, its loops over elements do not"),
    ("hardtanh_?|relu6_?|elu_?", "gradient value", has_infinite,
     "one gradient at NaN; PyTorch's differs between vectors and single elements"),
    ("fill_|copy_", "gradient presence", always,
     "what is overwritten whole gets no gradient; PyTorch makes zeros"),
    ("var|std", "gradient value", lacks_freedom,
     "where the correction leaves no degree of freedom the gradient is infinite or NaN, as the "
     "variance is; PyTorch's is so of all dimensions, and finite of some"),
    ("bce", "gradient value", always,
     "the floor of (1 - p) p is 1e-12 in float64; PyTorch's is the nearest float32"),
    ("kl_div", "gradient value", lambda case: edge(case) or bool((floats(case)[1] == 0).any()),
     "at a target of 0 the gradient is that of target * input; PyTorch's is 0 / 0"),
    ("conv_transpose2d", "refused", always,
     "a result of size 0 is refused, as conv2d's"),
    ("erf_?", VALUE, lambda case: "float32" in case.dtypes and any(
        bool(((t != 0) & (t.abs() < 1e-38)).any()) for t in floats(case)),
     "erf of subnormal numbers is right to 1e-43, not to the last of their few digits"),
    ("norm", "gradient presence", lambda case: case.args["p"] == 0,
     "the count of elements has a gradient of 0 where PyTorch's has none"),
    ("huber_loss", "dtype", mixed,
     "as of other losses the result has the promoted dtype; PyTorch's has the input's"),
    ("cumsum_", "refused", lambda case: case.dtypes == ["bool"],
     "int64 sums do not fit bool, in 0-dimensional tensors no more than in others"),
    ("softmax|log_softmax", "refused", lambda case: case.dtypes[0] in ("int64", "int32", "uint8"),
     "integers have no softmax, also where there are none; PyTorch lets empty tensors pass"),
    ("(eq|ne|lt|le|gt|ge)_scalar", "value", always,
     "numbers beside 16-bit tensors are compared unrounded, as PyTorch does on CUDA devices"),
    ("atan2", "gradient value", lambda case: any(d in case.dtypes for d in ("uint8", "int32", "int64")),
     "integers are squared as floating numbers; PyTorch squares them as integers, which overflow"),
    ("mul|div|rdiv_scalar", VALUE, lambda case: mixed(case) and any(
        len(x.base.shape) == 0 for x in case.inputs),
     "a 0-dimensional factor beside 16-bit numbers is not rounded whichever comes first; PyTorch "
     "rounds the first on a CPU, and neither on CUDA devices"),
    ("pow_?", "gradient value", mixed,
     "the exponent's gradient is computed in the dtype of the power"),
    ("topk", "gradient value", lambda case: has_ties(case.inputs[0].base),
     "of equal values any may be chosen"),
    ("floor_divide|floor_divide_scalar", "value", lambda case: "float16" in case.dtypes
     or "bfloat16" in case.dtypes, "quotients of 16-bit numbers are floored before they are rounded"),
]


def reason(case, difference):
    """Why this difference is wanted, or None."""
    for ops, kinds, condition, text in KNOWN:
        if re.fullmatch(ops, case.name) and re.fullmatch(kinds, difference.kind) and condition(case):
            return text
    return None
