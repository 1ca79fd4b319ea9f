"""Pages are read in the repository too: their links and anchors become those of the site.

In the repository, measurements are beside their scripts, and the changes at the top. In the site they are pages.
"""

import re
from functools import partial
from os.path import normpath, relpath
from pathlib import Path, PurePosixPath

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
PLACES = {
    r"benchmarks/(\w+\.md)": r"docs/measured/\1",
    r"README\.md": "docs/index.md",
    r"CONTRIBUTING\.md": "docs/contributing.md",
    r"CHANGELOG\.md": "docs/changes.md",
    r"SECURITY\.md": "docs/reporting.md",
}
LINK = re.compile(r"\]\(([\w./-]+\.md)(#[\w-]+)?\)")


def rehung(text: str, source: str, page: str) -> str:
    """The text of the file `source` with its links as they are in the file `page`, which shows it in the site.

    Examples
    --------
    >>> rehung("[files](../benchmarks/BATCH.md#speed)", "docs/predict.md", "docs/predict.md")
    '[files](measured/BATCH.md#speed)'
    >>> rehung("[how](docs/guard.md)", "SECURITY.md", "docs/reporting.md")
    '[how](guard.md)'
    """
    text = re.sub(r"\n\n( *```\n)", r"\n\1", text)  # the empty line that ends a doctest
    text = LINK.sub(partial(_link, PurePosixPath(source).parent, PurePosixPath(page).parent), text)
    return re.sub(r'^<a id="([\w-]+)"></a>$', r"(\1)=", text, flags=re.MULTILINE)


def _link(source: PurePosixPath, page: PurePosixPath, found: re.Match[str]) -> str:
    target, anchor = normpath(source / found[1]), found[2] or ""
    for place, instead in PLACES.items():
        if re.fullmatch(place, target):
            target, anchor = re.sub(place, instead, target), "" if target == "README.md" else anchor
    return f"]({relpath(target, page)}{anchor})"


def _read(app: Sphinx, name: str, content: list[str]) -> None:
    page = str(Path(app.env.doc2path(name)).relative_to(ROOT))
    content[0] = rehung(content[0], page, page)


def _include(app: Sphinx, path: Path, name: str, content: list[str]) -> None:
    source = Path(normpath(Path(app.srcdir) / path)).relative_to(ROOT)
    content[0] = rehung(content[0], str(source), str(Path(app.env.doc2path(name)).relative_to(ROOT)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _read)
    app.connect("include-read", _include)
    return {"parallel_read_safe": True}
