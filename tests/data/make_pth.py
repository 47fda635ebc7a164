#!/usr/bin/env python3
"""Writes the files in tests/data/pth with PyTorch 2, whose values tests/data/pth_test.cpp knows.

python3 tests/data/make_pth.py
"""
import collections
import copy
import pathlib

import numpy
import torch

import torch_schedulers

folder = pathlib.Path(__file__).parent / "pth"


def fill(module):
    """Weights that are the same everywhere: 0, 1/8, 2/8 ... over all parameters and buffers."""
    at = 0
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_((torch.arange(at, at + tensor.numel()) / 8).reshape(tensor.shape))
                at += tensor.numel()
    return module


def network():
    return fill(torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2),
                                    torch.nn.Flatten(), torch.nn.Linear(8, 3)))


def trained():
    """The network and its optimizer after one step."""
    net = network()
    sgd = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    net(torch.ones(2, 1, 4, 4)).sum().backward()
    sgd.step()
    return net, sgd


def types():
    names = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()
    out = {name: torch.tensor([0, 1, 2, 3, 100]).to(getattr(torch, name)) for name in names}
    out["special"] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0])
    return out


def views():
    base = torch.arange(24.).reshape(4, 6)
    return {"base": base, "transposed": base.t(), "strided": base[1:3, ::2], "row": base[2],
            "number": base[1, 1], "expanded": torch.tensor([1., 2.]).expand(3, 2),
            "empty": torch.empty(0, 3), "scalar": torch.tensor(2.5),
            "part": torch.arange(100)[40:43],
            "channels_last": torch.arange(16.).reshape(1, 2, 2, 4)
                             .contiguous(memory_format=torch.channels_last)}


def signs():
    """Views whose values are not those of their memory, and one over the same memory whose are."""
    z = torch.tensor([1 + 2j, 3 - 4j, -5 + 0j])
    return {"plain": z, "conj": z.conj(), "row": z.conj()[1:], "neg": torch._neg_view(z),
            "both": torch._neg_view(z.conj()), "imag": torch.tensor([1 + 2j, 3 - 4j]).conj().imag,
            "double": torch.tensor([1 - 1j], dtype=torch.complex128).conj()}


def repeated():
    """Views that have more elements than their memory, the first one as many as no memory holds."""
    return {"huge": torch.zeros(1).expand(2**31), "row": torch.tensor([3.]).expand(1000)}


def checkpoint():
    net, sgd = trained()
    return {"model": net.state_dict(), "optimizer": sgd.state_dict(), "epoch": 7, "best": 0.5,
            "name": "r\u00fcn", "flags": [True, False, None], "size": torch.Size([2, 3]),
            "device": torch.device("cuda", 1), "dtype": torch.float16, "large": 2**40,
            "negative": -3, "bytes": b"\x00\xffa", "nested": {"a": {1: (1, 2.5), 2: ()}},
            "numpy": numpy.float64(0.25), "numpy_int": numpy.int32(-5), "set": {4},
            "parameter": torch.nn.Parameter(torch.ones(2)),
            "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
            "same": [(1, 2)] * 3, "long": list(range(300))}


def python():
    """Values that Ferrite has no kind for."""
    return {"complex": 1.5 - 2j, "bytearray": bytearray(b"\x00\xffa"), "empty": bytearray()}


