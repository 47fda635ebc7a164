#!/usr/bin/env python3
"""Checks the documentation.

    docs/site/check.py links            the links of the repository's Markdown files
    docs/site/check.py site FOLDER      the links and anchors of the generated pages; classes without a description
    docs/site/check.py names LOG        Doxygen's warnings: names without a description, and all others
"""
import argparse
import html
import pathlib
import re
import subprocess
import sys
import urllib.parse

import markdown

ROOT = pathlib.Path(__file__).resolve().parents[2]


def anchors_of(path, known={}):
    if path not in known:
        text = path.read_text()
        known[path] = {slug for slug, _ in markdown.headings(text)} | set(re.findall(r'<a id="([^"]+)"', text))
    return known[path]


def check_links():
    files = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT,
                           capture_output=True, text=True, check=True).stdout.split()
    errors, count = [], 0
    for name in files:
        if not (ROOT / name).exists():
            continue
        for target in markdown.links((ROOT / name).read_text()):
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            file, _, anchor = target.partition("#")
            path = (ROOT / name).parent / file if file else ROOT / name
            if not path.exists():
                errors.append(f"{name}: no file {target}")
            elif anchor and path.suffix == ".md" and anchor not in anchors_of(path):
                errors.append(f"{name}: no heading {target}")
    return errors, f"{count} links in {len(files)} Markdown files"


def classes_without_description(site):
    """A class whose base is described has a page, and no warning of Doxygen's, without a description of its own."""
    errors = []
    for page in sorted(site.glob("*.html")):
        text = page.read_text(errors="replace")
        name = re.search(r'<div class="title">(\S.*? (?:Class|Struct|Union)(?: Template)?) Reference', text)
        if name and ' id="details"' not in text:
            errors.append(f"{page.name}: {html.unescape(name[1])} has no description")
    return errors


def check_site(folder):
    site = pathlib.Path(folder)
    link = re.compile(r'<(?:a|img|link|script|iframe)\b[^>]*?\s(?:href|src)="([^"]*)"')
    ids, links = {}, {}
    for page in site.rglob("*.html"):
        # Doxygen's list of a page's sections names those that EXCLUDE_SYMBOLS leaves empty.
        text = re.sub(r'<div class="summary">.*?</div>', "", page.read_text(errors="replace"), flags=re.S)
        ids[page] = set(re.findall(r'\s(?:id|name)="([^"]*)"', text))
        links[page] = {html.unescape(t) for t in link.findall(text)}
    errors, exists = classes_without_description(site), {}
    for page, targets in links.items():
        for target in targets:
            if re.match(r"[a-z]+:|//", target):
                continue
            file, _, anchor = target.partition("#")
            path = page.parent / urllib.parse.unquote(file) if file else page
            path = pathlib.Path(site, *path.relative_to(site).parts) if ".." not in path.parts else path.resolve()
            if path not in exists:
                exists[path] = path.exists()
            if not exists[path]:
                errors.append(f"{page.relative_to(site)}: no file {target}")
            elif anchor and path in ids and urllib.parse.unquote(anchor) not in ids[path]:
                errors.append(f"{page.relative_to(site)}: no anchor {target}")
    return errors, f"{sum(map(len, links.values()))} links in {len(links)} pages"


def without_arguments(name):
    """ferrite::nn::Cloneable of ferrite::nn::Cloneable< Net >."""
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    return name.replace(" ", "")


def undocumented_name(text):
    """The name in Doxygen's "Member size() const (function) of class Tensor", or None if none is asked for."""
    if text.startswith("Compound "):
        return without_arguments(text[9:])
    member, scope = re.match(r"Member (.*) \([\w ]+\) of \w+ (.*)$", text).groups()
    operator = re.match(r"operator *(\(\)|\[\]|[^\w\s(]+|[^(]+)", member)
    if operator:
        name = operator[0].replace(" ", "")
    else:
        name = re.sub(r"\[.*", "", without_arguments(member.split("(")[0].split("=")[0]))
    short = name.split("::")[-1]
    # Copies, moves and destructors say all by their form; variables with a last _ are not for users.
    if "(variable)" in text and name.endswith("_"):
        return None
    if re.match(r"(\w+)\(.*-> \1 ?<", member):  # how the class's arguments are deduced
        return None
    if name == "operator=" or name.startswith("~") or re.match(r"(\w+)\((const \1 ?&|\1 ?&&)", member):
        return None
    return f"{without_arguments(scope)}::{short}" if not scope.endswith((".h", ".cuh")) else short


def read_warnings(log):
    names, others = {}, []
    for line in pathlib.Path(log).read_text().split("\n"):
        m = re.match(r"\S*?/ferrite/(\S+?):\d+: warning: ((?:Member|Compound) .*) is not documented", line)
        if m:
            name = undocumented_name(m[2])
            # Members of templates show up again, without their namespace, for each instance.
            if name and (name.startswith("ferrite::") or "::" not in name):
                names.setdefault(m[1], set()).add(name)
        elif "warning:" in line or "error:" in line:
            others.append(line)
    # A constructor has the name of its class, and with it its description.
    for of in names.values():
        of -= {n for n in of if len(p := n.split("::")) > 1 and p[-1] == p[-2] and "::".join(p[:-1]) not in of}
    return {header: of for header, of in names.items() if of}, others


def check_names(log):
    names, errors = read_warnings(log)
    errors += [f"{header}: {n} has no description" for header in sorted(names) for n in sorted(names[header])]
    return errors, "Every public name has a description"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    checks = parser.add_subparsers(dest="what", required=True)
    checks.add_parser("links")
    checks.add_parser("site").add_argument("folder")
    checks.add_parser("names").add_argument("log")
    options = parser.parse_args()
    if options.what == "links":
        errors, said = check_links()
    elif options.what == "site":
        errors, said = check_site(options.folder)
    else:
        errors, said = check_names(options.log)
    for error in errors[:200]:
        print(error, file=sys.stderr)
    if errors:
        sys.exit(f"{len(errors)} errors")
    print(said)


if __name__ == "__main__":
    main()
