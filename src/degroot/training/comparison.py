"""Comparison: what each organisation gains, on rows that no model has seen, and what pooling rows would bring."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from degroot.agents.agent import Agent
from degroot.agents.classification import one_hot
from degroot.agents.units import code_units
from degroot.answers.gains import SCORED, Gains
from degroot.collective import Collective
from degroot.compute.compiled import Array
from degroot.compute.progress import SlowWork
from degroot.consultation.gains import RowLosses, compare_losses
from degroot.exceptions import InvalidInput
from degroot.training.class_scores import score_classes
from degroot.training.organisation import Organisation, mark_owner

HELD_OUT = 0.2  # of each organisation's rows
MOST_HELD_OUT = 2_000  # rows of an organisation: more take long, and tell the same


def split(organisation: Organisation, random: np.random.Generator) -> tuple[Organisation, Organisation]:
    """The rows to train on, and those that are held out: whole units, where there are any."""
    n = len(organisation.y)
    count = max(1, min(round(HELD_OUT * n), MOST_HELD_OUT))
    if organisation.units is None:
        order = random.permutation(n)
        return organisation.part(np.sort(order[count:])), organisation.part(np.sort(order[:count]))
    codes = code_units(organisation.units)[1]
    held = np.isin(codes, _units_held_out(np.bincount(codes), count, random))
    return organisation.part(np.flatnonzero(~held)), organisation.part(np.flatnonzero(held))


def _units_held_out(sizes: NDArray[np.intp], rows: int, random: np.random.Generator) -> list[int]:
    """Units of these sizes with at most so many rows together, drawn at random; the smallest if none is so small.

    Two units at least are left to train on.
    """
    held: list[int] = []
    for unit in random.permutation(len(sizes)).tolist():
        if sizes[unit] <= rows and len(held) < len(sizes) - 2:
            held.append(unit)
            rows -= sizes[unit]
    return held or [int(sizes.argmin())]


def compare(
    collective: Collective, held_out: Sequence[Organisation], kinds: Sequence[str], pooled: Agent, work: SlowWork
) -> Gains:
    """Ask everybody about the rows that were held out: own model, control, collective, consensus, the `pooled` model.

    A step of `work` is an organisation.
    """
    truths, answers = [], []
    with threadpool_limits(1):  # of many small problems: threads that wait for each other take long
        for name, held in zip(collective.names, held_out, strict=True):
            work.name_step(f"rows of {name}")
            truths.append(_truth(collective, held))
            answers.append(_answers(collective, name, held, pooled))
            work()
    measured = [_losses(*each) for each in zip(held_out, truths, answers, strict=True)]
    about: dict[str, Any] = {"classes": collective.classes, "held_out": True}
    if collective.classes:
        about["scores"] = {name: score_classes(truths, [each[name] for each in answers]) for name in SCORED}
    return compare_losses(collective.names, kinds, measured, **about)


def _truth(collective: Collective, held: Organisation) -> Array:
    """The outcomes of the rows that one organisation has held out, (n, Q); of classes 1 for the one that it is."""
    n, classes = len(held.y), collective.agents[0].classes
    return held.y.reshape(n, -1) if classes is None else one_hot(held.y, classes, n, InvalidInput)


def _answers(collective: Collective, name: str, held: Organisation, pooled: Agent) -> dict[str, Array]:
    """What everybody says of these rows, (n, Q) each."""
    n, view = len(held.y), collective.view_of(name)
    answer = collective.consult(held.X, ["value", "beliefs"], asker=name)
    beliefs = np.asarray(answer.beliefs).reshape(n, len(collective.names), -1)
    own = beliefs[:, view.place]
    told = {
        "own": own, "control": view.control_at(held.X, own), "collective": answer.value,
        "average": beliefs.mean(axis=1), "neutral": collective.predict(held.X),
        "pooled": pooled.predict(mark_owner(held.X, view.place)),
    }  # fmt: skip
    return {name: np.asarray(values).reshape(n, -1) for name, values in told.items()}


def _losses(held: Organisation, truth: Array, answers: Mapping[str, Array]) -> RowLosses:
    """Losses on the rows that one organisation has held out."""
    units = np.arange(len(held.y)) if held.units is None else code_units(held.units)[1]
    return RowLosses(units, **{name: ((values - truth) ** 2).sum(axis=1) for name, values in answers.items()})
