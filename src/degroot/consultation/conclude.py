"""Conclusions: from what agents found and believe to what the collective answers."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.jackknife.delete_one import influence, standard_error
from degroot.rules.evidence import Evidence
from degroot.rules.rules import Rule

OF_AGENTS = ("weights", "influence")  # fields with a place for every agent


def blank(names: Iterable[str], M: int, K: int, Q: int, scored: int | None = None) -> dict[str, Array]:
    """Arrays to fill for M points, K agents and Q outputs; each agent has `scored` all models or so many."""
    shapes: dict[str, tuple[int, ...]] = {
        "value": (M, Q), "standard_error": (M, Q), "weights": (M, K), "beliefs": (M, K, Q),
        "trust": (M, K, scored or K), "influence": (M, K, Q),
    }  # fmt: skip
    return {name: np.empty(shapes[name]) for name in names}


def single(answer: dict[str, Array]) -> dict[str, Any]:
    """The same without the axis of outputs, of which there is one."""
    return {name: array if name in ("weights", "trust") else array[..., 0] for name, array in answer.items()}


def conclude(
    rule: Rule, evidence: Evidence, beliefs: Array, out: dict[str, Array], present: NDArray[np.bool_] | None = None
) -> None:
    """From evidence and beliefs (M, K, Q) to the asked fields, the arrays of `out`.

    Where an agent is not `present`, (M, K), the others answer without it: it has no weight and no influence.
    """
    out = dict(out)
    if "beliefs" in out:
        out.pop("beliefs")[:] = beliefs
    if "trust" in out:
        out.pop("trust")[:] = evidence.trust
    if not out:
        return
    if present is None or present.all():
        _fill(rule, evidence, beliefs, out)
        return
    for pattern in np.unique(present, axis=0):
        points, members = np.flatnonzero((present == pattern).all(axis=1)), np.flatnonzero(pattern)
        part = {name: np.zeros((len(points), *array.shape[1:])) for name, array in out.items()}
        some = {name: array[:, members] if name in OF_AGENTS else array for name, array in part.items()}
        _fill(rule, evidence.among(points, members), beliefs[np.ix_(points, members)], some)
        for name, array in out.items():
            if name in OF_AGENTS:
                part[name][:, members] = some[name]
            array[points] = part[name]


def _fill(rule: Rule, evidence: Evidence, beliefs: Array, out: dict[str, Array]) -> None:
    known = concluded(out, rule.weights(evidence), beliefs, lambda apart: rule.values_without(evidence, apart))
    for name, array in out.items():
        array[:] = known[name]


def concluded(
    names: Iterable[str], weights: Array, beliefs: Array, values_without: Callable[[Array], Array]
) -> dict[str, Array]:
    """What follows from weights (M, K) and beliefs (M, K, Q): the fields in `names`, and those on the way to them."""
    known: dict[str, Any] = {"weights": weights, "beliefs": beliefs, "value": _pooled(weights, beliefs)}
    if {"standard_error", "influence"} & set(names):
        apart = beliefs - beliefs[:, :1]  # what all have in common would cost the differences their digits
        value = _pooled(weights, apart)
        outputs = range(beliefs.shape[-1])
        without = [values_without(np.ascontiguousarray(apart[..., q])) for q in outputs]
        known["standard_error"] = np.stack([standard_error(each) for each in without], axis=-1)
        known["influence"] = np.stack([influence(value[..., q], without[q]) for q in outputs], axis=-1)
    return known


def _pooled(weights: Array, beliefs: Array) -> Array:
    value: Array = (weights[..., None] * beliefs).sum(axis=-2)
    return value
