"""Training: read, hold rows out, train, compare, train on all rows, write."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from degroot.agents.agent import Agent
from degroot.answers.gains import Gains
from degroot.collective import Collective
from degroot.compute.progress import progress
from degroot.consultation.settings import check_choice
from degroot.training.comparison import compare, split
from degroot.training.folder import check_place, write_collective_folder
from degroot.training.models import BEST, Fitted, fit_best, kinds, space
from degroot.training.organisations import Gathered, Organisation, gather, pool

RULES = ("degroot", "stacking", "average", "auto")
POOLED = "all organisations"  # what the pooled rows are called


@dataclass(frozen=True, slots=True)
class Trained:
    """What was trained, and what it is worth."""

    gathered: Gathered
    kinds: tuple[str, ...]  # of every organisation's model
    gains: Gains  # on the rows that were held out
    pooled_kind: str  # of the model on the pooled rows
    left_out: Gains  # on the rows that were trained on, left out in folds; who contributes to whom, if asked for
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
    shapley: bool = False,
) -> Trained:
    """Train a model for each organisation and put the collective into a new folder.

    A fifth of every organisation's rows is held out first, to see what each gains; then all models are trained again,
    on all rows. Rows with the same value in the column `unit` are held out and cross-fitted together. `shapley` also
    measures who contributes to whom.
    """
    check_choice("rule", rule, RULES)
    check_place(folder)
    gathered = gather(files, target, group, ignore, classes, unit)
    found, labels, random = gathered.organisations, gathered.classes, np.random.default_rng(seed)
    parts = [split(each, random) for each in found]
    tried = [kinds(model, each) for each in found]
    rest, held = [part for part, _ in parts], [part for _, part in parts]
    everybody = pool(rest, POOLED)
    all_tried = kinds(model, everybody)
    with progress("Training", sum(map(len, tried)) + len(all_tried) + 2 * len(found), lines=True) as advance:
        first = [fit_best(part, labels, asked, seed, advance) for part, asked in zip(rest, tried, strict=True)]
        pooled = fit_best(everybody, labels, all_tried, seed, advance)
        collective = _collective(rest, first, gathered, rule)
        made = [each.kind for each in first]
        gains = compare(collective, held, made, _agent(everybody, pooled, gathered), advance)
        final = [fit_best(each, labels, [kind], seed, advance) for each, kind in zip(found, made, strict=True)]
    left_out = collective.gains(shapley)
    write_collective_folder(folder, gathered, final, rule, gains, left_out if shapley else None)
    return Trained(gathered, tuple(made), gains, pooled.kind, left_out, folder)


def _collective(
    organisations: Sequence[Organisation], models: Sequence[Fitted], gathered: Gathered, rule: str
) -> Collective:
    """The collective as it will be when its file is opened."""
    from sklearn.preprocessing import StandardScaler

    agents = [_agent(each, made, gathered) for each, made in zip(organisations, models, strict=True)]
    return Collective(agents, rule=rule, space=None if gathered.has_gaps else StandardScaler())


def _agent(organisation: Organisation, made: Fitted, gathered: Gathered) -> Agent:
    return Agent(
        made.model, organisation.X, organisation.y, organisation.name, space=space() if gathered.has_gaps else None,
        own_predictions=made.own, classes=gathered.classes, units=organisation.units,
    )  # fmt: skip
