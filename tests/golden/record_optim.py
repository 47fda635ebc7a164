"""Twenty steps of every optimizer in every combination of its options, in float64."""

import itertools

import torch

from recorder import Recorder

STEPS = 20
SIZES = [(3, 4), (5,)]


def run(make, start, grads):
    params = [p.clone().requires_grad_() for p in start]
    optimizer = make(params)
    for step in range(STEPS):
        for i, p in enumerate(params):
            # The second parameter has no gradient in step 7.
            p.grad = None if i == 1 and step == 7 else grads[i][step].clone()
        optimizer.step()
    return params


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
