"""Pillow's bilinear resampling of uint8 images (Resize, RandomResizedCrop). Needs Pillow beside
PyTorch."""

import PIL
import torch
from PIL import Image

from recorder import Recorder

SIZES = [(7, 5, 3, 4), (7, 5, 14, 11), (1, 1, 3, 2), (33, 20, 5, 20), (16, 16, 16, 7), (5, 40, 6, 3),
         (28, 28, 32, 32), (64, 48, 9, 9)]


def to_pillow(image):
    channels, height, width = image.shape
    pixels = bytes(image.permute(1, 2, 0).reshape(-1).tolist())
    return Image.frombytes("L" if channels == 1 else "RGB", (width, height), pixels)


def from_pillow(picture):
    data = torch.tensor(list(picture.tobytes()), dtype=torch.uint8)
    return data.reshape(picture.height, picture.width, -1).permute(2, 0, 1)


with Recorder("resize") as r:
    r.add("pillow", version=int(PIL.__version__.split(".")[0]))
    for i, (h, w, out_h, out_w) in enumerate(SIZES):
        image = torch.randint(0, 256, (3 if i % 2 else 1, h, w), dtype=torch.uint8)
        if i == 0:
            image = (image > 127).to(torch.uint8) * 255  # rounding at both ends of the range
        resized = to_pillow(image).resize((out_w, out_h), Image.BILINEAR)
        r.add(f"case{i}", image=image, resized=from_pillow(resized))
