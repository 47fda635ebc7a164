"""What the site's scripts know of Markdown: fenced code, headings with the anchors that they get, links."""
import re

LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^()\s]+)\)")


def lines(text):
    """Each line, and whether it is code or one of its fences."""
    fence = None
    for line in text.rstrip("\n").split("\n"):
        mark = re.match(r" *(```+|~~~+)", line)
        if fence:
            yield line, True
            if mark and mark[1].startswith(fence):
                fence = None
        else:
            fence = mark[1] if mark else None
            yield line, bool(mark)


def headings(text):
    """(anchor, title) of each heading. Anchors are made as forges make them."""
    seen = {}
    for line, code in lines(text):
        m = None if code else re.match(r"#{1,6} +(.*?)\s*$", line)
        if not m:
            continue
        title = re.sub(r"\]\([^)]*\)", "]", m[1])
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        count = seen[slug] = seen.get(slug, -1) + 1
        yield (f"{slug}-{count}" if count else slug), m[1]


def blocks(text):
    """Code blocks and the text between them, as (text, whether it is code)."""
    block, was = [], False
    for line, code in lines(text):
        if code != was and block:
            yield "\n".join(block), was
            block = []
        was = code
        block.append(line)
    yield "\n".join(block), was


def links(text):
    for block, code in blocks(text):
        if not code:
            yield from (m[2] for m in LINK.finditer(re.sub(r"`+[^`]*`+", "x", block)))


def replace_links(text, to):
    """The text with each link, [text](target), replaced by to(its text with brackets, its target)."""
    return LINK.sub(lambda m: to(m[1], m[2]), text)
