"""Runs ops, layers and optimizers by seed in Ferrite and in PyTorch 2, and says where the two differ.

    compare.py PROGRAM --cases N --seed S --device cpu|cuda:0 [--only REGEX] [--show K]

Each case is one op with inputs of some dtypes, shapes and layouts, forward and backward, with NaN,
infinities and empty tensors among them; or a layer (nn.*), with the gradients of its parameters and
the buffers that it leaves; or a few steps of an optimizer (optim.*), with the state that they leave.
Floating results must agree within units in the last place: those that the op's table states, in
16-bit types no more than 4; of sums and gradients, of the largest number involved. A number further
off is no difference where PyTorch's own result in float64, rounded, is as close to it as to
PyTorch's. known.py lists what is wanted otherwise.
Exits with 1 where anything else differs, the program dies, or a layer, an optimizer or an option
that both have is not drawn.
"""

import argparse
import collections
import copy
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import warnings

import torch

import algebra
import complexes
import elementwise
import known
import layers
import losses
import modules
import optimizers
import places
import spatial
import structured
from tensors import DTYPES, NAMES, Input, apply_view, parts

OPS = {}
for module in (elementwise, structured, places, layers, spatial, algebra, losses):
    OPS |= module.table()
OPS |= complexes.table(OPS)
for module in (modules, optimizers):
    OPS |= module.table()
PICKS = {"sort", "topk", "kthvalue", "median_dim", "nanmedian_dim", "mode"}  # values and indices
BATCH = 1000
REFUSALS = (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError)
Difference = collections.namedtuple("Difference", "kind text")


class Case:
    def __init__(self, seed, name):
        self.seed, self.name = seed, name
        make, self.reference, self.ulps = OPS[name]
        self.inputs, self.args = make(random.Random(seed))

    @property
    def dtypes(self):
        return [NAMES[x.base.dtype] for x in self.inputs]

    def __str__(self):
        def describe(x):
            views = "".join(f".{kind}({', '.join(map(str, v))})" for kind, *v in x.views)
            return f"{NAMES[x.base.dtype]}{list(x.base.shape)}{views}{' grad' * x.grad}"
        return f"#{self.seed} {self.name}({', '.join(map(describe, self.inputs))}, {self.args})"


def make_weight(out):
    """What backward starts from; main.cpp makes the same."""
    i = torch.arange(out.numel())
    weight = (i * 7 % 11 - 5) / 4
    if out.is_complex():
        weight = torch.complex(weight, (i * 5 % 7 - 3) / 4)
    return weight.to(out.dtype).reshape(out.shape)


def plain(t):
    """Without a gradient, and without marks that it is to be conjugated or negated."""
    return t if t is None else t.detach().resolve_conj().resolve_neg()


def run_reference(case, dtype=None):
    """Outputs, gradients and the error of either pass; in `dtype` where it is given."""
    leaves = [x.leaf(dtype) for x in case.inputs]
    inplace = case.name.endswith("_")
    inputs, base = [], None
    try:
        for leaf, spec in zip(leaves, case.inputs):
            t = leaf
            if inplace and base is None:
                base = t = leaf.clone()
            for view in spec.views:
                t = apply_view(t, view)
                if inplace and not inputs and view[0] == "channels_last":
                    base = t
            inputs.append(t)
        args = dict(case.args)
        if dtype and args.get("dtype") in ("float32", "float16", "bfloat16"):
            args["dtype"] = NAMES[dtype]
        if dtype and args.get("dtype") == "complex64":
            args["dtype"] = NAMES[dtype.to_complex()]
        out = case.reference(inputs, args)
        outputs = list(out) if isinstance(out, (tuple, list)) else [out]
    except REFUSALS as error:
        return None, None, str(error), None
    if inplace:
        outputs.append(base)
    try:
        roots = [o for o in outputs if o.requires_grad]
        torch.autograd.backward(roots, [make_weight(o) for o in roots])
    except REFUSALS as error:
        return list(map(plain, outputs)), None, None, str(error)
    return list(map(plain, outputs)), [plain(x.grad) for x in leaves], None, None


def spread(case):
    """How far PyTorch's outputs move, relative to their largest numbers, as inputs of float64 change in
    their last place."""
    def moved(generator, x):
        noise = torch.randn(x.base.shape, generator=generator, dtype=torch.float64)
        return Input(x.base * (1 + torch.finfo(torch.float64).eps * noise), x.views, x.grad)
    outputs, most = run_reference(case)[0], 0.0
    for seed in range(4):
        other = copy.copy(case)
        generator = torch.Generator().manual_seed(seed)
        other.inputs = [moved(generator, x) if x.base.dtype == torch.float64 else x for x in case.inputs]
        for a, b in zip(outputs, run_reference(other)[0]):
            if a.is_floating_point() and a.numel():
                most = max(most, float((a - b).abs().max() / a.abs().max()))
    return most


