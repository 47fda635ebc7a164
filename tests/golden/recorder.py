"""Recorded PyTorch results for the tests, one .safetensors file a family.

A script record_<family>.py beside this file makes <family>.safetensors:

    from recorder import Recorder

    with Recorder("reduce") as r:
        x = torch.randn(3, 4)
        r.add("sum_dim1", x=x, out=x.sum(1))

and tests/support/golden.h reads it: Golden("reduce").get("sum_dim1", "out"). Run the scripts with
any Python that has PyTorch; each seeds itself, so that a run changes nothing but what it must.
"""

import json
import math
import pathlib
import struct

import torch

DTYPES = {
    torch.float64: "F64",
    torch.int64: "I64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def hash32(seed, n):
    """32 random bits for each of 0..n-1 (the finalizer lowbias32 of C. Wellons), which
    tests/support/hash.h makes too."""
    x = (torch.arange(n) + seed * 0x9E3779B9) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return x ^ (x >> 16)


def uniform(seed, shape, fan_in, dtype):
    """float32 numbers in [-k, k), k = sqrt(3 / fan_in): of variance 1 / fan_in."""
    u = (hash32(seed, math.prod(shape)) >> 8).float() * 2.0**-23 - 1
    return (u * torch.tensor(math.sqrt(3 / fan_in))).reshape(shape).to(dtype)


class Recorder:
    """Collects tensors and writes them beside this file, as safetensors, when the block ends."""

    def __init__(self, family, seed=0):
        self.path = pathlib.Path(__file__).with_name(f"{family}.safetensors")
        self.tensors = {}
        torch.manual_seed(seed)

    def add(self, case, **tensors):
        """Records tensors (or numbers, as 0-dimensional float64 ones) under "case/name"."""
        for name, value in tensors.items():
            if not torch.is_tensor(value):
                value = torch.tensor(float(value), dtype=torch.float64)
            if value.is_complex():  # as pairs, which view_as_complex() reads
                value = torch.view_as_real(value.resolve_conj())
            key = f"{case}/{name}"
            if key in self.tensors:
                raise KeyError(f"{key} is recorded twice")
            if value.dtype not in DTYPES:
                raise TypeError(f"{key} is {value.dtype}, which safetensors files here do not hold")
            # A copy, as the caller may go on and change it; row-major, as the format asks.
            self.tensors[key] = value.detach().cpu().clone(memory_format=torch.contiguous_format)

    def write(self):
        header = {"__metadata__": {"torch": torch.__version__}}
        chunks, offset = [], 0
        # Larger elements first, so that each tensor is aligned.
        for key, t in sorted(self.tensors.items(), key=lambda kv: -kv[1].element_size()):
            raw = bytes(t.reshape(-1).view(torch.uint8).tolist()) if t.numel() else b""
            header[key] = {
                "dtype": DTYPES[t.dtype],
                "shape": list(t.shape),
                "data_offsets": [offset, offset + len(raw)],
            }
            chunks.append(raw)
            offset += len(raw)
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self.path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(chunks))
        print(f"{self.path.name}: {len(self.tensors)} tensors, {self.path.stat().st_size} bytes")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.write()
