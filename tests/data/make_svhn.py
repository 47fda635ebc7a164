"""Writes svhn/*.mat, small files in the format of SVHN's, by SciPy: make_svhn.py"""

import pathlib

import numpy as np
from scipy.io import savemat

folder = pathlib.Path(__file__).with_name("svhn")
folder.mkdir(exist_ok=True)
for name, count, dtype, compressed in (("train", 3, np.uint8, True), ("test", 1, np.float64, False)):
    h, w, c, n = np.ogrid[:32, :32, :3, :count]
    images = ((h * 7 + w * 3 + c * 50 + n * 11) % 256).astype(np.uint8)
    labels = np.array([[10], [1], [9]])[:count].astype(dtype)
    savemat(folder / f"{name}_32x32.mat", {"X": images, "y": labels}, do_compression=compressed)
