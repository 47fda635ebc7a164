"""Cases of the other tables with complex numbers, of the ops that only these have and of Fourier
transforms, and PyTorch's results of them."""

import torch

from elementwise import FUNCTION, broadcast_shape, view_shape
from structured import SUM, a_dim, indices
from tensors import DTYPES, FLOATS, NAMES, Input, make_input, shape_of, values

PREFIX = "complex:"  # of ops that other tables have too
WIDE = ["float32", "float64"]
COMPLEX = {"float32": "complex64", "float16": "complex64", "bfloat16": "complex64",
           "float64": "complex128"}
# The ops of other tables that take complex numbers; the rest refuse them.
SHARED = """
neg abs square reciprocal isnan isinf isfinite exp positive sgn softsign neg_ mul div eq ne mul_ div_
add add_ sub sub_ add_scalar sub_scalar mul_scalar div_scalar eq_scalar ne_scalar add_scalar_
sub_scalar_ mul_scalar_ div_scalar_ rsub_scalar rdiv_scalar fill_ copy_ to where where_scalar
nan_to_num nan_to_num_ addcmul addcmul_ addcdiv addcdiv_ isclose sum mean gather index_select masked_fill masked_fill_
masked_select nonzero cat stack split chunk unbind repeat tile pad flip roll unfold diagonal reshape
select squeeze unsqueeze trace diff take take_along_dim masked_scatter masked_scatter_ atleast broadcast_tensors tensor_split tensor_split_at rot90 hstack vstack dstack
block_diag cartesian_prod meshgrid combinations diag diag_embed repeat_interleave
repeat_interleave_tensor pixel_shuffle pixel_unshuffle channel_shuffle im2col matmul outer kron
cross
""".split()
TRANSFORM = 32 * SUM  # sums of a thousand numbers that cancel, by way of convolutions
NORMS = [None, None, "backward", "forward", "ortho"]


def with_imaginary(rng, x):
    """The same input of complex numbers, of which both parts may be special."""
    kind = "float64" if x.base.dtype == torch.float64 else "float32"
    imag = values(rng, list(x.base.shape), kind, rng.choice(["any", "plain"]))
    return Input(torch.complex(x.base.to(DTYPES[kind]), imag), x.views, x.grad)


def of_complex(make):
    """Cases of `make` in which one or more of the floating inputs are complex."""
    def made(rng):
        while True:
            ins, args = make(rng)
            chance = rng.choice([1, 1, 0.5])
            chosen = [x.base.is_floating_point() and rng.random() < chance for x in ins]
            if any(chosen):
                break
        ins = [with_imaginary(rng, x) if c else x for x, c in zip(ins, chosen)]
        for name in ["other", "alpha", "value"]:
            if name in args and rng.random() < 0.3:
                args[name] = complex(args[name], rng.choice([0, 1, -2.5]))
        if args.get("dtype") in COMPLEX and rng.random() < 0.7:
            args["dtype"] = COMPLEX[args["dtype"]]
        return ins, args
    return made


def signal(rng, shape, dtypes=("complex64", "complex128", "float32", "float64")):
    kind = rng.choice(list(dtypes))
    if not kind.startswith("complex"):
        return make_input(rng, shape, kind)
    return with_imaginary(rng, make_input(rng, shape, "float64" if kind[7:] == "128" else "float32"))


ANY = ["complex64", "complex128"] * 3 + WIDE * 2 + ["float16", "bfloat16", "int64", "bool"]
REAL = WIDE * 4 + ["float16", "int64", "complex64"]


def one(dtypes=ANY):
    return lambda rng: ([signal(rng, shape_of(rng), dtypes)], {})


def parts_case(rng):
    shape, kind = shape_of(rng), rng.choice(WIDE * 4 + ["float16", "int64"])
    other = kind if rng.random() < 0.9 else rng.choice(WIDE)
    return [make_input(rng, shape if rng.random() < 0.6 else broadcast_shape(rng, shape), kind),
            make_input(rng, broadcast_shape(rng, shape), other)], {}


