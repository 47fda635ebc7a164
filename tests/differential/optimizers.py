"""Cases of optimizers and schedulers: a few steps from random parameters. A case's inputs are the
parameters of all groups, then gradients."""

import inspect

import torch
from torch.optim import _muon, lr_scheduler, swa_utils

from modules import BOOLS, pick
from tensors import Input, shape_of, values

PREFIX = "optim."
DTYPES = ["float32"] * 4 + ["float64"] * 3 + ["float16", "bfloat16"]
# Optimizers and schedulers of PyTorch's that are not drawn, and why.
LEFT_OUT = {"Optimizer|LRScheduler|_LRScheduler": "bases", "SparseAdam": "sparse tensors are not supported",
            "Adafactor": "is not there"}
UNDRAWN = {"params", "foreach", "capturable", "differentiable", "fused"}  # options of how, not what
OPTIONS_LEFT_OUT = {"Adam.decoupled_weight_decay": "AdamW has it"}
NUMBERS = {"step", "mu_product", "mu", "eta", "n_iter", "func_evals", "t", "H_diag", "prev_loss", "ro"}
# The iteration of Muon is Ferrite's if it does not round to bfloat16.
exec(inspect.getsource(_muon._zeropower_via_newtonschulz).replace("bfloat16", "float64"), vars(_muon))

DECAY = dict(weight_decay=[0.01, 0.3])
BETAS = {"betas.0": [0.5, 0.95], "betas.1": [0.8, 0.99]}
COMMON = DECAY | dict(lr=[0.1, 0.01, 0.5], maximize=BOOLS)
EPS = dict(eps=[1e-3, 1e-6])
DECOUPLED = dict(decoupled_weight_decay=BOOLS)
OPTIONS = {
    "SGD": COMMON | dict(momentum=[0.9, 0.5], dampening=[0.1, 0.5]),
    "Adam": COMMON | BETAS | EPS | dict(amsgrad=BOOLS),
    "AdamW": COMMON | BETAS | EPS | dict(amsgrad=BOOLS),
    "Adagrad": COMMON | dict(lr_decay=[0.1, 0.5], initial_accumulator_value=[0.1, 1]) | EPS,
    "Adadelta": COMMON | dict(rho=[0.5, 0.95]) | EPS, "Adamax": COMMON | BETAS | EPS,
    "NAdam": COMMON | BETAS | EPS | DECOUPLED | dict(momentum_decay=[0.1, 4e-3]),
    "RAdam": COMMON | BETAS | EPS | DECOUPLED,
    "RMSprop": COMMON | EPS | dict(alpha=[0.9, 0.5], momentum=[0.9, 0.5], centered=BOOLS),
    "ASGD": COMMON | dict(lambd=[1e-4, 0.1], alpha=[0.75, 0.5], t0=[0, 2, 1e6]),
    "Rprop": {"lr": [0.1, 0.01], "maximize": BOOLS, "etas.0": [0.5, 0.3], "etas.1": [1.2, 2],
              "step_sizes.0": [1e-6, 1e-3], "step_sizes.1": [50, 0.2]},
    "LBFGS": dict(lr=[0.05, 0.1], max_iter=[1, 4, 6], max_eval=[3, 9], tolerance_grad=[1e-7, 0.1],
                  tolerance_change=[1e-9, 0.01], history_size=[1, 2, 5],
                  line_search_fn=["strong_wolfe"], maximize=BOOLS),
    "Muon": DECAY | dict(lr=[0.1, 0.01], momentum=[0.5, 0.9], nesterov=BOOLS, eps=[1e-7, 0.5],
                         ns_steps=[1, 3, 6], adjust_lr_fn=["original", "match_rms_adamw", "spectral_unclamped"]) | {
        "ns_coefficients.0": [2]},
}
SCHEDULERS = {
    "ConstantLR": dict(factor=[0.25, 1], total_iters=[2, 4]),
    "LinearLR": dict(start_factor=[0.1, 0.5], end_factor=[0.8, 0], total_iters=[1, 3]),
    "StepLR": dict(gamma=[0.3, 0.5]), "MultiStepLR": dict(gamma=[0.3, 0.5]), "ExponentialLR": {},
    "PolynomialLR": dict(total_iters=[2, 6], power=[1, 2.5]),
    "CosineAnnealingLR": dict(eta_min=[0, 0.001]), "LambdaLR": {}, "MultiplicativeLR": {},
    "CosineAnnealingWarmRestarts": dict(T_mult=[1, 2], eta_min=[0.001]),
    "OneCycleLR": dict(pct_start=[0.25, 0.6], anneal_strategy=["cos", "linear"], base_momentum=[0.7],
                       max_momentum=[0.9], div_factor=[10], final_div_factor=[100], three_phase=BOOLS),
    "CyclicLR": dict(step_size_up=[2, 4], step_size_down=[1, 3], mode=["triangular", "triangular2", "exp_range"],
                     gamma=[0.9], base_momentum=[0.6], max_momentum=[0.95]),
    "SWALR": dict(anneal_epochs=[0, 2, 5], anneal_strategy=["cos", "linear"]),
    "ReduceLROnPlateau": dict(mode=["min", "max"], factor=[0.5, 0.1], patience=[0, 1], threshold=[1e-4, 0.3],
                              threshold_mode=["rel", "abs"], cooldown=[0, 1], min_lr=[0, 0.05], eps=[1e-8, 0.01]),
}
REQUIRED = {
    "StepLR": dict(step_size=[1, 2, 3]), "MultiStepLR": dict(milestones=[[1, 3], [2, 2, 4]]),
    "ExponentialLR": dict(gamma=[0.9, 0.5]), "CosineAnnealingLR": dict(T_max=[2, 5]),
    "LambdaLR": dict(factor=[0.9]), "MultiplicativeLR": dict(factor=[0.8]),
    "CosineAnnealingWarmRestarts": dict(T_0=[1, 3]), "SWALR": dict(swa_lr=[0.05]),
    "OneCycleLR": dict(max_lr=[0.3]), "CyclicLR": dict(base_lr=[0.01], max_lr=[0.2])}
