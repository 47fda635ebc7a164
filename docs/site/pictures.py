#!/usr/bin/env python3
"""Draws the pictures of the documentation from figures that are recorded in the repository.

    docs/site/pictures.py            writes docs/images/*.svg
    docs/site/pictures.py --check    fails if one of them differs from what it would write
"""
import argparse
import html
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs/images"
INK, FAINT, GRID = "#24292f", "#57606a", "#d8dee4"
BLUE, ORANGE = "#0969da", "#bc4c00"
# What the colors are where the reader's system is dark. Text on BLUE is WHITE, which stays.
PAPER, WHITE = "#ffffff", "#fefefe"
DARK = {PAPER: "#1c1d1f", INK: "#e6edf3", FAINT: "#9da7b3", GRID: "#3d444d", BLUE: "#4493f8", ORANGE: "#f0883e",
        "#f6f8fa": "#262c36", "#ddf4ff": "#12314f", "#fff1e5": "#4a2a12", "#dafbe1": "#15391f", "#fbefff": "#352a4a",
        "#ffebe9": "#4d2424"}


class Svg:
    """An SVG picture with a ground of its own, which is dark where the reader's system is."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title, self.parts = width, height, title, []

    def text(self, x, y, text, anchor="middle", size=13, color=INK, bold=False):
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
                          f'fill="{color}"{weight}>{html.escape(text)}</text>')

    def line(self, x0, y0, x1, y1, color=GRID, width=1.0, extra=""):
        self.parts.append(f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{color}" '
                          f'stroke-width="{width}"{extra}/>')

    def box(self, x, y, w, h, fill, stroke="none", radius=3):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="{radius}" '
                          f'fill="{fill}" stroke="{stroke}"/>')

    def curve(self, points, color):
        d = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{d}" fill="none" stroke="{color}" stroke-width="2"/>')
        self.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points]

    def arrow(self, x0, y0, x1, y1, color=FAINT):
        self.line(x0, y0, x1, y1, color, 1.6, ' marker-end="url(#head)"')

    def __str__(self):
        head = ('<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
                f'orient="auto"><path d="M0 0 8 4 0 8z" fill="{FAINT}"/></marker></defs>')
        body = "\n".join(self.parts)
        used = [(light, dark) for light, dark in DARK.items() if light in head + body or light == PAPER]
        dark = "".join(f'[fill="{a}"]{{fill:{b}}}' for a, b in used)
        dark += "".join(f'[stroke="{a}"]{{stroke:{b}}}' for a, b in used if f'stroke="{a}"' in body)
        style = f"<style>svg{{color-scheme:light dark}}@media (prefers-color-scheme:dark){{{dark}}}</style>"
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" font-family="system-ui,sans-serif" role="img">\n'
                f"<title>{html.escape(self.title)}</title>\n{style}\n{head}\n"
                f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>\n{body}\n</svg>\n')


def table(path, *first):
    """The rows, as lists of cells, of the table in `path` whose header begins with the cells `first`."""
    rows = None
    for line in (ROOT / path).read_text().split("\n"):
        cells = [c.strip() for c in line.strip().strip("|").split("|")] if line.startswith("|") else None
        if rows is not None:
            if cells is None:
                return rows
            if not set("".join(cells)) <= set(":- "):
                rows.append(cells)
        elif cells and cells[:len(first)] == list(first):
            rows = []
    if rows is None:
        sys.exit(f"{path}: no table that begins with {first}")
    return rows


def number(cell):
    return float(re.match(r"[-+]?[\d.,]+", cell)[0].replace(",", ""))


def axis(svg, left, right, y_of, ticks, label):
    for t in ticks:
        svg.line(left, y_of(t), right, y_of(t))
        svg.text(left - 6, y_of(t) + 4, label(t), "end", 11, FAINT)


def learning_curve():
    path = "benchmarks/results/2026-11-27-mnist-cpu.md"
    rows = [[number(c) for c in row] for row in table(path, "epoch", "training loss", "test accuracy")]
    svg = Svg(420, 260, "Training loss and test accuracy of the first example on MNIST")
    svg.text(210, 24, "The first example on MNIST, on the CPU", bold=True)
    left, right, top, bottom = 60, 360, 50, 215
    x_of = lambda e: left + (e - 1) * (right - left) / (len(rows) - 1)
    most = 0.25
    loss_y = lambda v: bottom - v / most * (bottom - top)
    accuracy_y = lambda a: bottom - (a - 0.975) / 0.02 * (bottom - top)
    axis(svg, left, right, loss_y, [0, 0.05, 0.1, 0.15, 0.2, 0.25], lambda t: f"{t:.2f}")
    for a in [0.975, 0.98, 0.985, 0.99, 0.995]:
        svg.text(right + 6, accuracy_y(a) + 4, f"{100 * a:.1f} %", "start", 11, FAINT)
    svg.curve([(x_of(e), loss_y(l)) for e, l, _ in rows], BLUE)
    svg.curve([(x_of(e), accuracy_y(a)) for e, _, a in rows], ORANGE)
    for e, _, _ in rows:
        svg.text(x_of(e), bottom + 16, f"{e:.0f}", size=11, color=FAINT)
    svg.text(left, 42, "training loss", "start", 12, BLUE)
    svg.text(right, 42, "test accuracy", "end", 12, ORANGE)
    svg.text((left + right) / 2, bottom + 34, "epoch", size=12, color=FAINT)
    return svg


def strategies():
    """Images per second of the strategies on two devices, compared with one."""
    rows = table("docs/comparing.md", "strategy", "devices")
    names = {"single": "one device", "dp": "DataParallel", "dp-balanced": "DataParallel, loss on both",
             "ddp 25 MB": "DDP, Gloo's all-reduce", "ddp-ring 25 MB": "DDP, Ferrite's ring"}
    svg = Svg(460, 260, "Images per second of one device, DataParallel and DistributedDataParallel")
    svg.text(230, 24, "ResNet-18 on two CPU devices", bold=True)
    left, right, top = 190, 350, 46
    x_of = lambda v: left + v / 1000 * (right - left)
    for i, row in enumerate(rows):
        y = top + 34 * i
        rate = number(row[4])
        svg.text(left - 8, y + 16, names[row[0]], "end", 12)
        svg.box(left, y, x_of(rate) - left, 22, FAINT if i == 0 else BLUE if row[0].startswith("dp") else ORANGE)
        share = "" if i == 0 else f" ({rate / number(rows[0][4]):.2f}x)"
        svg.text(x_of(rate) + 5, y + 16, f"{rate:.0f}{share}", "start", 11, FAINT)
    svg.text(230, 236, "images per second; width 16, batch 64, one AMD EPYC with two cores", size=11, color=FAINT)
    return svg


def predicted_steps():
    """Measured and predicted milliseconds of a step on two CPU devices."""
    rows = table("benchmarks/results/2026-11-22-data-parallel-cpu.md", "case", "scaling", "batch")
    svg = Svg(640, 300, "Measured and predicted times of a training step on two devices")
    svg.text(320, 24, "A step on two CPU devices: measured, and predicted from one device and the links", bold=True)
    left, right, top, bottom = 50, 620, 48, 235
    y_of = lambda ms: bottom - ms / 70 * (bottom - top)
    axis(svg, left, right, y_of, range(0, 71, 10), lambda t: f"{t} ms")
    pitch = (right - left) / len(rows)
    for i, row in enumerate(rows):
        x = left + pitch * i + pitch / 2
        measured, spread, predicted = number(row[3]), number(row[4]), number(row[5])
        svg.box(x - 28, y_of(measured), 26, bottom - y_of(measured), BLUE)
        svg.box(x + 2, y_of(predicted), 26, bottom - y_of(predicted), ORANGE)
        svg.line(x - 15, y_of(measured - spread), x - 15, y_of(measured + spread), INK, 1.5)
        svg.text(x, bottom + 16, row[0], size=12)
    groups = [(f"{row[1]} scaling, {row[2]} images", i) for i, row in enumerate(rows)]
    for group in dict.fromkeys(name for name, _ in groups):
        members = [i for name, i in groups if name == group]
        x0, x1 = left + pitch * members[0] + 12, left + pitch * (members[-1] + 1) - 12
        svg.line(x0, bottom + 22, x1, bottom + 22)
        svg.text((x0 + x1) / 2, bottom + 36, group, size=11, color=FAINT)
    svg.box(left, 278, 12, 12, BLUE)
    svg.text(left + 18, 288, "measured, with spread", "start", 12)
    svg.box(left + 190, 278, 12, 12, ORANGE)
    svg.text(left + 208, 288, "predicted", "start", 12)
    return svg


def published():
    """Published efficiencies, and the planner's predictions for the same machines."""
    rows, source = [], ""
    for row in table("docs/planning.md", "source", "case", "published"):
        source = row[0] or source
        # "16" below "ResNet-50, 8 V100" is ResNet-50 on 16 V100.
        if row[1].isdigit():
            model, devices = rows[-1][1].rsplit(" ", 2)[0], rows[-1][1].rsplit(" ", 1)[1]
            case = f"{model} {row[1]} {devices}"
        else:
            case = re.sub(r", parameters on the first of", ",", row[1])
        rows.append((source, case, number(row[2]), number(row[3])))
    svg = Svg(640, 70 + 24 * len(rows), "Published and predicted efficiencies on GPUs")
    svg.text(320, 24, "Scaling efficiency on GPUs: published by others, and predicted by Ferrite", bold=True)
    left, right, top = 330, 610, 56
    x_of = lambda p: left + (p - 60) / 40 * (right - left)
    for p in range(60, 101, 10):
        svg.line(x_of(p), top - 8, x_of(p), top + 24 * len(rows) - 8)
        svg.text(x_of(p), top - 14, f"{p} %", size=11, color=FAINT)
    before = ""
    for i, (source, case, said, predicted) in enumerate(rows):
        y = top + 24 * i + 6
        if source != before:
            svg.text(14, y + 4, source, "start", 12, bold=True)
        before = source
        svg.text(left - 12, y + 4, case, "end", 12)
        svg.line(x_of(said), y, x_of(predicted), y, FAINT, 1.5)
        svg.parts.append(f'<circle cx="{x_of(said):.1f}" cy="{y}" r="5" fill="{BLUE}"/>')
        svg.parts.append(f'<circle cx="{x_of(predicted):.1f}" cy="{y}" r="4" fill="{PAPER}" stroke="{ORANGE}" '
                         'stroke-width="2"/>')
    y = top + 24 * len(rows) + 4
    svg.text(left, y, "filled: published", "start", 12, BLUE)
    svg.text(right, y, "open: predicted", "end", 12, ORANGE)
    return svg


