"""HTML: text and tables as HTML, by template files. Whatever is put into a template is escaped."""

from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from string import Template

from degroot.answers.display.words import wordy

NUMBERS, WORDS = "numbers", "words"  # classes of cells


def frame(title: str, parts: Sequence[str]) -> str:
    """A title above parts that are markup."""
    return _template("frame.html").substitute(style=_read("style.css"), title=escape(title), parts="\n".join(parts))


def paragraph(text: str) -> str:
    """A paragraph of plain text.

    Examples
    --------
    >>> paragraph("<b>north</b> & south")
    '<p>&lt;b&gt;north&lt;/b&gt; &amp; south</p>'
    """
    return _filled("paragraph.html", text)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of plain cells; the first row is the heading, the first column has names."""
    kinds = [WORDS if words else NUMBERS for words in wordy(rows)]
    head = "".join(_filled("heading.html", cell, kind) for cell, kind in zip(rows[0], kinds, strict=True))
    body = [_template("row.html").substitute(cells=_cells(row, kinds)).strip() for row in rows[1:]]
    return _template("table.html").substitute(head=head, rows="\n".join(body)).strip()


def _cells(row: Sequence[str], kinds: Sequence[str]) -> str:
    name, *others = row
    cells = (_filled("cell.html", cell, kind) for cell, kind in zip(others, kinds[1:], strict=True))
    return _filled("name.html", name) + "".join(cells)


def _filled(name: str, text: str, kind: str = "") -> str:
    return _template(name).safe_substitute(text=escape(text), kind=kind).strip()


@cache
def _template(name: str) -> Template:
    return Template(_read(name))


@cache
def _read(name: str) -> str:
    return files("degroot.answers.display").joinpath("templates", name).read_text("utf-8").strip()
