"""Views: what an object looks like, as text, in notebooks and in rich terminals."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from degroot.answers.display.words import aligned, wordy

if TYPE_CHECKING:
    from rich.console import RenderableType

Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class View:
    """A title, lines above a table and lines below it, and further tables. All is plain text."""

    title: str
    above: tuple[str, ...] = ()
    rows: Rows = ()  # the first is the heading
    below: tuple[str, ...] = ()
    more: tuple[tuple[str, Rows], ...] = ()  # tables below, each after a line

    def text(self) -> str:
        """For a terminal."""
        more = [line for caption, rows in self.more for line in (caption, *aligned(rows))]
        return "\n".join([self.title, *self.above, *aligned(self.rows), *self.below, *more])

    def html(self) -> str:
        """For a notebook: small, with the colours around it, so that it is readable in light and dark."""
        from degroot.answers.display import html as markup

        table = [markup.table(self.rows)] if self.rows else []
        more = [part for caption, rows in self.more for part in (markup.paragraph(caption), markup.table(rows))]
        return markup.frame(
            self.title, [*map(markup.paragraph, self.above), *table, *map(markup.paragraph, self.below), *more]
        )

    def rich(self) -> "RenderableType":
        """For a terminal through rich."""
        from rich.console import Group
        from rich.text import Text

        table = [_make_table(self.rows)] if self.rows else []
        more = [part for caption, rows in self.more for part in (Text(caption), _make_table(rows))]
        return Group(Text(self.title, "bold"), *map(Text, self.above), *table, *map(Text, self.below), *more)


def _make_table(rows: Rows) -> "RenderableType":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for cell, words in zip(rows[0], wordy(rows), strict=True):
        made.add_column(Text(cell), justify="left" if words else "right")
    for row in rows[1:]:
        made.add_row(*map(Text, row))
    return made


class Viewed:
    """What shows itself by a view in notebooks, and to rich."""

    __slots__ = ()

    def _view(self) -> View:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self._view().html()

    def __rich__(self) -> "RenderableType":
        return self._view().rich()