MEMBERS = ["ConstantLR", "LinearLR", "StepLR", "ExponentialLR", "PolynomialLR", "CosineAnnealingLR"]


def drawn_scheduler(rng, groups, steps, has_momentum, name=None):
    name = name or rng.choice(list(SCHEDULERS) + ["SequentialLR", "ChainedScheduler"])
    member = lambda: drawn_scheduler(rng, groups, steps, has_momentum, rng.choice(MEMBERS))
    if name == "SequentialLR":
        return {"name": name, "schedulers": [member() for _ in range(3)],
                "milestones": sorted(rng.sample(range(1, 6), 2))}
    if name == "ChainedScheduler":
        return {"name": name, "schedulers": [member() for _ in range(rng.randint(1, 3))]}
    options = pick(rng, 1, **REQUIRED.get(name, {})) | pick(rng, **SCHEDULERS[name])
    if name == "OneCycleLR":
        options |= {"total_steps": steps + 1} if rng.random() < 0.5 else {
            "epochs": steps + 1, "steps_per_epoch": 2}
    if name in ("OneCycleLR", "CyclicLR"):
        options["cycle_momentum"] = has_momentum and rng.random() < 0.8
    for key in ("max_lr", "base_lr", "swa_lr", "min_lr"):
        if key in options and rng.random() < 0.3:
            options[key] = [options[key]] * (groups - 1) + [options[key] / 2]
    return {"name": name, **options}


