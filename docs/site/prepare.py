#!/usr/bin/env python3
"""Prepares what Doxygen reads: the public headers and the pages of docs/.

    docs/site/prepare.py INPUT SITE

INPUT gets the headers that ferrite.h reaches, but for those that users do not call, below ferrite/, and the pages. The
headers' comments are plain text and need Doxygen's marks: the one at the top becomes the file's description, indented
lines become code, what Doxygen would take for a command is escaped. A page's links lead to other pages and to copies of
the repository's files, which SITE/files gets. The sections of docs/index.md that list pages become pages too, which
group the tree of pages.
"""
import argparse
import os
import pathlib
import posixpath
import re
import shutil
import subprocess
import sys

import markdown

ROOT = pathlib.Path(__file__).resolve().parents[2]
# ferrite.h includes what all programs need; these are for some, and installed beside it.
ROOTS = ["ferrite.h", "autograd/record.h", "core/dlpack.h", "core/eigen.h", "core/opencv.h", "nn/onnx/onnx.h",
         "data/hdf5/hdf5_dataset.h", "data/hdf5/hdf5_file.h"]


# Of these headers users call nothing: they are not in the reference.
INTERNAL = ["autograd/meta.h", "autograd/module_path.h", "core/libtorch_names.h", "data/batch_source.h",
            "data/collation.h", "data/prepared_transform.h", "data/safetensors_header.h", "kernels/adaptive.h",
            "kernels/cuda/", "kernels/layerwise.h", "kernels/optim.h", "metrics/append_file.h", "metrics/event_file.h",
            "metrics/svg.h", "metrics/ticks.h", "optim/device_scalar.h", "optim/positional.h",
            "parallel/comm/bootstrap/monitor.h", "parallel/comm/bootstrap/store_protocol.h",
            "parallel/comm/bootstrap/tcp_monitor.h", "parallel/comm/bootstrap/tcp_store.h", "parallel/comm/links/",
            "parallel/data_parallel/data_parallel_timing.h", "parallel/data_parallel/value_sizes.h"]
# Pages that list others, which stand below them in the tree: where these are.
PARENTS = {"docs/index.md": "", "docs/performance.md": "benchmarks/results/",
           "docs/tutorials/README.md": "docs/tutorials/", "docs/versions.md": "CHANGELOG.md",
           "CHANGELOG.md": "docs/releases/"}


# A page with more headings than this has a table of contents.
LISTED = 7

# What docs/index.md has in place of <!-- reference -->: pages that Doxygen makes.
REFERENCE = """| page | contents |
| --- | --- |
| [Classes](annotated.html) | all classes by namespace, with a one-line description |
| [Class index](classes.html) | all classes in alphabetical order |
| [Namespaces](namespaces.html) | the namespaces, with their functions |
| [Functions and types](namespacemembers.html) | functions, types and constants in alphabetical order |
| [Headers](files.html) | the headers and their declarations |"""
GENERATED = re.findall(r"\((\w+\.html)\)", REFERENCE)


def public_headers():
    found, pending = [], list(ROOTS)
    while pending:
        header = pending.pop()
        path = ROOT / header
        if header in found or not path.exists():
            continue
        found.append(header)
        pending += re.findall(r'^#include [<"]ferrite/([^>"]*)', path.read_text(), re.M)
    return sorted(h for h in found if not h.startswith(tuple(INTERNAL)))


def escaped(text):
    """Outside of `code`, nothing in a comment is a command, a tag or a link request."""
    parts = re.split(r"(`(?:[^`\n]|\n(?! *\n))*`)", text)
    text = "".join(p if p.startswith("`") else re.sub(r"([\\@<>#%&])", r"\\\1", p).replace("](", "]&#40;")
                   for p in parts)
    return re.sub(r"\b(et al|e\.g|i\.e|cf|vs)\. ", r"\1.\\ ", text)  # no end of a brief description


