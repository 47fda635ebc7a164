"""Checks the shell commands of the documentation: what they name has to be there.

Scripts and folders of this repository, its programs, CMake's presets and targets, and FERRITE_ variables have to
exist. A long option has to be in the program's --help, or in its source if it is not built, or in the script. A filter
of test cases, -tc, has to find one. Arguments of other tools are not looked at.
"""
import fnmatch
import functools
import json
import os
import pathlib
import re
import shlex
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = re.compile(r"(?:--[\w-]+=)?((?:benchmarks|docs|examples|packaging|scripts|tests)/[\w./-]+|"
                  r"\w[\w./-]*\.(?:sh|py))$")
PROGRAM = re.compile(r"build/[\w-]+/(?:bin/)?([\w-]+)$")
COMMAND = re.compile(r"(\$ |\w+=\S* )|(bash|benchmarks|build|cmake|compare_parallel|ctest|export|ferrite-\w+|mpirun|"
                     r"scripts|srun)\b")


def commands(text):
    """(line number from 0, words) of each simple command, also of those in $(...) and in `bash -c`."""
    pending, first, end = "", 0, None
    for number, line in enumerate(text.split("\n")):
        if end:  # of a here-document
            end = None if line == end else end
            continue
        first = first if pending else number
        pending += line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        inner = re.findall(r"\$\(([^()]*)\)", pending)
        lexer = shlex.shlex(re.sub(r"\$\([^()]*\)", "$x", pending), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:  # the line ends inside of quotes
            pending += "\n"
            continue
        command = []
        for word in [*words, ";"]:
            if not word or set(word) - set(";&|()"):
                command.append(word)
                continue
            if "bash" in command and "-c" in command[:-1]:
                inner.append(command[command.index("-c") + 1])
            if command:
                yield first, command
            command = []
        for code in inner:
            yield from ((first + at, command) for at, command in commands(code))
        if "<<" in words:
            end = words[words.index("<<") + 1]
        pending = ""


def joined(files):
    return "\n".join(f.read_text() for f in files)


@functools.cache
def text_of(*patterns):
    """The text of the files of these names, without those of documentation and builds."""
    folders = [d for d in ROOT.iterdir() if (d / "CMakeLists.txt").exists() or d.name in ("cmake", "scripts")]
    return joined(f for p in patterns for f in [*ROOT.glob(p), *(f for d in folders for f in d.rglob(p))])


def cmake_text():
    return text_of("CMakeLists.txt", "*.cmake")


@functools.cache
def programs():
    """The name of each program, and the folder of its source."""
    custom = ROOT / "examples/custom_kernel"
    found = {"custom_kernel_bench": custom, "custom_kernel_test": custom, "ferrite-inspect": ROOT / "data/inspect",
             "ferrite-run": ROOT / "parallel/launcher"}
    for prefix, folder, source in (("", "examples", "*.cpp"), ("bench_", "benchmarks", "*.cpp"),
                                   ("test_", "tests", "*_test.cpp")):
        found.update((prefix + d.name, d) for d in (ROOT / folder).iterdir() if any(d.glob(source)))
    found.update((f"tutorial_{page.stem}", page.parent) for page in (ROOT / "docs/tutorials").glob("[0-9]*.md"))
    return found


@functools.cache
def usage(name, built):
    """A text with the options of a program, or of a script of this path."""
    if "/" in name:
        script = ROOT / name
        imported = [*script.parent.glob("*.py"), *script.parent.parent.glob("*.py")] if script.suffix == ".py" else []
        return joined([script, *imported])
    if built and (built / name).exists():
        return subprocess.run([built / name, "--help"], capture_output=True, text=True, timeout=60).stdout
    folder = programs()[name]
    return joined([*folder.rglob("*.cpp"), *folder.rglob("*.h"), *folder.parent.glob("*.h"),
                   *(folder.parent / "common").glob("*")])


@functools.cache
def presets(kind):
    return {p["name"] for p in json.loads((ROOT / "CMakePresets.json").read_text())[f"{kind}Presets"]}


def has(text, name):
    return re.search(rf"(?<![\w-]){name}(?![\w-])", text)


def cmake_errors(words):
    kind = "test" if words[0] == "ctest" else "build" if "--build" in words else "configure"
    for word, following in zip(words, [*words[1:], ""]):
        if word == "--preset" and following not in presets(kind):
            yield f"no {kind} preset {following}"
        if (m := re.match(r"-D(FERRITE_\w+)", word)) and not has(cmake_text(), m[1]):
            yield f"CMake's files have no {m[1]}"
        if word == "--target" and following not in programs() \
                and not re.search(rf"(custom_target|_library)\({following}\b", cmake_text()):
            yield f"no target {following}"


def command_errors(words, built):
    first = next((at for at, word in enumerate(words) if not re.match(r"\w+=", word)), len(words))
    of = None  # the program or script that an option belongs to
    for at, word in enumerate(words):
        if (m := re.match(r"(FERRITE_\w+)=", word)) and not has(text_of("*.cpp", "*.h", "*.sh"), m[1]):
            yield f"nothing reads {m[1]}"
        name = word if at == first and word in programs() else None
        if m := FILE.match(word):
            if not (ROOT / m[1]).exists():
                yield f"no file {m[1]}"
                return
            if at == first and not os.access(ROOT / m[1], os.X_OK):
                yield f"{m[1]} is not executable"
            if m[1].endswith((".sh", ".py")):
                name = m[1]
        elif m := PROGRAM.match(word):
            name = m[1]
            if name not in programs():
                yield f"no program {name}"
                return
        if name and of in (None, "ferrite-run"):  # which starts what follows it
            of = name
            preset = words[at + 1] if at + 1 < len(words) else "-"
            if name in ("tests/run.sh", "scripts/configure.sh") and preset not in {"-", *presets("configure")}:
                yield f"no preset {preset}"
        elif of == "ferrite-run" and not word.startswith("-"):
            of = None  # a program of the reader's
        elif of in programs() and (m := re.match("-tc=(.*)", word)):
            cases = re.findall(r'TEST_CASE\w*\(\s*"(.*?)"', joined(programs()[of].rglob("*.cpp")))
            if not fnmatch.filter(cases, m[1]):
                yield f"{of} has no test case {m[1]}"
        elif of and (m := re.match(r"--\w[\w-]*", word)) and not has(usage(of, built), m[0]):
            yield f"{of} has no option {m[0]}"


def errors(text, built):
    """(line number from 0, message) of what is wrong in a block. `built` is the folder of programs, or None."""
    text = re.sub(r"<([a-z][\w -]*)>", r"\1", text)  # <the repository>
    parsed = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    if parsed.returncode:
        line = re.search(r"line (\d+)", parsed.stderr)
        yield int(line[1]) - 1 if line else 0, parsed.stderr.strip()
        return
    own = "FERRITE_EXTRA_PROJECTS" in text  # which have targets of their own
    for line, words in commands(text):
        found = cmake_errors(words) if words[0] in ("cmake", "ctest") else command_errors(words, built)
        yield from ((line, e) for e in found if not (own and e.startswith(("no target", "no program"))))


def unlabeled_errors(text):
    if COMMAND.match(text):
        yield 0, "a block of commands has the language sh"
