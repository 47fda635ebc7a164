"""Twenty steps of every optimizer in every combination of its options, in float64, and LBFGS on
Rosenbrock's function."""

import inspect
import itertools

import torch
from torch.optim import _muon

from recorder import Recorder

STEPS = 20
SIZES = [(3, 4), (5,)]
MATRICES = [(3, 5), (6, 2), (4, 4)]


def run(make, start, grads):
    params = [p.clone().requires_grad_() for p in start]
    optimizer = make(params)
    for step in range(STEPS):
        for i, p in enumerate(params):
            # The second parameter has no gradient in step 7.
            p.grad = None if i == 1 and step == 7 else grads[i][step].clone()
        optimizer.step()
    return params


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


with Recorder("optim") as r:
    start = [torch.randn(size, dtype=torch.float64) for size in SIZES]
    grads = [torch.randn((STEPS, *size), dtype=torch.float64) for size in SIZES]
    for i in range(2):
        r.add("input", **{f"start{i}": start[i], f"grads{i}": grads[i]})

    def add(name, make):
        final = run(make, start, grads)
        r.add(name, p0=final[0], p1=final[1])

    flags = (0, 1)
    for m, d, w, n, x in itertools.product(flags, repeat=5):
        if n and (not m or d):
            continue
        options = dict(momentum=0.9 * m, dampening=0.1 * d, weight_decay=0.01 * w)
        options |= dict(nesterov=bool(n), maximize=bool(x))
        add(f"sgd{m}{d}{w}{n}{x}", lambda p: torch.optim.SGD(p, lr=0.1, **options))
    for w, a, x in itertools.product(flags, repeat=3):
        options = dict(weight_decay=0.01 * w, amsgrad=bool(a), maximize=bool(x))
        add(f"adam{w}{a}{x}", lambda p: torch.optim.Adam(p, lr=0.05, betas=(0.8, 0.95), **options))
        add(f"adamw{w}{a}{x}", lambda p: torch.optim.AdamW(p, lr=0.05, **options))
    for m, c, w in itertools.product(flags, repeat=3):
        options = dict(momentum=0.9 * m, centered=bool(c), weight_decay=0.01 * w)
        add(f"rmsprop{m}{c}{w}", lambda p: torch.optim.RMSprop(p, lr=0.02, alpha=0.9, **options))

    for norm in (1.0, 2.0, 3.0, float("inf")):
        params = [p.clone().requires_grad_() for p in start]
        for i, p in enumerate(params):
            p.grad = grads[i][0].clone()
        total = torch.nn.utils.clip_grad_norm_(params, 1.5, norm)
        r.add(f"clip{norm}", norm=total, g0=params[0].grad, g1=params[1].grad)

    torch.set_default_dtype(torch.float64)  # that of states which are numbers
    for w, x in itertools.product(flags, repeat=2):
        both = dict(weight_decay=0.01 * w, maximize=bool(x))
        decoupled = dict(decoupled_weight_decay=bool(x))
        betas = dict(betas=(0.8, 0.95))
        optim = torch.optim
        start_sum = dict(initial_accumulator_value=0.1 * x)
        add(f"adagrad{w}{x}", lambda p: optim.Adagrad(p, 0.1, lr_decay=0.1 * w, **start_sum, **both))
        add(f"adadelta{w}{x}", lambda p: optim.Adadelta(p, 0.5, rho=0.8, **both))
        add(f"adamax{w}{x}", lambda p: optim.Adamax(p, 0.05, **betas, **both))
        add(f"nadam{w}{x}", lambda p: optim.NAdam(p, 0.05, **betas, **decoupled, **both))
        add(f"radam{w}{x}", lambda p: optim.RAdam(p, 0.05, **betas, **decoupled, **both))
        late = dict(lambd=0.01 + 0.1 * w, t0=5.0 * x)
        add(f"asgd{w}{x}", lambda p: optim.ASGD(p, 0.05, **late, **both))
        sizes = dict(step_sizes=(1e-3, 0.2)) if w else dict()
        add(f"rprop{w}{x}", lambda p: optim.Rprop(p, 0.05, **sizes, maximize=bool(x)))

    for name, options in {
        "lbfgs": dict(lr=0.02, max_iter=7, history_size=3),
        "lbfgs_wolfe": dict(max_iter=6, line_search_fn="strong_wolfe", maximize=True),
        "lbfgs_history": dict(lr=0.5, max_iter=8, history_size=2, line_search_fn="strong_wolfe"),
        "lbfgs_eval": dict(max_iter=9, max_eval=5, line_search_fn="strong_wolfe"),
    }.items():
        params = [torch.tensor([-1.2, 1.0, 0.5]), torch.tensor([[0.3], [2.0]])]
        for p in params:
            p.requires_grad_()
        lbfgs = torch.optim.LBFGS(params, **options)
        calls = 0

        def closure():
            global calls
            calls += 1
            lbfgs.zero_grad()
            loss = rosenbrock(torch.cat([p.reshape(-1) for p in params]))
            loss = -loss if options.get("maximize") else loss
            loss.backward()
            return loss

        losses = [lbfgs.step(closure).detach() for _ in range(4)]
        r.add(name, losses=torch.stack(losses), p0=params[0], p1=params[1], calls=calls)

    # Muon, of matrices alone: as it is, and with its iteration in float64, not in bfloat16.
    start = [torch.randn(size, dtype=torch.float64) for size in MATRICES]
    grads = [torch.randn((STEPS, *size), dtype=torch.float64) for size in MATRICES]
    for i in range(3):
        r.add("muon_input", **{f"start{i}": start[i], f"grads{i}": grads[i]})
    source = inspect.getsource(_muon._zeropower_via_newtonschulz)
    for name, dtype in [("bfloat16", "bfloat16"), ("exact", "float64")]:
        exec(source.replace("bfloat16", dtype), vars(_muon))
        for case, options in {
            "default": dict(),
            "plain": dict(lr=0.02, weight_decay=0, momentum=0.8, nesterov=False),
            "original": dict(lr=0.02, adjust_lr_fn="original"),
            "match_rms_adamw": dict(lr=0.02, adjust_lr_fn="match_rms_adamw"),
            "spectral_unclamped": dict(lr=0.02, adjust_lr_fn="spectral_unclamped"),
            "iteration": dict(lr=0.02, ns_coefficients=(2, -1.5, 0.5), ns_steps=8, eps=0.5),
        }.items():
            final = run(lambda p: torch.optim.Muon(p, **options), start, grads)
            r.add(f"muon_{case}_{name}", **{f"p{i}": p for i, p in enumerate(final)})
