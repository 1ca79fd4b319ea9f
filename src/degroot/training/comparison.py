"""Comparison: the collective beside every model alone and the plain average, on rows that none of them has seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.agents.units import code_units
from degroot.collective import Collective
from degroot.compute.compiled import Array
from degroot.training.organisations import Organisation

HELD_OUT = 0.2  # of each organisation's rows


@dataclass(frozen=True, slots=True)
class Comparison:
    """Errors on held-out rows: root mean squared ones of numbers, the share of wrong answers of classes."""

    own: Array  # (K,) each model, on the rows of its own organisation
    pooled: Array  # (K,) the collective, on the same rows
    alone: Array  # (K,) each model, on the rows of all organisations
    average: float  # the plain average of the models, on the rows of all
    collective: float  # the collective, on the rows of all
    rows: int  # held out in all
    gain: float  # of the collective over the average: of loss a row, in standard errors of it
    units: int | None = None  # held out in all, where there are any


def split(organisation: Organisation, random: np.random.Generator) -> tuple[Organisation, Organisation]:
    """The rows to train on, and those that are held out: whole units, where there are any."""
    n = len(organisation.y)
    count = max(1, round(HELD_OUT * n))
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


def compare(collective: Collective, held_out: Sequence[Organisation], classes: Sequence[str] | None) -> Comparison:
    """Ask the collective about the rows that were held out."""
    answer = collective.consult(np.concatenate([each.X for each in held_out]), ["value", "beliefs"])
    truth = np.concatenate([each.y for each in held_out])
    beliefs = np.asarray(answer.beliefs)
    K, M = len(held_out), len(truth)
    losses = [_losses(beliefs[:, k], truth, classes) for k in range(K)]
    pooled, average = (_losses(each, truth, classes) for each in (np.asarray(answer.value), beliefs.mean(axis=1)))
    owner = np.repeat(np.arange(K), [len(each.y) for each in held_out])

    labels = [each.units for each in held_out if each.units is not None]
    units = code_units(np.concatenate(labels))[1] if labels else np.arange(M)

    def error(loss: Array, rows: NDArray[np.bool_] | slice = slice(None)) -> float:
        mean = float(np.mean(loss[rows]))
        return mean if classes is not None else mean**0.5

    return Comparison(
        own=np.array([error(losses[k], owner == k) for k in range(K)]),
        pooled=np.array([error(pooled, owner == k) for k in range(K)]),
        alone=np.array([error(loss) for loss in losses]),
        average=error(average),
        collective=error(pooled),
        rows=M,
        gain=_gain(average - pooled, units),
        units=int(units.max()) + 1 if labels else None,
    )


def _losses(values: Array, truth: NDArray[Any], classes: Sequence[str] | None) -> Array:
    """Squared errors; or 1 where the likeliest class is wrong, and 0 elsewhere."""
    if classes is None:
        return np.asarray((values - truth) ** 2)
    return np.asarray(np.array(classes)[values.argmax(axis=1)] != truth, float)


def _gain(less: Array, units: NDArray[np.intp]) -> float:
    """The mean of paired differences, in standard errors; 0 where there is none.

    Rows of one unit are no independent evidence: the standard error is that of sums over units.
    """
    mean = float(np.mean(less))
    spread = float(np.linalg.norm(np.bincount(units, less - mean))) / len(less)
    return mean / spread if spread > 0 else 0.0
