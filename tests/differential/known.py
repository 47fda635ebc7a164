"""Differences from PyTorch 2 that are known and wanted, each with its reason."""

import math
import re

import torch

from elementwise import view_shape
from tensors import INTEGERS, parts

VALUE = "value|gradient value"
PRODUCTS = ("matmul|mm|bmm|mv|v?dot|outer|addmm|linear|conv(_transpose)?[123]d(_same)?|einsum|tensordot|"
            "inner|kron|baddbmm|addbmm|addmv|addr|cross|bilinear|scaled_dot_product_attention")
NORMS = ("(batch|layer|group|rms|instance|local_response)_norm|(var|std)(_mean)?|norm|normalize|cdist|"
         "pairwise_distance|cosine_similarity|lp_pool[123]d")
SUMS = ("sum|mean|nansum|nanmean|cumsum_?|cumprod_?|softmax|log_softmax|softmin|(adaptive_)?avg_pool[123]d|"
        "index_add_?|scatter_add_?|scatter_reduce_?|logsumexp|logcumsumexp|trace|diff|col2im|"
        "embedding_bag|affine_grid|bincount|trapezoid|glu|grid_sample|lerp(_scalar)?_?|addc(mul|div)_?|hypot|sinc_?|histc")
COMPLEX_SUMS = ("complex:((add|sub|mul|div|rsub|rdiv)(_scalar)?_?|addc(mul|div)_?|diff|mean|sum|matmul|"
                "outer|kron|cross|square|reciprocal|exp|sgn|softsign)|polar")
TRANSFORMS = "i?[rh]?fft[2n]?|i?stft"
LOSSES = ".*_loss(_weight)?|bce(_with_logits)?(_weight)?|kl_div|cross_entropy(_weight)?"


def floats(case):
    found = [parts(x.base) for x in case.inputs]
    return [t.double() for t in found if t.is_floating_point()]


def has_infinite(case):
    return any(not t.isfinite().all() for t in floats(case))


def is_huge(case):
    """Whether squares or a few sums of the numbers overflow."""
    for x in case.inputs:
        if (x.base.is_floating_point() or x.base.is_complex()) and x.base.numel():
            finite = parts(x.base).double().abs().nan_to_num(0, 0, 0).max()
            if finite > math.sqrt(torch.finfo(x.base.dtype).max) / 8:
                return True
    return False


def edge(case):
    return has_infinite(case) or is_huge(case)


def largest(case):
    return max([float(t.abs().nan_to_num(0).max()) for t in floats(case) if t.numel()], default=0)


def has_small(case):
    return any(bool(((t != 0) & (t.abs() < 1e-4)).any()) for t in floats(case))


def has_pole(case):
    halves = [2 * parts(x.base).double() for x in case.inputs]
    return any(bool(((t <= 0) & (t == t.round())).any()) for t in halves)


def has_negative(case):
    return any(bool((t < 0).any()) for t in floats(case))


def is_empty(case):
    return any(0 in view_shape(x) for x in case.inputs)


def mixed(case):
    return len(set(case.dtypes)) > 1


def always(case):
    return True


def has_ties(t):
    return t.unique().numel() < t.numel() or int(t.isnan().sum()) > 1


def is_expanded(case):
    return any(kind == "expand" for kind, *_ in case.inputs[0].views)


def any_expanded(case):
    return any(kind == "expand" for x in case.inputs for kind, *_ in x.views)


def rounds_to_16_bits(case):
    return any(d in case.dtypes for d in ("float16", "bfloat16"))


def adds_up_16_bits(case):
    """Whether the first input is expanded and of 16 bits: its gradient adds up rounded numbers."""
    return case.inputs[0].base.element_size() == 2 and is_expanded(case)


