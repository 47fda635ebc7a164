#!/usr/bin/env python3
"""Writes folders of images to read: DIR/<class>/<number>.jpg or .png, of 256 x 256 to 500 x 375
pixels and as hard to compress as photographs: their spectrum falls as 1/f, as photographs' do (Field,
"Relations between the statistics of natural images", 1987). Needs numpy and Pillow."""

import argparse
import pathlib

SIZES = ((500, 375), (375, 500), (500, 333), (400, 300), (320, 480), (256, 256))  # width, height


def image(numpy, random, width, height):
    """uint8 [height, width, 3]: brightness of large contrast, colours of less."""
    fy = numpy.fft.fftfreq(height)[:, None]
    fx = numpy.fft.rfftfreq(width)[None, :]
    falloff = 1 / numpy.maximum(numpy.hypot(fy, fx), 1 / max(width, height))

    def plane(deviation):
        noise = numpy.fft.rfft2(random.standard_normal((height, width)))
        values = numpy.fft.irfft2(noise * falloff, s=(height, width))
        return values / values.std() * deviation

    brightness, red, blue = plane(60), plane(15), plane(15)
    rgb = numpy.stack([brightness + red, brightness - (red + blue) / 2, brightness + blue], axis=2)
    return numpy.clip(rgb + 118, 0, 255).astype(numpy.uint8)


def make(folder, kind, count, classes=4, quality=90):
    """`count` images; gives the bytes that they take."""
    import numpy
    from PIL import Image
    random = numpy.random.default_rng(0)
    total = 0
    for i in range(count):
        below = pathlib.Path(folder) / f"class{i % classes}"
        below.mkdir(parents=True, exist_ok=True)
        path = below / f"{i:05}.{kind}"
        options = {"quality": quality} if kind == "jpg" else {}
        Image.fromarray(image(numpy, random, *SIZES[i % len(SIZES)])).save(path, **options)
        total += path.stat().st_size
    return total


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("folder", type=pathlib.Path)
    p.add_argument("--kind", choices=("jpg", "png"), default="jpg")
    p.add_argument("--count", type=int, default=120)
    p.add_argument("--quality", type=int, default=90, help="of JPEG files")
    args = p.parse_args()
    total = make(args.folder, args.kind, args.count, quality=args.quality)
    print(f"{args.count} images of {total / args.count / 1024:.0f} KiB on average")


if __name__ == "__main__":
    main()
