#!/usr/bin/env python3
"""Looks at what nvcc makes of the kernels: PTX, and what ptxas says of it.

    scripts/lint_kernels.py [--build build/default] [--arch 80,90,100] [--jobs N] [--only PATTERN]
        compiles the CUDA sources of the build's libraries, with full optimization; prints what breaks a
        rule, and fails if anything does
    scripts/lint_kernels.py ... --report
        also prints a line for each kernel: registers, threads, and what its largest inner loop has
    scripts/lint_kernels.py --ptx FILE... [--allow FILE]
        looks at these files instead, by another list of exceptions

Rules:
    local      a kernel has local memory: a stack frame or spilled registers
    registers  a block of .maxntid threads (1024 if none is stated), .minnctapersm times, needs more
               registers than a multiprocessor has
    split      a basic block accesses adjacent elements of global memory one by one that one access of
               up to 16 bytes could have; in the inner loops, or everywhere if none accesses that memory
    narrow     a kernel that streams has no access of 16 bytes
    tail       an inner loop with accesses of 16 bytes stores single elements as well
    space      an instruction for global memory gets an address in shared memory

scripts/lint_kernels.txt names the kernels that stream, and exceptions with their reasons. In a run over
all sources, sm_90 among the architectures, an exception that nothing needs is an error.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parent.parent
RULES = ("local", "registers", "split", "narrow", "tail", "space")
REGISTERS = 65536  # of a multiprocessor, and the most that a block can have
WIDE = 16  # bytes of the widest access that all architectures have


@dataclasses.dataclass
class Instruction:
    parts: list  # of the opcode
    operands: str
    predicated: bool

    def address(self):
        """Base and offset of what is in brackets."""
        found = re.search(r"\[\s*([%$\w]+)\s*(?:\+\s*(-?\w+))?\s*\]", self.operands)
        return (found[1], int(found[2] or "0", 0)) if found else ("", 0)

    def width(self):
        """Bytes of a load or store of global memory; else 0."""
        if self.parts[0] not in ("ld", "st") or "global" not in self.parts:
            return 0
        width = int(re.search(r"\d+$", self.parts[-1])[0]) // 8
        for part in self.parts:
            if re.fullmatch(r"v[248]", part):
                width *= int(part[1:])
        return width

    def stores(self):
        return self.parts[0] == "st"


@dataclasses.dataclass
class Kernel:
    name: str
    threads: int  # of .maxntid; 0: not stated
    blocks: int  # of .minnctapersm
    code: list  # of Instruction, and of str for labels
    registers: int = 0
    stack: int = 0
    spilled: int = 0

    def inner_loops(self):
        """The code of each loop that has no other in it: PTX keeps a loop's blocks together."""
        at = {label: i for i, label in enumerate(self.code) if isinstance(label, str)}
        loops = []
        for i, instruction in enumerate(self.code):
            if isinstance(instruction, Instruction) and instruction.parts[0] == "bra":
                begin = at.get(instruction.operands.strip(), i)
                if begin < i:
                    loops.append((begin, i))
        inner = [a for a in loops if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in loops)]
        return [self.code[begin:end + 1] for begin, end in sorted(set(inner))]

    def basic_blocks(self):
        """Of the inner loops that access global memory; without such, of the whole kernel."""
        loops = [loop for loop in self.inner_loops()
                 if any(x.width() for x in loop if isinstance(x, Instruction))]
        block = []
        for x in [x for loop in loops for x in (*loop, "")] or self.code:
            if isinstance(x, str) or x.parts[0] in ("bra", "ret", "bar", "barrier", "call"):
                yield block
                block = []
            else:
                block.append(x)
        yield block


def read_code(body):
    code = []
    for statement in body.split(";"):
        statement = statement.strip(" \t\n{}")
        while label := re.match(r"([$\w]+):(?!:)\s*", statement):
            code.append(label[1])
            statement = statement[label.end():].strip(" \t\n{}")
        found = re.match(r"(@!?%\w+\s+)?([a-z][\w.:]*)\s*(.*)", statement, re.DOTALL)
        if found:
            code.append(Instruction(re.split(r"(?<!:)\.", found[2]), found[3], bool(found[1])))
    return code