def predicted_scaling():
    """Images per second that the simulator predicts for 1 to 512 GPUs, on logarithmic axes."""
    path = "benchmarks/results/2026-11-28-predicted-scaling.md"
    rows = [(number(row[0]), number(row[1]), number(row[3])) for row in table(path, "devices", "DataParallel images/s")]
    per_node, most = 8, 200_000
    svg = Svg(640, 360, "Predicted images per second of ResNet-50 on 1 to 512 GPUs, with DataParallel and "
                        "DistributedDataParallel")
    svg.text(320, 24, "Predicted, not measured: ResNet-50 on V100s, 128 images each", bold=True)
    left, right, top, bottom = 70, 610, 60, 290
    one = rows[0][1]
    x_of = lambda n: left + math.log(n) / math.log(rows[-1][0]) * (right - left)
    y_of = lambda rate: bottom - math.log(rate / 300) / math.log(most / 300) * (bottom - top)
    axis(svg, left, right, y_of, [300, 1000, 3000, 10_000, 30_000, 100_000], lambda t: f"{t:,}")
    for n, _, _ in rows:
        svg.text(x_of(n), bottom + 16, f"{n:.0f}", size=11, color=FAINT)
    svg.text((left + right) / 2, bottom + 33, "GPUs, 8 in a node: NVLink inside, one InfiniBand EDR adapter between",
             size=12, color=FAINT)
    svg.line(x_of(per_node), top - 8, x_of(per_node), bottom, FAINT, 1, ' stroke-dasharray="3 3"')
    svg.text(x_of(per_node) - 6, top + 2, "one node", "end", 11, FAINT)
    svg.text(x_of(per_node) + 6, top + 2, "several nodes", "start", 11, FAINT)
    svg.line(x_of(1), y_of(one), x_of(rows[-1][0]), y_of(one * rows[-1][0]), FAINT, 1.2, ' stroke-dasharray="6 4"')
    svg.curve([(x_of(n), y_of(ddp)) for n, _, ddp in rows], ORANGE)
    inside = [(x_of(n), y_of(dp)) for n, dp, _ in rows if n <= per_node]
    beyond = [(x_of(n), y_of(dp)) for n, dp, _ in rows if n >= per_node]
    d = " ".join(f"{x:.1f},{y:.1f}" for x, y in beyond)
    svg.parts.append(f'<polyline points="{d}" fill="none" stroke="{BLUE}" stroke-width="2" stroke-dasharray="2 4"/>')
    svg.curve(inside, BLUE)
    svg.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="#fff" stroke="{BLUE}" stroke-width="1.5"/>'
                  for x, y in beyond[1:]]
    svg.text(left - 6, top - 24, "images/s", "end", 11, FAINT)
    svg.text(x_of(64) - 8, y_of(rows[6][2]) - 12, "DistributedDataParallel", "end", 12, ORANGE)
    svg.text(x_of(64), y_of(rows[6][1]) + 22, "DataParallel", "start", 12, BLUE)
    y = bottom + 56
    svg.text(left, y, "dashed line: as many times one GPU", "start", 11, FAINT)
    svg.text(right, y, "rings: if one process could use other nodes' GPUs", "end", 11, BLUE)
    return svg


