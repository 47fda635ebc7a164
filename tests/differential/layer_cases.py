"""Cases of layers: activations, products, convolutions, poolings, norms, paddings and tables."""

import math

import torch

from modules import BOOLS, pick
from spatial import sizes, unpool_case
from structured import indices
from tensors import Input, make_input, shape_of


def plain(rng, shape, dtype, fill="plain"):
    return make_input(rng, shape, dtype, fill)


def extent(rng, n, low, high):
    """One number for all of n dimensions, or a list."""
    return rng.randint(low, high) if n == 1 or rng.random() < 0.4 else sizes(rng, n, low, high)


def each(size, n):
    return size if isinstance(size, list) else [size] * n


def image(rng, n, channels, low=3, high=6, batched=0.8):
    return sizes(rng, rng.random() < batched, 1, 3) + [channels] + sizes(rng, n, low, high)


def pointwise(least=0, **choices):
    return lambda rng, dtype, training: (pick(rng, **choices),
                                         [plain(rng, shape_of(rng, least, 4), dtype)])


def along(required=True, even=False):
    def draw(rng, dtype, training):
        shape = shape_of(rng, 1, 4)
        dim = rng.randrange(len(shape))
        if not required and rng.random() < 0.3:
            dim = len(shape) - 1
            shape[dim] += shape[dim] % 2
            return {}, [plain(rng, shape, dtype)]
        shape[dim] += shape[dim] % 2 * even
        return {"dim": dim - rng.choice([0, len(shape)])}, [plain(rng, shape, dtype)]
    return draw


def dropout(low, high):
    """With no chance in it while training."""
    def draw(rng, dtype, training):
        options = {"p": rng.choice([0, 0, 1])} if training else pick(rng, p=[0, 0.3, 1])
        return options | pick(rng, inplace=BOOLS), [plain(rng, sizes(rng, rng.randint(low, high), 1, 4), dtype)]
    return draw


def rrelu(rng, dtype, training):
    bounds = pick(rng, 0.5, lower=[0.1, 0.125], upper=[0.2, 0.5])
    return ({"lower": 0.2, "upper": 0.2} if training else bounds) | pick(rng, inplace=BOOLS), \
        [plain(rng, shape_of(rng, 0, 4), dtype)]


def prelu(rng, dtype, training):
    shape = shape_of(rng, 1, 4)
    n = shape[1] if len(shape) > 1 and shape[1] > 0 and rng.random() < 0.5 else 1
    return pick(rng, num_parameters=[n], init=[0.1, 0.25]) if n == 1 else {"num_parameters": n}, \
        [plain(rng, shape, dtype)]


def softmax2d(rng, dtype, training):
    return {}, [plain(rng, image(rng, 2, rng.randint(1, 4)), dtype)]


def linear(rng, dtype, training):
    k = rng.randint(1, 9)
    return {"in_features": k, "out_features": rng.randint(1, 9)} | pick(rng, bias=BOOLS), [
        plain(rng, shape_of(rng, 0, 2) + [k], dtype)]


def bilinear(rng, dtype, training):
    a, b, lead = rng.randint(1, 4), rng.randint(1, 4), sizes(rng, rng.randint(0, 2), 1, 3)
    return {"in1_features": a, "in2_features": b, "out_features": rng.randint(1, 3)} | pick(
        rng, bias=BOOLS), [plain(rng, lead + [a], dtype), plain(rng, lead + [b], dtype)]


def two_rows(**choices):
    def draw(rng, dtype, training):
        shape = sizes(rng, rng.randint(2, 3), 1, 5)
        return pick(rng, **choices), [plain(rng, shape, dtype), plain(rng, shape, dtype)]
    return draw


def table(rng):
    rows = rng.randint(1, 8)
    padding = rng.randint(-rows, rows - 1)
    options = {"num_embeddings": rows, "embedding_dim": rng.randint(1, 5)}
    return rows, options | pick(rng, 0.4, padding_idx=[padding, None], max_norm=[0.5, 1.5],
                                norm_type=[1, 2, 3.5, "inf"], scale_grad_by_freq=BOOLS)


