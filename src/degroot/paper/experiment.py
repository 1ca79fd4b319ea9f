"""Experiments, tasks and findings: cases, each repeated with other random numbers, whose rows make one tidy table."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from degroot import InvalidInput
from degroot.paper.data.datasets import Data, DataMissing, load

Row: TypeAlias = dict[str, Any]  # numbers and texts
Run: TypeAlias = Callable[[Iterable["ExperimentTask"]], pd.DataFrame]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What every experiment can be told. The settings of each add its own, with the paper's values as defaults."""

    reps: int = 50
    seed: int = 0


@dataclass(frozen=True)
class ExperimentTask:
    """One repetition of one case: what is computed, kept and handed to another process as a whole.

    ``trial(settings, random, **case)`` gives rows. Where the case has the key ``data``, the name of a data set, the
    trial gets the loaded `Data` in its place.
    """

    trial: Callable[..., Iterable[Row]]
    settings: Settings
    case: Row = field(hash=False)
    repetition: int

    @property
    def data_name(self) -> str | None:
        """The name of the data set, if it needs one."""
        return self.case.get("data")

    def among(self, data: Mapping[str, Data]) -> Data | None:
        """The data set that it needs, if any."""
        return None if self.data_name is None else data[self.data_name]

    def rows(self, data: Data | None = None) -> list[Row]:
        """The rows, each with the case, the repetition and whether the data are complete in front."""
        random = np.random.default_rng([self.settings.seed, 1 + self.repetition])  # 0 is for what all have in common
        case = self.case if data is None else {**self.case, "data": data}
        front = {**self.case, "repetition": self.repetition} | ({} if data is None else {"complete": data.complete})
        with threadpool_limits(1):  # so that sums come out the same on any number of cores
            rows = list(self.trial(self.settings, random, **case))
        return [front | {name: _plain(value) for name, value in row.items()} for row in rows]


@dataclass(frozen=True)
class Finding:
    """Something the paper says, what we find, and whether that agrees by a rule that says how it is judged."""

    what: str
    paper: str
    ours: str
    rule: str
    agrees: bool | None  # None: not to be judged; the note says why
    note: str = ""
    reading: str = ""  # another than the printed one: shown, but not counted


def in_common(settings: Settings) -> np.random.Generator:
    """Chance for what all repetitions have in common."""
    return np.random.default_rng([settings.seed, 0])


def repeat_cases(
    trial: Callable[..., Iterable[Row]], settings: Settings, cases: Iterable[Mapping[str, Any]], times: int = 1
) -> list[ExperimentTask]:
    """Every case, as often as the settings say, `times` over where it is noisy."""
    if settings.reps < 1:
        raise InvalidInput(f"`reps` must be at least 1; got {settings.reps}.")
    return [ExperimentTask(trial, settings, dict(case), r) for case in cases for r in range(times * settings.reps)]


def at_hand(
    tasks: Iterable[ExperimentTask], load: Callable[[str], Data] = load
) -> tuple[list[ExperimentTask], dict[str, Data], list[str]]:
    """The tasks that can be done, their data sets by name, and what is to be said of those that cannot be had."""
    tasks, data, missing = list(dict.fromkeys(tasks)), dict[str, Data](), []
    for name in dict.fromkeys(task.data_name for task in tasks if task.data_name is not None):
        try:
            data[name] = load(name)
        except DataMissing as why:
            missing.append(str(why))
    return [task for task in tasks if task.data_name is None or task.data_name in data], data, missing


def run_here(tasks: Iterable[ExperimentTask]) -> pd.DataFrame:
    """The table of all tasks, computed in this process one after the other, but for data sets that are not at hand."""
    possible, data, missing = at_hand(tasks)
    for why in missing:
        warnings.warn(why, stacklevel=3)
    return pd.DataFrame([row for task in possible for row in task.rows(task.among(data))])


def select_rows(table: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """The rows that have these values; none where the data set was not at hand."""
    for name, value in values.items():
        table = table[table[name] == value] if name in table else table.iloc[:0]
    return table


def judge_finding(finding: Finding, rows: pd.DataFrame) -> Finding:
    """The finding, or one without a verdict where the rows it rests on are missing or of a subset of the data."""
    if not len(rows):
        return replace(finding, ours="left out", agrees=None, note="The data set was not at hand.")
    if "complete" in rows and not rows["complete"].all():
        return replace(finding, agrees=None, note="Computed on a subset of the data: not to be compared.")
    return finding


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
