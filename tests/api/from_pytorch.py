#!/usr/bin/env python3
"""Compiles the lines of the tables of docs/from_pytorch.md.

from_pytorch.py PAGE COMPILER [OPTION...]

A row's right cell is its code: `spans`, each a line; "or" between two begins the line's alternative. They stand
in a function each, with what from_pytorch.h declares. A right cell without code has a link, and is left out.
"""
import pathlib
import re
import subprocess
import sys

# Lines stand for themselves: most of them leave their result.
UNUSED = ["value", "result", "variable", "local-typedefs"]


def alternatives(cell):
    """Lists of the lines of a cell that belong together."""
    result, last = [[]], 0
    for match in re.finditer(r"`([^`]+)`", cell):
        if cell[last:match.start()].strip() == "or":
            result.append([])
        result[-1].append(match[1])
        last = match.end()
    return [lines for lines in result if lines]


def rows(page):
    """(number of the line, lines of code) of each row."""
    columns = None
    for number, text in enumerate(page.splitlines(), 1):
        if not text.startswith("|"):
            columns = None
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", text)[1:-1]]
        if columns is None:
            columns = len(cells)
        elif not set(text) <= set("| -"):
            if len(cells) != columns:
                sys.exit(f"line {number}: expected {columns} cells, got {len(cells)}")
            code = alternatives(cells[-1].replace("\\|", "|"))
            if not code and "](" not in cells[-1]:
                sys.exit(f"line {number}: expected code or a link, got '{cells[-1]}'")
            yield from ((number, lines) for lines in code)


def main():
    page = pathlib.Path(sys.argv[1])
    setup = pathlib.Path(__file__).with_name("from_pytorch.h")
    out, count = [f'#include "{setup}"', "namespace from_pytorch {"], 0
    for number, lines in rows(page.read_text()):
        code = " ".join(line + ";" for line in lines)
        out += [f"struct Line{count} : Lines {{ void run() {{", f'#line {number} "{page}"', code, "} };"]
        count += 1
    out.append("}  // namespace from_pytorch\n")
    command = sys.argv[2:] + ["-std=c++20", "-Wall", "-Wextra", "-Werror", *(f"-Wno-unused-{name}" for name in UNUSED),
                              "-Wno-missing-field-initializers", "-fsyntax-only", "-x", "c++", "-"]
    status = subprocess.run(command, input="\n".join(out), text=True).returncode
    print(f"{count} lines of {page.name} {'do not all' if status else ''} compile".replace("  ", " "))
    return 1 if status or count < 350 else 0


if __name__ == "__main__":
    sys.exit(main())
