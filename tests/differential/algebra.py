"""Cases of sums of products, distances and linear algebra, and PyTorch's results of them."""

import math

import torch
import torch.nn.functional as F

from layers import SUM, TYPES, maybe_none
from tensors import FLOATS, Input, broadcast_shape, make_input, shape_of

SOLVE = 4096  # units in the last place, of matrices with condition numbers of a few
EQUATIONS = ["ij,jk", "ij,jk->ik", "ij,ij->", "i,j->ij", "ii", "ii->i", "ij->ji", "bij,bjk->bik",
             "...ij,...jk->...ik", "bhqd,bhkd->bhqk", "ij,jk,kl->il", "ijk->", "ij->j", "i,i",
             "a...,a...->...", "bii,...i->b...i", "ij,kj", "ijk,jil->kl", "ab,ba", "i,,j"]


def einsum_case(rng):
    equation, dtype = rng.choice(EQUATIONS), rng.choice(TYPES + ["int64"])
    known = {c: maybe_none(rng) for c in equation if c.isalpha()}
    rest = [rng.randint(1, 3) for _ in range(rng.randint(0, 2))]
    ins = []
    for term in equation.split("->")[0].split(","):
        before, dots, after = term.partition("...")
        shape = [known[c] for c in before] + (rest if dots else []) + [known[c] for c in after]
        ins.append(make_input(rng, shape, dtype))
    return ins, {"equation": equation}


def tensordot_case(rng):
    shared = [rng.randint(1, 4) for _ in range(rng.randint(0, 2))]
    dtype, dims, shapes = rng.choice(TYPES + ["int64"]), [], []
    for _ in range(2):
        shape = [(-1, rng.randint(1, 3)) for _ in range(rng.randint(0, 2))] + list(enumerate(shared))
        rng.shuffle(shape)
        dims.append([[i for i, _ in shape].index(j) for j in range(len(shared))])
        shapes.append([s for _, s in shape])
    return [make_input(rng, s, dtype) for s in shapes], {"left": dims[0], "right": dims[1]}


def inner_case(rng):
    k, dtype = maybe_none(rng), rng.choice(TYPES + ["int64"])
    shapes = [shape_of(rng, 0, 2, maybe_none) + [k] for _ in range(2)]
    if rng.random() < 0.2:
        shapes[rng.randrange(2)] = []
    return [make_input(rng, s, dtype) for s in shapes], {}


def kron_case(rng):
    dtype = rng.choice(TYPES + ["int64", "bool"])
    return [make_input(rng, shape_of(rng, 0, 3, maybe_none), dtype) for _ in range(2)], {}


def added_case(*words):
    """An input that broadcasts to a product of operands with the sizes that the letters name."""
    def make(rng):
        known, dtype = {c: maybe_none(rng) for c in "bnkm"}, rng.choice(TYPES + ["int64"])
        shapes = [[known[c] for c in word] for word in words]
        shapes[0] = broadcast_shape(rng, shapes[0])
        whole = dtype == "int64"
        return [make_input(rng, s, dtype) for s in shapes], {
            "beta": rng.choice([1, 2, 0] if whole else [1, 0.5, 2, 0]),
            "alpha": rng.choice([1, -1] if whole else [1, -1, 0.5])}
    return make


def cross_case(rng):
    shape = [rng.randint(1, 4) for _ in range(rng.randint(1, 3))]
    d, dtype = rng.randrange(len(shape)), rng.choice(TYPES + ["int64"])
    shape[d] = 3
    ins = [make_input(rng, shape, dtype) for _ in range(2)]
    return ins, {"dim": rng.choice([None, d, d - len(shape)])}


def bilinear_case(rng):
    i, j, o, dtype = maybe_none(rng), maybe_none(rng), rng.randint(1, 3), rng.choice(FLOATS)
    lead = shape_of(rng, 0, 2, maybe_none)
    ins = [make_input(rng, s, dtype) for s in [lead + [i], lead + [j], [o, i, j]]]
    return ins + ([make_input(rng, [o], dtype)] if rng.random() < 0.6 else []), {}


POWERS = [2, 2, 2, 1, 3, 0.5, "inf", 0]


def cdist_case(rng):
    batch, dtype = shape_of(rng, 0, 2, maybe_none), rng.choice(TYPES)
    k = maybe_none(rng)
    n, m = rng.choice([maybe_none(rng), 30]), rng.choice([maybe_none(rng), 30])
    ins = [make_input(rng, batch + [n, k], dtype),
           make_input(rng, broadcast_shape(rng, batch) + [m, k], dtype)]
    return ins, {"p": rng.choice(POWERS)}


