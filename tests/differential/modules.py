"""Cases of layers and losses as modules: constructed from options, with parameters and buffers by
name, in training and in evaluation. A case's inputs are those of the call, then those tensors."""

import fnmatch
import pathlib
import re
import sys

import torch
from torch import nn
from torch.func import functional_call

from tensors import Input, values

sys.path.append(str(pathlib.Path(__file__).parents[1] / "api"))
import torch_nn_options  # noqa: E402

PREFIX = "nn."
BOOLS = [True, False]
DTYPES = ["float32"] * 4 + ["float64"] * 2 + ["float16", "bfloat16"]
# Modules of Ferrite and PyTorch that are not drawn, and why.
LEFT_OUT = {
    "DataParallel|SyncBatchNorm": "need several devices",
    "Module|ModuleDict|ModuleList|ParameterDict|ParameterList|Sequential": "hold what users write",
    "RNNBase|RNNCellBase": "bases of others",
}
# The same of options.
OPTIONS_LEFT_OUT = {
    "Transformer.custom_*|TripletMarginWithDistanceLoss.distance_function": "are functions",
    "TransformerEncoder.*_layer|TransformerDecoder.*_layer": "are made of options of their own",
    "RNN.proj_size|GRU.proj_size": "of LSTMs alone",
}


def pick(rng, share=0.6, /, **choices):
    """Some of these options: each a list of values, or a function that draws one."""
    return {name: v(rng) if callable(v) else rng.choice(v) for name, v in choices.items()
            if rng.random() < share}


def decoded(options):
    """As PyTorch takes them: sizes as tuples, tensors of one value, "inf"."""
    def value(v):
        if isinstance(v, dict):
            return torch.full(v["shape"], float(v["value"]))
        return tuple(v) if isinstance(v, list) else float(v) if v == "inf" else v
    return {name: value(v) for name, v in options.items()}


def build(name, options):
    """PyTorch's module; `norm` and the like, which it takes as modules, are flags."""
    options = decoded(options)
    if name == "utils.weight_norm":
        return nn.utils.weight_norm(nn.Linear(options.pop("in_features"), options.pop("out_features")),
                                    **options)
    if name == "utils.spectral_norm":
        n = options.pop("n_power_iterations")
        return nn.utils.spectral_norm(nn.Conv2d(**options), n_power_iterations=n)
    if name in ("TransformerEncoder", "TransformerDecoder"):
        layers = options.pop("num_layers")
        norm = nn.LayerNorm(options["d_model"]) if options.pop("norm") else None
        more = {"enable_nested_tensor": False} if name == "TransformerEncoder" else {}
        return getattr(nn, name)(getattr(nn, name + "Layer")(**options), layers, norm, **more)
    if name.startswith("FractionalMaxPool"):
        options["_random_samples"] = options.pop("random_samples")
    if name.startswith("MaxUnpool"):
        options.pop("output_size", None)
    return getattr(nn, name)(**options)


def flattened(results):
    """The tensors in them."""
    if isinstance(results, torch.Tensor):
        return [results]
    return [t for r in results or () for t in flattened(r)]


def reference(name):
    def run(x, a):
        options = dict(a["options"])
        module = build(name, options | {k: a["call"][k] for k in ["return_indices"] if k in a["call"]})
        module.train(a["training"])
        inputs = [None if i is None else x[i] for i in a["inputs"]]
        if options.get("inplace"):
            inputs[0] = inputs[0].clone()
        if name.startswith("FractionalMaxPool"):
            module._random_samples = module._random_samples.to(inputs[0].dtype)
        if name in ("LSTM", "LSTMCell") and len(inputs) == 3:
            inputs[1:] = [tuple(inputs[1:])]
        named = {k: x[i] for k, i in a["named"].items()} | {
            k: v for k, v in a["call"].items() if k != "return_indices"}
        if options.get("output_size") and name.startswith("MaxUnpool"):
            named["output_size"] = options["output_size"]
        state = {k: x[i] for k, i in a["state"].items()}
        try:
            results = functional_call(module, state, tuple(inputs), named)
        except AssertionError as error:
            raise RuntimeError(str(error))
        return flattened(results) + [t.detach() for t in state.values()]
    return run


def state_of(rng, module, dtype):
    """Random values of parameters and buffers, by name."""
    parameters, state = dict(module.named_parameters()), {}
    for name, t in sorted(module.state_dict().items()):
        last = name.split(".")[-1]
        if last == "_random_samples":
            continue  # an option, which Ferrite does not save
        if not t.is_floating_point():
            state[name] = Input(torch.tensor(rng.randint(0, 3)))
        elif last in ("weight_u", "weight_v") and name not in parameters:
            state[name] = Input(t.to(values(rng, [], dtype).dtype))  # they have a length of 1
        else:
            fill = "plain" if name in parameters or last == "running_mean" else "positive"
            t = values(rng, list(t.shape), dtype, fill)
            state[name] = Input(t, grad=name in parameters and rng.random() < 0.9)
    return state


def dtype_of(inputs, otherwise):
    found = [x.base.dtype for x in inputs if x is not None and x.base.is_floating_point()]
    return str(found[0])[6:] if found else otherwise


def case(name, draw):
    """`draw` gives the options, the inputs, and maybe arguments by name: numbers, and tensors."""
    def make(rng):
        training = rng.random() < 0.6
        # Through many layers or steps roundings of 16 bits become as large as the numbers.
        dtype = rng.choice(DTYPES[:6] if re.fullmatch(".*Transformer.*|RNN|LSTM|GRU", name) else DTYPES)
        options, inputs, *more = draw(rng, dtype, training)
        call, named = (list(more) + [{}, {}])[:2]
        torch.manual_seed(rng.getrandbits(32))
        state = state_of(rng, build(name, options), dtype_of(inputs, dtype))
        ins = [x for x in inputs if x is not None]
        places = iter(range(len(ins)))
        args = {"options": options, "call": call, "training": training,
                "inputs": [None if x is None else next(places) for x in inputs]}
        for kind, tensors in {"named": named, "state": state}.items():
            args[kind] = {k: len(ins) + i for i, k in enumerate(tensors)}
            ins += tensors.values()
        return ins, args
    return make


def undrawn(table, seeds):
    """What is not drawn: modules that both have, and options of those."""
    options, _, reasons = torch_nn_options.read_list()
    listed = (torch_nn_options.FOLDER / "torch_nn.txt").read_text().splitlines()
    there = [line[3:] for line in listed if line.startswith("nn.") and ":" not in line]
    missing = []
    for name in there:
        if any(name in names.split("|") for names in LEFT_OUT):
            continue
        if PREFIX + name not in table:
            missing.append(name)
            continue
        make, drawn = table[PREFIX + name][0], set()
        for rng in seeds():
            args = make(rng)[1]
            drawn |= args["options"].keys() | args["call"].keys()
        missing += [f"{name}.{option}" for option in options.get(name, []) if option not in drawn
                    and not torch_nn_options.explaining(reasons, name, option)
                    and not any(fnmatch.fnmatchcase(f"{name}.{option}", pattern)
                                for patterns in OPTIONS_LEFT_OUT for pattern in patterns.split("|"))]
    return missing


def table():
    """name: (make, reference, units in the last place)."""
    from layer_cases import layers
    from network_cases import networks
    many = "(Batch|Layer|RMS|Group|Instance).*|utils.*|.*Attention|RNN|LSTM|GRU"
    return {PREFIX + name: (case(name, draw), reference(name),
                           16384 if "Transformer" in name else 4096 if re.fullmatch(many, name) else 32)
            for name, draw in (layers() | networks()).items()}
