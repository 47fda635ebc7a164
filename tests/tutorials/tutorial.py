#!/usr/bin/env python3
"""The pages of docs/tutorials as programs.

tutorial.py extract PAGE FOLDER
    Writes the page's ```cpp blocks, joined, as FOLDER/main.cpp, and prints the files' names. A
    block that begins with a comment of a file's name (`// kernels.cu`) begins that file.

tutorial.py run PAGE BIN
    Runs BIN/tutorial_<page>, or the command of the page's line <!-- run: COMMAND -->, and compares what it
    prints with the page's ```text blocks, joined. In these `...` stands for any text, a line `...` for any
    lines, and a number with a decimal point for one that differs by 5 % or by one in its last digit.
"""
import pathlib
import re
import subprocess
import sys

NUMBER = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")


def blocks(page, *languages):
    """(number of the first line, text) of each block of these languages."""
    language, first, lines = None, 0, []
    for number, line in enumerate(page.splitlines(), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif language is None:
            language, first, lines = line[3:].strip(), number + 1, []
        else:
            if language in languages:
                yield first, "\n".join(lines) + "\n"
            language = None


def extract(path, folder):
    files, name = {}, "main.cpp"
    for number, text in blocks(path.read_text(), "cpp"):
        if match := re.match(r"// (\w+\.(?:h|cpp|cu))\n", text):
            name = match[1]
        files[name] = files.get(name, "") + f'#line {number} "{path}"\n{text}'
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        file = folder / name
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
    return list(files)


def close(expected, got):
    digits = len(re.sub(r"e.*", "", expected).split(".")[1])
    unit = 10.0 ** -digits * (10.0 ** int(expected.split("e")[1]) if "e" in expected else 1)
    difference = abs(float(expected) - float(got))
    return difference <= max(0.05 * abs(float(expected)), 1.01 * unit)


def same_line(expected, got):
    pattern, numbers = "", []
    for part in re.split(f"({NUMBER.pattern}|\\.\\.\\.)", expected):
        if part == "...":
            pattern += ".*?"
        elif NUMBER.fullmatch(part or ""):
            numbers.append(part)
            pattern += f"({NUMBER.pattern})"
        else:
            pattern += re.escape(part)
    match = re.fullmatch(pattern, got.rstrip())
    return bool(match) and all(map(close, numbers, match.groups()))


def compare(expected, got):
    """The first line of `expected` that is not in its place, or None."""
    at, anywhere = 0, False
    for line in expected:
        if line.strip() == "...":
            anywhere = True
            continue
        while anywhere and at < len(got) and not same_line(line, got[at]):
            at += 1
        if at >= len(got) or not same_line(line, got[at]):
            return line
        at, anywhere = at + 1, False
    return None if anywhere or at == len(got) else "(the end)"


def run(path, folder):
    page = path.read_text()
    program = str(folder / f"tutorial_{path.stem}")
    command = re.search(r"<!-- run: (.*) -->", page)
    command = [word.format(program=program, bin=folder) for word in
               (command[1] if command else "{program}").split()]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    expected = "".join(text for _, text in blocks(page, "text")).splitlines()
    if not expected:
        sys.exit(f"{path} has no ```text block: nothing to compare with")
    wrong = compare(expected, result.stdout.splitlines())
    print(result.stdout, end="")
    if result.returncode:
        sys.exit(f"{' '.join(command)} ended with {result.returncode}")
    if wrong is not None:
        sys.exit(f"not as in {path}; expected next:\n{wrong}")


if __name__ == "__main__":
    arguments = [pathlib.Path(a).absolute() for a in sys.argv[2:]]
    if sys.argv[1] == "extract":
        print(";".join(extract(*arguments)), end="")
    else:
        run(*arguments)
