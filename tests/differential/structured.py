"""Cases of reductions, indexing, joining and views, and PyTorch's results of them."""

import math

import torch
import torch.nn.functional as F

from tensors import ALL, DTYPES, FLOATS, NUMBERS, Input, make_input, shape_of, size_of, values

SUM = 16  # units in the last place of the largest number that was summed
MANY = FLOATS * 2 + ALL


def some_dims(rng, n):
    if n == 0 or rng.random() < 0.3:
        return []
    return [d - n if rng.random() < 0.3 else d for d in sorted(rng.sample(range(n), rng.randint(1, n)))]


def a_dim(rng, n):
    return rng.randint(-n, n - 1) if n else rng.choice([0, -1])


def over_dims(dtypes=MANY, **choices):
    def make(rng):
        shape = shape_of(rng)
        return [make_input(rng, shape, rng.choice(dtypes))], {
            "dims": some_dims(rng, len(shape)), "keepdim": rng.random() < 0.4,
            **{name: rng.choice(v) for name, v in choices.items()}}
    return make


def along(dtypes=MANY, inplace=False, **choices):
    def make(rng):
        shape = shape_of(rng)
        return [make_input(rng, shape, rng.choice(dtypes), expands=not inplace)], {
            "dim": a_dim(rng, len(shape)), "keepdim": rng.random() < 0.4,
            **{name: rng.choice(v) for name, v in choices.items()}}
    return make


def whole(dtypes=MANY):
    return lambda rng: ([make_input(rng, shape_of(rng), rng.choice(dtypes))], {})


def topk_case(rng):
    ins, args = along(MANY, largest=[True, False])(rng)
    shape = shape_of_input(ins[0])
    size = shape[args["dim"]] if len(shape) else 1
    return ins, args | {"k": rng.randint(0, size)}


def shape_of_input(x):
    from elementwise import view_shape
    return list(view_shape(x))


def indices(rng, shape, limit):
    g = torch.Generator().manual_seed(rng.getrandbits(40))
    return Input(torch.randint(0, max(limit, 1), shape, generator=g))


def unique_indices(rng, shape, dim, limit):
    """No two the same along `dim`, so that the order of writes does not matter."""
    g = torch.Generator().manual_seed(rng.getrandbits(40))
    scores = torch.rand([limit if d == dim else s for d, s in enumerate(shape)], generator=g)
    return Input(scores.argsort(dim).narrow(dim, 0, shape[dim]).contiguous())


def gather_case(rng):
    shape = [rng.randint(1, 5) for _ in range(rng.randint(0, 3))]
    d = rng.randrange(len(shape)) if shape else 0
    small = [rng.randint(0, 7) if i == d else rng.randint(0, s) for i, s in enumerate(shape)]
    return [make_input(rng, shape, rng.choice(MANY)),
            indices(rng, small, shape[d] if shape else 1)], {"dim": d}


def scatter_case(adds=False, inplace=False, value=False):
    def make(rng):
        shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 3))]
        d = rng.randrange(len(shape))
        small = [rng.randint(0 if rng.random() < 0.2 else 1, s) for s in shape]
        dtype = rng.choice(MANY)
        ids = indices(rng, small, shape[d]) if adds else unique_indices(rng, small, d, shape[d])
        ins = [make_input(rng, shape, dtype, expands=not inplace), ids]
        if not value:
            ins.append(make_input(rng, [s + rng.randint(0, 1) for s in small], dtype))
        return ins, {"dim": d} | ({"value": rng.choice([0, 1, 2.5, -3])} if value else {})
    return make


def index_select_case(rng):
    shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
    d = rng.randrange(len(shape))
    return [make_input(rng, shape, rng.choice(MANY)),
            indices(rng, [rng.randint(0, 6)], shape[d])], {"dim": d}


def index_add_case(inplace=False):
    def make(rng):
        shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
        d, n = rng.randrange(len(shape)), rng.randint(0, 6)
        if rng.random() < 0.05:
            shape[d] = n = 0
        dtype = rng.choice(MANY)
        return [make_input(rng, shape, dtype, expands=not inplace), indices(rng, [n], shape[d]),
                make_input(rng, [n if i == d else s for i, s in enumerate(shape)], dtype)], {
                    "dim": d, "alpha": rng.choice([1, 1, 2, -1])}
    return make