def comment(lines):
    """The text of a comment with the code in it, which is indented, marked as such."""
    out, code = [], False
    for text in lines:
        indented = text.startswith("   ") and not re.match(r" *([-*]|\d+\.) ", text)
        if indented != code and (text.strip() or not code):
            out.append("@code{.cpp}" if indented else "@endcode")
            code = indented
        out.append(text if code else escaped(text))
    return out + (["@endcode"] if code else [])


CODE = "\0"  # before a line of code in a comment, until it is written


def with_code(body):
    """The body with the code in its /// comments, indented below an empty line or a colon, marked as such."""
    out, code, before = [], False, None
    for line in body:
        m = re.match(r"( *///)(?!<)(.*)$", line)
        indented = bool(m) and m[2].startswith("   ")
        if code and not indented and not (m and not m[2].strip()):
            out.append(f"{code}@endcode")
            code = False
        if indented and not code and before is not None and re.search(r"^$|:$", before):
            code = m[1]
            out.append(f"{code}@code{{.cpp}}")
        out.append(line if not code else f"{code}{CODE}{m[2]}")
        before = m[2].strip() if m else None
    return with_escapes(out)


def with_escapes(body):
    """The body with its /// comments escaped, each as a whole: `code` may go on in the next line."""
    out, block = [], []
    for line in [*body, ""]:
        m = re.match(r"( *///)(?!<)(.*)$", line)
        if m and m[2] not in ("@code{.cpp}", "@endcode") and not m[2].startswith(CODE):
            block.append((m[1], m[2]))
            continue
        if block:
            texts = escaped("\n".join(text for _, text in block)).split("\n")
            out += [mark + text for (mark, _), text in zip(block, texts)]
            block = []
        out.append(line.replace(CODE, "") if m else line)
    return out[:-1]


def header(text, path):
    # Doxygen cannot place these specialisations; they say nothing that a user calls by name.
    text = re.sub(r"^template <>\nstruct fmt::formatter<.*?(?:\{\};\n|\n\};\n)", "", text, flags=re.M | re.S)
    # Doxygen takes a conditional among a constructor's initialisers for members.
    text = re.sub(r"\)\n +: \w+\([^{};]* \? [^{};]*\) \{\}", ") {}", text)
    lines = text.split("\n")
    top = 0
    while lines[top].startswith("//"):
        top += 1
    out = ["/// @file"] + ["/// " + line for line in comment([line[2:] for line in lines[:top]])]
    body = one_a_line(with_code(lines[top:]))
    described = {}  # by indentation, the names of the functions that are described, of this class or namespace
    for i, line in enumerate(body):
        mark = re.match(r"(.*?///<?)(.*)$", line)
        if mark:
            if not re.match(r" *///(?!<)", line):
                line = mark[1] + escaped(mark[2])
            if mark[1].endswith("<") and (name := function_name(body, i)):
                described.setdefault(len(line) - len(line.lstrip()), set()).add(name)
        elif line.lstrip().startswith("};"):
            described.pop(len(line) - len(line.lstrip()) + 2, None)
        elif begins_declaration(body, i):
            indent, name = len(line) - len(line.lstrip()), function_name(body, i)
            if not body[i - 1].lstrip().startswith("///"):
                if name and name in described.get(indent, ()):
                    if not re.search(r"= (default|delete);|operator=", line):
                        line = " " * indent + "/// As above, for these arguments.\n" + line
                elif said := spelled_out(body, i, path, [t[3:] for t in lines[:top]]):
                    said = escaped(said).split("\n")
                    line = "".join(" " * indent + f"/// {text}".rstrip() + "\n" for text in said) + line
            elif name:
                described.setdefault(indent, set()).add(name)
        out.append(line)
    return "\n".join(out)


