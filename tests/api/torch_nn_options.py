#!/usr/bin/env python3
"""Compares the options of PyTorch's layers with those of Ferrite's.

torch_nn_options.py ROOT

torch_nn_options.txt has the parameters of PyTorch's constructors (record_torch_nn_options.py): of a
layer that Ferrite has, each must be a parameter of a constructor here, or a field of its options,
or be named by one of the other lines there:

  Layer.name = other    it has another name here
  Layer.name: reason    it is left out, for this reason

`Layer` may be a pattern, such as *Loss or *. A line that explains nothing is an error, too.
"""
import fnmatch
import pathlib
import re
import sys

from name_clashes import code_of, headers

FOLDER = pathlib.Path(__file__).parent


def enclosed(code, start, brackets):
    """What stands between the bracket at `start` and the one that closes it."""
    depth = 0
    for i in range(start, len(code)):
        depth += {brackets[0]: 1, brackets[1]: -1}.get(code[i], 0)
        if depth == 0:
            return code[start + 1:i]
    return code[start + 1:]


def words(code):
    return set(re.findall(r"[A-Za-z_]\w*", code))


class Types:
    """The classes and structs that headers define, and what can be given to their constructors."""

    def __init__(self, root):
        self.bodies, self.aliases = {}, {}
        for path in headers(root):
            code = code_of((root / path).read_text())
            for match in re.finditer(r"\b(?:class|struct) (\w+)(?:\s+final)?\s*(:[^{};]*)?\{", code):
                body = enclosed(code, match.end() - 1, "{}")
                self.bodies.setdefault(match[1], []).append((match[2] or "", body))
            for match in re.finditer(r"\busing (\w+) = ([^;]*);", code):
                self.aliases.setdefault(match[1], set()).update(words(match[2]))

    def options(self, name, seen=None):
        """Names of parameters of constructors and of fields of options, of the bases too."""
        seen = set() if seen is None else seen
        if name in seen:
            return set()
        seen.add(name)
        found, others = set(), set(self.aliases.get(name, ()))
        for bases, body in self.bodies.get(name, ()):
            others |= words(bases)
            for match in re.finditer(rf"\b{name}(?=\()", body):
                arguments = words(enclosed(body, match.end(), "()"))
                found |= arguments
                others |= {word for word in arguments if word.endswith("Options")}
            if name.endswith("Options"):
                found |= set(re.findall(r"(\w+)(?=\s*[=,;{])", body))
        for other in others:
            found |= self.options(other, seen)
        return found


def read_list():
    """Parameters by layer, other names and reasons by (pattern of layers, parameter)."""
    layers, renamed, reasons = {}, {}, {}
    for line in (FOLDER / "torch_nn_options.txt").read_text().splitlines():
        if match := re.fullmatch(r"nn\.(\w+)\((.*)\)", line):
            layers[match[1]] = match[2].split(", ") if match[2] else []
        elif match := re.fullmatch(r"([\w*?]+)\.(\w+) = (\w+)", line):
            renamed[match[1], match[2]] = match[3]
        elif match := re.fullmatch(r"([\w*?]+)\.(\w+): (.+)", line):
            reasons[match[1], match[2]] = match[3]
        else:
            sys.exit(f"torch_nn_options.txt: expected a layer, another name or a reason, got: {line}")
    return layers, renamed, reasons


def explaining(table, layer, parameter):
    """The entry for a parameter of a layer, or None."""
    return next((key for key in table if fnmatch.fnmatchcase(layer, key[0]) and key[1] == parameter), None)


def main():
    types = Types(pathlib.Path(sys.argv[1]))
    layers, renamed, reasons = read_list()
    left_out = set(re.findall(r"^nn\.(\w+): ", (FOLDER / "torch_nn.txt").read_text(), re.M))
    wrong, there, used = 0, 0, set()
    for layer in sorted(set(layers) - left_out):
        options = types.options(layer)
        for parameter in layers[layer]:
            other, reason = explaining(renamed, layer, parameter), explaining(reasons, layer, parameter)
            found = (renamed[other] if other else parameter) in options
            used |= {other if found else None, reason if not found else None}
            there += found
            if not found and not reason:
                print(f"nn.{layer} has no {parameter}; add it, or give a reason in torch_nn_options.txt")
                wrong += 1
    for key in sorted((set(renamed) | set(reasons)) - used):
        print(f"{key[0]}.{key[1]} explains no option that is missing; remove it from torch_nn_options.txt")
        wrong += 1
    print(f"{there} options of PyTorch's layers, {wrong} unexplained")
    return 1 if wrong or there < 400 else 0


if __name__ == "__main__":
    sys.exit(main())
