"""The schedulers of tests/optim/pth_scheduler_test.cpp, in PyTorch.

torch_schedulers.py FOLDER goes on with the runs that FOLDER has as NAME.pth.
"""
import pathlib
import sys

import torch
from torch.optim import lr_scheduler as lrs

STEPS, SAVED_AT = 10, 4
METRICS = [1, .9, .95, .93, .92, .91, .9, .8, .85, .86]
SCHEDULERS = {
    "StepLR": lambda o: lrs.StepLR(o, 2, 0.5),
    "MultiStepLR": lambda o: lrs.MultiStepLR(o, [2, 5, 5], 0.3),
    "ExponentialLR": lambda o: lrs.ExponentialLR(o, 0.8),
    "ConstantLR": lambda o: lrs.ConstantLR(o, 0.5, 5),
    "LinearLR": lambda o: lrs.LinearLR(o, 0.2, total_iters=6),
    "CosineAnnealingLR": lambda o: lrs.CosineAnnealingLR(o, 8, 1e-4),
    "CosineAnnealingWarmRestarts": lambda o: lrs.CosineAnnealingWarmRestarts(o, 2, 2),
    "PolynomialLR": lambda o: lrs.PolynomialLR(o, 8, 2.0),
    "LambdaLR": lambda o: lrs.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    "MultiplicativeLR": lambda o: lrs.MultiplicativeLR(o, lambda epoch: 0.9),
    "OneCycleLR": lambda o: lrs.OneCycleLR(o, [0.1, 0.2], total_steps=12, three_phase=True),
    "CyclicLR": lambda o: lrs.CyclicLR(o, 0.001, 0.05, 2, 3, "exp_range", 0.9),
    "SWALR": lambda o: torch.optim.swa_utils.SWALR(o, 0.01, 6),
    "ReduceLROnPlateau": lambda o: lrs.ReduceLROnPlateau(o, patience=1, cooldown=1, factor=0.5),
    "SequentialLR": lambda o: lrs.SequentialLR(
        o, [lrs.LinearLR(o, 0.1, total_iters=3), lrs.MultiStepLR(o, [1, 3], 0.3)], [6]),
    "ChainedScheduler": lambda o: lrs.ChainedScheduler([lrs.StepLR(o, 2, 0.5), lrs.ConstantLR(o, 0.5, 5)]),
}


def new(name):
    """Two groups and a schedule for them."""
    first, second = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(3))
    sgd = torch.optim.SGD([{"params": [first], "lr": 0.02}, {"params": [second]}], 0.05, momentum=0.9)
    return sgd, SCHEDULERS[name](sgd)


def steps(sgd, scheduler, begin, end):
    """The rates and momenta after each step."""
    values = []
    for i in range(begin, end):
        sgd.zero_grad()
        sum(p.pow(2).sum() for group in sgd.param_groups for p in group["params"]).backward()
        sgd.step()
        scheduler.step(*[METRICS[i]] if isinstance(scheduler, lrs.ReduceLROnPlateau) else [])
        values += [g[key] for key in ("lr", "momentum") for g in sgd.param_groups]
    return values


def main():
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.pth")):
        run = torch.load(path, weights_only=True)
        sgd, scheduler = new(path.stem)
        sgd.load_state_dict(run["optimizer"])
        scheduler.load_state_dict(run["scheduler"])
        got = steps(sgd, scheduler, SAVED_AT, STEPS)
        assert all(abs(a - b) <= 1e-9 * b for a, b in zip(got, run["values"], strict=True)), (path.stem, got)


if __name__ == "__main__":
    main()