def drawn_options(rng, name, dtype):
    options = pick(rng, **OPTIONS[name])
    if name == "LBFGS":
        options.setdefault("max_iter", 5)
    if name == "SGD" and options.get("momentum") and rng.random() < 0.4:
        options["nesterov"] = True
        options.pop("dampening", None)
    if "ns_coefficients.0" in options:
        options |= {"ns_coefficients.1": -1.5, "ns_coefficients.2": 0.5}
    if dtype in ("float16", "bfloat16") and "eps" in OPTIONS[name]:
        options["eps"] = 1e-3  # smaller ones are 0 in float16, in which PyTorch computes
    return options


def case(name):
    def make(rng):
        dtype, steps = rng.choice(DTYPES), rng.randint(1, 5)
        if name == "LBFGS":
            dtype, steps = "float64", rng.randint(1, 2)  # errors grow from one iteration to the next
        groups = [{"params": rng.randint(1, 3)} | drawn_options(rng, name, dtype)
                  for _ in range(1 if name == "LBFGS" else rng.choice([1, 1, 2]))]
        for group in groups if name == "Adagrad" else []:  # PyTorch has one for all groups
            group["initial_accumulator_value"] = groups[0].get("initial_accumulator_value", 0)
        shapes = []
        for _ in range(sum(g["params"] for g in groups)):
            shape = shape_of(rng, 0, 3)
            shapes.append([max(s, 1) for s in (shape + [2, 3])[:2]] if name == "Muon" else shape)
        ins = [Input(values(rng, shape, dtype, "plain")) for shape in shapes]
        chosen = []
        for _ in range(steps):
            step = []
            for shape in shapes:
                if rng.random() < 0.1 and name != "LBFGS":
                    step.append(None)
                    continue
                grad = values(rng, shape, dtype, "plain")
                step.append(len(ins))
                ins.append(Input(grad * 0 if rng.random() < 0.1 else grad))
            chosen.append(step)
        has_momentum = name not in ("Adagrad", "Adadelta", "ASGD", "Rprop", "LBFGS")
        scheduler = drawn_scheduler(rng, len(groups), steps, has_momentum) if rng.random() < 0.4 else None
        return ins, {"counts": name not in ("SGD", "Muon"), "groups": groups, "steps": chosen, "scheduler": scheduler,
                     "metrics": [round(rng.uniform(0.2, 1), 2) for _ in range(steps)]}
    return make


def nested(options, defaults):
    """betas.0 and betas.1 as betas, with defaults for those that are not given."""
    found = {k: v for k, v in options.items() if "." not in k}
    for name in {k.split(".")[0] for k in options if "." in k}:
        found[name] = tuple(options.get(f"{name}.{i}", d) for i, d in enumerate(defaults[name]))
    return found


def defaults_of(f):
    return {k: p.default for k, p in inspect.signature(f).parameters.items()}


def make_scheduler(optimizer, spec):
    spec = dict(spec)
    name = spec.pop("name")
    if name == "SequentialLR":
        members = [make_scheduler(optimizer, s) for s in spec["schedulers"]]
        return lr_scheduler.SequentialLR(optimizer, members, spec["milestones"])
    if name == "ChainedScheduler":
        return lr_scheduler.ChainedScheduler(
            [make_scheduler(optimizer, s) for s in spec["schedulers"]], optimizer)
    if name in ("LambdaLR", "MultiplicativeLR"):
        factor = spec["factor"]
        spec = {"lr_lambda": (lambda e: factor**e) if name == "LambdaLR" else (lambda e: factor)}
    return getattr(swa_utils if name == "SWALR" else lr_scheduler, name)(optimizer, **spec)


def state_of(optimizer, parameters):
    """Its tensors by name, and numbers in float32; lists are numbered."""
    found = {}

    def add(name, value):
        if isinstance(value, (list, tuple)):
            for i, v in enumerate(value):
                add(f"{name}.{i}", v)
        elif value is not None:
            number = name.split(".")[1] in NUMBERS
            found[name] = torch.as_tensor(value).to(torch.float32).reshape([]) if number else value
    for i, p in enumerate(parameters):
        state = optimizer.state.get(p, {})
        if state.get("step", 1) != 0:  # some make a state before the first step
            for name in state.keys() - {"al"}:  # what LBFGS computes with
                add(f"{i}.{name}", state[name])
    return dict(sorted(found.items()))