def architecture():
    """The folders, each above those it uses, and how a training step passes through them."""
    svg = Svg(760, 470, "Ferrite's folders, and how a training step passes through them")
    boxes = {
        "examples": (60, 50, 640, 40, "your program, examples", "#f6f8fa"),
        "data": (60, 120, 120, 66, "data", "#ddf4ff"), "metrics": (580, 120, 120, 66, "metrics", "#ddf4ff"),
        "optim": (420, 120, 130, 66, "optim", "#fff1e5"), "parallel": (230, 120, 160, 66, "parallel", "#fff1e5"),
        "nn": (230, 216, 320, 40, "nn", "#dafbe1"), "ops": (230, 270, 320, 40, "ops", "#dafbe1"),
        "autograd": (230, 324, 320, 40, "autograd", "#fbefff"), "kernels": (60, 378, 640, 40, "kernels", "#ffebe9"),
        "core": (60, 424, 640, 32, "core", "#f6f8fa")}
    notes = {"data": "files, loader", "metrics": "meters, logs", "optim": "optimizers, scaling",
             "parallel": "DataParallel, DDP", "nn": "modules and layers", "ops": "functions with their gradients",
             "autograd": "the tape and its engine", "kernels": "arithmetic: cpu/ and cuda/",
             "core": "tensor, memory, streams, random numbers, threads, profiler"}
    svg.text(380, 28, "A folder uses only those below it", bold=True)
    for name, (x, y, w, h, label, fill) in boxes.items():
        svg.box(x, y, w, h, fill, GRID, 5)
        if name not in notes:
            svg.text(x + w / 2, y + 25, label, bold=True)
        elif h > 50:
            svg.text(x + w / 2, y + 25, label, bold=True)
            svg.text(x + w / 2, y + 46, notes[name], size=11, color=FAINT)
        else:
            middle = y + h / 2 + 5
            svg.text(x + 12, middle, label, "start", bold=True)
            svg.text(x + w - 12, middle, notes[name], "end", 12, FAINT)

    def step(number, x, y):
        svg.parts.append(f'<circle cx="{x}" cy="{y}" r="10" fill="{BLUE}"/>')
        svg.text(x, y + 4, str(number), size=12, color=WHITE, bold=True)

    svg.arrow(120, 120, 120, 92)
    step(1, 140, 106)
    svg.arrow(250, 90, 250, 118)
    svg.arrow(250, 186, 250, 214)
    step(2, 270, 202)
    svg.arrow(400, 256, 400, 269)
    svg.arrow(570, 290, 640, 376)
    step(3, 628, 330)
    svg.arrow(210, 344, 150, 376)
    step(4, 160, 344)
    step(5, 372, 176)
    svg.arrow(520, 90, 520, 118)
    step(6, 540, 106)
    svg.arrow(640, 90, 640, 118)
    step(7, 660, 106)
    return svg


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    pictures = {"learning_curve": learning_curve, "strategies": strategies, "predicted_steps": predicted_steps,
                "published": published, "predicted_scaling": predicted_scaling, "architecture": architecture}
    differ = []
    for name, draw in pictures.items():
        path, now = IMAGES / f"{name}.svg", str(draw())
        if not options.check:
            path.write_text(now)
        elif not path.exists() or path.read_text() != now:
            differ.append(f"{path.relative_to(ROOT)} is not what docs/site/pictures.py draws: run it")
    if differ:
        sys.exit("\n".join(differ))


if __name__ == "__main__":
    main()
