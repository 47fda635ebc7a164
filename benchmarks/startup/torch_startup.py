#!/usr/bin/env python3
"""Trains LeNet-5 up to the end of its first step, like a user's PyTorch script, and answers
by a line of JSON: PyTorch's side of compare.py."""

import argparse
import gzip
import json
import pathlib
import sys

parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("--threads", type=int, default=1, help="CPU threads")
parser.add_argument("--data", type=pathlib.Path,
                    help="folder with Fashion-MNIST's files, in fashion-mnist/ or itself; else random numbers")
args = parser.parse_args()  # before torch, so that --help needs none

import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402


def read_idx(name, header):
    """The bytes of an IDX file behind its header, plain or compressed."""
    for folder in (args.data / "fashion-mnist", args.data):
        for path, opener in ((folder / name, open), (folder / f"{name}.gz", gzip.open)):
            if path.exists():
                with opener(path, "rb") as file:
                    return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)[header:]
    sys.exit(f"there is no {name} in {args.data}")


def read_split(prefix):
    images = read_idx(f"{prefix}-images-idx3-ubyte", 16).view(-1, 1, 28, 28)
    return TensorDataset(images, read_idx(f"{prefix}-labels-idx1-ubyte", 8).long())


def data_sets():
    """For training, and for tests, which a script has opened too when it begins."""
    if args.data:
        return read_split("train"), read_split("t10k")
    return TensorDataset(torch.rand(1024, 1, 28, 28), torch.randint(0, 10, (1024,))), None


sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "training"))
import torch_models  # noqa: E402

torch.set_num_threads(args.threads)
torch.manual_seed(0)
train, test = data_sets()
loader = DataLoader(train, batch_size=64, shuffle=True)
model = torch_models.LeNet5()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
images, labels = next(iter(loader))
if args.data:
    images = images.float().div_(255).sub_(0.2860).div_(0.3530)
loss = F.cross_entropy(model(images), labels)
optimizer.zero_grad()
loss.backward()
optimizer.step()
print(json.dumps({"framework": "PyTorch", "version": torch.__version__, "loss": loss.item()}),
      flush=True)