def options(case):
    """Those of a function, or of a module."""
    return case.args.get("options", case.args)


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
    (f"{PRODUCTS}|{SUMS}|{NORMS}|{LOSSES}|(add|sub|mul|div|pow|fmod)_?|prod|prod_dim|interpolate", VALUE,
     is_huge, "near the end of the range it depends on the order of sums and products what overflows"),
    ("nn.utils.spectral_norm", "gradient value",
     lambda case: "float16" in case.dtypes and not case.args["training"],
     "vectors that were drawn and not iterated can make a norm near 0, whose gradient overflows"),
    ("(batch|group|instance|layer|rms)_norm", VALUE, has_infinite,
     "statistics of what is infinite are NaN, as deviations from an infinite mean are"),
    ("(batch|group|instance|layer|rms)_norm|nn.*Norm.*|trapezoid", "gradient value", adds_up_16_bits,
     "an expanded input adds up rounded gradients that cancel; what remains is their rounding"),
    ("complex:exp", "gradient value",
     lambda case: is_expanded(case) and math.prod(view_shape(case.inputs[0])) > 1000,
     "an expanded input adds up a thousand rounded products that cancel; what remains is their rounding"),
    ("interpolate", VALUE, has_infinite,
     "a neighbour of weight 0 does not count, be it infinite; PyTorch gives NaN"),
    ("prod|prod_dim|cumprod_?", "gradient value", has_infinite,
     "the product of the others, by division, is NaN for infinite factors in other places"),
    ("(cross_entropy|nll_loss)(_weight)?", "gradient value", edge,
     "a gradient of 0 gives 0, and not NaN, where the logits have no probabilities"),
    ("gelu", "value|gradient value", has_infinite,
     "gelu(inf) is inf; PyTorch's vector loops give NaN, its loops over elements do not"),
    ("fmod_?|fmod_scalar", "value", is_huge,
     "where the quotient overflows PyTorch's vector loops give NaN, its loops over elements do not"),
    ("hardtanh_?|relu6_?|[cs]?elu_?|hardsigmoid|hardswish|(hard|soft)shrink",
     "gradient value", has_infinite,
     "one gradient at NaN; PyTorch's differs between vectors and single elements"),
    ("fill_", "refused", lambda case: len(view_shape(case.inputs[0])) == 0,
     "a number outside the range is refused of 0-dimensional tensors as of others"),
    ("nn.Hardtanh|hardtanh_?|clamp_?", "gradient value", lambda case: case.inputs[0].base.element_size() == 2,
     "bounds are rounded to 16 bits as the result is; PyTorch's gradient compares with the number"),
    ("(complex:)?(fill_|copy_)", "gradient presence", always,
     "what is overwritten whole gets no gradient; PyTorch makes zeros"),
    ("(eq|lt|ge)_", "gradient presence", always,
     "what is overwritten whole gets no gradient; PyTorch makes zeros"),
    ("logical_x?(and|or)_", "gradient value|gradient presence", always,
     "truth has no gradient; PyTorch's passes as if nothing had changed"),
    ("digamma_?|polygamma", VALUE, lambda case: case.dtypes == ["float64"] and options(case).get("n", 0) < 2,
     "PyTorch's trigamma is exact to ten digits"),
    ("(mv)?lgamma_?|digamma_?|polygamma", VALUE, has_negative,
     "below 0 terms cancel: PyTorch's in the tangent of numbers near pi, of higher derivatives all"),
    ("mvlgamma|digamma_?|polygamma", VALUE, has_pole,
     "at negative integers it is infinite; PyTorch's is what the sine of a rounded pi gives"),
    ("polygamma", VALUE, has_infinite, "at infinity it is 0; PyTorch's is NaN"),
    ("baddbmm|addbmm|addmv|addr", "gradient presence", lambda case: case.args["beta"] == 0,
     "an input that is ignored gets no gradient; PyTorch makes zeros"),
    ("grid_sample", "gradient presence", lambda case: case.args["mode"] == "nearest",
     "the nearest pixel stays the same, so that the grid has no gradient; PyTorch's is zeros"),
    ("pairwise_distance", "gradient presence", lambda case: case.args["p"] == 0,
     "the count of elements has a gradient of 0 where PyTorch's has none"),
    ("acosh_?", "gradient value", always,
     "at -1, where there is no value, the infinite gradient may have either sign"),
    ("copysign_?(_scalar)?", "gradient value", has_infinite,
     "the gradient at infinity is the sign; PyTorch divides infinity by infinity"),
    ("mish_?|nn.Mish", "gradient value", has_infinite,
     "the gradient at infinity is 1, that of large numbers; PyTorch's is infinity times 0"),
    ("trapezoid", "value", has_infinite,
     "areas are added up; PyTorch takes half of the ends from the whole sum, infinity from infinity"),
    ("hypot_?", "gradient value", always, "the gradient at 0 is 0; PyTorch's is 0 / 0"),
    ("hardsigmoid|nn.Hardsigmoid", "gradient value", lambda case: case.dtypes == ["float64"],
     "a sixth is one of float64; PyTorch's is one of float32"),
    ("poisson_nll_loss|nn.PoissonNLLLoss", "gradient value", lambda case: options(case)["full"],
     "targets that get no term of Stirling's get none in the gradient; PyTorch's is NaN below 0"),
    ("addcmul_?", "refused", lambda case: isinstance(case.args["other"], float),
     "a fraction is no factor of integers, as for add; PyTorch cuts it off"),
    ("cosine_embedding_loss|cosine_similarity|nn.Cosine.*", "gradient value",
     lambda case: has_small(case) or edge(case) or any(x.views or x.base.shape[-1:] == (1,) for x in case.inputs),
     "of vectors that are short or parallel the gradient is a difference of large numbers"),
    ("logit_?", "gradient value", lambda case: bool((floats(case)[0] == 0).any()),
     "an infinite gradient at -0 may have either sign"),
    ("matrix_power", "gradient presence", lambda case: case.args["n"] == 0,
     "a power of 0 is a constant; PyTorch's gradient is zeros"),
    ("(complex:)?pixel_unshuffle", "shape", lambda case: 0 in view_shape(case.inputs[0]),
     "images without pixels have a shape like others; PyTorch keeps the input's"),
    ("addmv", "shape|gradient value", is_empty,
     "an input broadcasts to a product of size 0 as to others; PyTorch keeps the input's shape"),
    ("scaled_dot_product_attention", "gradient value", lambda case: largest(case) > 1e3,
     "the logarithm of a row's sum loses digits beside a large maximum, as in PyTorch's fused kernels"),
    ("(var|std)_mean", "value", has_infinite, "the mean of an infinity is one, as of mean()"),
    ("unique(_consecutive)?", "value", has_infinite, "of different NaNs any may come first"),
    ("(complex:)?addc(mul|div)_?|lerp_?", "gradient value", lambda case: has_infinite(case) or is_empty(case)
     or ("addcdiv" in case.name and bool((case.inputs[2].base == 0).any())),
     "gradients of what was broadcast are added up before they meet an infinite factor"),
    ("addc(mul|div)_?|lerp_scalar_?", "gradient value", lambda case: "float16" in case.dtypes
     and abs(case.args["other"]) > 65504,
     "a factor beyond float16 scales before anything is rounded to float16; PyTorch rounds between"),
    ("bce_with_logits_weight", "gradient value", has_infinite,
     "infinite logits have the gradient of the sum, with infinities of both signs"),
    ("multi(label)?_margin_loss", VALUE, has_infinite, "NaN stays NaN; PyTorch leaves it out"),
    ("grid_sample", VALUE, has_infinite,
     "pixels of weight 0 do not count, and a point that is moved to a border has no gradient, be the image infinite; PyTorch's is NaN"),
    ("[cp]dist", VALUE, has_infinite, "differences of infinities count as those of norm() do"),
    ("cdist|pdist", "gradient value", lambda case: case.args["p"] == "inf",
     "equal extrema share the gradient, as those of norm() do; PyTorch's get all of it each"),
    ("cov|corrcoef", VALUE, edge, "deviations from an infinite mean are NaN, or infinite"),
    ("corrcoef", VALUE, lambda case: is_expanded(case) or view_shape(case.inputs[0])[-1] <= 3,
     "the deviation of few or of equal numbers is near 0, or its rounding, and the gradient is divided "
     "by it"),
    ("triplet_margin_loss|nn.Triplet.*", VALUE, lambda case: case.inputs[0].base.element_size() == 2
     or view_shape(case.inputs[0])[-1] > 200,
     "a difference of distances that were rounded, to 16 bits or from many terms"),
    ("prod|prod_dim", VALUE, lambda case: math.prod(view_shape(case.inputs[0])) > 500,
     "it depends on the order of factors which products overflow or vanish"),
    ("cdist", VALUE, lambda case: case.args["p"] == 2,
     "distances by a product of matrices have few right digits where rows are close"),
    ("scatter_reduce_?", "gradient value",
     lambda case: case.inputs[1].base.shape != view_shape(case.inputs[2]),
     "sources beyond the index have a gradient of 0; PyTorch's extrema pass on some of it"),
    ("scatter_reduce_?", "gradient value",
     lambda case: case.args["reduce"] in ("amax", "amin") and not case.args["include_self"],
     "an element that is not included has no share in the gradient; PyTorch's has where it is equal"),
    ("searchsorted_scalar", "value",
     lambda case: case.dtypes[0] == "uint8" and case.args["value"] < 0,
     "a negative number is below all of uint8; PyTorch converts it to uint8"),
    ("logaddexp2?", "gradient value", has_infinite,
     "equal infinities share the gradient; PyTorch's is NaN"),
    ("softsign", "value", lambda case: case.dtypes[0] in INTEGERS,
     "integers become floating numbers before 1 is added; PyTorch's overflow"),
    ("margin_ranking_loss|triplet_margin_loss|hinge_embedding_loss|nn.(MarginRanking|Triplet.*|HingeEmbedding|Multi(Label)?Margin)Loss", "gradient value", always,
     "at the bound of a hinge rounding decides whether there is a slope"),
    ("soft_margin_loss", VALUE, lambda case: largest(case) > 80,
     "the logarithm of one more than an exponential does not overflow"),
    ("pow_?", "gradient value", has_infinite,
     "powers of what is infinite meet factors of 0 in another order"),
    ("sinc_?", "gradient value", has_infinite, "at infinity there is no slope; PyTorch's is 0"),
    ("lp_pool[123]d", VALUE, lambda case: case.args["p"] % 2 == 1,
     "odd powers cancel, and rounding decides whether their sum is 0 or has no root"),
    ("sinc_?", "gradient value", lambda case: "float64" in case.dtypes,
     "near 0 the slope is that of the series; the terms of PyTorch's quotient cancel"),
    ("(complex:)?block_diag", "gradient value", lambda case: any(0 in view_shape(x) for x in case.inputs),
     "an empty vector has a row; PyTorch takes the gradients of what follows from a row too high"),
    ("(complex:)?addc(mul|div)_?", "gradient value",
     lambda case: any(d in case.dtypes for d in INTEGERS),
     "integers are scaled as floating numbers; PyTorch scales them as integers, which overflow"),
    ("lerp_?", "gradient value", lambda case: any(d in case.dtypes for d in INTEGERS),
     "integers are subtracted as floating numbers; PyTorch's difference wraps around"),
    ("logcumsumexp", "gradient value", has_infinite,
     "terms that are lost beside others have a gradient of 0; PyTorch's is NaN after infinities"),
    ("nanmean", "gradient value", has_infinite,
     "NaN has no gradient, also where there is nothing else; PyTorch's is then 0 / 0"),
    ("scatter_reduce_?", "gradient value", has_infinite,
     "a NaN that nothing is compared with has no gradient; PyTorch's is 0 / 0"),
    ("embedding_bag", VALUE, lambda case: case.args["mode"] == "max" and has_infinite(case),
     "the maximum of numbers and NaN is NaN; PyTorch's depends on their order"),
    ("r?xlogy_scalar", VALUE, lambda case: case.dtypes[0] in ("float16", "bfloat16"),
     "a number beside 16-bit tensors is not rounded"),
    ("normalize", "gradient value", lambda case: case.args["p"] == 0 and has_infinite(case),
     "the gradient of the count of elements is 0 times the element"),
    ("mode", VALUE, has_infinite, "NaNs are all different; beside them PyTorch counts others wrong"),
    ("scatter_reduce_?", "refused", lambda case: case.dtypes[0] == "bool",
     "bool is neither multiplied nor averaged"),
    ("(nan)?median", "refused", lambda case: math.prod(view_shape(case.inputs[0])) == 0,
     "no elements have no median, as they have no maximum; PyTorch's is NaN"),
    ("max_unpool[123]d|nn.MaxUnpool[123]d", "refused", always, "a result of size 0 is refused, as conv2d's"),
    ("(var|std)(_mean)?", "value", lambda case: case.dtypes == ["float64"] and case.inputs[0].base.numel() > 1000,
     "PyTorch's running mean rounds at every element"),
    ("(var|std)(_mean)?", "gradient value", lacks_freedom,
     "where the correction leaves no degree of freedom the gradient is infinite or NaN, as the "
     "variance is; PyTorch's is so of all dimensions, and finite of some"),
    ("bce(_weight)?|nn.BCELoss", "gradient value", always,
     "the floor of (1 - p) p is 1e-12 in float64; PyTorch's is the nearest float32"),
    ("nn.BatchNorm[23]d", "gradient value", lambda case: any(
        kind == "transpose" for kind, *_ in case.inputs[0].views),
     "PyTorch adds up wrong numbers where the channels of a volume lie innermost"),
    ("cosine_embedding_loss|nn.CosineEmbeddingLoss", VALUE,
     lambda case: has_small(case) or any(bool((t == 0).any()) for t in floats(case)),
     "the 1e-12 beside the squares is one of float64; PyTorch's is the nearest float32"),
    ("kl_div|nn.KLDivLoss", "gradient value", lambda case: edge(case) or bool((floats(case)[1] == 0).any()),
     "at a target of 0 the gradient is that of target * input; PyTorch's is 0 / 0"),
    ("conv_transpose[123]d|nn.ConvTranspose[123]d", "refused", always,
     "a result of size 0 is refused, as conv2d's"),
    ("erf_?", VALUE, lambda case: "float32" in case.dtypes and any(
        bool(((t != 0) & (t.abs() < 1e-38)).any()) for t in floats(case)),
     "erf of subnormal numbers is right to 1e-43, not to the last of their few digits"),
    ("norm", "gradient presence", lambda case: case.args["p"] == 0,
     "the count of elements has a gradient of 0 where PyTorch's has none"),
    ("huber_loss|nn.HuberLoss", "dtype", mixed,
     "as of other losses the result has the promoted dtype; PyTorch's has the input's"),
    ("cumsum_|cumprod_", "refused", lambda case: case.dtypes == ["bool"],
     "int64 results do not fit bool, in 0-dimensional tensors no more than in others"),
    ("softmax|log_softmax", "refused", lambda case: case.dtypes[0] in INTEGERS,
     "integers have no softmax, also where there are none; PyTorch lets empty tensors pass"),
    ("(eq|ne|lt|le|gt|ge)_scalar", "value", always,
     "numbers beside 16-bit tensors are compared unrounded, as PyTorch does on CUDA devices"),
    ("atan2_?", "gradient value", lambda case: any(d in case.dtypes for d in INTEGERS),
     "integers are squared as floating numbers; PyTorch squares them as integers, which overflow"),
    ("mul|div|rdiv_scalar", VALUE, lambda case: mixed(case) and any(
        len(x.base.shape) == 0 for x in case.inputs),
     "a 0-dimensional factor beside 16-bit numbers is not rounded whichever comes first; PyTorch "
     "rounds the first on a CPU, and neither on CUDA devices"),
    ("pow_?", "gradient value", mixed,
     "the exponent's gradient is computed in the dtype of the power"),
    ("topk|kthvalue|msort|(nan)?median(_dim)?|mode|(nan)?quantile(_tensor)?", "gradient value",
     lambda case: has_ties(case.inputs[0].base) or bool(case.inputs[0].views),
     "of equal values any may be chosen"),
    ("floor_divide_?|floor_divide_scalar|div_floor", "value", lambda case: "float16" in case.dtypes
     or "bfloat16" in case.dtypes, "quotients of 16-bit numbers are floored before they are rounded"),
    (COMPLEX_SUMS, VALUE, edge,
     "a real factor scales both parts, and where parts are infinite or overflow it depends on the "
     "order of products and sums which of them are NaN"),
    (TRANSFORMS, VALUE, edge,
     "whether an infinity meets the zeros of a padding or of a table, and which sums overflow, is "
     "the algorithm's affair"),
    ("complex:(r?div(_scalar)?_?|addcdiv_?|reciprocal)", VALUE, lambda case: any(
        bool((x.base == 0).any()) for x in case.inputs) or largest(case) > 1e38,
     "which parts of a quotient by 0, or of one that overflows, are infinite and which are NaN is "
     "the algorithm's affair"),
    ("complex:exp", VALUE, lambda case: largest(case) > 80,
     "where the exponential overflows or vanishes, infinities meet zeros in another order"),
    ("complex:matmul", "refused", lambda case: mixed(case) and is_empty(case),
     "operands have one dtype, also where there is nothing to multiply"),
    ("complex:nan_to_num_?", "gradient value", has_infinite,
     "a finite part keeps its gradient beside one that is replaced; PyTorch drops both"),
    ("angle", "gradient value", edge,
     "a part of an infinite number has a slope where it is finite; PyTorch's are NaN"),
    ("from_parts|polar", "refused", lambda case: "float16" in case.dtypes,
     "there is no complex type of two float16"),
    ("complex:.*", "dtype", lambda case: "float16" in case.dtypes or "bfloat16" in case.dtypes,
     "there is no complex type of two 16-bit numbers, which is what PyTorch promotes to"),
    ("searchsorted(_scalar)?|bucketize", "value", lambda case: any(
        bool(t.isnan().any()) for t in floats(case)),
     "NaN is above all numbers, as sort() puts it; PyTorch's search passes over it"),
    ("div", "gradient value", lambda case: rounds_to_16_bits(case) and len(
        {tuple(view_shape(x)) for x in case.inputs}) > 1,
     "a broadcast input adds up rounded gradients that cancel; what remains is their rounding"),
    ("addcdiv_?", "gradient value", lambda case: any_expanded(case) or (
        abs(case.args["other"]) > 1e4 and len({tuple(view_shape(x)) for x in case.inputs}) > 1),
     "a broadcast input adds up large gradients that cancel; what remains is their rounding"),
    ("(nan)?quantile(_tensor)?", "gradient value",
     lambda case: math.prod(view_shape(case.inputs[0])) > 500,
     "the weights of two neighbours are what is left of a large rank, which float32 rounds"),
    ("normalize", "gradient value", lambda case: view_shape(case.inputs[0])[case.args["dim"]] == 1,
     "the gradient of one number alone cancels; what remains is its rounding"),
    ("log(2|10|1p)?|rsqrt|reciprocal|r?div(_scalar)?|tan|norm|normalize", "gradient value", any_expanded,
     "an expanded input adds up large gradients that cancel; what remains is their rounding"),
    ("nn.CosineSimilarity", "gradient value", lambda case: options(case).get("eps", 0) > 1e-3,
     "a norm that eps replaces has no gradient; PyTorch's has"),
    ("nn.MultiheadAttention", VALUE, lambda case: case.args["call"].get("is_causal", False) and (
        options(case).get("add_bias_kv") or options(case).get("add_zero_attn")),
     "every query sees an appended key; PyTorch's causal attention without weights hides it"),
    ("nn.AdaptiveLogSoftmaxWithLoss", "refused", always,
     "a cluster needs a feature; PyTorch's may have none, which leaves its classes alike"),
    ("complex:(addc(mul|div)_?|square)", "gradient value", any_expanded,
     "an expanded input adds up large gradients that cancel; what remains is their rounding"),
    ("std(_mean)?", "gradient value", is_expanded,
     "of equal numbers the deviation is 0 or its rounding, by which the gradient is divided"),
    ("nn.RNN(Cell)?", "gradient value",
     lambda case: rounds_to_16_bits(case) and options(case).get("nonlinearity") == "relu",
     "where a sum cancels, its rounding decides whether a ReLU lets the gradient pass"),
    ("polar", "gradient value", lambda case: bool((case.inputs[0].base <= 0).any()),
     "a length of 0 has a slope, and a negative one has its own; PyTorch takes that of its size"),
]


def reason(case, difference, spread):
    """Why this difference is wanted, or None; spread(case) is how far PyTorch's results move as the
    inputs change in their last place."""
    if case.name == "optim.LBFGS" and difference.kind == "value" and spread(case) > 1e-10:
        return "steps of a line search that move as far in PyTorch as inputs change in their last place"
    for ops, kinds, condition, text in KNOWN:
        if re.fullmatch(ops, case.name) and re.fullmatch(kinds, difference.kind) and condition(case):
            return text
    return None
