"""torchvision's results for images that a formula gives, with fixed parameters."""

import torch
from torchvision.transforms import InterpolationMode, functional as F
from torchvision.transforms.autoaugment import _apply_op

from recorder import Recorder, hash32

NEAREST, BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR
OPS = """Identity ShearX ShearY TranslateX TranslateY Rotate Brightness Color Contrast Sharpness
Posterize Solarize AutoContrast Equalize""".split()


def image(seed, channels=3, height=7, width=9):
    """Values of 16 to 223, so that there is contrast to stretch."""
    values = hash32(seed, channels * height * width) % 208 + 16
    return values.to(torch.uint8).reshape(channels, height, width)


with Recorder("transforms") as r:
    bytes_image = image(1)
    for kind, x in (("u8", bytes_image), ("f32", bytes_image.float() / 255)):
        add = lambda name, y: r.add(f"{kind}", **{name: y})
        for f in (0.0, 0.4, 1.7):
            add(f"brightness{f}", F.adjust_brightness(x, f))
            add(f"contrast{f}", F.adjust_contrast(x, f))
            add(f"saturation{f}", F.adjust_saturation(x, f))
            add(f"sharpness{f}", F.adjust_sharpness(x, f))
        for f in (-0.5, -0.1, 0.3):
            add(f"hue{f}", F.adjust_hue(x, f))
        add("gray", F.rgb_to_grayscale(x))
        add("blur", F.gaussian_blur(x, [5, 5], [1.3, 1.3]))
        add("autocontrast", F.autocontrast(x))
        add("solarize", F.solarize(x, 100 if kind == "u8" else 100 / 255))
        for name, mode in (("nearest", NEAREST), ("bilinear", BILINEAR)):
            add(f"affine_{name}", F.affine(x, 25, [2, -1], 0.8, [10, -7], mode, fill=None))
            add(f"rotate_{name}", F.rotate(x, 33, mode))
    for i, op in enumerate(OPS):
        magnitude = [0, 0.3, -0.23, 2.7, -3.4, 20, 0.5, -0.5, 0.6, 0.9, 3, 90, 0, 0][i]
        r.add("op", **{str(i): _apply_op(bytes_image, op, magnitude, NEAREST, None)})
    r.add("convert", u8=F.convert_image_dtype(bytes_image.float() / 255, torch.uint8))