def write_cases(cases, folder):
    entries, chunks, at = [], [], 0
    for i, case in enumerate(cases):
        specs = []
        for x in case.inputs:
            raw = x.base.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            specs.append({"dtype": NAMES[x.base.dtype], "shape": list(x.base.shape), "at": at,
                          "views": x.views, "grad": x.grad})
            chunks.append(raw)
            at += len(raw)
        entries.append({"id": i, "op": case.name.removeprefix(complexes.PREFIX),
                        "args": case.args, "in": specs})
    (folder / "cases.json").write_text(
        json.dumps(entries, default=lambda z: [z.real, z.imag]))
    (folder / "cases.bin").write_bytes(b"".join(chunks))


def run_program(program, cases, device, folder):
    """The program's results; it is asked again for what lies beyond a case that kills it."""
    write_cases(cases, folder)
    files = [str(folder / name) for name in
             ["cases.json", "cases.bin", "results.json", "results.bin"]]
    done = subprocess.run([program, *files, device], capture_output=True, text=True)
    text = (folder / "results.json").read_text()
    if done.returncode != 0:
        culprit = cases[int(text)] if text.isdigit() else "no case"
        raise SystemExit(f"{program} ended with {done.returncode} at {culprit}\n{done.stderr}")
    return json.loads(text), bytearray((folder / "results.bin").read_bytes())


def read(entry, data):
    dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
    n = int(torch.tensor(shape).prod()) if shape else 1
    if n == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype, count=n, offset=entry["at"]).reshape(shape)


def same(a, b):
    return (a == b) | (a.isnan() & b.isnan())


def largest(tensors):
    """The largest finite number in them."""
    sizes = [parts(t).double().abs().nan_to_num(0, 0, 0) for t in tensors if t.numel()]
    return max([float(s.max()) for s in sizes], default=0.0)


def compare_tensors(actual, expected, ulps, scale, coarsest, exact):
    """A Difference, or None. `coarsest` is the largest rounding of the types that took part, `exact`
    makes PyTorch's float64 result, or None."""
    if actual.dtype != expected.dtype:
        return Difference("dtype", f"got {actual.dtype}, expected {expected.dtype}")
    if actual.shape != expected.shape:
        return Difference("shape", f"got {list(actual.shape)}, expected {list(expected.shape)}")
    a, e = parts(actual), parts(expected)
    if not e.is_floating_point():
        bad = a != e
    else:
        info = torch.finfo(expected.dtype)
        if max(info.eps, coarsest) > 1e-4:
            ulps = min(ulps, 4)
        a, e = a.double(), e.double()
        size = torch.where(e.isfinite(), e.abs(), 0.0)
        if expected.is_complex():
            size = size.norm(dim=-1, keepdim=True).expand(e.shape)
        size = size.clamp(min=info.tiny)
        if scale is not None:
            size = size.clamp(min=min(scale, info.max))
        slack = ulps * max(info.eps, coarsest) * size
        bad = ~(same(a, e) | ((a - e).abs() <= slack))
        if bad.any() and (r := exact()) is not None and r.shape == expected.shape:
            r = parts(r.to(expected.dtype)).double()
            better = same(a, r) | ((a - r).abs() <= (e - r).abs() + slack) | (
                a.isfinite() & ~e.isfinite() & r.isfinite() & (
                    (a - r).abs() <= slack.max(ulps * max(info.eps, coarsest) * r.abs())))
            bad &= ~better
    if not bad.any():
        return None
    at = tuple(int(i) for i in bad.nonzero()[0])
    return Difference("value", f"{int(bad.sum())} of {bad.numel()} elements; at {list(at)} got "
                               f"{a[at].item()}, expected {e[at].item()}")


def picked(case, indices):
    """The elements of the first input at `indices`, along the case's dimension."""
    dim, x = case.args["dim"], case.inputs[0].leaf().detach()
    for view in case.inputs[0].views:
        x = apply_view(x, view)
    reduced = indices.dim() < x.dim()
    found = torch.gather(x, dim, indices.unsqueeze(dim) if reduced else indices)
    return found.squeeze(dim) if reduced else found


