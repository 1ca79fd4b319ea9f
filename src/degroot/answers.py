"""Answers: the collective prediction for each point, with what lies behind it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.choice import Choice
from degroot.exceptions import InvalidInput
from degroot.jackknife import influence, standard_error
from degroot.points import Array


@dataclass(frozen=True, slots=True)
class Flag:
    """Something about one agent that an answer should be read with."""

    agent: str
    reason: str
    points: NDArray[np.intp]  # at which


@dataclass(frozen=True, slots=True)
class Consensus:
    """What a collective answers for M points. A field that was not asked for is None.

    For Q outputs, `value`, `standard_error`, `beliefs`, `influence`, `lower` and `upper` have one more axis, the last.
    The standard error says how much the answer depends on single agents: stability, not a prediction interval. With one
    agent there is nobody to leave out: standard error and influence are NaN.
    """

    names: tuple[str, ...]
    value: Array | None = None  # (M,) the collective prediction
    standard_error: Array | None = None  # (M,) jackknife over agents
    weights: Array | None = None  # (M, K) consensus weights, rows sum to 1
    beliefs: Array | None = None  # (M, K) every agent's own prediction
    trust: Array | None = None  # (M, K, K) row i: agent i's trust in every model
    influence: Array | None = None  # (M, K) value with everyone, minus value without agent i
    lower: Array | None = None  # (M,) where the outcome is with the coverage that was asked for
    upper: Array | None = None  # (M,)
    sets: NDArray[np.bool_] | None = None  # (M, Q) for classes: those among which the outcome is
    flags: tuple[Flag, ...] = ()  # who was left out or could not be checked, where, and why
    choice: Choice | None = None  # for the rule "auto": what was chosen, and on which evidence


FIELDS = ("value", "standard_error", "weights", "beliefs", "trust", "influence")


def asked(fields: Sequence[str] | str, known: Sequence[str]) -> list[str]:
    """The names of fields that were asked for, one or several, if all are known."""
    if not isinstance(fields, Iterable):
        raise InvalidInput(f"`fields` must be names of fields; got {fields!r}.")
    names = [fields] if isinstance(fields, str) else list(fields)
    for name in names:
        if name not in known:
            raise InvalidInput(f"`fields` must be among {', '.join(map(repr, known))}; got {name!r}.")
    return names


def blank(names: Iterable[str], M: int, K: int, Q: int) -> dict[str, Array]:
    """Arrays to fill for M points, K agents and Q outputs."""
    shapes: dict[str, tuple[int, ...]] = {
        "value": (M, Q), "standard_error": (M, Q), "weights": (M, K), "beliefs": (M, K, Q), "trust": (M, K, K),
        "influence": (M, K, Q), "half_width": (M, Q),
    }  # fmt: skip
    return {name: np.empty(shapes[name]) for name in names}


def single(answer: dict[str, Array]) -> dict[str, Any]:
    """The same without the axis of outputs, of which there is one."""
    return {name: array if name in ("weights", "trust") else array[..., 0] for name, array in answer.items()}


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
