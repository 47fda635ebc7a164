#!/usr/bin/env python3
"""Trains LeNet-5 up to the end of its first step, as a script of PyTorch's users does, and answers
by a line of JSON: PyTorch's side of compare.py."""

import argparse
import json
import pathlib
import sys

parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("--threads", type=int, default=1, help="of the CPU")
args = parser.parse_args()  # before torch, so that --help needs none

import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "training"))
import torch_models  # noqa: E402

torch.set_num_threads(args.threads)
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.rand(1024, 1, 28, 28), torch.randint(0, 10, (1024,))),
                    batch_size=64, shuffle=True)
model = torch_models.LeNet5()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
images, labels = next(iter(loader))
loss = F.cross_entropy(model(images), labels)
optimizer.zero_grad()
loss.backward()
optimizer.step()
print(json.dumps({"framework": "PyTorch", "version": torch.__version__, "loss": loss.item()}),
      flush=True)