def embedding(rng, dtype, training):
    rows, options = table(rng)
    return options, [indices(rng, shape_of(rng, 0, 3), rows)]


def bag(rng, dtype, training):
    rows, options = table(rng)
    options |= pick(rng, mode=["sum", "mean", "max"])
    mode = options.get("mode", "mean")
    if mode == "max":
        options.pop("scale_grad_by_freq", None)
    n, offsets = rng.randint(0, 9), None
    ids = indices(rng, [rng.randint(1, 4), rng.randint(0, 4)], rows)
    if rng.random() < 0.6:
        options |= pick(rng, include_last_offset=BOOLS)
        ids, last = indices(rng, [n], rows), options.get("include_last_offset", False)
        starts = [0] + sorted(rng.randint(0, n) for _ in range(rng.randint(0, 4))) + [n] * last
        offsets = Input(torch.tensor(starts))
    weights = make_input(rng, list(ids.base.shape), dtype, "plain") if mode == "sum" and rng.random() < 0.5 else None
    return options, [ids, offsets, weights] if weights else [ids, offsets] if offsets else [ids]


def conv(n):
    def draw(rng, dtype, training):
        groups = rng.choice([1, 1, 1, 2])
        c = groups * rng.randint(1, 2)
        options = {"in_channels": c, "out_channels": groups * rng.randint(1, 3),
                   "kernel_size": extent(rng, n, 1, 3), "groups": groups} | pick(
            rng, stride=lambda r: extent(r, n, 1, 2), dilation=lambda r: extent(r, n, 1, 2),
            padding=lambda r: r.choice([extent(r, n, 0, 2), "same", "valid"]), bias=BOOLS,
            padding_mode=["zeros", "reflect", "replicate", "circular"])
        if options.get("padding") == "same":
            options.pop("stride", None)
        return options, [plain(rng, image(rng, n, c), dtype)]
    return draw


def conv_transpose(n):
    def draw(rng, dtype, training):
        groups = rng.choice([1, 1, 1, 2])
        c, stride = groups * rng.randint(1, 2), sizes(rng, n, 1, 3)
        options = {"in_channels": c, "out_channels": groups * rng.randint(1, 3),
                   "kernel_size": extent(rng, n, 1, 3), "groups": groups, "stride": stride} | pick(
            rng, dilation=lambda r: extent(r, n, 1, 2), padding=lambda r: extent(r, n, 0, 1),
            output_padding=lambda r: [r.randint(0, s - 1) for s in stride], bias=BOOLS)
        return options, [plain(rng, image(rng, n, c, 2, 5), dtype)]
    return draw


