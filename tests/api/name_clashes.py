#!/usr/bin/env python3
"""Finds names that are ambiguous where a program uses all of Ferrite's namespaces at once.

name_clashes.py ROOT COMPILER [OPTION...]

Reads the headers that ferrite.h includes for what each namespace declares. Of names that two
declare, the compiler says whether they are one entity; functions, which it overloads, must be among
OVERLOADS, with arguments that tell them apart.
"""
import pathlib
import re
import subprocess
import sys

NAMESPACES = ["ferrite"] + ["ferrite::" + n for n in
              ("autograd", "data", "metrics", "nn", "optim", "parallel")]

# Functions of one name in two namespaces, and what tells a call of one from that of the other.
OVERLOADS = {
    "gather": "ops: a tensor, a dimension and an index; parallel: several tensors and a device",
    "scatter": "ops: a dimension and an index; parallel: devices",
    "linear_relu": "ops: tensors; nn: a Linear",
    "linear_gelu": "ops: tensors; nn: a Linear",
    "name": "core: a DType; parallel: a ReduceOp",
}

KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "decltype", "noexcept", "alignas",
            "requires", "static_assert", "operator", "defined"}


def headers(root):
    """The repository's headers that ferrite.h includes, directly or not."""
    found, left = set(), ["ferrite.h"]
    while left:
        path = left.pop()
        if path in found or not (root / path).is_file():
            continue
        found.add(path)
        left += re.findall(r'#include "ferrite/([^"]+)"', (root / path).read_text())
    return sorted(found)


def code_of(text):
    """Without comments, preprocessor lines and literals."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", " ", text, flags=re.M)
    return re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', "0", text)


def without_templates(head):
    """`head` without its template and requires clauses."""
    head = head.strip()
    while head.startswith("template"):
        depth, i = 0, head.index("<")
        for i in range(i, len(head)):
            depth += {"<": 1, ">": -1}.get(head[i], 0)
            if depth == 0:
                break
        head = head[i + 1:].strip()
    return head


def declared(head):
    """The name that a declaration introduces, and whether it is a function; None if there is none."""
    head = without_templates(head)
    if match := re.match(r"using\s+(\w+)\s*=", head):
        return match[1], False
    if match := re.match(r"using\s+[\w:]+::(\w+)$", head):
        return match[1], False
    if match := re.match(r"(?:class|struct|union|enum(?:\s+class)?)\s+(?:\[\[\w+\]\]\s*)?(\w+)", head):
        return match[1], False
    if match := re.match(r"concept\s+(\w+)", head):
        return match[1], False
    if head.startswith(("using ", "friend ", "namespace ", "extern 0")):
        return None
    before = re.split(r"[(={]", head)[0]
    if match := re.search(r"(\w+)\s*(?:\[\w*\])?\s*$", before):
        is_function = head[len(before):].startswith("(")
        if match[1] in KEYWORDS or "operator" in before or "::" in before.split()[-1]:
            return None
        if len(before.split()) < 2:  # a macro or a guide for deduction
            return None
        return match[1], is_function
    return None


def declarations(text):
    """(namespace, name, whether it is a function) of what a header declares at namespace scope."""
    code, scopes, begin, i = code_of(text), [], 0, 0
    parentheses = 0
    while i < len(code):
        c = code[i]
        parentheses += {"(": 1, ")": -1}.get(c, 0)
        if c in ";{}" and parentheses == 0:
            head = code[begin:i].strip()
            begin = i + 1
            if c == "}":
                if scopes:
                    scopes.pop()
            else:
                namespace = re.match(r"(?:inline\s+)?namespace\s*([\w:]*)$", head)
                if c == "{" and namespace:
                    scopes.append(namespace[1] or "(anonymous)")
                else:
                    if head and None not in scopes and (found := declared(head)):
                        yield "::".join(scopes), found[0], found[1]
                    if c == "{":
                        scopes.append(None)
        i += 1


def ambiguous(names, command):
    """Those to which a reference is ambiguous under using-directives for all namespaces."""
    lines = ["#include <ferrite/ferrite.h>"] + [f"using namespace {n};" for n in NAMESPACES]
    lines += [f"void probe_{n}() {{ {n}; }}" for n in names]
    run = subprocess.run(command + ["-std=c++20", "-fsyntax-only", "-w", "-x", "c++", "-"],
                         input="\n".join(lines), capture_output=True, text=True)
    return set(re.findall(r"error: reference to .(\w+). is ambiguous", run.stderr))


def main():
    root = pathlib.Path(sys.argv[1])
    where = {}
    for path in headers(root):
        for namespace, name, is_function in declarations((root / path).read_text()):
            if namespace in NAMESPACES:
                where.setdefault(name, {}).setdefault(namespace, set()).add(is_function)
    shared = {n: w for n, w in where.items() if len(w) > 1}
    functions = {n for n, w in shared.items() if all(True in kinds for kinds in w.values())}
    clashes = ambiguous(sorted(shared), sys.argv[2:]) | (functions - set(OVERLOADS))
    for name in sorted(clashes):
        print(f"{name}: declared in {' and '.join(sorted(shared[name]))}")
    for name in sorted(set(OVERLOADS) - functions):
        print(f"{name}: is no function of two namespaces any more; remove it from OVERLOADS")
    total = sum(len(w) for w in where.values())
    print(f"{total} names in {len(NAMESPACES)} namespaces, {len(clashes)} ambiguous")
    return 1 if clashes or set(OVERLOADS) - functions or total < 500 else 0


if __name__ == "__main__":
    sys.exit(main())
