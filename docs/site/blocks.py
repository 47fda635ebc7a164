#!/usr/bin/env python3
"""Checks the blocks of code in the repository's Markdown files; the test api/documentation runs it.

    docs/site/blocks.py [--cmake CMAKE] [--bin FOLDER] [--toolkit INCLUDE]... COMPILER [options...]

C++: writes one source with every block in a namespace of its own and lets the compiler check it, so that page and
library cannot part. What a block takes from the program around it is declared in context.h: the namespace `context` for
all pages, and context::page_PAGE for one. A block's types, templates and functions stand at namespace scope, its
statements in a function; a line that begins with `...` is left out. CUDA kernels are compiled for the emulator, with
the CUDA toolkit's headers, in INCLUDE. Pages of docs/tutorials are programs of their own (tests/tutorials). A comment
directly above a block says what is different about it:
    <!-- code of FILE -->          its paragraphs are in FILE, which is compiled elsewhere
    <!-- not compiled: REASON -->

sh: what the commands name has to be there (commands.py); the programs that are built are in FOLDER. cmake, python and
json: the syntax. Any other block has the language text, or none.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import commands
import markdown

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ("*.md", ".github/*.md", "benchmarks/*.md", "docs/**/*.md", "examples/**/*.md", "packaging/**/*.md",
         "scripts/*.md", "tests/**/*.md")
CONTEXT = pathlib.Path(__file__).with_name("context.h")
TOP = re.compile(r"(struct|class|template|namespace|using \w+ =|using namespace|enum|#include|int main|"
                 r"(void|cudaError_t) \w+|TEST_CASE|__global__)\b")


def blocks(path):
    """(language, line number, text, comment above) of each block of code."""
    above, start, block, language = "", 0, [], None
    for number, (line, code) in enumerate(markdown.lines(path.read_text()), 1):
        if code and line.strip().startswith("```"):
            if language is None:
                language, start, block = line.strip()[3:], number + 1, []
            else:
                yield language, start, "\n".join(block), above
                language = None
        elif code:
            block.append(line)
        elif line.strip():
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
    page = re.sub(r"\W", "_", name.removeprefix("docs/").removesuffix(".md"))
    space = f"context::page_{page}::block_{start}"
    code = "\n".join([*top, "void statements() {", *body, "}"]).replace("int main()", "void main()")
    return f"{includes}\nnamespace {space} {{\n{code}\n}}  // namespace {space}\n"


def python_errors(text):
    try:
        compile(text, "block", "exec")
    except SyntaxError as e:
        yield e.lineno - 1, e.msg


def json_errors(text):
    try:
        json.loads(text)
    except json.JSONDecodeError as e:
        yield e.lineno - 1, e.msg


def cmake_errors(text, cmake):
    with tempfile.NamedTemporaryFile("w", suffix=".cmake") as file:
        file.write(f"if(FALSE)\n{text}\nendif()\n")
        file.flush()
        result = subprocess.run([cmake, "-P", file.name], capture_output=True, text=True)
        if result.returncode:
            at = re.search(r"\.cmake:(\d+)\S*\s+(.*)", result.stderr)
            yield (int(at[1]) - 2, at[2]) if at else (0, result.stderr)
    for name in re.finditer(r"\bferrite_\w+|\bferrite::\w+", text):
        if not re.search(rf"\b{name[0]}\b", commands.cmake_text()):
            yield text[:name.start()].count("\n"), f"CMake's files have no {name[0]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--bin", type=pathlib.Path)
    parser.add_argument("--toolkit", action="append", default=[])
    parser.add_argument("compiler", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    checks = {"": commands.unlabeled_errors, "text": lambda text: (), "python": python_errors, "json": json_errors,
              "cmake": lambda text: cmake_errors(text, options.cmake),
              "sh": lambda text: commands.errors(text, options.bin)}
    out, errors, exempt, counts = [], [], [], collections.Counter()
    for path in sorted({path for pattern in PAGES for path in ROOT.glob(pattern)}):
        name = str(path.relative_to(ROOT))
        for language, start, text, above in blocks(path):
            counts[language] += 1
            if language in checks:
                errors += [f"{name}:{start + line}: {message}" for line, message in checks[language](text)]
                if m := re.search(r"^cat > \S+\.cpp <<'(\w+)'\n(.*?)^\1$", text, re.S | re.M):
                    out.append(source(name, start + text[:m.start(2)].count("\n"), m[2]))
            elif language != "cpp":
                errors.append(f"{name}:{start - 1}: no check of {language}, only of cpp{', '.join(checks)}")
            elif m := re.match(r"<!-- code of (\S+) -->", above):
                counts["copies"] += 1
                known = packed((ROOT / m[1]).read_text())
                errors += [f"{name}:{start}: not in {m[1]}:\n{p}" for p in paragraphs(text) if packed(p) not in known]
            elif m := re.match(r"<!-- not compiled: (.*) -->", above):
                exempt.append(f"{name}:{start}: not compiled: {m[1]}")
            elif name.startswith("docs/tutorials/"):
                counts["tutorials"] += 1
            elif re.search("__(device|global)__", text) and not options.toolkit:
                exempt.append(f"{name}:{start}: not compiled: a CUDA kernel, and the toolkit's headers are not there")
            else:
                out.append(source(name, start, text))
    if exempt:
        print("\n".join(exempt))
    emulator = [f"-I{ROOT}/tests/emulator/include", *(f"-isystem{folder}" for folder in options.toolkit)]
    command = [*options.compiler, *(emulator if options.toolkit else []), "-std=c++20", "-Wall", "-Wextra", "-Werror",
               "-Wno-unused", "-Wno-unused-parameter", "-Wno-unknown-pragmas", "-fsyntax-only", "-x", "c++", "-"]
    code = f'#include "{CONTEXT}"\n' + "\n".join(out)
    if subprocess.run(command, input=code, text=True).returncode:
        errors.append("a block does not compile; docs/site/context.h declares what blocks take from around them")
    if errors:
        sys.exit("\n".join(errors))
    print(f"C++: {len(out)} blocks compile, {counts['tutorials']} are programs of tests/tutorials, "
          f"{counts['copies']} are code of other files, {len(exempt)} are left out")
    print("Checked:", ", ".join(f"{counts[kind]} of {kind}" for kind in ("sh", "cmake", "python", "json")))
    print(f"Not looked at: {counts['text']} of text, {counts['']} without a language")


if __name__ == "__main__":
    main()