def masked_case(value, inplace=False):
    def make(rng):
        from elementwise import condition
        shape = shape_of(rng)
        ins = [make_input(rng, shape, rng.choice(MANY), expands=not inplace), condition(rng, shape)]
        return ins, {"value": rng.choice([0, 1, -2, 2.5])} if value else {}
    return make


def embedding_case(rng):
    rows = rng.randint(1, 9)
    weight = make_input(rng, [rows, rng.randint(1, 6)], rng.choice(FLOATS))
    padding = rng.choice([None, None, rng.randrange(rows)])
    return [indices(rng, shape_of(rng, 0, 3), rows), weight], {"padding_idx": padding}


def joined_case(stacks):
    def make(rng):
        shape = shape_of(rng, 0 if stacks else 1, 3)
        d = rng.randint(0, len(shape)) if stacks else rng.randrange(len(shape))
        dtypes = [rng.choice(MANY)] * 4 if rng.random() < 0.6 else [rng.choice(ALL) for _ in range(4)]
        ins = []
        for i in range(rng.randint(1, 4)):
            own = list(shape)
            if not stacks:
                own[d] = size_of(rng)
                if rng.random() < 0.08:
                    own = [0]  # which cat skips, whatever the others are
            ins.append(make_input(rng, own, dtypes[i]))
        return ins, {"dim": d}
    return make


def split_case(name, most):
    def make(rng):
        shape = shape_of(rng, 1)
        return [make_input(rng, shape, rng.choice(MANY))], {
            "dim": a_dim(rng, len(shape)), name: rng.randint(1, most)}
    return make


def repeat_case(rng):
    shape = shape_of(rng, 0, 3, lambda r: r.randint(0, 4))
    repeats = [rng.randint(0, 3) for _ in range(len(shape) + rng.randint(0, 1))]
    return [make_input(rng, shape, rng.choice(MANY))], {"repeats": repeats}


def pad_case(rng):
    mode = rng.choice(["constant", "reflect", "replicate", "circular"])
    shape = [rng.randint(2, 6) for _ in range(rng.randint(1, 4) if mode == "constant" else 4)]
    n = rng.randint(1, min(len(shape), 4 if mode == "constant" else 2)) if mode == "constant" else 2
    low = -1 if mode == "constant" else 0
    dtypes = MANY if mode == "constant" else FLOATS
    return [make_input(rng, shape, rng.choice(dtypes))], {
        "amounts": [rng.randint(low, 1) for _ in range(2 * n)], "mode": mode,
        "value": rng.choice([0, 1.5, -2]) if mode == "constant" else 0}


def flip_case(rng):
    shape = shape_of(rng, 1)
    dims = rng.sample(range(len(shape)), rng.randint(1, len(shape)))
    return [make_input(rng, shape, rng.choice(MANY))], {
        "dims": dims, "shifts": [rng.randint(-3, 9) for _ in dims]}


def matrix_case(rng):
    return [make_input(rng, shape_of(rng, 2), rng.choice(MANY))], {"diagonal": rng.randint(-3, 3)}


def unfold_case(rng):
    shape = [rng.randint(2, 7) for _ in range(rng.randint(1, 3))]
    d = rng.randrange(len(shape))
    return [make_input(rng, shape, rng.choice(MANY))], {
        "dim": d, "size": rng.randint(1, shape[d]), "step": rng.randint(1, 3)}


def diagonal_case(rng):
    shape = shape_of(rng, 2)
    a, b = rng.sample(range(len(shape)), 2)
    return [make_input(rng, shape, rng.choice(MANY))], {
        "offset": rng.randint(-2, 2), "dim1": a, "dim2": b}


def reshape_case(rng):
    shape = shape_of(rng)
    n = math.prod(shape)
    target = rng.choice([[n], [1, n], shape[::-1], [-1] if n else [n]])
    return [make_input(rng, shape, rng.choice(MANY))], {"shape": target}


