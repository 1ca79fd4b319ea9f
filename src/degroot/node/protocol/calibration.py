"""Calibrated: what a node tells of how far off the collective was on its own rows, here and on the wire."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.intervals import POINTS, Summary
from degroot.node.protocol.models import Model, listed, models
from degroot.node.protocol.tensors import Malformed, array, tensor
from degroot.node.protocol.v1 import collective_pb2 as v1

MOST = 1 << 40  # rows that a node may say it has


@dataclass(frozen=True, slots=True)
class Near:
    """The collective's mean squared errors on a node's rehearsed rows near M points, and where those rows are."""

    errors: Array  # (M, Q)
    spread: Array  # (M,)
    effective: Array  # (M,)


@dataclass(frozen=True, slots=True)
class CalibrationSummary:
    """What one node tells of its rehearsed rows: near points and in all. No row and no single error is in it."""

    lacking: str = ""  # why there is nothing
    models: tuple[Model, ...] = ()  # those with which the rows were rehearsed
    rows: int = 0
    squares: Array | None = None  # (Q,) sums of squared errors
    near: Near | None = None  # None for classes
    summary: Summary | None = None  # of its scores; None as long as there are none


def encode(told: CalibrationSummary) -> v1.Calibrated:
    """What is told, ready to be sent."""
    message = v1.Calibrated(lacking=told.lacking, rows=told.rows)
    message.models.extend(listed(told.models))
    if told.squares is not None:
        message.squares.CopyFrom(tensor(told.squares))
    if told.near is not None:
        message.near.CopyFrom(tensor(told.near.errors))
        message.spread.CopyFrom(tensor(told.near.spread))
        message.effective.CopyFrom(tensor(told.near.effective))
    if told.summary is not None:
        message.ranks.extend(told.summary.ranks.tolist())
        message.scores.CopyFrom(tensor(told.summary.scores.reshape(len(told.summary.ranks), -1)))
    return message


def decode(message: v1.Calibrated, points: int, outputs: int, *, classes: bool) -> CalibrationSummary:
    """What a peer told, if rows could give it; whether they did is not known."""
    if message.lacking or not message.models:
        return CalibrationSummary(message.lacking[:300] or "it has not rehearsed yet")
    if not 1 <= message.rows <= MOST:
        raise Malformed(f"`rows` must be 1 to {MOST}; got {message.rows}.")
    squares = _positive(array(message.squares, (outputs,), "squares"), "squares")
    near = None if classes else _near(message, points, outputs)
    told = _summary(message, 1 if classes else outputs) if message.ranks else None
    return CalibrationSummary("", models(message.models), message.rows, squares, near, told)


def _near(message: v1.Calibrated, M: int, Q: int) -> Near:
    errors = _positive(array(message.near, (M, Q), "near"), "near")
    spread, effective = (array(getattr(message, name), (M,), name, finite=False) for name in ("spread", "effective"))
    return Near(errors, _positive(spread, "spread"), _positive(effective, "effective"))


def _positive(values: Array, name: str) -> Array:
    if not (values >= 0.0).all():
        raise Malformed(f"`{name}` must not be negative; some of it is.")
    return values


def _summary(message: v1.Calibrated, outputs: int) -> Summary:
    """Scores in order with their ranks, the last of which is the number of rows."""
    if len(message.ranks) > POINTS or max(message.ranks) > MOST:
        raise Malformed(f"`ranks` must be at most {POINTS} numbers up to {MOST}; got others.")
    ranks: NDArray[np.int64] = np.array(message.ranks, np.int64)
    if ranks[0] < 1 or (np.diff(ranks) < 1).any() or ranks[-1] != message.rows:
        raise Malformed(f"`ranks` must rise to the number of rows, {message.rows}; they do not.")
    scores = _positive(array(message.scores, (len(ranks), outputs), "scores"), "scores")
    if (np.diff(scores, axis=0) < 0.0).any():
        raise Malformed("`scores` must be in order; they are not.")
    return Summary(ranks, scores)
