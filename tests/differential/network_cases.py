"""Cases of recurrent layers, attention, transformers and losses as modules."""

import math

import torch

import layers
import losses
from elementwise import view_shape
from layer_cases import plain
from modules import BOOLS, pick
from structured import indices
from tensors import Input, make_input, values


def chance(training):
    """Probabilities of dropouts; in training those that leave nothing to chance."""
    return [0, 0, 1] if training else [0, 0.3]


def recurrent(states, **choices):
    def draw(rng, dtype, training):
        width, hidden, n = rng.randint(1, 4), rng.randint(2, 4), rng.randint(1, 3)
        options = {"input_size": width, "hidden_size": hidden} | pick(
            rng, num_layers=[1, 2, 3], bias=BOOLS, batch_first=BOOLS, bidirectional=BOOLS, **choices)
        if options.get("num_layers", 1) > 1:  # else PyTorch warns of a dropout that nothing follows
            options |= pick(rng, dropout=chance(training))
        if states == 2:
            options |= pick(rng, 0.3, proj_size=[0, 1, hidden - 1])
        batch = [] if rng.random() < 0.2 else [n]
        shape = [rng.randint(1, 5)] + batch + [width]
        if options.get("batch_first") and batch:
            shape[:2] = shape[1::-1]
        count = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
        out = options.get("proj_size") or hidden
        ins = [plain(rng, shape, dtype)]
        if rng.random() < 0.5:
            ins += [plain(rng, [count] + batch + [size], dtype) for size in [out, hidden][:states]]
        return options, ins
    return draw


def cell(states, **choices):
    def draw(rng, dtype, training):
        width, hidden, n = rng.randint(1, 4), rng.randint(1, 4), rng.randint(1, 3)
        ins = [plain(rng, [n, width], dtype)]
        if rng.random() < 0.6:
            ins += [plain(rng, [n, hidden], dtype) for _ in range(states)]
        return {"input_size": width, "hidden_size": hidden} | pick(rng, bias=BOOLS, **choices), ins
    return draw


def mask(rng, shape, dtype):
    """Bool or of floating numbers; every query attends to the first key."""
    if rng.random() < 0.5:
        hidden = values(rng, shape, "bool")
        hidden[..., 0] = False
        return Input(hidden)
    added = values(rng, shape, dtype, "plain")
    if rng.random() < 0.5:
        added[added > 0.7] = -math.inf
        added[..., 0] = 0
    return Input(added, grad=False)


def masks(rng, dtype, **shapes):
    return {name: mask(rng, shape, dtype) for name, shape in shapes.items() if rng.random() < 0.3}


def causal(rng, dtype, named, call, name, flag, length):
    """Sometimes that mask is the causal one, and the flag says so."""
    if rng.random() < 0.2:
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        named[name] = Input(future if rng.random() < 0.5 else torch.zeros(length, length).masked_fill(
            future, -math.inf).to(values(rng, [], dtype).dtype))
        call[flag] = True


def sequence(rng, options, batch, length, width, dtype):
    shape = [length] + batch + [width]
    if options.get("batch_first") and batch:
        shape[:2] = shape[1::-1]
    return make_input(rng, shape, dtype, "plain", expands=False)  # equal features have no variance


def attention(rng, dtype, training):
    heads = rng.randint(1, 3)
    width = heads * rng.randint(1, 3)
    options = {"embed_dim": width, "num_heads": heads} | pick(
        rng, dropout=chance(training), bias=BOOLS, batch_first=BOOLS)
    options |= pick(rng, 0.4, add_bias_kv=BOOLS, add_zero_attn=BOOLS, kdim=[width, 3], vdim=[width, 2])
    batch = [] if rng.random() < 0.2 else [rng.randint(1, 3)]
    length, keys = rng.randint(1, 5), rng.randint(1, 5)
    if rng.random() < 0.3:
        keys = length
    sizes_of = [(length, width), (keys, options.get("kdim", width)), (keys, options.get("vdim", width))]
    ins = [sequence(rng, options, batch, n, w, dtype) for n, w in sizes_of]
    every = [math.prod(batch) * heads, length, keys]
    named = masks(rng, dtype, key_padding_mask=batch + [keys],
                  attn_mask=rng.choice([[length, keys], every]))
    call = pick(rng, need_weights=BOOLS, average_attn_weights=BOOLS)
    if length == keys and not ("attn_mask" in named):
        causal(rng, dtype, named, call, "attn_mask", "is_causal", length)
    return options, ins, call, named


def transformer_options(rng, training):
    heads = rng.randint(1, 2)
    return {"d_model": heads * rng.randint(2, 3), "nhead": heads, "dim_feedforward": rng.randint(1, 5),
            "dropout": rng.choice(chance(training)[:2])} | pick(
        rng, activation=["relu", "gelu"], layer_norm_eps=[1e-3, 0.1], batch_first=BOOLS,
        norm_first=BOOLS, bias=BOOLS)