def run(name):
    cls = getattr(torch.optim, name)

    def reference(x, a):
        parameters, groups = [], []
        for spec in a["groups"]:
            spec = dict(spec)
            own = [x[len(parameters) + i].clone().requires_grad_() for i in range(spec.pop("params"))]
            parameters += own
            groups.append({"params": own} | nested(spec, defaults_of(cls)))
        torch.set_default_dtype(torch.float64)  # that of numbers in the state
        try:
            return steps(groups, parameters, x, a)
        except ZeroDivisionError as error:  # of OneCycleLR where a phase has no step
            raise ValueError(str(error))
        finally:
            torch.set_default_dtype(torch.float32)

    def steps(groups, parameters, x, a):
        # Of some options PyTorch knows those of the constructor alone.
        shared = {k: v for k, v in groups[0].items() if k != "params"}
        if len(groups) == 1:
            optimizer = cls(groups[0]["params"], **shared)
        else:
            optimizer = cls(groups, **{k: v for k, v in shared.items() if k == "initial_accumulator_value"})
        scheduler = make_scheduler(optimizer, a["scheduler"]) if a["scheduler"] else None
        rates = []
        for step, metric in zip(a["steps"], a["metrics"]):
            given = [None if i is None else x[i] for i in step]

            def closure():
                optimizer.zero_grad()
                loss = sum(((p * p - c) ** 2).sum() for p, c in zip(parameters, given))
                loss = -loss if a["groups"][0].get("maximize") else loss
                loss.backward()
                return loss
            if name == "LBFGS":
                optimizer.step(closure)
            else:
                for p, g in zip(parameters, given):
                    p.grad = None if g is None else g.clone()
                optimizer.step()
            if scheduler:
                scheduler.step(*[metric] * (a["scheduler"]["name"] == "ReduceLROnPlateau"))
            for group in optimizer.param_groups:
                rates.append(float(group["lr"]))
                rates += [group[k] if k == "momentum" else group[k][0] for k in ("momentum", "betas") if k in group]
        state = state_of(optimizer, parameters)
        names = torch.tensor(list("".join(n + "\n" for n in state).encode()), dtype=torch.uint8)
        return [p.detach() for p in parameters] + [torch.tensor(rates, dtype=torch.float64), names] + [
            t.detach() for t in state.values()]
    return reference


def undrawn(table, seeds):
    """What is not drawn: optimizers, their options, and schedulers."""
    missing, scheduled = [], set()
    classes = [c for c in vars(torch.optim).values()
               if inspect.isclass(c) and issubclass(c, torch.optim.Optimizer)]
    left_out = {name for names in LEFT_OUT for name in names.split("|")}
    for cls in classes:
        name = cls.__name__
        if name in left_out:
            continue
        if PREFIX + name not in table:
            missing.append(PREFIX + name)
            continue
        drawn = set()
        for rng in seeds():
            args = table[PREFIX + name][0](rng)[1]
            drawn |= {k.split(".")[0] for g in args["groups"] for k in g}
            scheduled.add((args["scheduler"] or {"name": None})["name"])
        missing += [f"{PREFIX}{name}.{o}" for o in defaults_of(cls)
                    if o not in drawn | UNDRAWN and f"{name}.{o}" not in OPTIONS_LEFT_OUT]
    missing += [name for name, c in vars(lr_scheduler).items()
                if inspect.isclass(c) and issubclass(c, lr_scheduler.LRScheduler)
                and name not in scheduled | left_out]
    return missing


def table():
    """name: (make, reference, units in the last place)."""
    return {PREFIX + name: (case(name), run(name), 10**6 if name == "LBFGS" else 32) for name in OPTIONS}
