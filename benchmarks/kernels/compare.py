#!/usr/bin/env python3
"""Compares Ferrite's kernels with the same ops of PyTorch, in turns on one device: microseconds,
the ratio, and the share of what the device can do (a copy and a product measured in the same run).
Without PyTorch there is Ferrite's side alone."""

import argparse
import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import side_by_side as sbs  # noqa: E402


def parse():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--device", default="cuda:0", help="cpu, cuda:0 ...")
    p.add_argument("--threads", type=int, default=2, help="CPU threads")
    p.add_argument("--rounds", type=int, default=3, help="measurements per case and side")
    p.add_argument("--budget", type=float, default=0.1, help="seconds per measurement")
    p.add_argument("--sizes", help="this and the next five options are those of bench_kernels")
    p.add_argument("--dtypes")
    p.add_argument("--only")
    p.add_argument("--batch")
    p.add_argument("--product")
    p.add_argument("--cold", type=float, default=256)
    sbs.add_options(p, "bench_kernels")
    return p.parse_args()


def has_pytorch(python):
    return subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0


def main():
    args = parse()
    common = ["--device", args.device, "--threads", args.threads, "--budget", args.budget,
              "--cold", args.cold]
    chosen = [v for name in ("sizes", "dtypes", "only", "batch", "product")
              if (value := getattr(args, name)) is not None for v in (f"--{name}", value)]
    commands = {"Ferrite": [sbs.ferrite_program(args, "bench_kernels"), "--serve", *common, *chosen]}
    if has_pytorch(args.python):
        commands["PyTorch"] = [args.python, HERE / "torch_kernels.py", *common]
    else:
        print(f"Without PyTorch: {args.python} has none (--python names another).", file=sys.stderr)

    report = {"machine": sbs.machine(), "results": []}
    with sbs.workers(commands, args.threads) as started:
        report["programs"] = {n: dict(w.info) for n, w in started.items()}
        cases = report["programs"]["Ferrite"].pop("cases")
        for number, case in enumerate(cases, 1):
            print(f"\r{number}/{len(cases)} {case['name']:<70.70}", end="", file=sys.stderr)
            report["results"].append({"case": case, "answers": measure(started, case, args.rounds)})
        print(file=sys.stderr)
    sbs.finish(args, report, [table(report)])


def measure(started, case, rounds):
    """{name: [answers]}; a side that does not support the case is asked once."""
    answers = {"Ferrite": [started["Ferrite"].measure(json.dumps(case))]}
    # Both sides cycle through the same number of copies of their operands.
    case = dict(case, bytes=answers["Ferrite"][0].get("bytes", 0))
    if "PyTorch" in started:
        answers["PyTorch"] = [started["PyTorch"].measure(json.dumps(case))]
    able = {n: started[n] for n, a in answers.items() if "error" not in a[0]}
    for name, more in sbs.interleave(able, rounds - 1, json.dumps(case)).items():
        answers[name] += more
    return answers


def table(report):
    results = report["results"]
    copy = rate(results[0], "bytes")
    products = {r["case"]["dtype"]: rate(r, "flops") for r in results if
                r["case"]["family"] == "device" and r["case"]["op"] == "linear"}
    pytorch = "PyTorch" in report["programs"]
    rows, ratios = [], {}
    for r in results:
        case, ferrite = r["case"], r["answers"]["Ferrite"]
        theirs = r["answers"].get("PyTorch", [{"error": ""}])
        row = [case["name"]]
        if "error" in ferrite[0]:
            rows.append(row + [ferrite[0]["error"]] + [""] * (4 if pytorch else 3))
            continue
        mine = sbs.median(ferrite, "seconds")
        if pytorch and "error" in theirs[0]:
            row += ["-", f"{mine * 1e6:,.1f}", "-"]
        elif pytorch:
            ratio = sbs.median(theirs, "seconds") / mine
            ratios.setdefault(case["family"], []).append(ratio)
            row += [f"{sbs.median(theirs, 'seconds') * 1e6:,.1f}", f"{mine * 1e6:,.1f}",
                    f"{ratio:.2f}"]
        else:
            row += [f"{mine * 1e6:,.1f}"]
        flops = rate(r, "flops")
        product = products.get(case["dtype"])
        row += [f"{rate(r, 'bytes') / copy:.0%}",
                f"{flops / product:.0%}" if flops and product else ""]
        rows.append(row)
    sides = ["PyTorch us", "Ferrite us", "PyTorch / Ferrite"] if pytorch else ["Ferrite us"]
    text = (f"A copy moves {copy * 1e-9:,.1f} GB/s; a product does " +
            ", ".join(f"{v * 1e-9:,.1f} GFLOP/s in {k}" for k, v in products.items()) + ".\n\n" +
            sbs.markdown(["kernel"] + sides + ["of copy", "of product"], rows))
    if ratios:
        text += "\n\nMedians of PyTorch / Ferrite:\n\n" + sbs.markdown(
            ["family", "cases", "median", "lowest"],
            [[family, len(of), f"{sorted(of)[len(of) // 2]:.2f}", f"{min(of):.2f}"]
             for family, of in ratios.items()])
    return text


def rate(result, what):
    """Bytes or operations per second of Ferrite's side; 0 if it has none."""
    answers = result["answers"]["Ferrite"]
    if "error" in answers[0]:
        return 0
    return answers[0][what] / sbs.median(answers, "seconds")


if __name__ == "__main__":
    sbs.run(main)