def read_ptx(text):
    """The kernels of a PTX file, and the names of variables in shared memory."""
    kernels = []
    text = re.sub(r"//[^\n]*", "", text)
    shared = set(re.findall(r"\.shared\s+(?:\.align\s+\d+\s+)?\.\w+\s+([$\w]+)", text))
    for found in re.finditer(r"\.entry\s+([$\w]+)", text):
        begin = end = text.index("{", found.end())
        depth = 0
        while True:
            end = re.compile("[{}]").search(text, end).end()
            depth += 1 if text[end - 1] == "{" else -1
            if depth == 0:
                break
        head = text[found.end():begin]

        def directive(name):
            numbers = re.search(rf"\.{name}\s+([\d, ]+)", head)
            product = 1
            for number in re.findall(r"\d+", numbers[1]) if numbers else ():
                product *= int(number)
            return product if numbers else 0

        kernels.append(Kernel(found[1], directive("maxntid") or directive("reqntid"),
                              directive("minnctapersm") or 1, read_code(text[begin + 1:end - 1])))
    return kernels, shared


def read_usage(kernels, log):
    """Adds what `ptxas -v` says."""
    by_name = {kernel.name: kernel for kernel in kernels}
    kernel = None
    for line in log.splitlines():
        if found := re.search(r"(?:Compiling entry function '|Function properties for )([$\w]+)", line):
            kernel = by_name.get(found[1])
        elif kernel is None:
            continue
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes", line):
            kernel.stack, kernel.spilled = int(found[1]), int(found[2]) + int(found[3])
        elif found := re.search(r"Used (\d+) registers", line):
            kernel.registers = int(found[1])


# ---- rules: each yields what it finds in a kernel, as text


def local(kernel, _):
    if kernel.stack or kernel.spilled:
        yield f"{kernel.stack} bytes of stack, {kernel.spilled} bytes spilled and loaded"


