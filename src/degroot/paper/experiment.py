"""Experiments: cases, each repeated with other random numbers, whose rows make one tidy table."""

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from degroot.paper.data import Data, DataMissing, load

Row: TypeAlias = dict[str, Any]  # numbers and texts
Run: TypeAlias = Callable[[Iterable["Task"]], pd.DataFrame]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What every experiment can be told. The settings of each add its own, with the paper's values as defaults."""

    reps: int = 50
    seed: int = 0


@dataclass(frozen=True)
class Task:
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
        """The rows, each with the case and the repetition in front."""
        random = np.random.default_rng([self.settings.seed, self.repetition])
        case = self.case if data is None else {**self.case, "data": data}
        with threadpool_limits(1):  # so that sums come out the same on any number of cores
            rows = list(self.trial(self.settings, random, **case))
        return [
            {**self.case, "repetition": self.repetition, **{name: _plain(row[name]) for name in row}} for row in rows
        ]


@dataclass(frozen=True)
class Finding:
    """Something the paper says, what we find, and whether that agrees by a rule that was written down beforehand."""

    what: str
    paper: str
    ours: str
    rule: str
    agrees: bool | None  # None: not to be judged; the note says why
    note: str = ""


def repeated(trial: Callable[..., Iterable[Row]], settings: Settings, cases: Iterable[Mapping[str, Any]]) -> list[Task]:
    """Every case, as often as the settings say."""
    return [Task(trial, settings, dict(case), r) for case in cases for r in range(settings.reps)]


def here(tasks: Iterable[Task]) -> pd.DataFrame:
    """The table of all tasks, computed in this process one after the other, but for data sets that are not at hand."""
    tasks = list(tasks)
    data = dict[str, Data]()
    for name in dict.fromkeys(task.data_name for task in tasks if task.data_name is not None):
        try:
            data[name] = load(name)
        except DataMissing as why:
            warnings.warn(str(why), stacklevel=2)
    at_hand = [task for task in tasks if task.data_name is None or task.data_name in data]
    return pd.DataFrame([row for task in at_hand for row in task.rows(task.among(data))])


def plus_minus(values: Iterable[float]) -> str:
    """Mean and standard deviation over repetitions, with as many digits as the latter deserves."""
    sample = np.asarray(list(values), dtype=float)
    mean, spread = float(sample.mean()), float(sample.std(ddof=1)) if len(sample) > 1 else math.nan
    if not spread > 0:
        return f"{mean:.4g}"
    if max(abs(mean), spread) < 0.01:
        return f"{mean:.2e} ± {spread:.1e}"
    digits = max(0, 1 - math.floor(math.log10(spread)))
    return f"{mean:.{digits}f} ± {spread:.{digits}f}"


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
