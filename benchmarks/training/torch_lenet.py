#!/usr/bin/env python3
"""Trains LeNet on batches held in memory and says how fast: PyTorch's side of compare.py.

Every line on stdin starts one measurement and is answered by a line of JSON.
"""

import argparse
import json
import sys
import time


def parse(argv=None):
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--model", choices=("lenet5", "d2l"), default="lenet5")
    p.add_argument("--layout", choices=("contiguous", "channels_last"), default="contiguous",
                   help="NCHW or NHWC")
    p.add_argument("--batch", type=int, default=64, help="images a step")
    p.add_argument("--steps", type=int, default=50, help="steps a measurement")
    p.add_argument("--warmup", type=int, default=20, help="steps before the first measurement")
    p.add_argument("--batches", type=int, default=16, help="batches held in memory, used in turn")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--momentum", type=float, default=0.9)
    return p.parse_args(argv)


args = parse()  # before torch, so that --help needs none

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class D2LLeNet(nn.Module):
    def __init__(self):
        super().__init__()

        def parameter(*shape):
            return nn.Parameter(torch.randn(shape) * 0.01 if len(shape) > 1 else
                                torch.zeros(shape))

        self.W1, self.b1 = parameter(20, 1, 3, 3), parameter(20)
        self.W2, self.b2 = parameter(50, 20, 5, 5), parameter(50)
        self.W3, self.b3 = parameter(800, 128), parameter(128)
        self.W4, self.b4 = parameter(128, 10), parameter(10)

    def forward(self, x):
        x = F.avg_pool2d(F.relu(F.conv2d(x, self.W1, self.b1)), 2)
        x = F.avg_pool2d(F.relu(F.conv2d(x, self.W2, self.b2)), 2)
        x = F.relu(torch.addmm(self.b3, torch.flatten(x, 1), self.W3))
        return torch.addmm(self.b4, x, self.W4)


class Trainer:
    def __init__(self):
        torch.manual_seed(0)
        layout = (torch.channels_last if args.layout == "channels_last" else
                  torch.contiguous_format)
        # A pattern for each of ten classes, and noise: something to learn, without reading a file.
        patterns = torch.randn(10, 1, 28, 28)
        self.batches = []
        for _ in range(args.batches):
            labels = torch.randint(10, (args.batch,))
            images = patterns[labels] + torch.randn(args.batch, 1, 28, 28)
            self.batches.append((images.contiguous(memory_format=layout), labels))
        self.model = (LeNet5() if args.model == "lenet5" else D2LLeNet()).to(memory_format=layout)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr,
                                         momentum=args.momentum)
        self.next = 0

    def run(self, steps):
        for _ in range(steps):
            images, labels = self.batches[self.next % len(self.batches)]
            self.next += 1
            loss = F.cross_entropy(self.model(images), labels)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
        return loss


def emit(**values):
    print(json.dumps(values), flush=True)


def main():
    torch.set_num_threads(args.threads)
    trainer = Trainer()
    trainer.run(args.warmup)
    emit(ready=True, framework="PyTorch", version=torch.__version__,
         python=sys.version.split()[0], model=args.model, layout=args.layout, batch=args.batch,
         threads=torch.get_num_threads())
    for _ in sys.stdin:
        trainer.run(2)  # wakes the threads, fills the caches
        start = time.perf_counter()
        loss = trainer.run(args.steps).item()
        seconds = time.perf_counter() - start
        emit(images_per_second=args.steps * args.batch / seconds, seconds=seconds,
             steps=args.steps, loss=loss)


if __name__ == "__main__":
    main()
