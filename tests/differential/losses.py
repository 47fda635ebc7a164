"""Cases of losses of margins, counts, distributions and sequences, and PyTorch's results of them."""

import torch
import torch.nn.functional as F

from layers import SUM, TYPES, classes_case, loss_case, optional
from structured import indices
from tensors import FLOATS, Input, broadcast_shape, make_input, shape_of, values

REDUCTIONS = ["none", "mean", "sum"]


def signs(rng, shape, dtype):
    g = torch.Generator().manual_seed(rng.getrandbits(40))
    return Input((torch.randint(0, 2, shape, generator=g) * 2 - 1).to(values(rng, [], dtype).dtype))


def arguments(rng, choices):
    return {"reduction": rng.choice(REDUCTIONS)} | {n: rng.choice(v) for n, v in choices.items()}


def signed_case(inputs, **choices):
    """Tensors of one shape, and a target of 1 and -1."""
    def make(rng):
        shape, dtype = shape_of(rng, 0, 3), rng.choice(TYPES)
        return [make_input(rng, shape, dtype) for _ in range(inputs)] + [signs(rng, shape, dtype)], \
            arguments(rng, choices)
    return make


def weighted_classes(make):
    def made(rng):
        ins, args = make(rng)
        if rng.random() < 0.7:
            ins.append(make_input(rng, [ins[0].base.shape[1]], str(ins[0].base.dtype)[6:], "positive",
                                  grad=False))
        return ins, args
    return made


def weighted_loss(fill, count):
    def make(rng):
        ins, args = loss_case(fill, "unit", False)(rng)
        shape, dtype = list(ins[1].base.shape), str(ins[0].base.dtype)[6:]
        ins = [make_input(rng, shape, dtype, fill), make_input(rng, shape, dtype, "unit")]
        return ins + [make_input(rng, broadcast_shape(rng, shape), dtype, "positive", grad=False)
                      for _ in range(count)], args
    return make


def gaussian_case(rng):
    shape, dtype = shape_of(rng, 1, 3), rng.choice(TYPES)
    var = rng.choice([shape, shape, shape[:-1] + [1], shape[:-1]])
    return [make_input(rng, shape, dtype), make_input(rng, shape, dtype),
            make_input(rng, var, dtype, "unit")], arguments(
                rng, {"full": [True, False], "eps": [1e-6, 1e-3]})


def cosine_case(rng):
    rows, dtype = rng.choice([[], [rng.randint(1, 5)]]), rng.choice(TYPES)
    shape = rows + [rng.randint(1, 5)]
    return [make_input(rng, shape, dtype), make_input(rng, shape, dtype), signs(rng, rows, dtype)], \
        arguments(rng, {"margin": [0, 0.5, -0.2]})


def triplet_case(rng):
    shape, dtype = shape_of(rng, 1, 3), rng.choice(TYPES)
    return [make_input(rng, shape, dtype) for _ in range(3)], arguments(
        rng, {"margin": [1.03, 0.57], "p": [2, 2, 1, 3], "swap": [True, False]})


def rows_of_classes(rng):
    return ([] if rng.random() < 0.2 else [rng.randint(1, 5)]), rng.randint(1, 6), rng.choice(TYPES)


def multi_margin_case(rng):
    rows, c, dtype = rows_of_classes(rng)
    ins = [make_input(rng, rows + [c], dtype), indices(rng, rows, c)]
    if rng.random() < 0.5:
        ins.append(make_input(rng, [c], dtype, "positive", grad=False))
    return ins, arguments(rng, {"p": [1, 2], "margin": [1, 0.5]})


def multilabel_case(rng):
    rows, c, dtype = rows_of_classes(rng)
    g = torch.Generator().manual_seed(rng.getrandbits(40))
    labels = torch.rand(rows + [c], generator=g).argsort(-1)  # no label twice
    ends = torch.randint(0, c + 1, rows + [1], generator=g)
    labels[torch.arange(c).expand(rows + [c]) >= ends] = -1
    return [make_input(rng, rows + [c], dtype), Input(labels)], arguments(rng, {})


