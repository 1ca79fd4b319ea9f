"""Axes: what plots are drawn on, colours that colour-blind people can tell apart, and names that fit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from degroot.answers.display import one_line
from degroot.exceptions import InvalidInput

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, without the yellow that is too faint for lines; darker ones first.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
GREY, PALE = "#8a8f94", "#d5d9dd"
LONGEST = 22  # letters of a name
DOWN, ACROSS = 40, 32  # names on an axis, at most


def axes(ax: "Axes | None", width: float = 7.0, height: float = 4.0) -> "Axes":
    """The axes that were given, or those of a new figure."""
    if ax is not None:
        if not hasattr(ax, "imshow"):
            raise InvalidInput(f"`ax` must be axes of matplotlib; got {type(ax).__name__}.")
        return ax
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise InvalidInput("The picture needs matplotlib: pip install 'degroot[plot]'.") from missing
    made: Axes = Figure(figsize=(width, height), layout="constrained").subplots()
    return made


def shown(name: str) -> str:
    """A name as it stands in a picture."""
    plain, half = one_line(name, len(name)), LONGEST // 2
    if len(plain) > LONGEST:  # such names are often alike at the beginning
        plain = f"{plain[: half - 1]}…{plain[-half:]}"
    return f" {plain}" if plain.startswith("_") else plain  # matplotlib hides what begins with a line


def called(facts: dict[str, Any], quantity: str) -> str:
    """What is drawn: a quantity, of one of several outputs or the probability of a class."""
    if facts["output"] is None:
        return quantity
    return f"{quantity}: {'probability of' if facts['classes'] else 'output'} {shown(facts['output'])}"


def legend(ax: "Axes", handles: Sequence[Any], labels: Sequence[str], title: str | None = "agent") -> None:
    """A legend to the right, in the order of what it names."""
    made = ax.legend(
        handles, [shown(label) for label in labels],
        loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize="small", title=title,
        title_fontsize="small", alignment="left",
    )  # fmt: skip
    for text in made.get_texts():
        text.set_parse_math(False)


def name_ticks(axis: Any, names: Sequence[str], most: int, **options: Any) -> None:
    """Names along an axis, each at its place: as many of them as can be read."""
    places = list(range(0, len(names), max(1, -(-len(names) // most))))
    axis.set_ticks(places, [shown(names[k]) for k in places], parse_math=False, fontsize="small", **options)


def bare(ax: "Axes") -> None:
    """Without the frame's upper and right side."""
    ax.spines[["top", "right"]].set_visible(False)
