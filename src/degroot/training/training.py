"""Training: read, hold rows out, train, compare, train on all rows, write."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from degroot.agents.agent import Agent
from degroot.collective import Collective
from degroot.compute.progress import progress
from degroot.consultation.settings import check_choice
from degroot.training.comparison import Comparison, compare, split
from degroot.training.folder import check_place, write_collective_folder
from degroot.training.models import BEST, Fitted, fit_best, kinds, space
from degroot.training.organisations import Gathered, Organisation, gather

RULES = ("degroot", "stacking", "average", "auto")


@dataclass(frozen=True, slots=True)
class Trained:
    """What was trained, and what it is worth."""

    gathered: Gathered
    kinds: tuple[str, ...]  # of every organisation's model
    comparison: Comparison
    folder: Path


def train(
    files: Sequence[Path],
    target: str,
    folder: Path,
    *,
    group: str | None = None,
    ignore: Sequence[str] = (),
    classes: bool = False,
    model: str = BEST,
    rule: str = "stacking",
    seed: int = 0,
    unit: str | None = None,
) -> Trained:
    """Train a model for each organisation and put the collective into a new folder.

    A fifth of every organisation's rows is held out first, to see what the collective is worth; then all models are
    trained again, on all rows. Rows with the same value in the column `unit` are held out and cross-fitted together.
    """
    check_choice("rule", rule, RULES)
    check_place(folder)
    gathered = gather(files, target, group, ignore, classes, unit)
    found, labels, random = gathered.organisations, gathered.classes, np.random.default_rng(seed)
    parts = [split(each, random) for each in found]
    tried = [kinds(model, each) for each in found]
    with progress("Training", sum(map(len, tried)) + len(found), lines=True) as advance:
        first = [fit_best(part, labels, asked, seed, advance) for (part, _), asked in zip(parts, tried, strict=True)]
        collective = _collective([part for part, _ in parts], first, gathered, rule)
        comparison = compare(collective, [held for _, held in parts], labels)
        final = [fit_best(each, labels, [made.kind], seed, advance) for each, made in zip(found, first, strict=True)]
    write_collective_folder(folder, gathered, final, rule)
    return Trained(gathered, tuple(each.kind for each in final), comparison, folder)


def _collective(
    organisations: Sequence[Organisation], models: Sequence[Fitted], gathered: Gathered, rule: str
) -> Collective:
    """The collective as it will be when its file is opened."""
    from sklearn.preprocessing import StandardScaler

    gaps, classes = gathered.has_gaps, gathered.classes
    agents = [
        Agent(
            made.model, each.X, each.y, each.name,
            space=space() if gaps else None, own_predictions=made.own, classes=classes, units=each.units,
        )
        for each, made in zip(organisations, models, strict=True)
    ]  # fmt: skip
    return Collective(agents, rule=rule, space=None if gaps else StandardScaler())