def registers(kernel, _):
    threads = kernel.threads or 1024
    needed = -(-kernel.registers // 8) * 8 * -(-threads // 32) * 32 * kernel.blocks
    if needed > REGISTERS:
        yield (f"{kernel.registers} registers for each of {threads} threads"
               + (f", {kernel.blocks} blocks" if kernel.blocks > 1 else ""))


def split(kernel, _):
    worst = collections.Counter()
    for block in kernel.basic_blocks():
        places = collections.defaultdict(set)
        for x in block:
            if 0 < x.width() < WIDE and not x.predicated:
                base, offset = x.address()
                places[x.stores(), base, x.width()].add(offset)
        for (stores, _, width), offsets in places.items():
            run = 0
            for offset in sorted(offsets):
                run = run + 1 if offset - width in offsets else 1
                # Two or three words may be members of a struct.
                if run * width >= 8 and (run >= 4 or (stores and run * width >= WIDE)):
                    key = "stores" if stores else "loads", width
                    worst[key] = max(worst[key], run)
    for (what, width), run in worst.items():
        yield f"{run} {what} of {width} bytes beside each other"


def narrow(kernel, streams):
    widths = [x.width() for x in kernel.code if isinstance(x, Instruction)]
    if streams and max(widths, default=0) < WIDE:
        yield f"no access has more than {max(widths, default=0)} bytes"


def tail(kernel, streams):
    if not streams:
        return
    for loop in kernel.inner_loops():
        loop = [x for x in loop if isinstance(x, Instruction)]
        if max((x.width() for x in loop), default=0) >= WIDE:
            single = [x for x in loop if x.stores() and 0 < x.width() <= 8
                      and not any(re.fullmatch(r"v\d", part) for part in x.parts)]
            if single:
                yield f"{len(single)} stores of {min(x.width() for x in single)} bytes in the loop"


def space(kernel, shared):
    """Follows addresses of shared memory from register to register."""
    follows = ("mov", "add", "sub", "mad", "cvta", "cvt", "selp", "or", "xor", "shl", "lea")
    moves = [x for x in kernel.code if isinstance(x, Instruction) and x.parts[0] in follows]
    tainted = set()
    while True:
        before = len(tainted)
        for x in moves:
            to, *sources = re.findall(r"[%$\w]+", x.operands)
            if (x.parts[:2] == ["cvta", "shared"]
                    or any(source in tainted or source in shared for source in sources)):
                tainted.add(to)
        if len(tainted) == before:
            break
    for x in kernel.code:
        if isinstance(x, Instruction) and "global" in x.parts and x.parts[0] not in follows:
            # cp.async has both: its second address is the global one.
            bases = re.findall(r"\[\s*([%$\w]+)", x.operands)
            if bases and (bases[-1] in tainted or bases[-1] in shared):
                yield ".".join(x.parts)


def look(kernel, streams, shared):
    """The findings in a kernel: pairs of a rule and a text."""
    for rule in RULES:
        check = globals()[rule]
        found = check(kernel, shared if rule == "space" else streams)
        yield from ((rule, text) for text in dict.fromkeys(found))


# ---- the list of exceptions


@dataclasses.dataclass
class Allowed:
    rule: str
    arch: str
    pattern: str
    reason: str
    used: bool = False

    def covers(self, rule, arch, name):
        return (rule == self.rule and self.arch in ("*", arch)
                and re.search(self.pattern, name) is not None)


def read_exceptions(path):
    """The patterns of kernels that stream, and the exceptions."""
    streams, exceptions = [], []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if found := re.fullmatch(r"streams\s+(\S.*)", line):
            streams.append(found[1])
        elif found := re.fullmatch(r"(\w+)\s+(\*|\d+)\s+(\S.*?)\s+-- (\S.*)", line):
            if found[1] not in RULES:
                sys.exit(f"{path}:{number}: there is no rule {found[1]}")
            exceptions.append(Allowed(*found.groups()))
        else:
            sys.exit(f"{path}:{number}: neither 'streams PATTERN' nor 'RULE ARCH PATTERN -- REASON'")
    return streams, exceptions


# ---- compiling


def demangled(names):
    """Short names: without the library's namespaces, results and parameters."""
    text = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                          check=True).stdout
    result = {}
    for name, line in zip(names, text.splitlines()):
        line = line.replace("(anonymous namespace)::", "").replace("ferrite::kernels::cuda::", "")
        line = re.sub(r"^void ", "", line.replace("ferrite::", ""))
        depth = 0
        for i, c in enumerate(line):
            depth += (c == "<") - (c == ">" and line[i - 1] != "-")
            if c == "(" and depth == 0 and i and not line[:i].endswith("operator"):
                line = line[:i]
                break
        result[name] = line
    return result


def command_of(entry, arch, out):
    """Of a compile command: what makes PTX and machine code, without what only speeds it up. It is a
    form that ccache knows, with the assembler's words."""
    words = shlex.split(entry["command"])
    begin = next(i for i, word in enumerate(words) if re.search(r"(^|/)nvcc$", word))
    kept, skip = [], False
    for word in words[begin + 1:]:
        if skip:
            skip = False
        elif word in ("-o", "-MF", "-MT"):
            skip = True
        elif word != "-MD" and not re.match(r"--?(generate-code|gencode|arch|Ofast-compile)", word):
            kept.append(word)
    cache = [shutil.which("ccache")] if shutil.which("ccache") else []
    return [*cache, words[begin], *kept, "-fatbin", "--no-compress", "-Xptxas=-v",
            f"-gencode=arch=compute_{arch},code=[compute_{arch},sm_{arch}]", "-o", out]


