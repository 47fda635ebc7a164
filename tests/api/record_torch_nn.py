#!/usr/bin/env python3
"""Writes the names of PyTorch's layers and functions, one a line, to torch_nn.txt, where reasons
stand beside those that Ferrite leaves out; they are kept. Needs PyTorch."""
import pathlib
import types

from torch import nn

PATH = pathlib.Path(__file__).with_name("torch_nn.txt")


def names():
    for name in dir(nn):
        if isinstance(getattr(nn, name), type):
            yield f"nn.{name}"
    for name in dir(nn.functional):
        function = getattr(nn.functional, name)
        is_function = isinstance(function, (types.FunctionType, types.BuiltinFunctionType))
        # What torch uses itself is imported there, too.
        own = getattr(function, "__module__", None) in (None, "torch", "torch.nn.functional", "torch._C._nn",
                                                        "torch._jit_internal")
        if is_function and own and not name.startswith("_"):
            yield f"functional.{name}"


def main():
    reasons = {}
    if PATH.exists():
        for line in PATH.read_text().splitlines():
            name, _, reason = line.partition(": ")
            reasons[name] = reason
    lines = [f"{n}: {reasons[n]}" if reasons.get(n) else n for n in sorted(set(names()))]
    PATH.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