def pdist_case(rng):
    rows = rng.randint(0, 9)  # the gradient of none ends PyTorch's process
    return [make_input(rng, [rows, maybe_none(rng)], rng.choice(TYPES), grad=None if rows else False)], {
        "p": rng.choice(POWERS)}


def rows_case(rng):
    shape, dtype = shape_of(rng, 1, 3), rng.choice(TYPES)
    other = broadcast_shape(rng, shape) if rng.random() < 0.3 else shape
    return [make_input(rng, shape, dtype), make_input(rng, other, dtype)], {
        "p": rng.choice(POWERS), "eps": 1e-6, "keepdim": rng.random() < 0.3,
        "dim": rng.randint(-len(shape), len(shape) - 1)}


def normalize_case(rng):
    ins, args = rows_case(rng)
    return ins[:1], args


def matrix(rng, shape, fill="general", dtype=None):
    """Well-conditioned: with singular values from 1 to 3, of any layout."""
    g = torch.Generator().manual_seed(rng.getrandbits(40))
    dtype = dtype or rng.choice([torch.float32, torch.float64])
    *batch, m, n = shape
    k = min(m, n)
    u = torch.linalg.qr(torch.randn(*batch, m, k, generator=g, dtype=torch.float64))[0]
    v = torch.linalg.qr(torch.randn(*batch, n, k, generator=g, dtype=torch.float64))[0]
    s = torch.linspace(1, 3, k, dtype=torch.float64)
    t = {"general": (u * s) @ v.mT, "symmetric": (u * s * (-1) ** torch.arange(k)) @ u.mT,
         "definite": (u * s) @ u.mT,
         "deficient": (u * s * (torch.arange(k) > 0)) @ v.mT}[fill].to(dtype)
    if rng.random() < 0.3:
        return Input(t.mT.contiguous(), [["transpose", len(batch), len(batch) + 1]],
                     rng.random() < 0.8)
    return Input(t.contiguous(), [], rng.random() < 0.8)


def batch_of(rng):
    return rng.choice([[], [], [2], [0], [2, 1], [3]])


def matrices(fill="general", square=True, tall=False, **choices):
    def make(rng):
        n = rng.randint(0, 6) if rng.random() < 0.1 else rng.randint(1, 6)
        m = n if square else n + rng.randint(0, 3) if tall else rng.randint(1, 6)
        kind = rng.choice(fill.split("|"))
        return [matrix(rng, batch_of(rng) + [m, n], kind)], {
            name: rng.choice(v) for name, v in choices.items()}
    return make


def solve_case(square):
    def make(rng):
        batch, n = batch_of(rng), rng.randint(1, 6)
        a = matrix(rng, batch + [n if square else n + rng.randint(0, 3), n])
        rows = list(a.leaf().mT.shape if a.views else a.base.shape)[-2]
        shape = batch + [rows] + ([] if square and not batch and rng.random() < 0.3
                                  else [rng.randint(1, 3)])
        b = make_input(rng, shape, str(a.base.dtype)[6:], "plain")
        return [a, b], {}
    return make


def triangular_case(rng):
    batch, n, k = batch_of(rng), rng.randint(1, 6), rng.randint(1, 3)
    left = rng.random() < 0.6
    a = matrix(rng, batch + [n, n], "definite")
    b = make_input(rng, batch + ([n, k] if left else [k, n]), str(a.base.dtype)[6:], "plain")
    return [a, b], {"upper": rng.random() < 0.5, "left": left, "unit": rng.random() < 0.3}


def factor_case(rng):
    (a, b), args = triangular_case(rng)
    while not args["left"]:
        (a, b), args = triangular_case(rng)
    return [b, a], args


def chain_case(rng):
    sizes = [rng.randint(1, 9) for _ in range(rng.randint(3, 6))]
    dtype = rng.choice(TYPES)
    return [make_input(rng, [m, n], dtype, "plain") for m, n in zip(sizes, sizes[1:])], {}


def norm_case(rng):
    shape = shape_of(rng, 2, 4, lambda r: r.randint(1, 5))
    return [make_input(rng, shape, rng.choice(["float32", "float64"]), "plain")], {
        "order": rng.choice(["fro", "nuc", 1, -1, 2, -2, "inf", "-inf"]),
        "dims": rng.sample(range(-len(shape), 0), 2), "keepdim": rng.random() < 0.3}


def matrix_norm(x, a):
    order = a["order"]
    order = float(order) if order in ("inf", "-inf") else order
    return torch.linalg.matrix_norm(x[0], order, tuple(a["dims"]), a["keepdim"])


def svd(x, a):
    u, s, vh = torch.linalg.svd(x[0], False)
    return u.abs(), s, vh.abs()


