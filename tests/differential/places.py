"""Cases of statistics, scans, places and arrangements, and PyTorch's results of them."""

import torch
import torch.nn.functional as F

from elementwise import two
from structured import (MANY, SUM, a_dim, along, as_dtype, dims, index_add_case, indices, joined_case,
                        over_dims, scatter_case, shape_of_input, split_case, unique_indices, whole)
from tensors import (FLOATS, INTEGERS, NUMBERS, Input, broadcast_shape, make_input, shape_of, size_of,
                     values)

WIDE = ["float32", "float64"]
HOW = ["linear", "lower", "higher", "midpoint", "nearest"]


def without_dim(make, chance=0.3):
    """The same, sometimes over all dimensions."""
    def made(rng):
        ins, args = make(rng)
        return ins, args | ({"dim": None} if rng.random() < chance else {})
    return made


def kth_case(rng):
    ins, args = along()(rng)
    shape = shape_of_input(ins[0])
    return ins, args | {"k": rng.randint(1, max(1, shape[args["dim"]] if shape else 1))}


def quantile_case(several):
    def make(rng):
        ins, args = without_dim(along(WIDE * 6 + MANY, interpolation=HOW))(rng)
        if several:
            kind = str(ins[0].base.dtype)[6:]
            ins.append(Input(values(rng, [rng.randint(0, 3)], kind if kind in FLOATS else "float32",
                                    "unit")))
        return ins, args | ({} if several else {"q": rng.choice([0, 0.25, 0.3, 0.5, 0.999, 1])})
    return make


def quantile(name):
    f = getattr(torch, name)
    return lambda x, a: f(x[0], x[1] if len(x) > 1 else a["q"], a["dim"], a["keepdim"],
                          interpolation=a["interpolation"])


def histc_case(rng):
    low, high = rng.choice([(0, 0), (0, 0), (-1, 1), (-2, 3.5), (0, 1)])
    return [make_input(rng, shape_of(rng), rng.choice(FLOATS), grad=False)], {
        "bins": rng.randint(1, 9), "min": low, "max": high}


def bincount_case(rng):
    n = rng.randint(0, 20)
    ins = [make_input(rng, [n], rng.choice(INTEGERS), "positive")]
    if rng.random() < 0.5:
        ins.append(make_input(rng, [n], rng.choice(NUMBERS), grad=False))
    return ins, {"minlength": rng.choice([0, 0, 3, 20])}


def diff_case(rng):
    ins, args = along()(rng)
    shape, n = shape_of_input(ins[0]), rng.choice([1, 1, 2, 3, 0])
    for _ in range(rng.choice([0, 0, 1, 2]) if shape else 0):
        own = list(shape)
        own[args["dim"]] = rng.randint(0, 2)
        ins.append(make_input(rng, own, str(ins[0].base.dtype)[6:]))
    return ins, args | {"n": n}


def diff(x, a):
    return torch.diff(x[0], a["n"], a["dim"], *x[1:])


def take_case(rng):
    shape = [rng.randint(1, 5) for _ in range(rng.randint(0, 3))]
    x = make_input(rng, shape, rng.choice(MANY))
    n = torch.Size(shape).numel()
    at = indices(rng, shape_of(rng, 0, 3), n)
    if rng.random() < 0.3:
        at.base -= n
    return [x, at], {}


def take_along_case(rng):
    shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 3))]
    d = rng.randrange(len(shape))
    if rng.random() < 0.2:
        return [make_input(rng, shape, rng.choice(MANY)),
                indices(rng, [rng.randint(0, 7)], torch.Size(shape).numel())], {"dim": None}
    one = [1 if i != d and rng.random() < 0.3 else s for i, s in enumerate(shape)]
    other = [1 if i != d and rng.random() < 0.3 else s for i, s in enumerate(shape)]
    other[d] = rng.randint(0, 7)
    return [make_input(rng, one, rng.choice(MANY)), indices(rng, other, shape[d])], {"dim": d}


def index_copy_case(inplace):
    def make(rng):
        shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
        d = rng.randrange(len(shape))
        n, dtype = rng.randint(0, shape[d]), rng.choice(MANY)
        at = torch.randperm(shape[d], generator=torch.Generator().manual_seed(rng.getrandbits(40)))
        own = [n if i == d else s for i, s in enumerate(shape)]
        return [make_input(rng, shape, dtype, expands=not inplace), Input(at[:n].clone()),
                make_input(rng, own, dtype)], {"dim": d}
    return make


