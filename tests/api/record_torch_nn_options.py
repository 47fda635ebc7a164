#!/usr/bin/env python3
"""Writes the parameters of the constructors of PyTorch's layers, one layer a line, to
torch_nn_options.txt. The lines of the others, which torch_nn_options.py describes, are kept. Needs
PyTorch."""
import inspect
import pathlib

from torch import nn

PATH = pathlib.Path(__file__).with_name("torch_nn_options.txt")


def parameters(layer):
    if layer in (nn.RNN, nn.LSTM, nn.GRU):  # (*args, **kwargs), which go to the base
        names = [n for n in inspect.signature(nn.RNNBase).parameters if n != "mode"]
        return names + ["nonlinearity"] * (layer is nn.RNN)
    kinds = inspect.Parameter
    # A name that begins with _ is PyTorch's own.
    return [p.name for p in inspect.signature(layer).parameters.values()
            if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD) and not p.name.startswith("_")]


def main():
    lines = []
    for name in dir(nn):
        layer = getattr(nn, name)
        if isinstance(layer, type) and issubclass(layer, nn.Module):
            lines.append(f"nn.{name}({', '.join(parameters(layer))})")
    kept = PATH.read_text().splitlines() if PATH.exists() else []
    PATH.write_text("\n".join(lines + [line for line in kept if not line.startswith("nn.")]) + "\n")


if __name__ == "__main__":
    main()
