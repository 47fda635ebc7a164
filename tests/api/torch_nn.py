#!/usr/bin/env python3
"""Compares PyTorch's layers and functions of torch.nn with Ferrite's.

torch_nn.py ROOT

torch_nn.txt has their names (record_torch_nn.py): each must be declared by a header that ferrite.h
includes, or stand there with the reason for which it is left out.
"""
import pathlib
import sys

from name_clashes import declarations, headers

LISTED = pathlib.Path(__file__).with_name("torch_nn.txt")
NAMESPACES = {"nn": ("ferrite::nn", "ferrite::parallel"), "functional": ("ferrite", "ferrite::nn")}


def main():
    root = pathlib.Path(sys.argv[1])
    declared = {}
    for path in headers(root):
        for namespace, name, _ in declarations((root / path).read_text()):
            declared.setdefault(namespace, set()).add(name)
    wrong = there = left_out = 0
    for line in LISTED.read_text().splitlines():
        entry, _, reason = line.partition(": ")
        kind, name = entry.split(".")
        found = any(name in declared.get(n, ()) for n in NAMESPACES[kind])
        if found and reason:
            print(f"{entry} is there; remove the reason for which it is not: {reason}")
        elif not found and not reason:
            print(f"{entry} is not there; declare it, or give a reason in {LISTED.name}")
        there, left_out = there + found, left_out + (not found)
        wrong += found == bool(reason)
    print(f"{there} of PyTorch's names of torch.nn, {left_out} left out, {wrong} unexplained")
    return 1 if wrong or there < 200 else 0


if __name__ == "__main__":
    sys.exit(main())