def compiled(entry, arch, folder):
    """A source's PTX, and what ptxas says of it."""
    out = os.path.join(folder, f"{pathlib.Path(entry['file']).stem}.{arch}.fatbin")
    command = command_of(entry, arch, out)
    # As the build has it, so that other clones' results are found.
    environment = {"CCACHE_BASEDIR": str(root), "CCACHE_NOHASHDIR": "1", **os.environ}
    done = subprocess.run(command, cwd=entry["directory"], env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{shlex.join(command)}\n{done.stderr}")
    ptx = re.search(rb"\.version \d[^\0]*", pathlib.Path(out).read_bytes())
    return ptx[0].decode(), done.stderr


def assembled(path, arch, ptxas):
    done = subprocess.run([ptxas, f"-arch=sm_{arch}", "-v", path, "-o", os.devnull], capture_output=True,
                          text=True)
    if done.returncode:
        sys.exit(f"{ptxas} refuses {path}:\n{done.stderr}")
    return pathlib.Path(path).read_text(), done.stderr


def sources(build, only):
    entries = json.loads((build / "compile_commands.json").read_text())
    found = [e for e in entries if e["file"].endswith(".cu") and "ferrite_kernels.dir" in e["command"]
             and re.search(only or "", pathlib.Path(e["file"]).name)]
    if not found:
        sys.exit(f"{build} compiles no CUDA sources by nvcc{' of that name' if only else ''}")
    # Those of one source alone take longest.
    return sorted(found, key=lambda e: "batches" in e["file"])


# ---- output


def describe(kernel, name, arch):
    loops = [collections.Counter(x.parts[0] for x in loop if isinstance(x, Instruction))
             for loop in kernel.inner_loops()]
    # The loop of a product is that with tensor cores, whatever else there is.
    counts = max(loops, key=lambda c: (c["mma"], sum(c.values())), default=collections.Counter())
    widths = collections.Counter(("st" if x.stores() else "ld") + str(x.width())
                                 for x in kernel.code if isinstance(x, Instruction) and x.width())
    parts = [f"{kernel.registers:4d} registers, {kernel.threads or '-':>4} threads, loop {sum(counts.values()):4d}"]
    if counts["mma"]:
        parts.append(f"{counts['mma']} mma, {counts['ldmatrix']} ldmatrix")
    parts.append(" ".join(f"{key}:{count}" for key, count in sorted(widths.items())))
    return f"sm_{arch} {', '.join(part for part in parts if part)}  {name}"


def run(options, inputs):
    """Looks at the inputs, pairs of an architecture and a function that gives PTX and ptxas' words; prints
    findings; the number of errors."""
    streams, exceptions = read_exceptions(options.allow)
    errors, count, allowed = 0, 0, 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (arch, _), (ptx, log) in zip(inputs, pool.map(lambda one: one[1](), inputs)):
            kernels, shared = read_ptx(ptx)
            read_usage(kernels, log)
            names = demangled([kernel.name for kernel in kernels])
            for kernel in kernels:
                count += 1
                name = names[kernel.name]
                if options.report:
                    print(describe(kernel, name, arch))
                for rule, text in look(kernel, any(re.search(p, name) for p in streams), shared):
                    covering = [e for e in exceptions if e.covers(rule, arch, name)]
                    for exception in covering:
                        exception.used = True
                    allowed += bool(covering)
                    if not covering:
                        errors += 1
                        print(f"{rule}: sm_{arch}: {name}: {text}", flush=True)
    if not options.only and not options.ptx:
        for e in exceptions:
            if not e.used and (e.arch in options.arch or (e.arch == "*" and "90" in options.arch)):
                errors += 1
                print(f"{options.allow}: nothing needs: {e.rule} {e.arch} {e.pattern}")
    print(f"{count} kernels, {allowed} findings allowed, {errors} errors")
    return errors


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=root / "build/default")
    parser.add_argument("--arch", type=lambda text: text.split(","), default=["80", "90", "100"])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", metavar="PATTERN", help="of the names of source files")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--ptx", nargs="+", metavar="FILE")
    parser.add_argument("--allow", type=pathlib.Path, default=root / "scripts/lint_kernels.txt")
    parser.add_argument("--ptxas", default="ptxas", help="for --ptx")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.ptx:
            inputs = [(arch, functools.partial(assembled, path, arch, options.ptxas))
                      for path in options.ptx for arch in options.arch]
        else:
            inputs = [(arch, functools.partial(compiled, entry, arch, folder))
                      for entry in sources(options.build, options.only) for arch in options.arch]
        sys.exit(1 if run(options, inputs) else 0)


if __name__ == "__main__":
    main()
