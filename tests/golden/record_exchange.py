"""What Python's own safetensors package writes, for the tests that read it: exchange.safetensors.
Needs the package (pip install safetensors==0.5.3; its raw interface changes), nothing else."""

import pathlib
import struct

from safetensors import serialize_file

PATH = pathlib.Path(__file__).with_name("exchange.safetensors")


def tensor(dtype, shape, form, *values):
    return {"dtype": dtype, "shape": shape, "data": struct.pack(f"<{len(values)}{form}", *values)}


TENSORS = {
    "layer1.0.conv1.weight": tensor("float32", [2, 1, 1, 3], "f", 0.5, -1, 2, 1e-30, -0.0, 3e38),
    "half": tensor("float16", [3], "e", 1, -2, 65504),
    "brain": tensor("bfloat16", [2], "H", 0x3F80, 0xC040),
    "double": tensor("float64", [2], "d", 0.1, -1e300),
    "steps": tensor("int64", [2, 1], "q", -(2**62), 7),
    "counts": tensor("int32", [1], "i", -123456789),
    "bytes": tensor("uint8", [5], "B", 0, 1, 127, 128, 255),
    "mask": tensor("bool", [3], "?", True, False, True),
    "scalar": tensor("float32", [], "f", 7),
    "empty": tensor("float32", [0, 4], "f"),
    "größe \"x\"\n": tensor("uint8", [1], "B", 9),
}

serialize_file(TENSORS, str(PATH), {"format": "pt", "note": "\u00e9 \"quoted\""})
print(f"{PATH.name}: {len(TENSORS)} tensors, {PATH.stat().st_size} bytes")
