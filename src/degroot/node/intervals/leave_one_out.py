"""Leave-one-out at a node: how far off the collective was on some of its rows. They and their errors stay here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.consultation.consult import Question, give_opinion
from degroot.consultation.leave_one_out import gather_left_out, sample_rows
from degroot.intervals import Summary, class_scores, local_error, score, summary
from degroot.neighbourhoods import Neighbourhoods
from degroot.node.answering.answer import peers_score
from degroot.node.protocol.codec import CalibrationSummary, Model, Near, PeerOpinion
from degroot.node.scoring.scored_agent import ScoredAgent
from degroot.rules.evidence import MOMENTS, NOTHING, unknown
from degroot.rules.rules import STACKING_NEIGHBOURHOOD


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
        rows, scorer = sample_rows(seat.agent), seat.scorer
        size = STACKING_NEIGHBOURHOOD.size(len(rows))
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
    opinions: Mapping[str, PeerOpinion],
    aside: Sequence[str],
) -> Array:
    """What the collective is off by on some of the node's own rows, (m, Q), given what its peers say of them.

    Each row is left out of its own neighbourhood, and the node's own model takes part by its honest predictions. Where
    there are none, since peers score it (`aside`), it does not.
    """
    members, rule = [model.name for model in models], seat.option.definition
    place, peers = members.index(seat.agent.name), peers_score(members, aside)
    if rule.uses == NOTHING:
        counting = np.array([k for k in range(len(members)) if k != place or k not in peers])
        evidence = unknown(len(rows), len(counting))
    else:
        told = [
            opinions[name] if name != seat.agent.name else _measure_own(seat, rows, bool(aside)) for name in members
        ]
        measured = [each.select(members).measured for each in told]
        evidence, counting = gather_left_out([each for each in measured if each is not None], place, peers)
    columns = [seat.scored.index(models[k]) for k in counting]
    residuals = seat.scorer.residuals[rows][:, :, columns]
    off: Array = np.einsum("mk,mqk->mq", rule.weights(evidence), residuals)
    return off


def _measure_own(seat: ScoredAgent, rows: NDArray[np.intp], distances: bool) -> PeerOpinion:
    """What the node measures near its own rows, each left out; its predictions are not needed."""
    question = Question(seat.option.reach, seat.option.definition.uses == MOMENTS, distances)
    points = seat.scorer.transform(seat.agent.X[rows])
    return PeerOpinion(
        seat.version, seat.scored, give_opinion(seat.scorer, points, np.empty((len(rows), 0)), question, rows)
    )


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