def soft_labels_case(rng):
    shape, dtype = shape_of(rng, 1, 2), rng.choice(TYPES)
    ins = [make_input(rng, shape, dtype), make_input(rng, shape, dtype, "unit")]
    if rng.random() < 0.5:
        ins.append(make_input(rng, shape[-1:], dtype, "positive", grad=False))
    return ins, arguments(rng, {})


def ctc_case(rng):
    steps, n, c, most = rng.randint(1, 9), rng.randint(1, 3), rng.randint(2, 5), rng.randint(1, 4)
    blank = rng.choice([0, 0, c - 1])
    lengths = [rng.randint(0, most) for _ in range(n)]
    x = make_input(rng, [steps, n, c], rng.choice(["float32", "float64"]), "plain")
    labels = indices(rng, [n, most] if rng.random() < 0.6 else [sum(lengths)], c - 1)
    labels.base += blank == 0
    inputs = [rng.randint(1, steps) for _ in range(n)]
    ins = [x, labels, Input(torch.tensor(inputs)), Input(torch.tensor(lengths))]
    if rng.random() < 0.2:  # without a batch
        ins = [make_input(rng, [steps, c], str(x.base.dtype)[6:], "plain"),
               Input(torch.full([lengths[0]], int(blank == 0))),
               Input(torch.tensor(inputs[0])), Input(torch.tensor(lengths[0]))]
    return ins, arguments(rng, {"zero_infinity": [True, False]}) | {"blank": blank}


def ctc(x, a):
    """Of log probabilities, as its gradient supposes."""
    return F.ctc_loss(x[0], x[1], x[2], x[3], a["blank"], a["reduction"], a["zero_infinity"])


def table():
    """name: (make, reference, units in the last place)."""
    t = {}
    t["cross_entropy_weight"] = (weighted_classes(classes_case(False)), lambda x, a: F.cross_entropy(
        x[0], x[1], optional(x, 2), ignore_index=a["ignore_index"], label_smoothing=a["smoothing"],
        reduction=a["reduction"]), SUM)
    t["nll_loss_weight"] = (weighted_classes(classes_case(True)), lambda x, a: F.nll_loss(
        x[0], x[1], optional(x, 2), ignore_index=a["ignore_index"], reduction=a["reduction"]), SUM)
    t["bce_weight"] = (weighted_loss("unit", 1), lambda x, a: F.binary_cross_entropy(
        *x, reduction=a["reduction"]), SUM)
    t["bce_with_logits_weight"] = (
        weighted_loss("any", 2), lambda x, a: F.binary_cross_entropy_with_logits(
            x[0], x[1], x[2], reduction=a["reduction"], pos_weight=x[3]), SUM)
    t["poisson_nll_loss"] = (
        loss_case(mixed=False, log_input=[True, False], full=[True, False], eps=[1e-8, 1e-3]),
        lambda x, a: F.poisson_nll_loss(*x, **a), SUM)
    t["gaussian_nll_loss"] = (gaussian_case, lambda x, a: F.gaussian_nll_loss(*x, **a), SUM)
    t["hinge_embedding_loss"] = (signed_case(1, margin=[1, 0.5]),
                                 lambda x, a: F.hinge_embedding_loss(*x, **a), SUM)
    t["soft_margin_loss"] = (signed_case(1), lambda x, a: F.soft_margin_loss(*x, **a), SUM)
    t["margin_ranking_loss"] = (signed_case(2, margin=[0, 0.5]),
                                lambda x, a: F.margin_ranking_loss(*x, **a), SUM)
    t["cosine_embedding_loss"] = (cosine_case, lambda x, a: F.cosine_embedding_loss(*x, **a), SUM)
    t["triplet_margin_loss"] = (triplet_case, lambda x, a: F.triplet_margin_loss(*x, **a), SUM)
    t["multi_margin_loss"] = (multi_margin_case, lambda x, a: F.multi_margin_loss(
        x[0], x[1], weight=optional(x, 2), **a), SUM)
    t["multilabel_margin_loss"] = (multilabel_case,
                                   lambda x, a: F.multilabel_margin_loss(*x, **a), SUM)
    t["multilabel_soft_margin_loss"] = (
        soft_labels_case, lambda x, a: F.multilabel_soft_margin_loss(
            x[0], x[1], optional(x, 2), **a), SUM)
    t["ctc_loss"] = (ctc_case, ctc, 128)
    return t
