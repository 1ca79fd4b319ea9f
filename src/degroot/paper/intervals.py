"""Jackknife intervals along the curve of the synthetic problem, for figures 2 and 8."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from degroot import Collective
from degroot.paper.experiment import Row
from degroot.paper.logistic import Array, Sample, curve, make_agents, on_the_line
from degroot.paper.style import COLOURS


def along(sample: Sample, neighbours: int, xi: Array, random: np.random.Generator) -> Iterator[Row]:
    """The truth, the collective prediction and its standard error at every position."""
    X = on_the_line(xi)
    collective = Collective(make_agents(sample, random), neighbours, n_jobs=1)
    answer = collective.consult(X, ["value", "standard_error"])
    columns = (xi, curve(X), np.asarray(answer.value), np.asarray(answer.standard_error))
    for row in zip(*columns, strict=True):
        yield dict(zip(("xi", "truth", "value", "standard_error"), row, strict=True))


def draw(axes: Axes, rows: pd.DataFrame) -> None:
    """The truth, and the collective prediction plus and minus its standard error."""
    low, high = rows.value - rows.standard_error, rows.value + rows.standard_error
    axes.fill_between(rows.xi, low, high, color=COLOURS["DeGroot"], alpha=0.3, lw=0, label="± standard error")
    axes.plot(rows.xi, rows.value, color=COLOURS["DeGroot"], marker="o", ms=2.5, label="DeGroot")
    axes.plot(rows.xi, rows.truth, color="black", ls="--", label="truth")
    axes.set(xlabel="position ξ = a'x", ylabel="prediction", xlim=(rows.xi.min(), rows.xi.max()), ylim=(-0.6, 1.6))
