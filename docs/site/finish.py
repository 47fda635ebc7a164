#!/usr/bin/env python3
"""Mends what Doxygen's pages say too often, or not at all.

    docs/site/finish.py SITE
"""
import pathlib
import re
import sys

STYLE = pathlib.Path(__file__).with_name("search.css")


def finished(text):
    # A line of a hundred names says nothing.
    text = re.sub(r"^<p>Inherited by(?:.*<a ){12}.*\n", "", text, flags=re.M)
    # Two headers may have one name: a header's title has its folder too, as the window's title has.
    if path := re.search(r"<title>Ferrite: (.*/)\S+ File Reference</title>", text):
        text = text.replace('<div class="title">', f'<div class="title">{path[1]}', 1)
    text = text.replace("<title>Ferrite: Ferrite</title>", "<title>Ferrite</title>")
    # "More..." beside a class's name, which leads there already.
    text = re.sub(r'(<td class="mdescRight">.*?) *<a href="[^"]*#details">More\.\.\.</a>', r"\1", text)
    # A description of one paragraph stands at the top already.
    text, alone = re.subn(r'(<a name="details" id="details"></a>)<h2 class="groupheader">Detailed Description</h2>\n'
                          r'<div class="textblock"><p ?>(?:(?!<p\b).)*</p>\n</div>', r"\1", text, count=1, flags=re.S)
    if alone:
        text = re.sub(r'\n? *<a href="[^"]*#details">More\.\.\.</a></p>', "</p>", text, count=1)
    # Constructors have no type on their left.
    return re.sub(r'<td class="memItemLeft("[^>]*>(?:<a [^>]*></a>\n)?&#160;</td>)',
                  r'<td class="memItemLeft untyped\1', text)


def main():
    site = pathlib.Path(sys.argv[1])
    for page in site.glob("*.html"):
        text = page.read_text(errors="replace")
        if (now := finished(text)) != text:
            page.write_text(now)
    # The pages all stand below the first: the list of those that do not is empty.
    menu = site / "menudata.js"
    menu.write_text(re.sub(r'\{text:"[^"]*",url:"pages\.html"\},?\n?', "", menu.read_text()))
    with (site / "search/search.css").open("a") as style:
        style.write(STYLE.read_text())


if __name__ == "__main__":
    main()