def select_case(rng):
    shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
    d = rng.randrange(len(shape))
    return [make_input(rng, shape, rng.choice(MANY))], {
        "dim": d, "index": rng.randint(-shape[d], shape[d] - 1)}


def as_dtype(a):
    return DTYPES[a["dtype"]] if a.get("dtype") else None


def dims(a):
    return a["dims"] or None


def table():
    """name: (make, reference, units in the last place)."""
    t = {}
    dtype = dict(dtype=[None, None, None, "float32", "float64", "int64"])
    t["sum"] = (over_dims(**dtype), lambda x, a: torch.sum(
        x[0], dim=dims(a), keepdim=a["keepdim"], dtype=as_dtype(a)), SUM)
    t["mean"] = (over_dims(FLOATS, dtype=[None, "float64"]), lambda x, a: torch.mean(
        x[0], dim=dims(a), keepdim=a["keepdim"], dtype=as_dtype(a)), SUM)
    for name in ["var", "std"]:
        t[name] = (over_dims(FLOATS, correction=[0, 1, 1, 2]),
                   lambda x, a, f=getattr(torch, name): f(
                       x[0], dim=dims(a), correction=a["correction"], keepdim=a["keepdim"]), SUM)
    for name in ["amax", "amin"]:
        t[name] = (over_dims(), lambda x, a, f=getattr(torch, name): f(
            x[0], dim=a["dims"], keepdim=a["keepdim"]), 1)
    t["norm"] = (over_dims(FLOATS, p=[2, 2, 1, 3, 0, "inf", "-inf", 0.5]),
                 lambda x, a: torch.linalg.vector_norm(
                     x[0], float(a["p"]), dim=dims(a), keepdim=a["keepdim"]), SUM)
    t["count_nonzero"] = (over_dims(), lambda x, a: torch.count_nonzero(x[0], dim=dims(a)), 0)
    for name in ["max", "min", "any", "all", "prod"]:
        t[name] = (whole(), lambda x, a, f=getattr(torch, name): f(x[0]), SUM)
    for name in ["max", "min"]:
        t[name + "_dim"] = (along(), lambda x, a, f=getattr(torch, name): tuple(
            f(x[0], a["dim"], a["keepdim"])), 0)
    for name in ["any", "all", "prod"]:
        t[name + "_dim"] = (along(), lambda x, a, f=getattr(torch, name): f(
            x[0], a["dim"], a["keepdim"]), SUM)
    for name in ["argmax", "argmin"]:
        t[name] = (along(), lambda x, a, f=getattr(torch, name): f(
            x[0], a["dim"], a["keepdim"]), 0)
    t["cumsum"] = (along(**dtype), lambda x, a: torch.cumsum(x[0], a["dim"], dtype=as_dtype(a)), SUM)
    t["cumsum_"] = (along(inplace=True), lambda x, a: x[0].cumsum_(a["dim"]), SUM)
    t["topk"] = (topk_case, lambda x, a: tuple(torch.topk(x[0], a["k"], a["dim"], a["largest"])), 0)
    t["sort"] = (along(descending=[True, False]), lambda x, a: tuple(torch.sort(
        x[0], dim=a["dim"], descending=a["descending"], stable=True)), 0)
    for name in ["softmax", "log_softmax"]:
        t[name] = (along(FLOATS * 3 + ["int64"], dtype=[None, None, "float32"]),
                   lambda x, a, f=getattr(torch, name): f(x[0], a["dim"], dtype=as_dtype(a)), SUM)

    t["gather"] = (gather_case, lambda x, a: torch.gather(x[0], a["dim"], x[1]), SUM)
    t["scatter"] = (scatter_case(), lambda x, a: torch.scatter(x[0], a["dim"], x[1], x[2]), 0)
    t["scatter_"] = (scatter_case(inplace=True),
                     lambda x, a: x[0].scatter_(a["dim"], x[1], x[2]), 0)
    t["scatter_value"] = (scatter_case(value=True),
                          lambda x, a: torch.scatter(x[0], a["dim"], x[1], a["value"]), 0)
    t["scatter_add"] = (scatter_case(True),
                        lambda x, a: torch.scatter_add(x[0], a["dim"], x[1], x[2]), SUM)
    t["scatter_add_"] = (scatter_case(True, True),
                         lambda x, a: x[0].scatter_add_(a["dim"], x[1], x[2]), SUM)
    t["index_select"] = (index_select_case,
                         lambda x, a: torch.index_select(x[0], a["dim"], x[1]), SUM)
    t["index_add"] = (index_add_case(), lambda x, a: torch.index_add(
        x[0], a["dim"], x[1], x[2], alpha=a["alpha"]), SUM)
    t["index_add_"] = (index_add_case(True), lambda x, a: x[0].index_add_(
        a["dim"], x[1], x[2], alpha=a["alpha"]), SUM)
    t["masked_fill"] = (masked_case(True), lambda x, a: x[0].masked_fill(x[1], a["value"]), 0)
    t["masked_fill_"] = (masked_case(True, True), lambda x, a: x[0].masked_fill_(x[1], a["value"]), 0)
    t["masked_select"] = (masked_case(False), lambda x, a: torch.masked_select(x[0], x[1]), 0)
    t["nonzero"] = (whole(), lambda x, a: torch.nonzero(x[0]), 0)
    t["one_hot"] = (lambda rng: ([indices(rng, shape_of(rng, 0, 3), 5)], {"classes": 5}),
                    lambda x, a: F.one_hot(x[0], a["classes"]), 0)
    t["embedding"] = (embedding_case,
                      lambda x, a: F.embedding(x[0], x[1], padding_idx=a["padding_idx"]), SUM)

    t["cat"] = (joined_case(False), lambda x, a: torch.cat(x, a["dim"]), 0)
    t["stack"] = (joined_case(True), lambda x, a: torch.stack(x, a["dim"]), 0)
    t["split"] = (split_case("size", 4), lambda x, a: torch.split(x[0], a["size"], a["dim"]), 0)
    t["chunk"] = (split_case("chunks", 4), lambda x, a: torch.chunk(x[0], a["chunks"], a["dim"]), 0)
    t["unbind"] = (split_case("unused", 1), lambda x, a: torch.unbind(x[0], a["dim"]), 0)
    t["repeat"] = (repeat_case, lambda x, a: x[0].repeat(a["repeats"]), SUM)
    t["tile"] = (repeat_case, lambda x, a: torch.tile(x[0], a["repeats"]), SUM)
    t["pad"] = (pad_case, lambda x, a: F.pad(x[0], a["amounts"], a["mode"], a["value"] or None), SUM)
    t["flip"] = (flip_case, lambda x, a: torch.flip(x[0], a["dims"]), 0)
    t["roll"] = (flip_case, lambda x, a: torch.roll(x[0], a["shifts"], a["dims"]), 0)
    t["tril"] = (matrix_case, lambda x, a: torch.tril(x[0], a["diagonal"]), 0)
    t["triu"] = (matrix_case, lambda x, a: torch.triu(x[0], a["diagonal"]), 0)
    t["unfold"] = (unfold_case, lambda x, a: x[0].unfold(a["dim"], a["size"], a["step"]), SUM)
    t["diagonal"] = (diagonal_case, lambda x, a: torch.diagonal(
        x[0], a["offset"], a["dim1"], a["dim2"]), 0)
    t["reshape"] = (reshape_case, lambda x, a: torch.reshape(x[0], a["shape"]), 0)
    t["select"] = (select_case, lambda x, a: torch.select(x[0], a["dim"], a["index"]), 0)
    t["squeeze"] = (whole(), lambda x, a: torch.squeeze(x[0]), 0)
    t["unsqueeze"] = (lambda rng: ([make_input(rng, shape_of(rng, 0, 3), rng.choice(MANY))],
                                   {"dim": -1}), lambda x, a: torch.unsqueeze(x[0], a["dim"]), 0)
    return t