def pool(n, kind):
    def draw(rng, dtype, training):
        kernel = extent(rng, n, 1, 3)
        halves = [k // 2 for k in each(kernel, n)]
        options = {"kernel_size": kernel} | pick(
            rng, stride=lambda r: r.choice([None, extent(r, n, 1, 3)]), ceil_mode=BOOLS,
            padding=lambda r: [r.randint(0, h) for h in halves])
        call = {}
        if kind == "LPPool":
            options |= {"norm_type": rng.choice([1, 2, 2, 3])}
            options.pop("padding", None)
        elif kind == "MaxPool":
            options |= pick(rng, 0.3, dilation=lambda r: extent(r, n, 1, 2))
            call = pick(rng, return_indices=BOOLS)
        else:
            options |= pick(rng, count_include_pad=BOOLS)
            options |= pick(rng, 0.3, divisor_override=[3, 7, None]) if n > 1 else {}
        # Windows that lie in the padding alone are the functions' affair (spatial.py).
        fill = "positive" if kind == "LPPool" else "plain"
        return options, [plain(rng, image(rng, n, rng.randint(1, 3), 5, 7), dtype, fill)], call
    return draw


def adaptive(n, has_indices):
    def draw(rng, dtype, training):
        return {"output_size": extent(rng, n, 1, 5)}, [
            plain(rng, image(rng, n, rng.randint(1, 3), 2, 7), dtype)], \
            pick(rng, return_indices=BOOLS) if has_indices else {}
    return draw


def fractional(n):
    def draw(rng, dtype, training):
        shape = image(rng, n, rng.randint(1, 3), 5, 8)
        out = {"output_size": extent(rng, n, 2, 3)} if rng.random() < 0.5 else \
            {"output_ratio": [rng.choice([0.4, 0.5, 0.6]) for _ in range(n)]}
        samples = {"shape": [1] * (len(shape) == n + 1) + shape[:-n] + [n], "value": rng.choice([0.1, 0.5, 0.9])}
        return {"kernel_size": extent(rng, n, 1, 2), "random_samples": samples} | out, [
            plain(rng, shape, "float32")], pick(rng, return_indices=BOOLS)
    return draw


def unpool(n):
    def draw(rng, dtype, training):
        ins, args = unpool_case(n)(rng)
        x = make_input(rng, list(ins[1].base.shape), dtype, "plain")
        out = [(i - 1) * s - 2 * p + k + rng.randint(0, s - 1) for i, s, p, k in
               zip(ins[1].base.shape[-n:], args["stride"], args["padding"], args["kernel"])]
        options = {"kernel_size": args["kernel"], "stride": args["stride"], "padding": args["padding"]}
        return options | pick(rng, 0.3, output_size=[out]), [x, ins[1]]
    return draw


def batch_norm(n):
    def draw(rng, dtype, training):
        c = rng.randint(1, 4)
        shape = [rng.randint(2, 4), c] + sizes(rng, n if n > 1 else rng.randint(0, 1), 1, 4)
        return {"num_features": c} | pick(
            rng, eps=[1e-3, 0.1], momentum=[0.3, None], affine=BOOLS, track_running_stats=BOOLS,
            bias=BOOLS), [plain(rng, shape, dtype)]
    return draw


def instance_norm(n):
    def draw(rng, dtype, training):
        c = rng.randint(1, 4)
        return {"num_features": c} | pick(
            rng, eps=[1e-3, 0.1], momentum=[0.3], affine=BOOLS, track_running_stats=BOOLS,
            bias=BOOLS), [plain(rng, image(rng, n, c, 2, 4), dtype)]
    return draw


def last_norm(has_bias):
    def draw(rng, dtype, training):
        shape = sizes(rng, rng.randint(1, 4), 1, 5)
        normalized = shape[rng.randrange(len(shape)):]
        options = {"normalized_shape": normalized[0] if len(normalized) == 1 and rng.random() < 0.5 else normalized}
        options |= pick(rng, eps=[1e-3, 0.1], elementwise_affine=BOOLS)
        return options | (pick(rng, bias=BOOLS) if has_bias else {}), [plain(rng, shape, dtype)]
    return draw


def group_norm(rng, dtype, training):
    groups = rng.randint(1, 3)
    c = groups * rng.randint(1, 3)
    return {"num_groups": groups, "num_channels": c} | pick(
        rng, eps=[1e-3, 0.1], affine=BOOLS, bias=BOOLS), [
            plain(rng, [rng.randint(1, 3), c] + sizes(rng, rng.randint(1, 3), 1, 4), dtype)]


def response(rng, dtype, training):
    shape = sizes(rng, rng.randint(3, 5), 1, 4)
    return {"size": rng.randint(1, 5)} | pick(rng, alpha=[1e-4, 0.5], beta=[0.75, 0.5], k=[1, 2]), [
        plain(rng, shape, dtype)]


def pad(n, low, high):
    def draw(rng, dtype, training):
        amounts = rng.randint(max(low, 0), high) if rng.random() < 0.4 else sizes(rng, 2 * n, low, high)
        return {"padding": amounts} | ({"value": rng.choice([0, 2.5, -1])} if low < -1 else {}), [
            plain(rng, image(rng, n, rng.randint(1, 3)), dtype)]
    return draw


def flatten(rng, dtype, training):
    shape = sizes(rng, rng.randint(2, 5), 1, 3)
    start = rng.randrange(len(shape))
    end = rng.randint(start, len(shape) - 1)
    return pick(rng, start_dim=[start], end_dim=[end - len(shape)]) if start < 2 else \
        {"start_dim": start, "end_dim": end}, [plain(rng, shape, dtype)]


def unflatten(rng, dtype, training):
    shape, parts = sizes(rng, rng.randint(1, 4), 1, 3), sizes(rng, rng.randint(1, 3), 1, 3)
    d = rng.randrange(len(shape))
    shape[d] = math.prod(parts)
    if rng.random() < 0.4:
        parts[rng.randrange(len(parts))] = -1
    return {"dim": d - rng.choice([0, len(shape)]), "unflattened_size": parts}, [plain(rng, shape, dtype)]


def shuffle(option, channels, pixels):
    def draw(rng, dtype, training):
        r = rng.randint(1, 3)
        shape = sizes(rng, rng.choice([3, 4, 4, 5]), 1, 3)
        if option == "groups":
            shape[1] *= r
        else:
            shape[-3] *= r ** channels
            shape[-2:] = [s * r ** pixels for s in shape[-2:]]
        return {option: r}, [plain(rng, shape, dtype)]
    return draw


def windows(back):
    def draw(rng, dtype, training):
        options = {"kernel_size": extent(rng, 2, 1, 3)} | pick(
            rng, dilation=lambda r: extent(r, 2, 1, 2), padding=lambda r: extent(r, 2, 0, 2),
            stride=lambda r: extent(r, 2, 1, 3))
        size, lead, c = sizes(rng, 2, 5, 7), sizes(rng, rng.random() < 0.8, 1, 3), rng.randint(1, 3)
        if not back:
            return options, [plain(rng, lead + [c] + size, dtype)]
        k, d, p, s = (each(options.get(name, otherwise), 2) for name, otherwise in [
            ("kernel_size", 1), ("dilation", 1), ("padding", 0), ("stride", 1)])
        places = math.prod((size[i] + 2 * p[i] - d[i] * (k[i] - 1) - 1) // s[i] + 1 for i in range(2))
        return options | {"output_size": size}, [plain(rng, lead + [c * k[0] * k[1], places], dtype)]
    return draw


def upsample(mode=None):
    def draw(rng, dtype, training):
        n = 2 if mode else rng.randint(1, 3)
        linear = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}[n]
        options = {} if mode else pick(rng, mode=["nearest", "nearest-exact"] + 2 * linear)
        shape = image(rng, n, rng.randint(1, 3), 2, 6, batched=1)
        if rng.random() < 0.5:
            options["size"] = extent(rng, n, 1, 9)
        else:
            # PyTorch ignores factors near 1 and 2 in some of its loops (layers.py).
            options["scale_factor"] = rng.choice([[rng.choice([0.6, 1.7, 2.6]) for _ in range(n)], 3, 1.6])
            options |= {} if mode else pick(rng, 0.3, recompute_scale_factor=BOOLS)
        if options.get("mode") in linear:
            options |= pick(rng, align_corners=BOOLS)
        return options, [plain(rng, shape, dtype)]
    return draw


def weight_norm(rng, dtype, training):
    k = rng.randint(1, 5)
    return {"in_features": k, "out_features": rng.randint(1, 5), "dim": rng.choice([0, 1, None])}, [
        plain(rng, [rng.randint(1, 4), k], dtype)]


def spectral_norm(rng, dtype, training):
    c = rng.randint(1, 3)
    return {"in_channels": c, "out_channels": rng.randint(1, 3), "kernel_size": extent(rng, 2, 1, 3),
            "n_power_iterations": rng.randint(1, 3)}, [plain(rng, image(rng, 2, c), dtype)]


def activations():
    inplace = dict(inplace=BOOLS)
    found = {name: pointwise() for name in ["Identity", "Sigmoid", "Tanh", "Softsign", "Tanhshrink", "LogSigmoid"]}
    found |= {name: pointwise(**inplace) for name in [
        "ReLU", "ReLU6", "SiLU", "SELU", "Mish", "Hardsigmoid", "Hardswish"]}
    found |= {name: along() for name in ["Softmax", "LogSoftmax", "Softmin"]}
    return found | {
        "LeakyReLU": pointwise(negative_slope=[0.2, 0.01], **inplace),
        "GELU": pointwise(approximate=["none", "tanh"]), "ELU": pointwise(alpha=[0.5, 2], **inplace),
        "CELU": pointwise(alpha=[0.5, 2], **inplace), "Softplus": pointwise(beta=[2, 0.5], threshold=[1, 20]),
        "Hardtanh": pointwise(min_val=[-0.5, -2], max_val=[0.7, 2], **inplace),
        "Hardshrink": pointwise(lambd=[0.1, 1]), "Softshrink": pointwise(lambd=[0.1, 1]),
        "Threshold": lambda rng, dtype, training: (
            {"threshold": rng.choice([0.1, -1]), "value": rng.choice([0, 2.5])} | pick(rng, **inplace),
            [plain(rng, shape_of(rng, 0, 4), dtype)]),
        "RReLU": rrelu, "PReLU": prelu, "Softmax2d": softmax2d,
        "GLU": along(required=False, even=True),
        "Dropout": dropout(1, 4), "Dropout1d": dropout(2, 3), "Dropout2d": dropout(3, 4),
        "Dropout3d": dropout(4, 5), "AlphaDropout": dropout(1, 4), "FeatureAlphaDropout": dropout(2, 5)}


def layers():
    """name: how its options and inputs are drawn."""
    found = activations() | {
        "Linear": linear, "Bilinear": bilinear, "Embedding": embedding, "EmbeddingBag": bag,
        "CosineSimilarity": two_rows(dim=[0, 1, -1], eps=[1e-8, 0.1]),
        "PairwiseDistance": two_rows(p=[1, 2, 3], eps=[1e-6, 0.1], keepdim=BOOLS),
        "LayerNorm": last_norm(True), "RMSNorm": last_norm(False), "GroupNorm": group_norm,
        "LocalResponseNorm": response, "Flatten": flatten, "Unflatten": unflatten,
        "PixelShuffle": shuffle("upscale_factor", 2, 0), "PixelUnshuffle": shuffle("downscale_factor", 0, 1),
        "ChannelShuffle": shuffle("groups", 1, 0), "Unfold": windows(False), "Fold": windows(True),
        "Upsample": upsample(), "UpsamplingNearest2d": upsample("nearest"),
        "UpsamplingBilinear2d": upsample("bilinear"), "FractionalMaxPool2d": fractional(2),
        "FractionalMaxPool3d": fractional(3), "utils.weight_norm": weight_norm,
        "utils.spectral_norm": spectral_norm}
    for n in [1, 2, 3]:
        found |= {f"{name}{n}d": draw for name, draw in {
            "Conv": conv(n), "ConvTranspose": conv_transpose(n), "MaxPool": pool(n, "MaxPool"),
            "AvgPool": pool(n, "AvgPool"), "LPPool": pool(n, "LPPool"),
            "AdaptiveAvgPool": adaptive(n, False), "AdaptiveMaxPool": adaptive(n, True),
            "MaxUnpool": unpool(n), "BatchNorm": batch_norm(n), "InstanceNorm": instance_norm(n),
            "ZeroPad": pad(n, -1, 2), "ConstantPad": pad(n, -2, 2), "ReflectionPad": pad(n, 0, 2),
            "ReplicationPad": pad(n, 0, 3), "CircularPad": pad(n, 0, 3)}.items()}
    return found
