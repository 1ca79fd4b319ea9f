"""Intervals as a fan: where outcomes are, with one coverage or several."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from degroot.answers.answer import Consensus
from degroot.answers.explanation.facts import place
from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.plot.axes import COLOURS, axes, bare, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FAINT, STRONG = 0.2, 0.5  # how much colour the widest and the narrowest band have


def intervals(
    answers: Consensus | Sequence[Consensus],
    x: Any,
    y: ArrayLike | None = None,
    output: int | None = None,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """The value with a band for each coverage, over `x`.

    Parameters
    ----------
    answers : Consensus, or several of the same points
        Each with `value`, `lower` and `upper`: what ``consult(X, coverage=0.9)`` gives. Several are asked with
        different coverages.
    x : (M,)
        What to draw them over, such as a feature of the points; a pandas column also gives its name.
    y : (M,), optional
        Outcomes, drawn as dots.
    output : int, optional
        Of several outputs, which; the first by default.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from degroot import Agent, Collective, plot
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.uniform(0.0, 10.0, size=(100, 1))
    >>> agents = [Agent(lambda X: X[:, 0], rows, rows[:, 0] + rng.normal(size=100), name) for name in ("a", "b")]
    >>> collective = Collective(agents).calibrate()
    >>> X = np.linspace(0.0, 10.0, 30)[:, None]
    >>> ax = plot.intervals([collective.consult(X, coverage=c) for c in (0.5, 0.9)], X[:, 0])
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['value', '50 % interval', '90 % interval']
    """
    several = _checked(answers)
    over, q = _over(x, several[0].points), _output(several[0], output)
    order = np.argsort(over, kind="stable")
    ax = axes(ax)
    several.sort(key=lambda answer: float(np.mean(_of(answer.upper, q) - _of(answer.lower, q))))
    bands = [
        ax.fill_between(over[order], _of(answer.lower, q)[order], _of(answer.upper, q)[order],
                        color=COLOURS[0], alpha=strength, lw=0)
        for answer, strength in zip(several, np.linspace(FAINT, STRONG, len(several))[::-1], strict=True)
    ]  # fmt: skip
    line = ax.plot(over[order], _of(several[0].value, q)[order], color=COLOURS[0], lw=1.6)
    dots = [] if y is None else [ax.scatter(over, _over(y, len(over), "y"), s=9, color="black", alpha=0.6, zorder=3)]
    labels = ["value", *map(_called, several), *(["outcome"] if dots else [])]
    legend(ax, [*line, *bands, *dots], labels, None)
    ax.set_ylabel("value" if q is None else f"value: output {q}")
    if isinstance(getattr(x, "name", None), str):
        ax.set_xlabel(x.name, parse_math=False)
    bare(ax)
    return ax


def _checked(answers: Any) -> list[Consensus]:
    several = [answers] if isinstance(answers, Consensus) else list(answers)
    for answer in several:
        if not isinstance(answer, Consensus) or answer.lower is None or answer.upper is None or answer.value is None:
            raise InvalidInput(
                "`answers` must have value, lower and upper, as consult(X, coverage=0.9) gives; one has not."
            )
    if not several or len({answer.points for answer in several}) > 1:
        raise InvalidInput("`answers` must be about the same points, at least one answer; they are not.")
    return several


def _over(x: Any, M: int, name: str = "x") -> Array:
    values = np.asarray(x)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (M,) or values.dtype.kind not in "fiub":
        raise InvalidInput(f"`{name}` must hold a number for each of {M} points; its shape is {values.shape}.")
    if M and not np.isfinite(values).any():
        raise InvalidInput(f"`{name}` must hold numbers, where there are no gaps; all {M} are gaps.")
    return values.astype(np.float64)


def _output(answer: Consensus, output: int | None) -> int | None:
    if answer.outputs is None:
        return None
    return place(0 if output is None else output, answer.outputs, "output", "outputs")


def _of(field: Any, q: int | None) -> Array:
    array: Array = np.asarray(field)
    return array if q is None else array[:, q]


def _called(answer: Consensus) -> str:
    return "interval" if answer.coverage is None else f"{100 * answer.coverage:g} % interval"
