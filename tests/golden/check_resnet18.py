"""Reads a ResNet-18 that Ferrite saved, and runs it: python3 check_resnet18.py FOLDER, which holds
model.safetensors (the checkpoint) and results.safetensors (images, and Ferrite's logits in eval
mode). With whichever of PyTorch and NumPy there is, else it ends with 77; where the package
safetensors is there, its reader must agree with the one here.

tests/nn/resnet18_test.cpp writes the files and starts this.
"""

import json
import pathlib
import struct
import sys

try:
    import numpy as np
except ImportError:
    np = None
try:
    import torch
except ImportError:
    torch = None
try:
    import safetensors.numpy as package
except ImportError:
    package = None

NUMPY_TYPES = {"F32": "<f4", "I64": "<i8"}
TOLERANCE = 1e-4


def read(path):
    """{name: (dtype, shape, bytes)}, and the metadata."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = data[8 + length + begin : 8 + length + end]
        assert len(raw) == end - begin, f"{name} reaches beyond the file"
        tensors[name] = entry["dtype"], entry["shape"], raw
    return tensors, metadata


def numpy_arrays(tensors):
    return {name: np.frombuffer(raw, NUMPY_TYPES[dtype]).reshape(shape)
            for name, (dtype, shape, raw) in tensors.items()}


def run_with_numpy(w, x):
    """ResNet-18 in eval mode, from arrays under torchvision's names."""

    def windows(x, size, stride, pad, fill):
        x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=fill)
        view = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))
        return view[:, :, ::stride, ::stride]

    def conv(name, x, stride=1):
        k = w[name + ".weight"]
        patches = windows(x, k.shape[2], stride, k.shape[2] // 2, 0)
        return np.einsum("nchwij,ocij->nohw", patches, k, optimize=True)

    def norm(name, x):
        scale = w[name + ".weight"] / np.sqrt(w[name + ".running_var"] + 1e-5)
        shift = w[name + ".bias"] - w[name + ".running_mean"] * scale
        return x * scale[:, None, None] + shift[:, None, None]

    x = np.maximum(norm("bn1", conv("conv1", x, 2)), 0)
    x = windows(x, 3, 2, 1, -np.inf).max((4, 5))
    for stage in range(1, 5):
        for block in range(2):
            name = f"layer{stage}.{block}."
            stride = 2 if stage > 1 and block == 0 else 1
            y = np.maximum(norm(name + "bn1", conv(name + "conv1", x, stride)), 0)
            y = norm(name + "bn2", conv(name + "conv2", y))
            if name + "downsample.0.weight" in w:
                x = norm(name + "downsample.1", conv(name + "downsample.0", x, stride))
            x = np.maximum(x + y, 0)
    return x.mean((2, 3)) @ w["fc.weight"].T + w["fc.bias"]


def run_with_torch(tensors, images):
    from resnet import Basic, ResNet

    def tensor(dtype, shape, raw):
        kind = {"F32": torch.float32, "I64": torch.int64}[dtype]
        return torch.frombuffer(bytearray(raw), dtype=kind).reshape(shape)

    state = {name: tensor(*t) for name, t in tensors.items()}
    classes, width = state["fc.weight"].shape[0], state["conv1.weight"].shape[0]
    net = ResNet(Basic, [2, 2, 2, 2], classes, width=width)
    net.load_state_dict(state)  # strict: every name and shape
    with torch.no_grad():
        return net.eval()(tensor(*images)).reshape(-1).tolist()


def main(folder):
    if np is None and torch is None:
        print("neither NumPy nor PyTorch is installed")
        return 77
    tensors, metadata = read(folder / "model.safetensors")
    results, _ = read(folder / "results.safetensors")
    assert metadata.get("model") == "resnet18", metadata
    dtype, shape, raw = results["logits"]
    expected = struct.unpack(f"<{len(raw) // 4}f", raw)
    used = []
    if np is not None:
        arrays = numpy_arrays(tensors)
        if package is not None:
            theirs = package.load_file(folder / "model.safetensors")
            assert theirs.keys() == arrays.keys()
            assert all(np.array_equal(theirs[name], arrays[name]) for name in arrays)
            used.append("safetensors")
        images = numpy_arrays(results)["images"]
        used.append("NumPy")
        compare("NumPy", run_with_numpy(arrays, images).reshape(-1).tolist(), expected)
    if torch is not None:
        used.append("PyTorch")
        compare("PyTorch", run_with_torch(tensors, results["images"]), expected)
    print(f"{len(tensors)} tensors, read by", ", ".join(used))
    return 0


def compare(reader, got, expected):
    assert len(got) == len(expected)
    worst = max(abs(a - b) for a, b in zip(got, expected))
    assert worst < TOLERANCE, f"logits by {reader} differ by {worst}"


sys.exit(main(pathlib.Path(sys.argv[1])))
