"""Learning rates (and momenta) of two groups through 50 steps of every scheduler."""

import warnings

import torch
from torch.optim import lr_scheduler as s
from torch.optim.swa_utils import SWALR

from recorder import Recorder

STEPS = 50
LRS = (0.1, 0.02)


def optimizer():
    groups = [{"params": [torch.zeros(1)], "lr": lr} for lr in LRS]
    return torch.optim.SGD(groups, momentum=0.5)


def sequence(o, *schedulers_and_milestones):
    schedulers, milestones = schedulers_and_milestones
    return s.SequentialLR(o, schedulers, milestones)


CASES = {
    "constant": lambda o: s.ConstantLR(o, factor=0.25, total_iters=7),
    "constant_default": lambda o: s.ConstantLR(o),
    "linear": lambda o: s.LinearLR(o, start_factor=0.1, end_factor=0.8, total_iters=20),
    "linear_default": lambda o: s.LinearLR(o),
    "step": lambda o: s.StepLR(o, step_size=8, gamma=0.3),
    "multistep": lambda o: s.MultiStepLR(o, milestones=[30, 10, 30, 45], gamma=0.5),
    "exponential": lambda o: s.ExponentialLR(o, gamma=0.93),
    "polynomial": lambda o: s.PolynomialLR(o, total_iters=30, power=2.5),
    "polynomial_default": lambda o: s.PolynomialLR(o),
    "cosine": lambda o: s.CosineAnnealingLR(o, T_max=12, eta_min=0.001),
    "cosine_whole": lambda o: s.CosineAnnealingLR(o, T_max=50),
    "restarts": lambda o: s.CosineAnnealingWarmRestarts(o, T_0=5, T_mult=2, eta_min=0.002),
    "restarts_equal": lambda o: s.CosineAnnealingWarmRestarts(o, T_0=9),
    "lambda": lambda o: s.LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)]),
    "multiplicative": lambda o: s.MultiplicativeLR(o, lambda e: 0.95 if e % 2 else 1.01),
    "onecycle": lambda o: s.OneCycleLR(o, max_lr=[0.5, 0.3], total_steps=50),
    "onecycle_linear": lambda o: s.OneCycleLR(
        o, max_lr=0.4, epochs=6, steps_per_epoch=10, pct_start=0.25, anneal_strategy="linear",
        base_momentum=0.7, max_momentum=[0.9, 0.95], div_factor=10, final_div_factor=100),
    "onecycle_three": lambda o: s.OneCycleLR(
        o, max_lr=0.4, total_steps=53, three_phase=True, cycle_momentum=False),
    "onecycle_three_momentum": lambda o: s.OneCycleLR(
        o, max_lr=0.4, total_steps=51, three_phase=True, anneal_strategy="linear"),
    "cyclic": lambda o: s.CyclicLR(o, base_lr=[0.01, 0.02], max_lr=0.2, step_size_up=6),
    "cyclic2": lambda o: s.CyclicLR(
        o, base_lr=0.01, max_lr=[0.2, 0.1], step_size_up=4, step_size_down=9,
        mode="triangular2", base_momentum=0.6, max_momentum=0.95),
    "cyclic_exp": lambda o: s.CyclicLR(
        o, base_lr=0.01, max_lr=0.2, step_size_up=7, mode="exp_range", gamma=0.97),
    "cyclic_own": lambda o: s.CyclicLR(
        o, base_lr=0.01, max_lr=0.2, step_size_up=7, scale_fn=lambda x: 1 / (5 ** (x * 1e-2)),
        scale_mode="iterations", cycle_momentum=False),
    "swa_cos": lambda o: SWALR(o, swa_lr=[0.05, 0.03], anneal_epochs=13),
    "swa_linear": lambda o: SWALR(o, swa_lr=0.005, anneal_epochs=20, anneal_strategy="linear"),
    "swa_at_once": lambda o: SWALR(o, swa_lr=0.005, anneal_epochs=0),
    "two_at_once": lambda o: [s.ExponentialLR(o, gamma=0.95), s.StepLR(o, step_size=11, gamma=0.5)],
    "chained": lambda o: s.ChainedScheduler(
        [s.ConstantLR(o, factor=0.1, total_iters=4), s.ExponentialLR(o, gamma=0.9),
         s.CosineAnnealingLR(o, T_max=40)]),
    "sequential": lambda o: sequence(
        o, [s.LinearLR(o, start_factor=0.01, total_iters=10), s.CosineAnnealingLR(o, T_max=40)],
        [10]),
    "sequential_many": lambda o: sequence(
        o, [s.ConstantLR(o, factor=0.1, total_iters=3), s.ExponentialLR(o, gamma=0.9),
            s.StepLR(o, step_size=4, gamma=0.5), s.PolynomialLR(o, total_iters=9),
            s.CosineAnnealingWarmRestarts(o, T_0=3)], [3, 12, 27, 38]),
    "sequential_lambda": lambda o: sequence(
        o, [s.MultiplicativeLR(o, lambda e: 0.9), s.LambdaLR(o, lambda e: 0.5**e),
            s.MultiStepLR(o, [2, 5]), s.LinearLR(o)], [8, 16, 30]),
}


def metric(step):
    return 1 / (1 + step) if step < 9 else 0.1 + 0.001 * ((step * 7) % 5)


PLATEAUS = {
    "plateau": dict(patience=3, factor=0.5),
    "plateau_default": dict(),
    "plateau_max": dict(mode="max", patience=2, threshold=0.01, threshold_mode="abs", cooldown=2),
    "plateau_min_lr": dict(patience=1, factor=0.3, min_lr=[0.004, 0.001], threshold=0.2, eps=1e-3),
}

warnings.simplefilter("ignore")
with Recorder("lr_scheduler") as r:
    r.add("input", metric=torch.tensor([metric(i) for i in range(STEPS)], dtype=torch.float64))
    for name, make in list(CASES.items()) + [(n, None) for n in PLATEAUS]:
        o = optimizer()
        scheduler = make(o) if make else s.ReduceLROnPlateau(o, **PLATEAUS[name])
        lrs, momenta = [], []

        def note():
            lrs.append([g["lr"] for g in o.param_groups])
            momenta.append([g["momentum"] for g in o.param_groups])

        note()
        for i in range(STEPS):
            o.step()
            for each in scheduler if isinstance(scheduler, list) else [scheduler]:
                each.step(*([] if make else [metric(i)]))
            note()
        r.add(name, lr=torch.tensor(lrs, dtype=torch.float64),
              momentum=torch.tensor(momenta, dtype=torch.float64))

    # Fractions of epochs.
    o = optimizer()
    scheduler = s.CosineAnnealingWarmRestarts(o, T_0=3, T_mult=2, eta_min=0.001)
    lrs = []
    for i in range(STEPS):
        scheduler.step(i / 4)
        lrs.append([g["lr"] for g in o.param_groups])
    r.add("restarts_fractions", lr=torch.tensor(lrs, dtype=torch.float64))