def index_fill_case(inplace):
    def make(rng):
        ins, args = index_add_case(inplace)(rng)
        return ins[:2], args | {"value": rng.choice([0, 1, -2, 2.5])}
    return make


def masked_scatter_case(inplace):
    def make(rng):
        shape, dtype = shape_of(rng), rng.choice(MANY)
        n = torch.Size(shape).numel()
        return [make_input(rng, shape, dtype, expands=not inplace),
                make_input(rng, broadcast_shape(rng, shape), "bool"),
                make_input(rng, [n + rng.randint(0, 2)], dtype)], {}
    return make


def scatter_reduce_case(inplace):
    def make(rng):
        ins, args = scatter_case(True, inplace)(rng)
        return ins, args | {"reduce": rng.choice(["sum", "prod", "mean", "amax", "amin"]),
                            "include_self": rng.random() < 0.6}
    return make


def scatter_reduce(name):
    return lambda x, a: getattr(x[0], name)(a["dim"], x[1], x[2], a["reduce"],
                                            include_self=a["include_self"])


def sorted_rows(rng, shape, dtype):
    t = values(rng, shape, dtype, "any" if rng.random() < 0.3 else "plain")
    return Input(t.sort(-1).values)


def search_arguments(rng):
    return {"int32": rng.random() < 0.3, "right": rng.random() < 0.5}


def searchsorted_case(rng):
    dtype = rng.choice(NUMBERS)
    rows = [rng.randint(1, 3) for _ in range(rng.randint(0, 2))]
    own = rows if rng.random() < 0.6 else []
    return [sorted_rows(rng, own + [size_of(rng)], dtype),
            make_input(rng, rows + [size_of(rng)], dtype, grad=False)], search_arguments(rng)


def one_row_case(rng):
    return [sorted_rows(rng, [size_of(rng)], rng.choice(NUMBERS))], search_arguments(rng) | {
        "value": rng.choice([0, 1, -1, 0.5, 100])}


def bucketize_case(rng):
    dtype = rng.choice(NUMBERS)
    return [make_input(rng, shape_of(rng), dtype, grad=False),
            sorted_rows(rng, [size_of(rng)], dtype)], search_arguments(rng)


def search(x, a, sides):
    return sides(out_int32=a["int32"], right=a["right"])


def isin_case(rng):
    dtype = rng.choice(MANY)
    other = dtype if rng.random() < 0.8 else rng.choice(NUMBERS)
    return [make_input(rng, shape_of(rng), dtype, grad=False),
            make_input(rng, shape_of(rng, 0, 2), other, grad=False)], {"invert": rng.random() < 0.3}


def unique_case(rng):
    x = make_input(rng, shape_of(rng, 0, 3), rng.choice(MANY + ["int64"] * 4), grad=False)
    n = len(shape_of_input(x))
    return [x], {"dim": rng.choice([None, None, a_dim(rng, n) if n else None])}


def split_at_case(rng):
    ins, args = split_case("unused", 1)(rng)
    return ins, args | {"indices": sorted(rng.randint(-2, 6) for _ in range(rng.randint(0, 3)))}


def rot90_case(rng):
    shape = shape_of(rng, 2)
    return [make_input(rng, shape, rng.choice(MANY))], {
        "k": rng.randint(-5, 5), "dims": rng.sample(range(len(shape)), 2)}


def several(least, most, count=3, dtypes=MANY):
    """Tensors of any shapes."""
    return lambda rng: ([make_input(rng, shape_of(rng, least, most, lambda r: r.randint(0, 4)
                                                  if r.random() < 0.2 else r.randint(1, 4)),
                                    rng.choice(dtypes)) for _ in range(rng.randint(1, count))], {})


def of_one_dtype(make, **choices):
    def made(rng):
        ins, args = make(rng)
        dtype = ins[0].base.dtype
        for x in ins:
            x.base = x.base.to(dtype)
            x.grad = x.grad and dtype.is_floating_point
        return ins, args | {name: rng.choice(v) for name, v in choices.items()}
    return made


def broadcast_case(rng):
    shape = shape_of(rng, 0, 3)
    return [make_input(rng, broadcast_shape(rng, shape), rng.choice(MANY))
            for _ in range(rng.randint(1, 3))], {}


def combinations_case(rng):
    return [make_input(rng, [rng.randint(0, 5)], rng.choice(MANY))], {
        "r": rng.randint(0, 3), "replacement": rng.random() < 0.5}


