"""Text: names, lists of them, counts and columns, in plain text."""

import ast
from collections.abc import Iterable, Sequence
from typing import Any

LONGEST = 32  # letters of a name
NAMED = 4  # of many, so many are named


def one_line(text: str, longest: int = LONGEST) -> str:
    r"""A name as it can be shown: on one line, without signs that a terminal obeys, and not too long.

    Examples
    --------
    >>> one_line("a" * 50), one_line("two\nlines \x1b[31m")
    ('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…', 'two lines ?[31m')
    """
    plain = "".join(sign if sign.isprintable() else "?" for sign in " ".join(text.split()))
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def quoted(text: str) -> str:
    """A class as it can be shown in a sentence.

    Examples
    --------
    >>> print(quoted("cat"))
    'cat'
    """
    return f"'{one_line(text)}'"


def joined(words: Sequence[str]) -> str:
    """Words as a list in a sentence.

    Examples
    --------
    >>> joined(["a"]), joined(["a", "b"]), joined(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def some(names: Iterable[str], most: int = NAMED) -> str:
    """Names in a sentence, or the first few of many.

    Examples
    --------
    >>> some("abc"), some("abcdefg")
    ('a, b and c', 'a, b, c and 4 more')
    """
    shown = [one_line(name) for name in names]
    return joined(shown if len(shown) <= most else [*shown[: most - 1], f"{len(shown) - most + 1} more"])


def counted(count: int, noun: str) -> str:
    """A number of things.

    Examples
    --------
    >>> counted(1, "agent"), counted(1200, "row")
    ('1 agent', '1,200 rows')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def label(written: str) -> str:
    """A class as it is called, from how Python writes it.

    Examples
    --------
    >>> label("'cat'"), label("3"), label("np.str_('cat')")
    ('cat', '3', "np.str_('cat')")
    """
    return str(read_class(written))


def read_class(written: str) -> Any:
    """A class itself, from how Python writes it; where that cannot be read, as it is written.

    Examples
    --------
    >>> read_class("'cat'"), read_class("3"), read_class("np.str_('cat')")
    ('cat', 3, "np.str_('cat')")
    """
    try:
        return ast.literal_eval(written)
    except (ValueError, SyntaxError):
        return written


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines: words to the left, numbers to the right.

    Examples
    --------
    >>> aligned([["agent", "weight"], ["north", "0.5"]])
    ['agent  weight', 'north     0.5']
    """
    columns = []
    for cells, words in zip(zip(*rows, strict=True), wordy(rows), strict=False):
        width = max(map(len, cells))
        columns.append([cell.ljust(width) if words else cell.rjust(width) for cell in cells])
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]


def wordy(rows: Sequence[Sequence[str]]) -> list[bool]:
    """Which columns hold words: the first, and those whose cells do not begin as numbers do.

    Examples
    --------
    >>> wordy([["agent", "weight", "model"], ["7", "<0.001", "Ridge"], ["8", "-", "Lasso"]])
    [True, False, True]
    """
    columns = list(zip(*rows[1:], strict=True))
    return [k == 0 or not all(_number(cell) for cell in cells) for k, cells in enumerate(columns)]


def _number(cell: str) -> bool:
    return cell in ("", "-") or cell.lstrip("<+-").split(" ")[0][:1].isdigit()


def output_names(outputs: int | None, classes: Iterable[str] = ()) -> tuple[str, ...] | None:
    """What outputs are called: by the class, which comes as Python writes it, or by the number; None for one output.

    Examples
    --------
    >>> output_names(2, ["'cat'", "'dog'"]), output_names(2), output_names(None)
    (('cat', 'dog'), ('0', '1'), None)
    """
    labels = tuple(map(label, classes))
    return labels or (None if outputs is None else tuple(str(k) for k in range(outputs)))
