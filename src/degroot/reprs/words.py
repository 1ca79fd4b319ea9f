"""Words: names, lists of them, counts and columns, in plain text."""

import ast
from collections.abc import Iterable, Sequence

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
    try:
        return str(ast.literal_eval(written))
    except (ValueError, SyntaxError):
        return written


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines: numbers to the right; to the left the first column, and one without a heading.

    Examples
    --------
    >>> aligned([["agent", "weight"], ["north", "0.5"]])
    ['agent  weight', 'north     0.5']
    """
    columns = []
    for k, cells in enumerate(zip(*rows, strict=True)):
        width = max(map(len, cells))
        columns.append([cell.ljust(width) if k == 0 or not cells[0] else cell.rjust(width) for cell in cells])
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
