"""Training: read, hold rows out, train, compare, train on all rows, write."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

import numpy as np

from degroot.agents.agent import Agent
from degroot.answers.gains import Gains
from degroot.collective import Collective
from degroot.compute.progress import progress
from degroot.consultation.abstention import list_unscored_by_columns
from degroot.consultation.settings import check_choice
from degroot.schema.columns import CATEGORY, Column, describe_some
from degroot.schema.schema import Schema
from degroot.training.comparison import compare, split
from degroot.training.folder import check_place, write_collective_folder
from degroot.training.models import BEST, Fitted, fit_best, kinds
from degroot.training.organisation import Organisation, pool
from degroot.training.organisations import Gathered, gather

RULES = ("degroot", "stacking", "average", "auto")
POOLED = "all organisations"  # what the pooled rows are called
OWNER = "organisation"  # what the column is called that says whose row it is


@dataclass(frozen=True, slots=True)
class Trained:
    """What was trained, and what it is worth."""

    gathered: Gathered
    kinds: tuple[str, ...]  # of every organisation's model
    gains: Gains  # on the rows that were held out
    pooled_kind: str  # of the model on the pooled rows
    left_out: Gains  # on the rows that were trained on, left out in folds; who contributes to whom, if asked for
    folder: Path
    sites: dict[str, Path]  # in the folder: how organisations write columns, of those that do so in their own way


def train(
    files: Sequence[Path],
    target: str | None,
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
    schema: Path | None = None,
    sites: Sequence[str] = (),
    weight: str | None = None,
) -> Trained:
    """Train a model for each organisation and put the collective into a new folder.

    Columns are what the file `schema` says or, without one, what they are found to be; `sites`, ``NAME=FILE``, say how
    single organisations write them. The column `weight` says for what each row counts in training.

    A fifth of every organisation's rows is held out first, to see what each gains; then all models are trained again,
    on all rows. Rows with the same value in the column `unit` are held out and cross-fitted together. `shapley` also
    measures who contributes to whom.
    """
    check_choice("rule", rule, RULES)
    check_place(folder)
    with progress("Reading and checking rows", lines=True):
        gathered = gather(files, target, group, ignore, classes, unit, weight, schema, sites)
    found, shared, random = gathered.organisations, gathered.schema, np.random.default_rng(seed)
    parts = [split(each, random) for each in found]
    tried = [kinds(model, each) for each in found]
    rest, held = [part for part, _ in parts], [part for _, part in parts]
    everybody, marked = pool(rest, POOLED), mark_owners(shared, [each.name for each in found])
    all_tried = kinds(model, everybody)
    with progress("Training", _count_rows([*rest, everybody], [*tried, all_tried]), lines=True) as work:
        first = [fit_best(part, shared, asked, seed, work) for part, asked in zip(rest, tried, strict=True)]
        pooled = fit_best(everybody, marked, all_tried, seed, work)
    agents = [_agent(each, model, shared) for each, model in zip(rest, first, strict=True)]
    gathered = replace(gathered, notes=[*gathered.notes, *_describe_cut_off(agents, shared)])
    made = [each.kind for each in first]
    with progress("Comparing", len(found), lines=True) as work:
        collective = Collective(agents, rule=rule)
        gains = compare(collective, held, made, _agent(everybody, pooled, marked), work)
    with progress("Training on all rows", _count_rows(found, [[kind] for kind in made]), lines=True) as work:
        final = [fit_best(each, shared, [kind], seed, work) for each, kind in zip(found, made, strict=True)]
    with progress("Measuring gains", lines=True):
        left_out = collective.gains(shapley)
    with progress("Writing the collective", lines=True):
        own_sites = write_collective_folder(folder, gathered, final, rule, gains, left_out if shapley else None)
    return Trained(gathered, tuple(made), gains, pooled.kind, left_out, folder, own_sites)


def _count_rows(parts: Sequence[Organisation], tried: Sequence[Sequence[str]]) -> int:
    """How many rows models are trained on: those of each part for each of the kinds that are tried on it."""
    return sum(len(part.y) * len(kinds) for part, kinds in zip(parts, tried, strict=True))


def mark_owners(schema: Schema, names: Sequence[str]) -> Schema:
    """The schema with a further column, as `pool` makes it: whose row it is."""
    name = OWNER
    while name in schema.names or (schema.target is not None and name == schema.target.name):
        name = f"{name}_"
    places = tuple(f"{place} {each}".strip() for place, each in enumerate(names))
    return replace(schema, columns=(*schema.columns, Column(name, CATEGORY, places)), units=None, identifiers=())


def _describe_cut_off(agents: Sequence[Agent], schema: Schema) -> list[str]:
    """Organisations that can score nobody else's model, for columns that they lack, and so gain nothing from others."""
    unscored = list_unscored_by_columns([each.lacks for each in agents], [each.optional for each in agents])
    notes = []
    for place, agent in enumerate(agents):
        if agent.lacks is not None and sum(scorer == place for scorer, _ in unscored) == len(agents) - 1:
            lacked = [name for name, lacks in zip(schema.names, agent.lacks, strict=True) if lacks]
            notes.append(
                f"{agent.name} can score no model of others, which take {describe_some(lacked)}, and so gains nothing "
                f"from them. To let it gain, leave these columns out: --ignore {quote(','.join(lacked))}"
            )
    return notes


def _agent(organisation: Organisation, made: Fitted, schema: Schema) -> Agent:
    return Agent(
        made.model, organisation.X, organisation.y, organisation.name, own_predictions=made.own,
        classes=schema.classes, units=organisation.units, schema=schema,
    )  # fmt: skip
