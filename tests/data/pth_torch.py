"""Files of PyTorch for tests/data/pth_test.cpp, and their comparison after a way through Ferrite.

pth_torch.py make FOLDER      writes NAME.pth, one for each kind of content
pth_torch.py compare FOLDER   NAME.pth and NAME.back.pth must hold the same, to the bit
"""
import collections
import pathlib
import sys

import numpy
import torch

TYPES = [getattr(torch, name) for name in
         "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()]


def contents():
    torch.manual_seed(1)
    kinds = {}
    for dtype in TYPES:
        name = str(dtype).split(".")[1]
        numbers = torch.randn(5, 7) * 50
        kinds["dense_" + name] = numbers.to(dtype)
        kinds["strided_" + name] = numbers.to(dtype)[1:4, ::3].t()
    base = torch.randn(6, 8)
    kinds["shared"] = [base, base[2], base.t(), base.flatten()[5:9]]
    kinds["shared_tail"] = {"a": base[3:], "b": base[4:]}
    kinds["expanded"] = torch.randn(3).expand(4, 3)
    kinds["channels_last"] = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    kinds["scalar"] = torch.tensor(1.25)
    kinds["empty"] = {"a": torch.empty(0), "b": torch.empty(3, 0, 2, dtype=torch.int64)}
    kinds["special"] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1e-45])
    kinds["large"] = torch.randn(300, 1000)
    kinds["eight_dims"] = torch.randn(1, 2, 1, 2, 1, 2, 1, 2)
    kinds["parameter"] = {"w": torch.nn.Parameter(torch.randn(3))}
    kinds["plain"] = {"none": None, "true": True, "int": -7, "large": 2**62, "least": -2**63,
                      "float": 0.1, "inf": float("inf"), "text": "a\n\u00e9\u4e2d", "bytes": bytes(range(256)),
                      "list": [1, [2, [3]]], "tuple": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)),
                      5: "five", (1, "x"): 2.0, "": "empty key", "empty": [[], {}, ()]}
    kinds["many"] = {f"layer.{i}.weight": torch.full((2,), float(i)) for i in range(500)}
    kinds["deep"] = {}
    at = kinds["deep"]
    for i in range(100):
        at["x"] = {}
        at = at["x"]
    at["x"] = torch.ones(1)
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(),
                                 torch.nn.LazyLinear(5))
    layers(torch.randn(2, 3, 6, 6))
    kinds["state_dict"] = layers.state_dict()
    kinds["lstm"] = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True).state_dict()
    kinds["transformer"] = torch.nn.TransformerEncoderLayer(8, 2, 16).state_dict()
    for make in (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), lambda p: torch.optim.Adam(p, 1e-3, amsgrad=True),
                 lambda p: torch.optim.AdamW(p, 1e-3), torch.optim.RMSprop, torch.optim.Adagrad):
        optimizer = make(layers.parameters())
        layers(torch.randn(2, 3, 6, 6)).square().sum().backward()
        optimizer.step()
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        kinds["run_" + type(optimizer).__name__] = {
            "model": layers.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3,
            "scheduler": schedule.state_dict(), "scaler": torch.amp.GradScaler("cpu").state_dict(),
            "ordered": collections.OrderedDict(b=1, a=2)}
    return kinds


def files():
    for name, value in contents().items():
        yield name, value, {}
    for name in ("shared", "plain", "state_dict", "run_Adam", "strided_float16"):
        yield name + "_old", contents()[name], {"_use_new_zipfile_serialization": False}
        yield name + "_p4", contents()[name], {"pickle_protocol": 4}


def differences(a, b, path=""):
    if isinstance(a, torch.Tensor):
        same = (isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.shape == b.shape
                and a.detach().contiguous().view(-1).view(torch.uint8).equal(b.contiguous().view(-1).view(torch.uint8)))
        return [] if same else [path]
    if isinstance(a, dict):
        if not isinstance(b, dict) or list(a) != list(b):
            return [path + ": keys"]
        return [d for key in a for d in differences(a[key], b[key], f"{path}.{key}")]
    if isinstance(a, (list, tuple)):
        if type(a) is not type(b) or len(a) != len(b):
            return [path + ": items"]
        return [d for i in range(len(a)) for d in differences(a[i], b[i], f"{path}.{i}")]
    return [] if type(a) is type(b) and a == b else [f"{path}: {a!r} became {b!r}"]


def sharing(value, found=None):
    """Which tensors have one memory: their numbers, in order."""
    found = [] if found is None else found
    if isinstance(value, torch.Tensor):
        found.append(value.untyped_storage().data_ptr() if value.numel() else -1)
    elif isinstance(value, dict):
        [sharing(v, found) for v in value.values()]
    elif isinstance(value, (list, tuple)):
        [sharing(v, found) for v in value]
    return found


def main():
    verb, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    bad = count = 0
    for name, value, options in files():
        count += 1
        path = folder / (name + ".pth")
        if verb == "make":
            torch.save(value, path, **options)
            continue
        before = torch.load(path, weights_only=False)  # which knows protocol 4
        after = torch.load(folder / (name + ".back.pth"), weights_only=True)
        wrong = differences(before, after)
        first, second = sharing(before), sharing(after)
        if [first.index(p) for p in first] != [second.index(p) for p in second]:
            wrong.append("tensors that share memory")
        if wrong:
            bad += 1
            print(f"{name}: {wrong[:5]}")
    print(f"{count} files, {bad} differ")
    sys.exit(bad != 0)


main()