def one_a_line(body):
    """`int a = 0, b = 0;` as two declarations, each with the comment of both."""
    out = []
    for line in body:
        m = re.match(r"(\s*(?:static |inline |constexpr |const )*[\w:<>]+) (\w+(?: = [^,;]+)?(?:, \w+(?: = [^,;]+)?)+);"
                     r"(\s*//.*)?$", line)
        if not m or m[1].strip() in ("return", "using"):
            out.append(line)
            continue
        above = len(out)
        while above and out[above - 1].lstrip().startswith("///"):
            above -= 1
        comment = out[above:]
        for k, one in enumerate(m[2].split(", ")):
            out += (comment if k else []) + [f"{m[1]} {one};{m[3] or ''}"]
    return out


def end_of_braces(text):
    """Where the first braces of the text are closed; its end if they are not."""
    depth = 0
    for m in re.finditer("[{}]", text):
        depth += 1 if m[0] == "{" else -1
        if not depth:
            return m.end()
    return len(text)


def ends_constraint(body, i):
    """Whether this line is the last of `requires requires(...) { ... }`, which a declaration follows."""
    for first in range(i, max(i - 5, -1), -1):
        if body[first].lstrip().startswith("requires requires"):
            text = "\n".join(body[first:i + 1])
            return end_of_braces(text + " ") == len(text)
    return False


def begins_declaration(body, i):
    if ends_constraint(body, i - 1):
        return False
    before = re.sub(r"\s*//.*", "", body[i - 1]).strip()
    if body[i].startswith("#define"):
        return True
    return bool(body[i].strip()) and not body[i].lstrip().startswith(("//", "}", "#", "public:", "protected:", "private:", "return")) \
        and (not before or before[-1] in ";{}:")


def function_name(body, i):
    """The name of the function that is declared at this line, or None."""
    text = declaration(body, i)
    if text.startswith("#define "):
        return re.match(r"\w+", text[8:])[0]
    if re.match(r"(?:explicit |constexpr |FERRITE_HOST_DEVICE )*operator [\w:]", text):
        return "conversion"
    m = re.match(r"[^(;{=]*?(operator\(\)|[~\w]+|operator[^\w(]+) *\(", text)
    return m[1] if m else None


def declaration(body, i):
    """The declaration that begins at this line, as one line without template parameters and constraints."""
    text = re.sub(r"\btemplate <.*?>\s*(?=[^,>. ])", "", " ".join(line.strip() for line in body[i:i + 5]))
    if text.startswith("requires requires"):
        text = text[end_of_braces(text):].lstrip()
    return re.sub(r"^requires\s*(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|[\w:]+<[^<>]*>)\s*(?:&&)?\s*", "", text)


def descriptions():
    """{(place, name): description} of descriptions.txt."""
    known = {}
    for line in pathlib.Path(__file__).with_name("descriptions.txt").read_text().split("\n"):
        if line and not line.startswith("#"):
            words, text = line.split(": ", 1)
            place, *names = words.split()
            for name in names:
                if (place, name) in known:
                    sys.exit(f"docs/site/descriptions.txt describes {name} twice for {place}")
                known[place, name] = text
    return known


DESCRIPTIONS = descriptions()
USED = set()  # those that a name has taken
# What holds of every function in place; the top of core/in_place_methods.h says more.
IN_PLACE = ("\n\nShape and dtype stay: ShapeError or DTypeError if the result does not fit. AutogradError while operations "
            "are recorded, if the tensor is a leaf that requires a gradient or a view of one.")
TYPE = re.compile(r"(?:class|struct|enum class|enum|using|concept) (\w+)(?: final)? ?[:={]")
VARIABLE = re.compile(r"[\w:<>,\[\]*& ]+?[ &*](\w+)(?:\[\w+\])?(?: = [^;]*|\{[^;]*\})?;")


