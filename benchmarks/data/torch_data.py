#!/usr/bin/env python3
"""How fast a DataLoader makes batches: PyTorch's side of compare.py.

Images a second, shuffled, float32 and normalized. Every line on stdin is answered by a line of JSON.
"""

import argparse
import json
import os
import sys
import time
import warnings

parser = argparse.ArgumentParser(description=__doc__,
                                 formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("--source", choices=("dataset", "uint8", "tensors", "folder"), default="dataset",
                    help="dataset: uint8 images in memory, each transformed as torchvision's MNIST "
                         "does it; uint8: a TensorDataset of them, each batch converted and "
                         "normalized; tensors: a TensorDataset of what was converted before; folder: "
                         "files, RandomResizedCrop(224) and RandomHorizontalFlip")
parser.add_argument("--images", help="the folder of images, by class")
parser.add_argument("--samples", type=int, default=60000, help="images in memory")
parser.add_argument("--batch", type=int, default=64, help="batch size")
parser.add_argument("--workers", type=int, default=0, help="processes that prepare batches")
parser.add_argument("--threads", type=int, default=1, help="of PyTorch's operations")
parser.add_argument("--seconds", type=float, default=0.5, help="a measurement takes, or an epoch")
args = parser.parse_args()  # before torch, so that --help needs none

warnings.filterwarnings("ignore")
import torch  # noqa: E402
import torchvision  # noqa: E402
from PIL import Image  # noqa: E402
from torch.utils.data import DataLoader, Dataset, TensorDataset  # noqa: E402
from torchvision import transforms  # noqa: E402

MEAN, DEVIATION = 0.2860, 0.3530  # Fashion-MNIST's


class Images(Dataset):
    """As torchvision.datasets.MNIST, on images that are in memory already."""

    def __init__(self, data, targets, transform):
        self.data, self.targets, self.transform = data, targets, transform

    def __getitem__(self, index):
        image = Image.fromarray(self.data[index].numpy(), mode="L")
        return self.transform(image), int(self.targets[index])

    def __len__(self):
        return len(self.data)


def images_in_memory():
    """As many images as MNIST has, of its size, every pixel of the mean and deviation above, about."""
    generator = torch.Generator().manual_seed(0)
    shape = (args.samples, 28, 28)
    bright = torch.randint(0, 3, shape, generator=generator) == 0
    values = torch.where(bright, torch.randint(131, 256, shape, generator=generator),
                         torch.randint(0, 51, shape, generator=generator))
    return values.to(torch.uint8), torch.arange(args.samples) % 10


def normalized(images):
    return images.float().div_(255).sub_(MEAN).div_(DEVIATION)


def data_set():
    if args.source == "folder":
        return torchvision.datasets.ImageFolder(args.images, transforms.Compose([
            transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]))
    images, labels = images_in_memory()
    if args.source == "dataset":
        return Images(images, labels, transforms.Compose(
            [transforms.ToTensor(), transforms.Normalize([MEAN], [DEVIATION])]))
    images = images.unsqueeze(1)
    return TensorDataset(normalized(images) if args.source == "tensors" else images, labels)


def run_epoch(loader):
    count, batch = 0, None
    for images, labels in loader:
        if args.source == "uint8":
            images = normalized(images)
        count += len(labels)
        if batch is None:
            batch = images
    return count, batch


def workers_of(loader):
    iterator = getattr(loader, "_iterator", None)
    return [w.pid for w in getattr(iterator, "_workers", [])]


def processor_seconds(pids):
    """Of this process and of its workers, which do not end meanwhile."""
    total = time.process_time()
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def measure(loader):
    pids = workers_of(loader)
    processor, start = processor_seconds(pids), time.perf_counter()
    count, seconds = 0, 0.0
    while count == 0 or seconds < args.seconds:
        images, batch = run_epoch(loader)
        count += images
        seconds = time.perf_counter() - start
    used = processor_seconds(pids) - processor
    return {"images_per_second": count / seconds, "processor_seconds_per_image": used / count,
            "images": count, "seconds": seconds, "mean": batch.mean().item(),
            "deviation": batch.std().item()}


torch.set_num_threads(args.threads)
torch.manual_seed(0)
loader = DataLoader(data_set(), args.batch, shuffle=True, num_workers=args.workers,
                    persistent_workers=args.workers > 0)
run_epoch(loader)
print(json.dumps({"ready": True, "framework": "PyTorch", "version": torch.__version__,
                  "torchvision": torchvision.__version__, "pillow": Image.__version__,
                  "python": sys.version.split()[0], "samples": len(loader.dataset)}), flush=True)
for line in sys.stdin:
    print(json.dumps(measure(loader)), flush=True)