def rounding(case):
    """The largest rounding of the floating types that the case names."""
    types = [DTYPES[d] for d in case.dtypes + [case.args.get("dtype") or "bool"]]
    return max([torch.finfo(d).eps for d in types if d.is_floating_point or d.is_complex], default=0)


def factor(case):
    """A number by which the op multiplies gradients, if it is one above 1."""
    number = case.args.get("other")
    return max(1, abs(number)) if isinstance(number, (int, float)) and math.isfinite(number) else 1


def compare_case(case, result, data):
    """Differences of one case, and what of PyTorch's refusals there was."""
    outputs, grads, refusal, backward_refusal = run_reference(case)
    error = result.get("error")
    if refusal is not None:
        return [], "both refuse" if error else "PyTorch alone refuses"
    if error:
        return [Difference("refused", error)], None
    wide = []

    def exact(kind, i):
        if not wide:
            wide.extend(run_reference(case, torch.float64))
        found = wide[kind]
        return found[i] if found is not None and i < len(found) else None

    got = [read(entry, data) for entry in result["outputs"]]
    if len(got) != len(outputs):
        return [Difference("shape", f"got {len(got)} outputs, expected {len(outputs)}")], None
    inputs = largest([x.base for x in case.inputs])
    coarsest = rounding(case) if case.ulps > 8 else 0
    found = []
    for i, (a, e) in enumerate(zip(got, outputs)):
        if case.name in PICKS and i == 1:  # of equal values any may be chosen
            a, e = picked(case, a) if a.shape == e.shape else a, outputs[0]
        scale = max(inputs, largest([e])) if case.ulps > 8 else None
        difference = compare_tensors(a, e, case.ulps, scale, coarsest, lambda: exact(0, i))
        if difference:
            found.append(Difference(difference.kind, f"output {i}: {difference.text}"))
    if backward_refusal is not None:
        return found, "PyTorch alone refuses backward"
    if "backward_error" in result:
        return found + [Difference("backward refused", result["backward_error"])], None
    for i, (entry, e) in enumerate(zip(result["grads"], grads)):
        if (entry is None) != (e is None):
            text = "got none" if entry is None else "got one, expected none"
            found.append(Difference("gradient presence", f"gradient {i}: {text}"))
        elif e is not None:
            others = [g for g in grads if g is not None]
            scale = max(1.25, inputs, largest(others)) * factor(case)
            difference = compare_tensors(read(entry, data), e, max(case.ulps, 16), scale,
                                         rounding(case), lambda: exact(1, i))
            if difference:
                found.append(Difference("gradient " + difference.kind,
                                        f"gradient {i}: {difference.text}"))
    return found, None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("--cases", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="ops whose names match this regular expression")
    parser.add_argument("--show", type=int, default=3, help="differences printed of an op")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    names = sorted(name for name in OPS if re.search(options.only, name))
    begin, counts = time.monotonic(), collections.Counter()
    differences, expected = collections.defaultdict(list), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for first in range(0, options.cases, BATCH):
            seeds = range(first, min(first + BATCH, options.cases))
            cases = [Case(options.seed * 10**9 + i, names[i % len(names)]) for i in seeds]
            results, data = run_program(options.program, cases, options.device,
                                        pathlib.Path(folder))
            for case, result in zip(cases, results):
                found, refusal = compare_case(case, result, data)
                unknown = []
                for difference in found:
                    reason = known.reason(case, difference, spread)
                    if reason:
                        expected[reason] += 1
                    else:
                        unknown.append(difference)
                counts[refusal or ("differ" if unknown else "known" if found else "agree")] += 1
                if unknown:
                    differences[case.name].append((case, unknown))
    missing = []
    if not options.only:
        seeds = lambda: map(random.Random, range(80))
        missing = modules.undrawn(OPS, seeds) + optimizers.undrawn(OPS, seeds)
    for name in missing:
        print(f"{name} is not drawn: add it, or say in LEFT_OUT why")
    for name, cases in sorted(differences.items()):
        print(f"{name}: {len(cases)} cases differ")
        for case, found in cases[:options.show]:
            print(f"  {case}")
            for difference in found:
                print(f"    {difference.kind}: {difference.text}")
    for reason, count in sorted(expected.items()):
        print(f"known, {count}: {reason}")
    print(f"{options.cases} cases of {len(names)} ops on {options.device}, seed {options.seed}, "
          f"PyTorch {torch.__version__}, {time.monotonic() - begin:.0f} s: "
          + ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    return 1 if differences or missing else 0


if __name__ == "__main__":
    sys.exit(main())
