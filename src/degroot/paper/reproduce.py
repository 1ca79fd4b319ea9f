"""Reproduce the paper: compute what is missing, on all cores, and write tables, figures and the report."""

import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType

import pandas as pd
from joblib import Parallel, delayed, parallel_config

from degroot.compute.progress import progress
from degroot.exceptions import InvalidInput
from degroot.files.atomic import make_folder
from degroot.paper import catalogue, report
from degroot.paper.cache import Parts
from degroot.paper.data.datasets import Data, load
from degroot.paper.experiment import ExperimentTask, Row, Settings, at_hand

QUICK = 3  # repetitions


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What to reproduce, from what, and where to put it."""

    names: tuple[str, ...] = ()  # of experiments; all without any
    out: Path
    reps: int | None = None  # None: as many as each experiment says
    seed: int = 0
    jobs: int = -1  # processes; -1: one for each core
    data: Path | None = None  # a folder with data sets
    download: bool = True  # fetch the large data sets that are not at hand


def reproduce(plan: RunPlan) -> Path:
    """Do as planned; gives the path of the report."""
    experiments = catalogue.find(plan.names)
    make_folder(plan.out / "parts")
    settings = {name: _settings(module, plan) for name, module in experiments.items()}
    tasks = [task for name, module in experiments.items() for task in module.tasks(settings[name])]
    possible, data, missing = at_hand(tasks, lambda name: load(name, plan.data, download=plan.download))
    rows = _computed(possible, data, plan)

    def kept(asked: Iterable[ExperimentTask]) -> pd.DataFrame:
        return pd.DataFrame([row for task in asked for row in rows.get(task, ())])

    chapters = []
    with progress("Drawing", len(experiments)) as advance:
        for name, module in experiments.items():
            table = module.compute(settings[name], kept)
            chapters.append(report.chapter(name, module, table, settings[name], plan.out))
            advance()
    return report.write(chapters, list(data.values()), missing, plan.out)


def _settings(module: ModuleType, plan: RunPlan) -> Settings:
    defaults: Settings = module.Settings()
    return replace(defaults, reps=defaults.reps if plan.reps is None else plan.reps, seed=plan.seed)


def _computed(tasks: list[ExperimentTask], data: Mapping[str, Data], plan: RunPlan) -> dict[ExperimentTask, list[Row]]:
    """The rows of every task, read where they are kept and computed where not, repetition by repetition."""
    parts, rows, open_tasks = Parts(plan.out / "parts"), dict[ExperimentTask, list[Row]](), []
    for task in sorted(
        tasks, key=lambda task: task.repetition
    ):  # all kinds in turn, so that the time left is told well
        kept = parts.read(task, task.among(data))
        if kept is None:
            open_tasks.append(task)
        else:
            rows[task] = kept
    label = f"Computing ({len(rows)} of {len(tasks)} kept from before)" if rows else "Computing"
    with progress(label, len(open_tasks), lines=True) as advance, parallel_config("loky", inner_max_num_threads=1):
        work = (delayed(_finished)(place, task, task.among(data), os.getpid()) for place, task in enumerate(open_tasks))
        for place, found in Parallel(n_jobs=plan.jobs, return_as="generator_unordered")(work):
            task = open_tasks[place]
            parts.write(task, task.among(data), found)
            rows[task] = found
            advance()
    return rows


def _finished(place: int, task: ExperimentTask, data: Data | None, parent: int) -> tuple[int, list[Row]]:
    if os.getpid() != parent:
        _end_with(parent)
    try:
        return place, task.rows(data)
    except InvalidInput as error:
        case = ", ".join(f"{name} {value}" for name, value in task.case.items())
        raise InvalidInput(f"{task.trial.__module__.rpartition('.')[2]} ({case}): {error}") from error


@cache
def _end_with(parent: int) -> None:
    """Let this process end when its parent does, even if that is killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
