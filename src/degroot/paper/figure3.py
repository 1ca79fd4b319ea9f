"""Figure 3: gain over M-avg against three kinds of heterogeneity, lasso on Abalone."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.linear_model import lasso_path

from degroot.paper import heterogeneity, models, protocol, style
from degroot.paper.data import Data
from degroot.paper.experiment import Finding, Row, Run, Task, chosen, here, in_common, repeated
from degroot.paper.protocol import MakeModel

TITLE = "Figure 3: gain against heterogeneity, lasso on Abalone"
ABOUT = (
    "By how many percent DeGroot's error is below M-avg's as five agents become more unlike each other: a fraction p "
    "of the rows is dealt in the order of (a) the label or (b) shell weight; (c) rows are dealt at random and the "
    "penalties are λ' [1 + (k - 3)/5]^q, k = 1 … 5. The gain should grow. The penalty λ' is not printed, but that it "
    "makes about 0.8 of the coefficients zero; dashed, another reading of that."
)
LABELS, FEATURE, PENALTIES = "labels", "feature", "penalties"
RULE_OF_PENALTIES = (
    "The median gain at the largest q is above that at q = 0, and the rank correlation of the median gain with q is "
    "above 0.5."
)
NOTHING_IN_COMMON = (
    f"{heterogeneity.NOTHING_IN_COMMON} Shell weight goes with the label, so that dealing by it does the same in part."
)
GRID = np.logspace(-2, 0.25, 46)  # penalties to choose from
DEALS = 4  # of the rows at random, to choose the penalty


@dataclass(frozen=True, kw_only=True)
class Settings(heterogeneity.Settings):
    """The penalty is not printed, but what it should do: about 0.8 of the coefficients are zero.

    Table 1's penalty, 0.05, gives 0.75 where half of the rows are dealt by label, and 0.6 where none are.
    """

    sparsity: float = 0.8
    also: float = 0.75  # a second reading: 6 of 8 coefficients, the nearest to 0.8 that a single model can come
    penalty: float | None = None  # None: the one found for `sparsity`
    by_feature: int = 8  # counted from 1: shell weight
    exponents: tuple[float, ...] = tuple(float(q) for q in range(11))


def trial(settings: Settings, random: np.random.Generator, data: Data, panel: str, sparsity: float) -> Iterator[Row]:
    """The gain for each fraction p of the rows dealt in order, or for each exponent q of the penalties."""
    given = settings.penalty if sparsity == settings.sparsity else None
    penalty = penalty_for(sparsity, data, settings) if given is None else given
    if panel == PENALTIES:
        rows = _along_exponents(data, penalty, settings, random)
    else:
        order = data.y if panel == LABELS else data.X[:, settings.by_feature - 1]
        rows = heterogeneity.along(data, models.make("Lasso", penalty), settings, random, order)
    return ({"penalty": penalty, **row} for row in rows)


def penalty_for(sparsity: float, data: Data, settings: Settings) -> float:
    """The least penalty whose share of zero coefficients, with rows dealt at random, is nearest to this."""
    X, random, at_random = protocol.table(data, settings), in_common(settings), _at_random(settings)
    parts = [part for _ in range(DEALS) for part in protocol.split(data, at_random, random).parts]
    shares = np.mean([_shares_of_zeros(X[part], data.y[part]) for part in parts], axis=0)
    return float(GRID[np.abs(shares - sparsity).argmin()])


def unlike(penalty: float, q: float, agents: int) -> MakeModel:
    r"""Penalties :math:`\lambda_k = \lambda' [1 + (k - 3) / K]^q`, where 3 is the middle of K = 5 agents."""
    middle = (agents - 1) / 2
    return lambda k: models.make("Lasso", penalty * (1 + (k - middle) / agents) ** q)(k)


def tasks(settings: Settings = Settings()) -> list[Task]:
    """Every panel with both readings of the sparsity."""
    cases = [
        {"data": "abalone", "panel": panel, "sparsity": sparsity}
        for sparsity in _sparsities(settings)
        for panel in _panels(settings)
    ]
    return repeated(trial, settings, cases)


def compute(settings: Settings = Settings(), run: Run = here) -> pd.DataFrame:
    """Panel, sparsity, repetition, penalty, p or q, errors of DeGroot and M-avg, gain in percent, trust and weight."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """A panel for each kind of heterogeneity."""
    figure, axes = style.panels(3)
    for panel, (kind, titles) in zip(axes, _panels(settings).items(), strict=True):
        heterogeneity.panel(panel, *titles)
        first, *others = (chosen(table, panel=kind, sparsity=sparsity) for sparsity in _sparsities(settings))
        heterogeneity.curve(panel, first, _label(first))
        for other in others:
            heterogeneity.second_curve(panel, other, _label(other))
    heterogeneity.legend(figure, axes[0])
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Growth in each panel with both readings of the sparsity, and what happens at p = 1."""
    in_order = {
        f"by {panel}, sparsity {sparsity:g}": chosen(table, panel=panel, sparsity=sparsity)
        for sparsity in _sparsities(settings)
        for panel in (LABELS, FEATURE)
    }
    return [
        *(
            replace(
                _growth(chosen(table, panel=panel, sparsity=sparsity), panel, title),
                reading="" if sparsity == settings.sparsity else f"sparsity {sparsity:g}",
            )
            for sparsity in _sparsities(settings)
            for panel, (title, _) in _panels(settings).items()
        ),
        heterogeneity.at_the_end(in_order, "All rows dealt in order, p = 1", NOTHING_IN_COMMON),
    ]


