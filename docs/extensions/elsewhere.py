"""Pages are read in the repository too: their links and anchors become those of the site.

In the repository, measurements are beside their scripts, and pages link to them there. In the site they are pages.
"""

import re

from sphinx.application import Sphinx

PLACES = {
    r"benchmarks/(\w+\.md)": r"measured/\1",
    r"docs/([\w/]+\.md)": r"\1",
    r"README\.md(?:#[\w-]+)?": "index.md",
    r"CONTRIBUTING\.md": "contributing.md",
    r"CHANGELOG\.md": "changes.md",
}


def rehung(text: str) -> str:
    """The text of a page, with such links inside the site.

    Examples
    --------
    >>> rehung("[measured](../benchmarks/BATCH.md), [files](../../benchmarks/LARGE.md#memory)")
    '[measured](measured/BATCH.md), [files](../measured/LARGE.md#memory)'
    """
    for found, place in PLACES.items():
        text = re.sub(rf"\]\(((?:\.\./)*)\.\./{found}", rf"](\g<1>{place}".replace(r"\1", r"\2"), text)
    return re.sub(r'^<a id="([\w-]+)"></a>$', r"(\1)=", text, flags=re.MULTILINE)


def _read(_: Sphinx, __: str, content: list[str]) -> None:
    content[0] = rehung(content[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _read)
    app.connect("include-read", lambda app, _, __, content: _read(app, "", content))
    return {"parallel_read_safe": True}
