#!/usr/bin/env python3
"""Compiles the C++ blocks of the README and of docs/.

    docs/site/blocks.py COMPILER [options...]

writes one source with every block in a namespace of its own and lets the compiler check it, so that page and
library cannot part; the test api/documentation runs it. What a block takes from the program around it is declared in context.h: the namespace
`context` for all pages, and context::page_PAGE for one. A block's types, templates and functions stand at namespace
scope, its statements in a function; a line that begins with `...` is left out.

A comment directly above a block says what is different about it:
    <!-- code of FILE -->          its paragraphs are in FILE, which is compiled elsewhere
    <!-- not compiled: REASON -->
"""
import pathlib
import re
import subprocess
import sys

import markdown

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTEXT = pathlib.Path(__file__).with_name("context.h")
TOP = re.compile(r"(struct|class|template|namespace|using \w+ =|using namespace|enum|#include|int main|void \w+)\b")


def blocks(path):
    """(line number, text, comment above) of each C++ block."""
    above, number, start, block = "", 0, 0, []
    inside = False
    for line, code in markdown.lines(path.read_text()):
        number += 1
        if code and line.strip().startswith("```"):
            if inside:
                yield start, "\n".join(block), above
                inside = False
            elif line.strip().startswith("```cpp"):
                inside, start, block = True, number + 1, []
        elif inside:
            block.append(line)
        if not code and line.strip():
            above = line.strip()


def packed(text):
    return re.sub(r"\s+", "", text)


def paragraphs(text):
    """The block's parts: each ends at an empty line outside of braces."""
    part, depth = [], 0
    for line in text.split("\n") + [""]:
        depth += line.count("{") - line.count("}")
        if line.strip() or depth > 0:
            part.append(line)
        elif part:
            yield "\n".join(part)
            part = []


def source(name, start, text):
    includes = "\n".join(line for line in text.split("\n") if line.startswith("#include"))
    text = "\n".join("" if line.startswith(("#include", "using namespace ferrite;"))
                     or line.strip().startswith("...") else line for line in text.split("\n"))
    top, body, line = [], [], start
    for part in paragraphs(text):
        line = start + text[:text.index(part)].count("\n")
        place = top if TOP.match(part) else body
        place.append(f'#line {line} "{name}"\n{part}')
    space = f"context::page_{pathlib.Path(name).stem}::block_{start}"
    code = "\n".join([*top, "void statements() {", *body, "}"]).replace("int main()", "void main()")
    return f"{includes}\nnamespace {space} {{\n{code}\n}}  // namespace {space}\n"


def main():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    out, errors, copies, exempt = [], [], 0, []
    for path in pages:
        name = str(path.relative_to(ROOT))
        for start, text, above in blocks(path):
            if m := re.match(r"<!-- code of (\S+) -->", above):
                copies += 1
                known = packed((ROOT / m[1]).read_text())
                errors += [f"{name}:{start}: not in {m[1]}:\n{p}" for p in paragraphs(text)
                           if packed(p) not in known]
            elif m := re.match(r"<!-- not compiled: (.*) -->", above):
                exempt.append(f"{name}:{start}: not compiled: {m[1]}")
            else:
                out.append(source(name, start, text))
    if errors:
        sys.exit("\n".join(errors))
    print("\n".join(exempt))
    code = f'#include "{CONTEXT}"\n' + "\n".join(out)
    command = [*sys.argv[1:], "-std=c++20", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-Wno-unused-parameter",
               "-fsyntax-only", "-x", "c++", "-"]
    if subprocess.run(command, input=code, text=True).returncode:
        sys.exit("a block does not compile; docs/site/context.h declares what blocks take from around them")
    print(f"{len(out)} C++ blocks compile, {copies} are code of tests, {len(exempt)} are left out")


if __name__ == "__main__":
    main()