def diag_case(rng):
    return [make_input(rng, shape_of(rng, 1, 2), rng.choice(MANY))], {"diagonal": rng.randint(-3, 3)}


def diag_embed_case(rng):
    shape = shape_of(rng, 1, 3)
    a, b = rng.sample(range(len(shape) + 1), 2)
    return [make_input(rng, shape, rng.choice(MANY))], {
        "offset": rng.randint(-2, 2), "dim1": a, "dim2": b}


def interleave_case(by_tensor):
    def make(rng):
        ins, args = without_dim(along())(rng)
        shape = shape_of_input(ins[0])
        n = torch.Size(shape).numel() if args["dim"] is None else shape[args["dim"]] if shape else 1
        if by_tensor:
            at = indices(rng, [1 if rng.random() < 0.2 else n], 4)
            at.base = at.base.to(rng.choice([torch.int64, torch.int32]))
            return ins + [at], args
        return ins, args | {"repeats": rng.randint(0, 3)}
    return make


def shuffle_case(kind):
    def make(rng):
        r = rng.randint(1, 3)
        shape = [rng.randint(0 if rng.random() < 0.1 else 1, 3) for _ in range(rng.choice([3, 4, 5]))]
        if kind == "pixel_shuffle":
            shape[-3] *= r * r
        elif kind == "pixel_unshuffle":
            shape[-2], shape[-1] = shape[-2] * r, shape[-1] * r
        else:
            shape[1] *= r
        return [make_input(rng, shape, rng.choice(MANY))], {"factor": r, "groups": r}
    return make