def transformer(stack=False, decoder=False, whole=False):
    def draw(rng, dtype, training):
        options = transformer_options(rng, training)
        width = options["d_model"]
        batch = [] if rng.random() < 0.2 else [rng.randint(1, 3)]
        length, memory = rng.randint(1, 4), rng.randint(1, 4)
        source = sequence(rng, options, batch, memory if decoder or whole else length, width, dtype)
        target = sequence(rng, options, batch, length, width, dtype)
        call = {}
        if whole:
            options |= pick(rng, num_encoder_layers=[0, 1, 2], num_decoder_layers=[1, 2])
            options = {"num_encoder_layers": 1, "num_decoder_layers": 1} | options
            named = masks(rng, dtype, src_mask=[memory, memory], tgt_mask=[length, length],
                          memory_mask=[length, memory], src_key_padding_mask=batch + [memory],
                          tgt_key_padding_mask=batch + [length], memory_key_padding_mask=batch + [memory])
            causal(rng, dtype, named, call, "tgt_mask", "tgt_is_causal", length)
            return options, [source, target], call, named
        if stack:
            options |= {"num_layers": rng.randint(1, 2), "norm": rng.random() < 0.5}
        if decoder:
            named = masks(rng, dtype, tgt_mask=[length, length], memory_mask=[length, memory],
                          tgt_key_padding_mask=batch + [length], memory_key_padding_mask=batch + [memory])
            causal(rng, dtype, named, call, "tgt_mask", "tgt_is_causal", length)
            return options, [target, source], call, named
        name = "mask" if stack else "src_mask"
        named = masks(rng, dtype, **{name: [length, length]}, src_key_padding_mask=batch + [length])
        causal(rng, dtype, named, call, name, "is_causal", length)
        return options, [source], call, named
    return draw


def adaptive_softmax(rng, dtype, training):
    width, classes = rng.randint(4, 8), rng.randint(4, 9)
    cutoffs = sorted(rng.sample(range(1, classes), rng.randint(1, 2)))
    rows = [] if rng.random() < 0.2 else [rng.randint(1, 5)]
    return {"in_features": width, "n_classes": classes, "cutoffs": cutoffs} | pick(
        rng, div_value=[2, 1.5], head_bias=BOOLS), [
            plain(rng, rows + [width], dtype), indices(rng, rows, classes)]


# ---- Losses: the cases of the functions, with numbers that are finite

FUNCTIONS = layers.table() | losses.table()
# Module: (the function's case, how many inputs the call has); further ones are weights.
LOSSES = {
    "MSELoss": ("mse_loss", 2), "L1Loss": ("l1_loss", 2), "SmoothL1Loss": ("smooth_l1_loss", 2),
    "HuberLoss": ("huber_loss", 2), "KLDivLoss": ("kl_div", 2),
    "CrossEntropyLoss": ("cross_entropy_weight", 2), "NLLLoss": ("nll_loss_weight", 2),
    "BCELoss": ("bce_weight", 2), "BCEWithLogitsLoss": ("bce_with_logits_weight", 2),
    "PoissonNLLLoss": ("poisson_nll_loss", 2), "GaussianNLLLoss": ("gaussian_nll_loss", 3),
    "HingeEmbeddingLoss": ("hinge_embedding_loss", 2), "SoftMarginLoss": ("soft_margin_loss", 2),
    "MarginRankingLoss": ("margin_ranking_loss", 3),
    "CosineEmbeddingLoss": ("cosine_embedding_loss", 3),
    "TripletMarginLoss": ("triplet_margin_loss", 3),
    "TripletMarginWithDistanceLoss": ("triplet_margin_loss", 3),
    "MultiMarginLoss": ("multi_margin_loss", 2), "MultiLabelMarginLoss": ("multilabel_margin_loss", 2),
    "MultiLabelSoftMarginLoss": ("multilabel_soft_margin_loss", 2), "CTCLoss": ("ctc_loss", 4)}
ACCEPTED = {  # else all arguments of the function
    "CrossEntropyLoss": ["reduction", "ignore_index", "label_smoothing"],
    "NLLLoss": ["reduction", "ignore_index"], "TripletMarginWithDistanceLoss": ["reduction", "margin", "swap"]}


def finite(x):
    if x.base.is_floating_point():
        x.base = x.base.nan_to_num(0, 1, -1).clamp(-8, 8)
    return x


def loss(name):
    function, count = LOSSES[name]

    def draw(rng, dtype, training):
        ins, args = FUNCTIONS[function][0](rng)
        args = {"label_smoothing" if k == "smoothing" else k: v for k, v in args.items()}
        accepted = ACCEPTED.get(name, args)
        options = {k: v for k, v in args.items() if k in accepted}
        if rng.random() < 0.3:
            options.pop("reduction")
        for key, x in zip(["weight", "pos_weight"], ins[count:]):
            options[key] = {"shape": list(view_shape(x)), "value": 1}
        if name == "CrossEntropyLoss" and rng.random() < 0.3:  # probabilities of classes
            ins[1] = plain(rng, list(view_shape(ins[0])), str(ins[0].base.dtype)[6:], "unit")
            options.pop("ignore_index", None)
        if name == "TripletMarginLoss":
            options |= pick(rng, eps=[1e-6, 0.1])
        return options, [finite(x) for x in ins[:count]]
    return draw


def networks():
    """name: how its options and inputs are drawn."""
    nonlinearity = dict(nonlinearity=["tanh", "relu"])
    return {name: loss(name) for name in LOSSES} | {
        "RNN": recurrent(1, **nonlinearity), "GRU": recurrent(1), "LSTM": recurrent(2),
        "RNNCell": cell(1, **nonlinearity), "GRUCell": cell(1), "LSTMCell": cell(2),
        "MultiheadAttention": attention, "TransformerEncoderLayer": transformer(),
        "TransformerEncoder": transformer(stack=True), "TransformerDecoderLayer": transformer(decoder=True),
        "TransformerDecoder": transformer(stack=True, decoder=True), "Transformer": transformer(whole=True),
        "AdaptiveLogSoftmaxWithLoss": adaptive_softmax}