def _growth(table: pd.DataFrame, panel: str, title: str) -> Finding:
    note = f"The penalty that gives this sparsity is {table['penalty'].iloc[0]:.3g}." if len(table) else ""
    what = f"{title}: gain over M-avg along {'q' if panel == PENALTIES else 'p'}"
    if panel != PENALTIES:
        return heterogeneity.growth(table, what, note)
    last = table["heterogeneity"].max() if len(table) else 0.0
    return heterogeneity.growth(table, what, note, at=last, most=last, rule=RULE_OF_PENALTIES, letter="q")


def _along_exponents(data: Data, penalty: float, settings: Settings, random: np.random.Generator) -> Iterator[Row]:
    """The gain for each exponent of the penalties, with rows dealt at random."""
    X = protocol.table(data, settings)
    shuffle = np.random.default_rng(int(random.integers(2**63)))  # as along p, so that q = 0 is p = 0
    rows = protocol.split(data, _at_random(settings), shuffle)
    for q in settings.exponents:
        agents = protocol.trained(unlike(penalty, q, settings.agents), X, data.y, rows.parts)
        found = heterogeneity.measured(agents, X[rows.test], data.y[rows.test], settings.neighbours)
        yield {"heterogeneity": q, **found}


def _sparsities(settings: Settings) -> tuple[float, ...]:
    return tuple(dict.fromkeys((settings.sparsity, settings.also)))


def _panels(settings: Settings) -> dict[str, tuple[str, str]]:
    """Titles and names of the horizontal axes."""
    return {
        LABELS: ("(a) labels", "fraction $p$ dealt by label"),
        FEATURE: (f"(b) feature {settings.by_feature}", f"fraction $p$ dealt by feature {settings.by_feature}"),
        PENALTIES: ("(c) penalties", "exponent $q$ of the penalties"),
    }


def _label(table: pd.DataFrame) -> str:
    return f"DeGroot, λ' = {table['penalty'].iloc[0]:.2g}" if len(table) else "DeGroot"


def _at_random(settings: Settings) -> Settings:
    return replace(settings, fraction=0.0)


def _shares_of_zeros(X: protocol.Array, y: protocol.Array) -> protocol.Array:
    """For each penalty of the grid, the share of the coefficients that are zero."""
    _, coefficients, _ = lasso_path(X - X.mean(axis=0), y - y.mean(), alphas=GRID, max_iter=100_000)
    shares: protocol.Array = (coefficients[:, ::-1] == 0).mean(axis=0)  # the path goes from the largest penalty
    return shares