def window_case(back):
    def make(rng):
        two = lambda low, high: [rng.randint(low, high), rng.randint(low, high)]
        args = {"kernel": two(1, 3), "dilation": two(1, 2), "padding": two(0, 2), "stride": two(1, 3)}
        size = two(3, 7)
        lead = [c for c in ([rng.randint(1, 3)] if rng.random() < 0.8 else [])]
        channels = rng.randint(1, 3)
        if not back:
            return [make_input(rng, lead + [channels] + size, rng.choice(FLOATS))], args
        places = 1
        for i in range(2):
            places *= max(0, (size[i] + 2 * args["padding"][i] - args["dilation"][i]
                              * (args["kernel"][i] - 1) - 1) // args["stride"][i] + 1)
        columns = channels * args["kernel"][0] * args["kernel"][1]
        return [make_input(rng, lead + [columns, places], rng.choice(FLOATS))], args | {"size": size}
    return make


def windows(a):
    return {name: a[name] for name in ["dilation", "padding", "stride"]}


def cov_case(rng):
    n = rng.randint(2, 6)
    x = make_input(rng, shape_of(rng, 0, 1) + [n], rng.choice(FLOATS * 3 + INTEGERS))
    args = {"correction": rng.choice([0, 1, 1, 2])}
    if rng.random() < 0.6:
        return [x], args
    often = indices(rng, [n], 4)
    often.base[0] = 1
    if rng.random() < 0.5:
        return [x, often], args
    return [x, often, make_input(rng, [n], "float32", "unit", grad=False)], args


def corrcoef_case(rng):
    """Of more than two observations, whose coefficients are 1 or -1, and numbers that do not round
    to constants."""
    return [make_input(rng, shape_of(rng, 0, 1) + [rng.randint(3, 6)], rng.choice(WIDE))], {}


def samples_case(rng):
    ins, args = along(FLOATS)(rng)
    shape = shape_of_input(ins[0])
    if not shape or rng.random() < 0.5:
        return ins, args | {"dx": rng.choice([1, 0.5, 2])}
    places = [shape[args["dim"]]] if rng.random() < 0.5 else shape
    return ins + [make_input(rng, places, str(ins[0].base.dtype)[6:])], args


def trapezoid(x, a):
    both = torch.trapezoid, torch.cumulative_trapezoid
    if len(x) == 2:
        return tuple(f(x[0], x[1], dim=a["dim"]) for f in both)
    return tuple(f(x[0], dx=a["dx"], dim=a["dim"]) for f in both)


def vectors(rng):
    n, dtype = rng.randint(0, 9), rng.choice(FLOATS * 2 + ["int64", "int32"])
    return [make_input(rng, [n], dtype), make_input(rng, [n], dtype)], {}


def part_case(kind):
    """A tensor, and another of the shape of its part."""
    def make(rng):
        shape, dtype = [rng.randint(1, 5) for _ in range(rng.randint(2, 4))], rng.choice(MANY)
        a, b = rng.sample(range(len(shape)), 2)
        n = shape[a]
        part = torch.empty(shape)
        if kind == "select":
            args = {"dim": a, "index": rng.randint(-n, n - 1)}
            part = part.select(a, args["index"])
        elif kind == "slice":
            args = {"dim": a, "start": rng.randint(0, n), "end": rng.choice([n, n - 1, 9]),
                    "step": rng.randint(1, 3)}
            args["end"] = max(args["start"], args["end"])
            part = torch.slice_copy(part, a, args["start"], args["end"], args["step"])
        else:
            args = {"offset": rng.randint(-n, n), "dim1": a, "dim2": b}
            part = part.diagonal(args["offset"], a, b)
        return [make_input(rng, shape, dtype), make_input(rng, list(part.shape), dtype)], args
    return make


def of_dims(least, **choices):
    return lambda rng: ([make_input(rng, shape_of(rng, least, 4), rng.choice(MANY))],
                        {name: rng.choice(values) for name, values in choices.items()})


def hsplit_case(rng):
    shape, sections = shape_of(rng, 1, 4), rng.randint(1, 3)
    shape[min(1, len(shape) - 1)] *= sections
    return [make_input(rng, shape, rng.choice(MANY))], {"sections": sections}


def triangle_case(rng):
    return [make_input(rng, shape_of(rng, 2, 4), rng.choice(MANY), expands=False)], {
        "diagonal": rng.randint(-3, 3)}


def fill_diagonal_case(rng):
    shape = [rng.randint(0, 4), rng.randint(0, 4)] if rng.random() < 0.6 else [rng.randint(1, 3)] * 3
    return [make_input(rng, shape, rng.choice(MANY), expands=False)], {"value": rng.choice([0, 1, -2])}


def add_samples(t):
    t["cov"] = (cov_case, lambda x, a: torch.cov(
        x[0], correction=a["correction"], fweights=x[1] if len(x) > 1 else None,
        aweights=x[2] if len(x) > 2 else None), SUM)
    t["corrcoef"] = (corrcoef_case, lambda x, a: torch.corrcoef(x[0]), SUM)
    t["dist"] = (lambda rng: (two(rng, dtypes=FLOATS, one_dtype=1), {"p": rng.choice([0.5, 1, 2, 3])}),
                 lambda x, a: torch.dist(x[0], x[1], a["p"]), 4 * SUM)  # a power of a sum
    t["vdot"] = (vectors, lambda x, a: torch.vdot(*x), SUM)
    t["msort"] = (whole(), lambda x, a: torch.msort(x[0]), 0)
    t["trapezoid"] = (samples_case, trapezoid, SUM)


def add_parts(t):
    t["column_stack"] = (joined_case(True), lambda x, a: torch.column_stack(x), 0)
    t["hsplit"] = (hsplit_case, lambda x, a: torch.hsplit(x[0], a["sections"]), 0)
    t["vsplit"] = (of_dims(2, indices=[[1], [0, 2], []]), lambda x, a: torch.vsplit(
        x[0], a["indices"]), 0)
    t["dsplit"] = (of_dims(3, indices=[[1], [-1], [2, 1]]), lambda x, a: torch.dsplit(
        x[0], a["indices"]), 0)
    t["fliplr"] = (of_dims(2), lambda x, a: torch.fliplr(x[0]), 0)
    t["flipud"] = (of_dims(1), lambda x, a: torch.flipud(x[0]), 0)
    t["diagflat"] = (of_dims(0, offset=[0, 1, -2]), lambda x, a: torch.diagflat(x[0], a["offset"]), 0)
    t["select_scatter"] = (part_case("select"), lambda x, a: torch.select_scatter(
        x[0], x[1], a["dim"], a["index"]), 0)
    t["slice_scatter"] = (part_case("slice"), lambda x, a: torch.slice_scatter(
        x[0], x[1], a["dim"], a["start"], a["end"], a["step"]), 0)
    t["diagonal_scatter"] = (part_case("diagonal"), lambda x, a: torch.diagonal_scatter(
        x[0], x[1], a["offset"], a["dim1"], a["dim2"]), 0)
    for name in ["tril_", "triu_"]:
        t[name] = (triangle_case, lambda x, a, name=name: getattr(x[0], name)(a["diagonal"]), 0)
    t["fill_diagonal_"] = (fill_diagonal_case, lambda x, a: x[0].fill_diagonal_(a["value"]), 0)


def add_statistics(t):
    kind = dict(dtype=[None, None, None, "float32", "float64", "int64"])
    unexpanded = along(inplace=True)  # of an expanded row PyTorch's nanmedian reads what is beside it
    for name in ["median", "nanmedian"]:
        f = getattr(torch, name)
        t[name] = (whole(), lambda x, a, f=f: f(x[0]), 0)
        t[name + "_dim"] = (unexpanded, lambda x, a, f=f: tuple(f(x[0], a["dim"], a["keepdim"])), 0)
    t["kthvalue"] = (kth_case, lambda x, a: tuple(torch.kthvalue(
        x[0], a["k"], a["dim"], a["keepdim"])), 0)
    t["mode"] = (along(), lambda x, a: tuple(torch.mode(x[0], a["dim"], a["keepdim"])), 0)
    for name in ["quantile", "nanquantile"]:
        t[name] = (quantile_case(False), quantile(name), SUM)
        t[name + "_tensor"] = (quantile_case(True), quantile(name), SUM)
    t["histc"] = (histc_case, lambda x, a: torch.histc(x[0], a["bins"], a["min"], a["max"]), 0)
    t["bincount"] = (bincount_case, lambda x, a: torch.bincount(*x, minlength=a["minlength"]), SUM)
    t["logsumexp"] = (over_dims(), lambda x, a: torch.logsumexp(
        x[0], dims(a) or tuple(range(x[0].dim())), a["keepdim"]), SUM)
    t["nansum"] = (over_dims(**kind), lambda x, a: torch.nansum(
        x[0], dims(a), a["keepdim"], dtype=as_dtype(a)), SUM)
    t["nanmean"] = (over_dims(), lambda x, a: torch.nanmean(x[0], dims(a), a["keepdim"]), SUM)
    for name in ["var_mean", "std_mean"]:
        t[name] = (over_dims(FLOATS, correction=[0, 1, 1, 2]),
                   lambda x, a, f=getattr(torch, name): f(
                       x[0], dim=dims(a), correction=a["correction"], keepdim=a["keepdim"]), SUM)
    t["aminmax"] = (without_dim(along()), lambda x, a: tuple(torch.aminmax(
        x[0], dim=a["dim"], keepdim=a["keepdim"])), 0)
    t["trace"] = (lambda rng: ([make_input(rng, shape_of(rng, 2, 2), rng.choice(MANY))], {}),
                  lambda x, a: torch.trace(x[0]), SUM)
    t["diff"] = (diff_case, diff, SUM)
    t["argsort"] = (along(descending=[True, False]), lambda x, a: torch.argsort(
        x[0], dim=a["dim"], descending=a["descending"], stable=True), 0)
    t["softmin"] = (along(FLOATS, dtype=[None, None, "float32"]), lambda x, a: F.softmin(
        x[0], a["dim"], dtype=as_dtype(a)), SUM)
    t["cumprod"] = (along(**kind), lambda x, a: torch.cumprod(x[0], a["dim"], dtype=as_dtype(a)), SUM)
    t["cumprod_"] = (along(inplace=True), lambda x, a: x[0].cumprod_(a["dim"]), SUM)
    t["logcumsumexp"] = (along(), lambda x, a: torch.logcumsumexp(x[0], a["dim"]), SUM)
    for name in ["cummax", "cummin"]:
        t[name] = (along(), lambda x, a, f=getattr(torch, name): tuple(f(x[0], a["dim"])), 0)


def add_places(t):
    t["take"] = (take_case, lambda x, a: torch.take(*x), SUM)
    t["take_along_dim"] = (take_along_case, lambda x, a: torch.take_along_dim(*x, a["dim"]), SUM)
    t["index_copy"] = (index_copy_case(False), lambda x, a: torch.index_copy(
        x[0], a["dim"], x[1], x[2]), 0)
    t["index_copy_"] = (index_copy_case(True), lambda x, a: x[0].index_copy_(
        a["dim"], x[1], x[2]), 0)
    t["index_fill"] = (index_fill_case(False), lambda x, a: torch.index_fill(
        x[0], a["dim"], x[1], a["value"]), 0)
    t["index_fill_"] = (index_fill_case(True), lambda x, a: x[0].index_fill_(
        a["dim"], x[1], a["value"]), 0)
    t["masked_scatter"] = (masked_scatter_case(False), lambda x, a: torch.masked_scatter(*x), 0)
    t["masked_scatter_"] = (masked_scatter_case(True), lambda x, a: x[0].masked_scatter_(*x[1:]), 0)
    for name in ["scatter_reduce", "scatter_reduce_"]:
        t[name] = (scatter_reduce_case(name[-1] == "_"), scatter_reduce(name), SUM)
    t["searchsorted"] = (searchsorted_case, lambda x, a: torch.searchsorted(
        x[0], x[1], out_int32=a["int32"], right=a["right"]), 0)
    t["searchsorted_scalar"] = (one_row_case, lambda x, a: torch.searchsorted(
        x[0], a["value"], out_int32=a["int32"], right=a["right"]), 0)
    t["bucketize"] = (bucketize_case, lambda x, a: torch.bucketize(
        x[0], x[1], out_int32=a["int32"], right=a["right"]), 0)
    t["isin"] = (isin_case, lambda x, a: torch.isin(*x, invert=a["invert"]), 0)
    for name in ["unique", "unique_consecutive"]:
        t[name] = (unique_case, lambda x, a, f=getattr(torch, name): f(
            x[0], return_inverse=True, return_counts=True, dim=a["dim"]), 0)


def add_arrangements(t):
    t["atleast"] = (whole(), lambda x, a: (torch.atleast_1d(x[0]), torch.atleast_2d(x[0]),
                                           torch.atleast_3d(x[0])), 0)
    t["broadcast_tensors"] = (broadcast_case, lambda x, a: torch.broadcast_tensors(*x), SUM)
    t["tensor_split"] = (split_case("sections", 4), lambda x, a: torch.tensor_split(
        x[0], a["sections"], a["dim"]), 0)
    t["tensor_split_at"] = (split_at_case, lambda x, a: torch.tensor_split(
        x[0], a["indices"], a["dim"]), SUM)
    t["rot90"] = (rot90_case, lambda x, a: torch.rot90(x[0], a["k"], a["dims"]), 0)
    for name in ["hstack", "vstack", "dstack"]:
        t[name] = (joined_case(True), lambda x, a, f=getattr(torch, name): f(x), 0)
    t["block_diag"] = (several(0, 2), lambda x, a: torch.block_diag(*x), 0)
    t["cartesian_prod"] = (of_one_dtype(several(1, 1)), lambda x, a: torch.cartesian_prod(*x), SUM)
    t["meshgrid"] = (of_one_dtype(several(0, 1), indexing=["ij", "xy"]), lambda x, a:
                     torch.meshgrid(*x, indexing=a["indexing"]), SUM)
    t["combinations"] = (combinations_case, lambda x, a: torch.combinations(
        x[0], a["r"], a["replacement"]), SUM)
    t["triangle_indices"] = (
        lambda rng: ([], {"rows": rng.randint(0, 5), "columns": rng.randint(0, 5),
                          "offset": rng.randint(-6, 6)}),
        lambda x, a: (torch.tril_indices(a["rows"], a["columns"], a["offset"]),
                      torch.triu_indices(a["rows"], a["columns"], a["offset"])), 0)
    t["diag"] = (diag_case, lambda x, a: torch.diag(x[0], a["diagonal"]), 0)
    t["diag_embed"] = (diag_embed_case, lambda x, a: torch.diag_embed(
        x[0], a["offset"], a["dim1"], a["dim2"]), 0)
    t["repeat_interleave"] = (interleave_case(False), lambda x, a: torch.repeat_interleave(
        x[0], a["repeats"], a["dim"]), SUM)
    t["repeat_interleave_tensor"] = (interleave_case(True), lambda x, a: torch.repeat_interleave(
        x[0], x[1], a["dim"]), SUM)
    for name, argument in {"pixel_shuffle": "factor", "pixel_unshuffle": "factor",
                           "channel_shuffle": "groups"}.items():
        t[name] = (shuffle_case(name), lambda x, a, f=getattr(torch, name), argument=argument:
                   f(x[0], a[argument]), 0)
    t["im2col"] = (window_case(False), lambda x, a: F.unfold(x[0], a["kernel"], **windows(a)), SUM)
    t["col2im"] = (window_case(True), lambda x, a: F.fold(
        x[0], a["size"], a["kernel"], **windows(a)), SUM)


def table():
    """name: (make, reference, units in the last place)."""
    t = {}
    add_statistics(t)
    add_samples(t)
    add_parts(t)
    add_places(t)
    add_arrangements(t)
    return t