def pairs_case(rng):
    return [make_input(rng, shape_of(rng, 0, 3) + [2], rng.choice(WIDE))], {}


def part_case(rng):
    return [with_imaginary(rng, make_input(rng, shape_of(rng), rng.choice(WIDE), expands=False))], {
        "imag": rng.random() < 0.5, "value": rng.choice([0, 1.5, -2])}


def write_part(x, a):
    (x[0].imag if a["imag"] else x[0].real).mul_(a["value"])
    return x[0]


def index_put_case(rng):
    shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 3))]
    n, kind = rng.randint(0, 6), rng.choice(WIDE)
    x = with_imaginary(rng, make_input(rng, shape, kind, expands=False))
    source = with_imaginary(rng, make_input(rng, [n] + shape[1:], kind))
    accumulate = rng.random() < 0.5
    at = indices(rng, [n], shape[0])
    if not accumulate:  # no place twice
        at = Input(torch.arange(shape[0])[:n])
        source.base, source.views = source.leaf().detach()[:len(at.base)], []
    return [x, at, source], {"accumulate": accumulate}


def length_of(rng, size):
    return rng.choice([None, None, size, size + 1, 2 * size, max(size - 1, 1), size // 2 + 1,
                       rng.choice([1, 8, 15, 64])])


def transform_case(dtypes):
    def make(rng):
        shape = shape_of(rng, 0 if rng.random() < 0.03 else 1)
        d = a_dim(rng, len(shape))
        return [signal(rng, shape, dtypes)], {
            "n": length_of(rng, shape[d] if shape else 1), "dim": d, "norm": rng.choice(NORMS)}
    return make


def transforms_case(dtypes, two):
    def make(rng):
        shape = shape_of(rng, 2 if two else 1)
        n = len(shape)
        dims = None
        if two and rng.random() < 0.5:
            dims = [-2, -1]
        elif two or rng.random() < 0.6:
            dims = rng.sample(range(-n, 0), 2 if two else rng.randint(1, n))
        sizes = None
        if rng.random() < 0.5:
            along = dims or list(range(-rng.randint(1, n), 0))
            sizes = [-1 if rng.random() < 0.3 else length_of(rng, shape[d]) or shape[d] for d in along]
        return [signal(rng, shape, dtypes)], {"s": sizes, "dims": dims, "norm": rng.choice(NORMS)}
    return make


def shift_case(rng):
    shape = shape_of(rng)
    n = len(shape)
    dims = rng.choice([None, rng.sample(range(-n, n), 1) if n else None,
                       rng.sample(range(n), rng.randint(1, n)) if n else None])
    return [signal(rng, shape, ANY)], {"dims": dims}


def bins_case(rng):
    return [], {"n": rng.randint(1, 20), "d": rng.choice([1, 0.5, 0.1, 3]),
                "dtype": rng.choice(WIDE)}


def window_case(rng):
    return [], {"n": rng.randint(0, 20), "periodic": rng.random() < 0.5,
                "dtype": rng.choice(FLOATS + ["int64"])}


