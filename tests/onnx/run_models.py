"""Checks the .onnx files in a folder by ONNX's checker, runs them by onnxruntime, and compares.

    python3 run_models.py FOLDER

NAME.onnx is run on NAME.RUN.in.I.npy, for every RUN that is there, and its outputs must be
NAME.RUN.out.I.npy, to 1e-5 of the greatest of them, or of 1. Prints what is not, and the number of
runs; succeeds if all is.
"""
import pathlib
import sys

import numpy
import onnx
import onnxruntime


def arrays(folder, prefix):
    found = []
    while (path := folder / f"{prefix}.{len(found)}.npy").exists():
        found.append(numpy.load(path))
    return found


def check(path):
    """The errors of one model, and its number of runs."""
    onnx.checker.check_model(str(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    runs = 0
    while inputs := arrays(path.parent, f"{path.stem}.{runs}.in"):
        names = [i.name for i in session.get_inputs()]
        given = {k: v for k, v in zip(names, inputs)}
        outputs = session.run(None, given)
        expected = arrays(path.parent, f"{path.stem}.{runs}.out")
        if len(outputs) != len(expected):
            return [f"{len(outputs)} outputs, not {len(expected)}"], runs
        for i, (a, b) in enumerate(zip(outputs, expected)):
            if a.shape != b.shape or a.dtype != b.dtype:
                return [f"run {runs}, output {i}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}"], runs
            if a.dtype == bool:
                a, b = a.astype(int), b.astype(int)
            if a.size and not numpy.allclose(a, b, rtol=0, atol=1e-5 * max(1, numpy.nanmax(abs(b))), equal_nan=True):
                return [f"run {runs}, output {i}: differs by {numpy.nanmax(abs(a - b))}"], runs
        runs += 1
    return [] if runs else ["there are no inputs"], runs


def main():
    folder = pathlib.Path(sys.argv[1])
    total, failed = 0, 0
    for path in sorted(folder.glob("*.onnx")):
        try:
            errors, runs = check(path)
        except Exception as error:  # whatever the runtime says
            errors, runs = [f"{type(error).__name__}: {error}"], 0
        for error in errors:
            print(f"{path.stem}: {error}")
        total += runs
        failed += bool(errors)
    print(f"{total} runs")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
