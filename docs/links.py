"""Follow every link inside the built site: ``python docs/links.py build/docs``.

A link must lead to a file of the site, an anchor to an element of that file. No page may load from another host.
"""

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("source", "src"), ("iframe", "src"), ("object", "data")}
NOT_LOADED = {"canonical", "next", "prev", "index", "search", "author", "license"}  # what a <link> only names


class Page(HTMLParser):
    """What one file links to, what it loads, and where it can be entered."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called for each element."""
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        loads = [
            found[name] for of, name in LOADED if of == tag and name in found and found.get("rel") not in NOT_LOADED
        ]
        self.loads += loads
        self.links += loads + ([found["href"]] if "href" in found and not loads else [])


@cache
def read(path: Path) -> Page:
    """The page in a file."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(site: Path) -> list[str]:
    """A line for each link that leads nowhere and for each load from another host."""
    told = []
    for path in sorted(site.rglob("*.html")):
        page = read(path)
        told += [f"{path.relative_to(site)}: {why}: {link}" for link in page.links if (why := fault(path, link))]
        told += [f"{path.relative_to(site)}: loads from another host: {link}" for link in page.loads if foreign(link)]
    return told


def foreign(link: str) -> bool:
    """Whether it is of another host."""
    return bool(urlsplit(link).netloc)


def fault(path: Path, link: str) -> str:
    """Why a link inside the site leads nowhere; empty if it does not."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return "no such file"
    if target.suffix == ".html" and unquote(parts.fragment) not in read(target).anchors:
        return "no such anchor"
    return ""


if __name__ == "__main__":
    found = broken(Path(sys.argv[1]))
    print("\n".join(found) or "All links inside the site lead somewhere, and nothing is loaded from other hosts.")  # noqa: T201
    sys.exit(bool(found))
