"""Figure 3: gain over M-avg against three kinds of heterogeneity, lasso on Abalone."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.linear_model import lasso_path

from degroot.paper import drawing, gains, heterogeneity, models, protocol
from degroot.paper.data.datasets import Data
from degroot.paper.experiment import ExperimentTask, Finding, Row, Run, in_common, repeat_cases, run_here, select_rows
from degroot.paper.heterogeneity import Growth, at_the_end, growth
from degroot.paper.protocol import Array, MakeModel

TITLE = "Figure 3: gain against heterogeneity, lasso on Abalone"
ABOUT = (
    "By how many percent DeGroot's error is below M-avg's as five agents become more unlike each other: a fraction p "
    "of the rows is dealt in the order of (a) the label or (b) shell weight; (c) rows are dealt at random and the "
    "penalties are λ' [1 + (k - 3)/5]^q, k = 1 … 5. The gain should grow. The penalty λ' is not printed, but that it "
    "makes about 0.8 of the coefficients zero; dashed, another reading of that."
)
LABELS, FEATURE, PENALTIES = "labels", "feature", "penalties"
GRID = np.logspace(-2, 0.25, 46)  # penalties to choose from
DEALS = 4  # of the rows at random, to choose the penalty


@dataclass(frozen=True, kw_only=True)
class Settings(heterogeneity.Settings):
    """The penalty is not printed, but what it should do: about 0.8 of the coefficients are zero."""

    sparsity: float = 0.8
    second_sparsity: float = (
        0.75  # a second reading: 6 of 8 coefficients, the nearest to 0.8 that a single model can come
    )
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
        order = data.y if panel == LABELS else protocol.feature(data.X, settings.by_feature)
        rows = heterogeneity.along(data, models.make("Lasso", penalty), settings, random, order)
    return ({"penalty": penalty, **row} for row in rows)


def penalty_for(sparsity: float, data: Data, settings: Settings) -> float:
    """The least penalty whose share of zero coefficients, with rows dealt at random, is nearest to this."""
    shares = _shares_of_zeros(_Dealt(data.fingerprint, replace(settings, fraction=0.0), data))
    return float(GRID[np.abs(shares - sparsity).argmin()])


def unlike(penalty: float, q: float, agents: int) -> MakeModel:
    r"""Penalties :math:`\lambda_k = \lambda' [1 + (k - 3) / K]^q`, where 3 is the middle of K = 5 agents."""
    middle = (agents - 1) / 2
    return lambda k: models.make("Lasso", penalty * (1 + (k - middle) / agents) ** q)(k)


def tasks(settings: Settings = Settings()) -> list[ExperimentTask]:
    """Every panel with both readings of the sparsity."""
    cases = [
        {"data": "abalone", "panel": panel, "sparsity": sparsity}
        for sparsity in _sparsities(settings)
        for panel in _panels(settings)
    ]
    return repeat_cases(trial, settings, cases)


def compute(settings: Settings = Settings(), run: Run = run_here) -> pd.DataFrame:
    """Panel, sparsity, repetition, penalty, p or q, errors of DeGroot and M-avg, gain in percent, trust in oneself."""
    return run(tasks(settings))


def draw(table: pd.DataFrame, settings: Settings = Settings()) -> Figure:
    """A panel for each kind of heterogeneity."""
    figure, axes = drawing.panels(3)
    for panel, (kind, titles) in zip(axes, _panels(settings).items(), strict=True):
        gains.panel(panel, *titles)
        first, *others = (select_rows(table, panel=kind, sparsity=sparsity) for sparsity in _sparsities(settings))
        gains.curve(panel, first, "heterogeneity", _label(first))
        for other in others:
            gains.second_curve(panel, other, "heterogeneity", _label(other))
    gains.finish(figure, axes)
    return figure


def findings(table: pd.DataFrame, settings: Settings = Settings()) -> list[Finding]:
    """Growth in each panel and what becomes of the gain at p = 1, with both readings of the sparsity."""
    return [finding for sparsity in _sparsities(settings) for finding in _found(table, sparsity, settings)]


def _found(table: pd.DataFrame, sparsity: float, settings: Settings) -> Iterator[Finding]:
    reading = "" if sparsity == settings.sparsity else f"sparsity {sparsity:g}"
    by = {PENALTIES: Growth(at=max(settings.exponents), most=None, letter="q")}
    titles = {panel: title for panel, (title, _) in _panels(settings).items()}
    found = {panel: select_rows(table, panel=panel, sparsity=sparsity) for panel in titles}
    for panel, rows in found.items():
        how = by.get(panel, Growth())
        note = f"The penalty for sparsity {sparsity:g} is {rows['penalty'].iloc[0]:.3g}." if len(rows) else ""
        yield growth(rows, f"{titles[panel]}: gain over M-avg along {how.letter}", how, note, reading)
    in_order = {titles[panel]: found[panel] for panel in (LABELS, FEATURE)}
    yield at_the_end(in_order, "All rows dealt in order, p = 1", reading)


def _along_exponents(data: Data, penalty: float, settings: Settings, random: np.random.Generator) -> Iterator[Row]:
    """The gain for each exponent of the penalties, with rows dealt at random."""
    X = protocol.table(data, settings)
    shuffle = np.random.default_rng(int(random.integers(2**63)))  # as along p, so that q = 0 is p = 0
    rows = protocol.split(data, replace(settings, fraction=0.0), shuffle)
    for q in settings.exponents:
        agents = protocol.train_agents(unlike(penalty, q, settings.agents), X, data.y, rows.parts)
        found = heterogeneity.measured(agents, X[rows.test], data.y[rows.test], settings.neighbours)
        yield {"heterogeneity": q, **found}


def _sparsities(settings: Settings) -> tuple[float, ...]:
    return tuple(dict.fromkeys((settings.sparsity, settings.second_sparsity)))


def _panels(settings: Settings) -> dict[str, tuple[str, str]]:
    """Titles and names of the horizontal axes."""
    return {
        LABELS: ("(a) labels", "fraction $p$ dealt by label"),
        FEATURE: (f"(b) feature {settings.by_feature}", f"fraction $p$ dealt by feature {settings.by_feature}"),
        PENALTIES: ("(c) penalties", "exponent $q$ of the penalties"),
    }


def _label(table: pd.DataFrame) -> str:
    return f"DeGroot, λ' = {table['penalty'].iloc[0]:.2g}" if len(table) else "DeGroot"


@dataclass(frozen=True)
class _Dealt:
    """Data, known by their fingerprint, and how they are dealt."""

    fingerprint: str
    settings: Settings
    data: Data = field(compare=False)


@lru_cache(maxsize=1)  # the same in all repetitions
def _shares_of_zeros(dealt: _Dealt) -> Array:
    """For each penalty of the grid, the share of all agents' coefficients that are zero."""
    data, settings, random = dealt.data, dealt.settings, in_common(dealt.settings)
    X, parts = protocol.table(data, settings), [protocol.split(data, settings, random).parts for _ in range(DEALS)]
    shares: Array = np.mean([_zeros(X[part], data.y[part]) for deal in parts for part in deal], axis=0)
    return shares


def _zeros(X: Array, y: Array) -> Array:
    """For each penalty of the grid, the share of a model's coefficients that are zero."""
    _, coefficients, _ = lasso_path(X - X.mean(axis=0), y - y.mean(), alphas=GRID, max_iter=100_000)
    shares: Array = (coefficients[:, ::-1] == 0).mean(axis=0)  # the path goes from the largest penalty
    return shares
