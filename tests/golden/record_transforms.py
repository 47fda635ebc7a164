"""torchvision's results for images that a formula gives, with fixed parameters."""

from unittest import mock

import torch
from torchvision.transforms import InterpolationMode, functional as F
from torchvision.transforms import RandAugment, RandomErasing, TrivialAugmentWide, v2
from torchvision.transforms.autoaugment import _apply_op

from recorder import Recorder, hash32

NEAREST, BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR
OPS = """Identity ShearX ShearY TranslateX TranslateY Rotate Brightness Color Contrast Sharpness
Posterize Solarize AutoContrast Equalize""".split()


def image(seed, channels=3, height=7, width=9):
    """Values of 16 to 223, so that there is contrast to stretch."""
    values = hash32(seed, channels * height * width) % 208 + 16
    return values.to(torch.uint8).reshape(channels, height, width)


def one_draw(share, ratio, image):
    """RandomErasing's height and width for this share of the area, and height over width."""
    top, left, height, width, _ = RandomErasing.get_params(image, (share, share), (ratio, ratio), [0])
    return [height, width]


def table(space, bins):
    """The magnitudes of all bins, a row an operation, and whether they get signs."""
    rows = [m.float().expand(bins) for m, _ in space.values()]
    assert list(space) == OPS
    return {"magnitudes": torch.stack(rows), "signed": torch.tensor([s for _, s in space.values()])}


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

    for kind, x in (("u8", bytes_image), ("f32", bytes_image.float() / 255)):
        add = lambda name, y: r.add(f"{kind}", **{name: y})
        add("hflip", F.hflip(x))
        add("vflip", F.vflip(x))
        add("erase", F.erase(x, 1, 4, 4, 3, torch.tensor(7 if kind == "u8" else 0.7)))
        add("pad_constant", F.pad(x, [1, 2, 3, 0], fill=9))
        add("pad_crop", F.pad(x, [-1, 2, 3, -2], fill=9))
    for mode in ("edge", "reflect", "symmetric"):
        r.add("u8", **{f"pad_{mode}": F.pad(bytes_image, [5, 6, 2, 3], padding_mode=mode)})
        r.add("u8", **{f"pad_{mode}_crop": F.pad(bytes_image, [-1, 2, 3, -2], padding_mode=mode)})
    r.add("f32", pad_reflect=F.pad(x, [1, 0, 0, 2], padding_mode="reflect"))
    big = image(1, 1, 30, 40)
    draws = [(0.02, 0.3), (0.1, 3.3), (0.33, 1.0), (0.2, 0.75), (0.07, 2.0)]
    r.add("erase", draws=torch.tensor(draws, dtype=torch.float64),
          sizes=torch.tensor([one_draw(*d, big) for d in draws]))
    for bins in (31, 10):
        r.add(f"rand_augment{bins}", **table(RandAugment()._augmentation_space(bins, (32, 331)), bins))
        r.add(f"trivial{bins}", **table(TrivialAugmentWide()._augmentation_space(bins), bins))
    batch = torch.stack([image(seed, 2, 4, 6) for seed in (1, 2, 3)]).float() / 255
    labels = torch.tensor([0, 2, 1])
    mixup, cutmix = v2.MixUp(num_classes=4), v2.CutMix(num_classes=4)
    for lam in (0.3, 0.75):
        params = {"labels": labels, "batch_size": 3, "lam": lam}
        r.add(f"mixup{lam}", images=mixup.transform(batch, params), labels=mixup.transform(labels, params))
        cutmix._dist.sample = lambda _: torch.tensor(lam, dtype=torch.float64)
        for x, y in ((0, 2), (3, 1), (5, 3)):
            # make_params() draws the centre, x first.
            centre = iter((x, y))
            with mock.patch("torch.randint", lambda *_, **__: torch.tensor([next(centre)])):
                params = {"labels": labels, "batch_size": 3, **cutmix.make_params([batch])}
            r.add(f"cutmix{lam}_{x}_{y}", images=cutmix.transform(batch, params),
                  labels=cutmix.transform(labels, params))
