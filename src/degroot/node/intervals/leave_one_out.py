"""Rehearsed rows: how far off the collective was on some of a node's own rows. They and their errors stay here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.agents.agent import neighbourhood_size
from degroot.compute.compiled import Array
from degroot.consultation.leave_one_out import sampled
from degroot.guard.validity import malformed
from degroot.intervals import Summary, class_scores, local_error, score, summary
from degroot.neighbourhoods import Neighbourhoods
from degroot.node.answering.solve import gathered, peers_scored, refuse
from degroot.node.protocol.calibration import CalibrationSummary, Near
from degroot.node.protocol.models import Model
from degroot.node.protocol.opinion import Opinion
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.rules.evidence import Evidence, unknown
from degroot.rules.rules import MOMENTS, NOTHING, STACKING_NEIGHBOURHOOD


@dataclass(frozen=True)
class Rehearsed:
    """A sample of a node's rows, and what the collective was off by on each when it was left out."""

    seat: ScoredAgent
    models: tuple[Model, ...]  # with which they were rehearsed
    rows: NDArray[np.intp]  # (m,) their numbers
    errors: Array  # (m, Q) answers minus labels
    squares: Array  # (m, Q)
    near: Neighbourhoods  # among these rows
    summary: Summary | None = None  # of their scores, once everybody has rehearsed

    @classmethod
    def of(cls, seat: ScoredAgent, models: tuple[Model, ...], errors: Array) -> "Rehearsed":
        """The sampled rows with what the collective, made of these models, was off by."""
        rows, scorer = sampled(seat.agent), seat.scorer
        size = neighbourhood_size(STACKING_NEIGHBOURHOOD, len(rows), seat.agent.error)
        near = Neighbourhoods(scorer.rows[rows], size, scorer.metric, STACKING_NEIGHBOURHOOD.kernel)
        return cls(seat, models, rows, errors, np.ascontiguousarray(errors**2), near)

    def told(self, points: Array) -> CalibrationSummary:
        """What others are told of it, near `points` and in all."""
        return self.with_near(None if self.seat.agent.classes is not None else self.found(points))

    def with_near(self, near: Near | None) -> CalibrationSummary:
        """What others are told of it in all, with what was found near some points."""
        return CalibrationSummary("", self.models, len(self.rows), self.squares.sum(axis=0), near, self.summary)

    def found(self, points: Array, exclude_row: NDArray[np.intp] | None = None) -> Near:
        """The collective's errors near `points`; `exclude_row`: one of the rehearsed rows for each point."""
        M, Q = len(points), self.squares.shape[1]
        errors, spread, effective = np.empty((M, 1, Q)), np.empty((M, 1)), np.empty((M, 1))
        transformed = self.seat.scorer.transform(points)
        self.near.means_into(errors, 0, transformed, self.squares, exclude_row, spread, effective)
        return Near(errors[:, 0], spread[:, 0], effective[:, 0])

    def calibrated(self, scores: Array) -> "Rehearsed":
        """The same with a summary of its scores."""
        return replace(self, summary=summary(scores))


def errors_at(
    seat: ScoredAgent,
    models: Sequence[Model],
    rows: NDArray[np.intp],
    opinions: Mapping[str, Opinion],
    aside: Sequence[str],
) -> Array:
    """What the collective is off by on some of the node's own rows, (m, Q), given what its peers say of them.

    Each row is left out of its own neighbourhood, and the node's own model takes part by its honest predictions. Where
    there are none, since peers score it (`aside`), it does not.
    """
    me, members = seat.agent.name, [model.name for model in models]
    evidence = _evidence(seat, members, rows, opinions, aside)
    counting = np.array([k for k, name in enumerate(members) if name != me or me not in aside])
    if len(counting) < len(members):
        evidence = evidence.among(np.arange(len(rows)), counting)
    columns = [seat.scored.index(models[k]) for k in counting]
    residuals = seat.scorer.residuals[rows][:, :, columns]
    off: Array = np.einsum("mk,mqk->mq", seat.option.definition.weights(evidence), residuals)
    return off


def _evidence(
    seat: ScoredAgent,
    members: Sequence[str],
    rows: NDArray[np.intp],
    opinions: Mapping[str, Opinion],
    aside: Sequence[str],
) -> Evidence:
    """What all members find near the node's own rows, each left out by the node itself."""
    if seat.option.definition.uses == NOTHING:
        return unknown(len(rows), len(members))
    own = _own(seat, rows, bool(aside))
    evidence = gathered(members, [own if name == seat.agent.name else opinions[name] for name in members])
    refuse(members, malformed(evidence))
    return peers_scored(evidence, members, aside)


def _own(seat: ScoredAgent, rows: NDArray[np.intp], spread: bool) -> Opinion:
    """What the node says of its own rows, each left out; what it believes is not needed."""
    M, moments = len(rows), seat.option.definition.uses == MOMENTS
    found = Evidence.blank(M, 1, len(seat.scored), moments=moments, spread=spread)
    seat.scorer.measure(found, 0, seat.scorer.transform(seat.agent.X[rows]), seat.option.reach, rows)
    told: dict[str, Any] = {"moments": np.asarray(found.moments)[:, 0]} if moments else {"errors": found.errors[:, 0]}
    if found.spread is not None and found.effective is not None:
        told |= {"spread": found.spread[:, 0], "effective": found.effective[:, 0]}
    return Opinion(seat.version, np.empty((M, 0)), seat.scored, **told)


def class_scores_of(rehearsed: Rehearsed) -> Array:
    """The scores of rehearsed rows with classes, (m, 1)."""
    labels = rehearsed.seat.agent.y[rehearsed.rows]
    return class_scores(labels + rehearsed.errors, labels)[:, None]


def scores_of(rehearsed: Rehearsed, order: NDArray[np.intp], told: Sequence[CalibrationSummary]) -> Array:
    """The scores of rehearsed rows in some `order`, (m, Q), given what the peers told near them."""
    rows = rehearsed.seat.agent.X[rehearsed.rows[order]]
    everybody = [rehearsed.with_near(rehearsed.found(rows, order)), *told]
    overall = overall_error(everybody)
    return score(rehearsed.errors[order], pooled_error(everybody, overall), overall)


def overall_error(told: Sequence[CalibrationSummary]) -> Array:
    """The collective's mean squared error on all rehearsed rows, (Q,)."""
    squares = np.stack([np.asarray(each.squares) for each in told])
    mean: Array = squares.sum(axis=0) / sum(each.rows for each in told)
    return mean


def pooled_error(told: Sequence[CalibrationSummary], overall: Array) -> Array:
    """The collective's mean squared error near M points, (M, Q)."""
    near = [each.near for each in told if each.near is not None]
    errors = np.stack([each.errors for each in near], axis=1)
    spread, effective = (np.stack([getattr(each, name) for each in near], axis=1) for name in ("spread", "effective"))
    return local_error(errors, spread, effective, overall)
