"""Comparison: the collective beside every model alone and the plain average, on rows that none of them has seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def split(organisation: Organisation, random: np.random.Generator) -> tuple[Organisation, Organisation]:
    """The rows to train on, and those that are held out."""
    order = random.permutation(len(organisation.y))
    count = max(1, round(HELD_OUT * len(order)))
    return organisation.part(np.sort(order[count:])), organisation.part(np.sort(order[:count]))


def compare(collective: Collective, held_out: Sequence[Organisation], classes: Sequence[str] | None) -> Comparison:
    """Ask the collective about the rows that were held out."""
    answer = collective.consult(np.concatenate([each.X for each in held_out]), ["value", "beliefs"])
    truth = np.concatenate([each.y for each in held_out])
    beliefs = np.asarray(answer.beliefs)
    K, M = len(held_out), len(truth)
    losses = [_losses(beliefs[:, k], truth, classes) for k in range(K)]
    pooled, average = (_losses(each, truth, classes) for each in (np.asarray(answer.value), beliefs.mean(axis=1)))
    owner = np.repeat(np.arange(K), [len(each.y) for each in held_out])

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
        gain=_gain(average - pooled),
    )


def _losses(values: Array, truth: NDArray[Any], classes: Sequence[str] | None) -> Array:
    """Squared errors; or 1 where the likeliest class is wrong, and 0 elsewhere."""
    if classes is None:
        return np.asarray((values - truth) ** 2)
    return np.asarray(np.array(classes)[values.argmax(axis=1)] != truth, float)


def _gain(less: Array) -> float:
    """The mean of paired differences, in standard errors; 0 where there is none."""
    spread = float(np.std(less)) / len(less) ** 0.5
    return float(np.mean(less)) / spread if spread > 0 else 0.0
