"""Weights along a feature: who is trusted where."""

from typing import TYPE_CHECKING, Any

import numpy as np

from degroot.answers.answer import Consensus
from degroot.answers.consultable import Consultable
from degroot.answers.explanation.facts import place
from degroot.compute.compiled import Array
from degroot.compute.tables import as_table, column_names, is_frame
from degroot.exceptions import InvalidInput
from degroot.plot.axes import COLOURS, DOWN, axes, legend, name_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 40  # steps along the feature, where there are more points


def weights(answer: Consensus | Consultable, X: Any, feature: int | str = 0, *, ax: "Axes | None" = None) -> "Axes":
    """Weights along a feature: at each value, how much of the answer is whose.

    Up to seven agents are stacked; of more, each has a line whose colour is its weight.

    Parameters
    ----------
    answer : Consensus or Collective
        Answers for the points `X`, with weights; a collective, in this process or of nodes, is asked for them.
    X : (M, d)
        The points.
    feature : int or str
        A column of `X`, by its number or its name. Of many points, those that are next to each other along the
        feature are averaged, 40 groups of about equally many.
    ax : matplotlib axes, optional

    Examples
    --------
    >>> import numpy as np
    >>> from degroot import Agent, Collective, plot
    >>> rows = np.linspace(0.0, 10.0, 50)[:, None]
    >>> low = Agent(lambda X: 0.0 * X[:, 0], rows, np.where(rows[:, 0] < 5, 0, 1), "low")
    >>> high = Agent(lambda X: 0.0 * X[:, 0] + 1, rows, np.where(rows[:, 0] < 5, 0, 1), "high")
    >>> ax = plot.weights(Collective([low, high]), rows, 0)
    >>> ax.get_ylabel()
    'weight'
    """
    X = as_table(X)
    answer = answer if isinstance(answer, Consensus) else answer.consult(X, "weights")
    if answer.weights is None or len(answer.weights) != X.shape[0] or not X.shape[0]:
        raise InvalidInput(f"`answer` must have weights for each of {X.shape[0]} points, at least one; it has not.")
    values, name = _column(X, feature)
    x, means = _along(values, answer.weights)
    few = len(answer.names) <= len(COLOURS)
    ax = axes(ax, height=4.0 if few else 5.0)
    (_stack if few else _mesh)(ax, x, means, answer.names)
    ax.set_xlim(x[0], x[-1])
    ax.set_xlabel(name, parse_math=False)
    return ax


def _stack(ax: "Axes", x: Array, means: Array, names: tuple[str, ...]) -> None:
    """Areas on top of each other."""
    handles = ax.stackplot(x, means.T, colors=COLOURS[: len(names)], edgecolor="white", linewidth=0.4)
    ax.set(ylim=(0.0, 1.0), ylabel="weight")
    legend(ax, handles[::-1], names[::-1])  # from top to bottom, as the areas lie


def _mesh(ax: "Axes", x: Array, means: Array, names: tuple[str, ...]) -> None:
    """A line of colours for each agent, in the order in which they are trusted along the feature."""
    total = means.sum(axis=0)
    centre = np.divide(x @ means, total, out=np.full(len(names), x.mean()), where=total > 0.0)
    order = np.argsort(centre, kind="stable")
    image = ax.pcolormesh(x, np.arange(len(names)), means.T[order], cmap="Blues", vmin=0.0, shading="nearest")
    figure: Any = ax.figure
    figure.colorbar(image, ax=ax, label="weight")
    name_ticks(ax.yaxis, [names[k] for k in order], DOWN)
    ax.set_ylabel("agent")
    ax.invert_yaxis()


def _column(X: Any, feature: Any) -> tuple[Array, str]:
    """The feature's values and its name."""
    names = column_names(X)
    k = _named(feature, names) if isinstance(feature, str) else place(feature, X.shape[1], "feature", "columns")
    column = X[X.columns[k]] if is_frame(X) else X[:, [k]]
    column = column.toarray() if hasattr(column, "toarray") else column
    try:
        values = np.asarray(column, np.float64).ravel()
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"`feature` must be a column of numbers; {feature!r} is not.") from error
    if not np.isfinite(values).all():
        raise InvalidInput(f"`feature` must be a column of finite numbers; {feature!r} has gaps.")
    return values, names[k] if names else f"feature {k}"


def _named(feature: str, names: list[str] | None) -> int:
    """The place of the column with this name."""
    if names is None:
        raise InvalidInput(f"`feature` must be a number, as the columns of `X` have no names; got {feature!r}.")
    if feature not in names:
        raise InvalidInput(f"`feature` must be one of {', '.join(names)}; got {feature!r}.")
    return names.index(feature)


def _along(values: Array, weights: Array) -> tuple[Array, Array]:
    """Mean weights (B, K) at ascending values (B,), at least two of them."""
    order = np.argsort(values, kind="stable")
    groups = np.array_split(order, min(len(order), BINS))
    x = np.array([values[group].mean() for group in groups])
    means = np.array([weights[group].mean(axis=0) for group in groups])
    if len(x) == 1:  # an area needs a width
        return np.array([x[0] - 0.5, x[0] + 0.5]), np.repeat(means, 2, axis=0)
    return x, means