def spelled_out(body, i, path, top):
    """What headers, or descriptions.txt, say of many names at once, as the description of what begins here."""
    folder, text, function = path.split("/")[0], declaration(body, i), function_name(body, i)
    kind = TYPE.match(text)
    found = kind or (None if function else VARIABLE.match(text))
    name = found[1] if found else function
    keys = [name]
    if re.match(r"(?:friend )?(?:class|struct|enum class) \w+;|(?:explicit |constexpr |FERRITE_HOST_DEVICE )*%s\("
                % re.escape(name or ""), text):
        keys = []  # a declaration in advance, or a constructor, which has the description of its class
    elif function and not kind:
        plain = f"{name}()" in text and not text.startswith("void")
        keys = [f"{name}()"] * plain + [f"{name}(", name]
    for place in (path, folder, "*"):
        for key in keys:
            if (place, key) in DESCRIPTIONS:
                USED.add((place, key))
                return DESCRIPTIONS[place, key]
    if kind:
        title = " ".join(top).strip()
        # The header is about this class.
        if title.startswith(f"{name}: ") or name.lower() == pathlib.Path(path).stem.replace("_", ""):
            said = title.removeprefix(f"{name}: ").split(". ")[0].rstrip(".") + "."
            return said[0].upper() + said[1:]
        of = re.match(r"(\w+?)(Func)?Options$", name)
        if of and of[2]:  # BatchNormFuncOptions are those of batch_norm()
            return "The options of " + re.sub(r"(?<!^)(?=[A-Z])", "_", of[1]).lower() + "()."
        return f"The options of {of[1]}." if of else ""
    if m := re.match(r"(?:explicit |constexpr )*(\w+)\(const (\1\w*Options)&", text):
        return f"With these {m[2]}."
    in_place = re.match(r"(\w+)_$", name or "") if function else None
    if path == "core/in_place_methods.h" and in_place:
        return f"In place: writes the result of ferrite::{in_place[1]}() into this tensor and returns it.{IN_PLACE}"
    if path == "core/tensor_methods.h" and function:
        return f"As the function ferrite::{name}(), with this tensor as its first argument."
    if folder == "ops" and in_place:
        return f"In place: writes the result of {in_place[1]}() into its first argument and returns it.{IN_PLACE}"
    return ""


def namespaces():
    """The comments by which namespaces have pages, of the lines `namespace` of descriptions.txt."""
    for place, name in sorted(DESCRIPTIONS):
        if place == "namespace":
            USED.add((place, name))
            yield f"/// @namespace {name}\n/// {escaped(DESCRIPTIONS[place, name])}\n"


def page_name(path):
    """The name of the page made of a Markdown file: docs/data.md is guide_data."""
    if path == "docs/index.md":
        return "index"
    if path.startswith("docs/"):
        return "guide_" + path[5:-3].replace("/", "_").replace(".", "_")
    return "file_" + re.sub(r"\W", "_", path[:-3])