def svd_full(x, a):
    """Vectors that belong to no number may be turned: what counts is that they are orthonormal."""
    u, s, vh = torch.linalg.svd(x[0], True)
    return u @ u.mT, s, vh.mT @ vh


def eigh(x, a):
    found, vectors = torch.linalg.eigh(x[0])
    return found, vectors.abs()


def table():
    """name: (make, reference, units in the last place)."""
    t = {}
    t["einsum"] = (einsum_case, lambda x, a: torch.einsum(a["equation"], *x), SUM)
    t["tensordot"] = (tensordot_case, lambda x, a: torch.tensordot(*x, (a["left"], a["right"])), SUM)
    t["inner"] = (inner_case, lambda x, a: torch.inner(*x), SUM)
    t["kron"] = (kron_case, lambda x, a: torch.kron(*x), 8 * SUM)
    for name, words in {"baddbmm": ("bnm", "bnk", "bkm"), "addbmm": ("nm", "bnk", "bkm"),
                        "addmv": ("n", "nk", "k"), "addr": ("nm", "n", "m")}.items():
        t[name] = (added_case(*words), lambda x, a, f=getattr(torch, name): f(
            *x, beta=a["beta"], alpha=a["alpha"]), SUM)
    t["cross"] = (cross_case, lambda x, a: torch.cross(*x, dim=a["dim"]) if a["dim"] is not None
                  else torch.cross(*x), SUM)
    t["bilinear"] = (bilinear_case, lambda x, a: F.bilinear(*x), SUM)
    t["cdist"] = (cdist_case, lambda x, a: torch.cdist(*x, float(a["p"])), SUM)
    t["pdist"] = (pdist_case, lambda x, a: F.pdist(x[0], float(a["p"])), SUM)
    t["pairwise_distance"] = (rows_case, lambda x, a: F.pairwise_distance(
        *x, float(a["p"]), a["eps"], a["keepdim"]), SUM)
    t["cosine_similarity"] = (rows_case, lambda x, a: F.cosine_similarity(*x, a["dim"]), SUM)
    t["normalize"] = (normalize_case, lambda x, a: F.normalize(x[0], float(a["p"]), a["dim"]), SUM)

    l = torch.linalg
    for name, fill in {"cholesky": "definite", "inv": "general", "eigvalsh": "symmetric",
                       "det": "general", "slogdet": "general"}.items():
        t[name] = (matrices(fill), lambda x, a, f=getattr(l, name): f(x[0]), SOLVE)
    t["svdvals"] = (matrices(square=False), lambda x, a: l.svdvals(x[0]), SOLVE)
    t["solve"] = (solve_case(True), lambda x, a: l.solve(*x), SOLVE)
    t["solve_triangular"] = (triangular_case, lambda x, a: l.solve_triangular(
        *x, upper=a["upper"], left=a["left"], unitriangular=a["unit"]), SOLVE)
    t["cholesky_solve"] = (factor_case, lambda x, a: torch.cholesky_solve(
        x[0], x[1].triu() if a["upper"] else x[1].tril(), a["upper"]), SOLVE)
    t["multi_dot"] = (chain_case, lambda x, a: l.multi_dot(x), 8 * SUM)
    t["vecdot"] = (rows_case, lambda x, a: l.vecdot(*x, dim=a["dim"]), SUM)
    t["cond"] = (matrices(p=[None, 2, -2, 1, "inf"]), lambda x, a: l.cond(
        x[0], float(a["p"]) if a["p"] else None), SOLVE)
    t["lstsq"] = (solve_case(False), lambda x, a: l.lstsq(*x).solution, SOLVE)
    t["pinv"] = (matrices("general|deficient", False, rcond=[None, 1e-3]),
                 lambda x, a: l.pinv(x[0], rtol=a["rcond"]), SOLVE)
    t["matrix_rank"] = (matrices("general|deficient", False, tol=[None, 0.1, 1.6]),
                        lambda x, a: l.matrix_rank(x[0], a["tol"]), 0)
    t["matrix_power"] = (matrices(n=[0, 1, 2, 3, 5, -1, -2]),
                         lambda x, a: l.matrix_power(x[0], a["n"]), SOLVE)
    t["qr"] = (matrices(square=False, mode=["reduced", "complete"]),
               lambda x, a: [f.abs() for f in l.qr(x[0], a["mode"])], SOLVE)
    t["eigh"] = (matrices("symmetric"), eigh, SOLVE)
    t["svd"] = (matrices(square=False), svd, SOLVE)
    t["svd_full"] = (matrices(square=False), svd_full, SOLVE)
    t["matrix_norm"] = (norm_case, matrix_norm, SOLVE)
    return t