def short_time(rng):
    n = rng.choice([4, 6, 8, 9, 16])
    args = {"n_fft": n, "hop": rng.choice([None, 1, n // 2, n // 4 or 1]),
            "win": rng.choice([None, None, n, n - 2]), "center": rng.random() < 0.7,
            "normalized": rng.random() < 0.4, "onesided": rng.choice([None, None, True, False])}
    kind = rng.choice(WIDE)
    window = [make_input(rng, [args["win"] or n], kind, rng.choice(["positive", "positive", "any"]))]
    return args, kind, window * (rng.random() < 0.6)


def stft_case(rng):
    args, kind, window = short_time(rng)
    shape = ([rng.randint(1, 3)] if rng.random() < 0.6 else []) + [rng.randint(1, 40)]
    x = signal(rng, shape, [kind] * 3 + [COMPLEX[kind]])
    return [x] + window, args | {"mode": rng.choice(["reflect", "constant", "replicate"]),
                                 "return_complex": rng.random() < 0.8}


def istft_case(rng):
    args, kind, window = short_time(rng)
    n = args["n_fft"] if args["onesided"] is False else args["n_fft"] // 2 + 1
    shape = ([rng.randint(1, 3)] if rng.random() < 0.6 else []) + [n, rng.randint(1, 6)]
    for w in window:
        w.base = w.base.nan_to_num(1, 1, 1).clamp(-9, 9).abs() + 0.1
    x = signal(rng, shape, [COMPLEX[kind]] * 9 + [kind])
    return [x] + window, args | {"length": rng.choice([None, None, 5, 13, 30]),
                                 "return_complex": rng.random() < 0.2}


def stft(x, a):
    return torch.stft(x[0], a["n_fft"], a["hop"], a["win"], x[1] if len(x) > 1 else None,
                      a["center"], a["mode"], a["normalized"], a["onesided"],
                      return_complex=a["return_complex"])


def istft(x, a):
    return torch.istft(x[0], a["n_fft"], a["hop"], a["win"], x[1] if len(x) > 1 else None,
                       a["center"], a["normalized"], a["onesided"], a["length"],
                       a["return_complex"])


def add_transforms(t):
    f = torch.fft
    for name in ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]:
        dtypes = REAL if name in ("rfft", "ihfft") else ANY
        t[name] = (transform_case(dtypes), lambda x, a, f=getattr(f, name): f(
            x[0], a["n"], a["dim"], a["norm"]), TRANSFORM)
    for name in ["fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2", "fftn", "ifftn", "rfftn",
                 "irfftn", "hfftn", "ihfftn"]:
        real = name[0] == "r" or name.startswith("ih")
        t[name] = (transforms_case(REAL if real else ANY, name[-1] == "2"),
                   lambda x, a, f=getattr(f, name): f(x[0], a["s"], a["dims"], a["norm"]), TRANSFORM)
    for name in ["fftshift", "ifftshift"]:
        t[name] = (shift_case, lambda x, a, f=getattr(f, name): f(x[0], a["dims"]), 0)
    for name in ["fftfreq", "rfftfreq"]:
        t[name] = (bins_case, lambda x, a, f=getattr(f, name): f(
            a["n"], a["d"], dtype=DTYPES[a["dtype"]]), 1)
    for name in ["hann_window", "hamming_window"]:
        t[name] = (window_case, lambda x, a, f=getattr(torch, name): f(
            a["n"], a["periodic"], dtype=DTYPES[a["dtype"]]), SUM)
    t["stft"] = (stft_case, stft, TRANSFORM)
    t["istft"] = (istft_case, istft, TRANSFORM)


def table(others):
    """name: (make, reference, units in the last place); `others` is the table of all other ops."""
    t = {}
    for name in SHARED:
        make, reference, ulps = others[name]
        if name in ("abs", "sgn"):  # no longer a matter of the sign bit
            ulps = FUNCTION
        t[PREFIX + name] = (of_complex(make), reference, ulps)
    t["from_parts"] = (parts_case, lambda x, a: torch.complex(*x), 0)
    t["polar"] = (parts_case, lambda x, a: torch.polar(*x), FUNCTION)
    t["view_as_real"] = (one(), lambda x, a: torch.view_as_real(x[0]), 0)
    t["view_as_complex"] = (pairs_case, lambda x, a: torch.view_as_complex(x[0]), 0)
    t["real"] = (one(), lambda x, a: torch.real(x[0]), 0)
    t["imag"] = (one(), lambda x, a: torch.imag(x[0]), 0)
    t["conj"] = (one(), lambda x, a: torch.conj(x[0]), 0)
    t["angle"] = (one(), lambda x, a: torch.angle(x[0]), FUNCTION)
    t["is_complex"] = (one(), lambda x, a: torch.tensor(torch.is_complex(x[0])), 0)
    t["write_part_"] = (part_case, write_part, 0)
    t["index_put_"] = (index_put_case, lambda x, a: x[0].index_put_(
        (x[1],), x[2], a["accumulate"]), SUM)
    add_transforms(t)
    return t