class Pages:
    """Markdown files, and what they link to, for Doxygen."""

    def __init__(self, target, site):
        self.target, self.site = target, site
        self.tracked = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                                      capture_output=True, text=True, check=True).stdout.split("\n")
        self.done, self.placed = set(), set()

    def add(self, path):
        if path in self.done:
            return
        self.done.add(path)
        text = (ROOT / path).read_text()
        if path == "README.md":
            text = re.sub(r"^# .*", "# README", text)
        name = page_name(path)
        if path == "docs/index.md":
            text = self.grouped(text.replace("<!-- reference -->", REFERENCE))
        headings = list(markdown.headings(text))
        slugs = iter([slug for slug, _ in headings])
        out = []
        for block, code in markdown.blocks(text):
            if not code:
                block = re.sub(r"(?<!`)@(?=\w)", r"\\@", block)
                block = re.sub(r"^(#+) .*", lambda m: self.heading(m, name, next(slugs)), block, flags=re.M)
                block = markdown.replace_links(block, lambda text, to: self.link(path, text, to))
            out.append(block)
        text = "\n".join(out) + "\n"
        if len(headings) > LISTED:
            text = text.replace("\n", "\n\n[TOC]\n", 1)
        (self.target / f"{name}.md").write_text(text)

    def grouped(self, text):
        """The index, with a page for each section that lists pages; these stand below it in the tree."""
        begin, *sections = re.split(r"^## (.*)\n", text, flags=re.M)
        out = [begin]
        for title, body in zip(sections[::2], sections[1::2]):
            slug = next(slug for slug, _ in markdown.headings(f"# {title}"))
            if ".md)" in body:
                group = "group_" + slug.replace("-", "_")
                page = markdown.replace_links(body, lambda text, to: self.link("docs/index.md", text, to))
                (self.target / f"{group}.md").write_text(f"# {title} {{#{group}}}\n{page}")
                out.append(f'<span class="unseen">\\subpage {group} "{title}"</span>\n\n')
            # A heading of Doxygen's would be in the tree, beside the page of the same name.
            out.append(f'<h1>\\anchor index--{slug} {title}</h1>\n{body}')
        return "".join(out)

    def heading(self, m, page, slug):
        """The heading with the anchor by which links lead to it."""
        own = "mainpage" if page == "index" else page
        # "# 1. A title" is no list: a space that does not break is after the number.
        text = re.sub(r"^(#+ \d+\.) ", "\\1\u00a0", m[0].rstrip())
        return text + (" {#%s}" % (own if m[1] == "#" else f"{page}--{slug}"))

    def link(self, page, text, target):
        """A page's link as the site has it."""
        file, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), file)) if file else page
        if re.match(r"[a-z]+:", target) or target in GENERATED:
            to = target
        elif not (ROOT / path).exists():
            return text[1:-1]  # the check of the links names it
        elif path.endswith(".md"):
            self.add(path)
            name = page_name(path)
            to = f"{name}.html" + (f"#{name}--{anchor}" if anchor else "")
            # In the tree of pages a page stands below the first that lists it.
            if path.startswith(PARENTS.get(page, "nothing")) and not anchor and path not in self.placed:
                self.placed.add(path)
                return f'@subpage {name} "{text[1:-1]}"'
        elif path.startswith("docs/images/"):
            to = posixpath.basename(path)  # from Doxygen's IMAGE_PATH
        else:
            to = "files/" + self.copy(path)
        return f"{text}({to})"

    def copy(self, path):
        """Copies a file as text, or a folder with a list of its files; returns its address."""
        if (ROOT / path).is_file():
            to = self.site / "files" / (path + ".txt")
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, to)
            return path + ".txt"
        if path not in self.done:
            self.done.add(path)
            inside = [f for f in self.tracked if f.startswith(path + "/") and (ROOT / f).is_file()]
            items = "".join(f'<li><a href="{posixpath.relpath(self.copy(f), path)}">'
                            f"{posixpath.relpath(f, path)}</a></li>\n" for f in inside)
            to = self.site / "files" / path / "index.html"
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text(f"<!DOCTYPE html><html lang=en><meta name=viewport content='width=device-width'>"
                          "<meta name=color-scheme content='light dark'><style>body { font-family: sans-serif; "
                          "line-height: 1.6; margin: 2rem; } h1 { font-size: 1.6rem; }</style>"
                          f"<title>{path}</title><h1>{path}</h1>\n<ul>\n{items}</ul></html>\n")
        return path + "/index.html"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input", metavar="INPUT", type=pathlib.Path)
    parser.add_argument("site", metavar="SITE", type=pathlib.Path)
    options = parser.parse_args()
    target, site = options.input, options.site
    for path in public_headers():
        to = target / "ferrite" / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(header((ROOT / path).read_text(), path))
    (target / "namespaces.dox").write_text("\n".join(namespaces()))
    if unused := sorted(set(DESCRIPTIONS) - USED):
        sys.exit("docs/site/descriptions.txt describes what is not there, or has a comment: "
                 + ", ".join(f"{place} {name}" for place, name in unused))
    pages = Pages(target, site)
    for path in ["docs/index.md"] + sorted(f"docs/{p.relative_to(ROOT / 'docs')}"
                                           for p in (ROOT / "docs").rglob("*.md")):
        pages.add(path)


if __name__ == "__main__":
    main()