def resumed(make):
    """A run after ten steps, and the losses of the twenty that follow."""
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    inputs, targets = torch.randn(16, 6), torch.randn(16, 2)
    optimizer = make(net.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=256., growth_interval=6)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(net(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        return loss.item()

    for _ in range(10):
        step()
    run = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
           "scaler": scaler.state_dict(), "inputs": inputs, "targets": targets}
    run = copy.deepcopy(run)
    run["losses"] = [step() for _ in range(20)]
    run["scale"] = scaler.get_scale()
    return run


def scheduled():
    """For each scheduler its state and the optimizer's after some steps, and the values that follow."""
    runs = {}
    for name in torch_schedulers.SCHEDULERS:
        sgd, scheduler = torch_schedulers.new(name)
        torch_schedulers.steps(sgd, scheduler, 0, torch_schedulers.SAVED_AT)
        runs[name] = copy.deepcopy({"optimizer": sgd.state_dict(), "scheduler": scheduler.state_dict()})
        runs[name]["values"] = torch_schedulers.steps(sgd, scheduler, torch_schedulers.SAVED_AT,
                                                      torch_schedulers.STEPS)
    return runs


def optimized():
    """Optimizers whose options have words: their states after two steps, and the losses of the next."""
    runs = {}
    for name, make in {"LBFGS": lambda p: torch.optim.LBFGS(p, max_iter=2, line_search_fn="strong_wolfe"),
                       "LBFGS_first": lambda p: torch.optim.LBFGS(p, 0.1, max_iter=1),
                       "Muon": lambda p: torch.optim.Muon(p, 0.02, adjust_lr_fn="match_rms_adamw")}.items():
        w = torch.nn.Parameter(torch.tensor([[1., -2.], [3., 0.5]]))
        optimizer = make([w])

        def closure():
            optimizer.zero_grad()
            loss = (w**4).sum() + (w[0] * w[1]).sum()
            loss.backward()
            return loss

        for _ in range(1 if name == "LBFGS_first" else 2):
            optimizer.step(closure)
        runs[name] = copy.deepcopy({"w": w.detach(), "optimizer": optimizer.state_dict()})
        runs[name]["losses"] = [optimizer.step(closure).item() for _ in range(4)]
    return runs


def parametrized():
    """State dicts of torch.nn.utils.parametrizations, and an output."""
    torch.manual_seed(4)
    norms = torch.nn.utils.parametrizations
    out = {}
    for name, layer in {"weight_norm": norms.weight_norm(torch.nn.Linear(3, 2)),
                        "weight_norm_all": norms.weight_norm(torch.nn.Linear(3, 2), dim=None),
                        "spectral_norm": norms.spectral_norm(torch.nn.Conv1d(2, 3, 3))}.items():
        net = torch.nn.Sequential(layer).eval()
        x = torch.randn(4, 2, 5) if name == "spectral_norm" else torch.randn(4, 3)
        out[name] = {"state": net.state_dict(), "input": x, "output": net(x).detach()}
    return out


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=1e-3, nesterov=True),
    "Adam": lambda p: torch.optim.Adam(p, 0.01, betas=(0.8, 0.99), amsgrad=True),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.01, weight_decay=0.1),
}


def main():
    folder.mkdir(exist_ok=True)
    for name, make in OPTIMIZERS.items():
        torch.save(resumed(make), folder / f"run_{name}.pth")
    torch.save(scheduled(), folder / "schedulers.pth")
    torch.save(optimized(), folder / "optimizers.pth")
    torch.save(parametrized(), folder / "parametrized.pth")
    torch.save(network().state_dict(), folder / "state_dict.pth")
    torch.save(types(), folder / "types.pth")
    torch.save(views(), folder / "views.pth")
    torch.save(checkpoint(), folder / "checkpoint.pth")
    torch.save(checkpoint(), folder / "protocol5.pth", pickle_protocol=5)
    torch.save(views(), folder / "views_old.pth", _use_new_zipfile_serialization=False)
    torch.save(checkpoint(), folder / "checkpoint_old.pth", _use_new_zipfile_serialization=False)
    torch.save(checkpoint(), folder / "checkpoint_old5.pth", pickle_protocol=5,
               _use_new_zipfile_serialization=False)
    for protocol in (2, 3, 5):
        torch.save(python(), folder / f"python{protocol}.pth", pickle_protocol=protocol)
    torch.save(network(), folder / "module.pth")
    torch.save(repeated(), folder / "repeated.pth")
    torch.save(signs(), folder / "signs.pth")
    torch.save(signs(), folder / "signs_old.pth", _use_new_zipfile_serialization=False)


main()
