"""Calibration: how far off the collective's answers are on the agents' own rows, near any point and in all."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.agents.agent import Agent, Scorer
from degroot.compute.compiled import Array, in_blocks
from degroot.compute.progress import progress
from degroot.compute.tables import take
from degroot.consultation.consult import LocalEngine
from degroot.consultation.leave_one_out import Places, measure_left_out, sample_rows
from degroot.intervals import Summary, class_scores, half_width, local_error, prediction_sets, score, summary, threshold
from degroot.neighbourhoods import Neighbourhoods
from degroot.rules.evidence import MOMENTS, Evidence
from degroot.rules.rules import STACKING_NEIGHBOURHOOD, RuleSettings


@dataclass(frozen=True)
class CalibrationRows:
    """The rows that agents put to the collective, each left out of its own neighbourhood."""

    scorers: tuple[Scorer, ...]
    numbers: tuple[NDArray[np.intp], ...]  # (m,) of each agent's rows

    @cached_property
    def near(self) -> tuple[Neighbourhoods, ...]:
        """Neighbourhoods of each agent's."""
        found = []
        for scorer, numbers in zip(self.scorers, self.numbers, strict=True):
            size = STACKING_NEIGHBOURHOOD.size(len(numbers))
            found.append(Neighbourhoods(scorer.rows[numbers], size, scorer.metric, STACKING_NEIGHBOURHOOD.kernel))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What intervals and sets are made of. The agents keep the errors and send what they find near a point."""

    option: RuleSettings  # by which the collective answered
    sample: CalibrationRows
    squares: tuple[Array, ...]  # (m, Q) the collective's squared errors on them
    overall: Array  # (Q,) their mean over all agents
    summaries: tuple[Summary, ...] = ()  # of each agent's scores

    def local(
        self, transformed: Sequence[Any], n_jobs: int | None, exclude_row: tuple[int, Any] | None = None
    ) -> Array:
        """The collective's mean squared error near points that each agent has transformed, (M, Q)."""
        M, K, near_each = transformed[0].shape[0], len(self.squares), self.sample.near
        found, spread, effective = np.empty((M, K, len(self.overall))), np.empty((M, K)), np.empty((M, K))

        def block(start: int, stop: int) -> None:
            part = slice(start, stop)
            for i, (near, points, squares) in enumerate(zip(near_each, transformed, self.squares, strict=True)):
                rows = exclude_row[1][part] if exclude_row is not None and exclude_row[0] == i else None
                near.means_into(found[part], i, points[part], squares, rows, spread[part], effective[part])

        in_blocks(block, M, 1024, n_jobs)
        return local_error(found, spread, effective, self.overall)

    def local_left_out(self, place: int, n_jobs: int | None) -> Array:
        """The same near the rows of the agent at `place`, each without itself, (m, Q)."""
        scorers, rows = self.sample.scorers, self.sample.numbers[place]
        X = take(scorers[place].agent.X, rows)
        return self.local([scorer.transform(X) for scorer in scorers], n_jobs, (place, np.arange(len(rows))))

    def half_width_at(self, X: Any, engine: LocalEngine, coverage: float) -> Array:
        """How far intervals of that coverage reach to either side of the points `X`, (M,) or (M, Q)."""
        width = np.empty((X.shape[0], len(self.overall)))
        for part in engine.chunks(X):
            width[part] = self.half_width(engine.transform(take(X, part)), coverage, engine.n_jobs)
        return width[:, 0] if engine.agents[0].outputs is None else width

    def half_width(self, transformed: Sequence[Any], coverage: float, n_jobs: int | None) -> Array:
        """How far intervals of that coverage reach to either side at points that each agent has transformed, (M, Q)."""
        return half_width(threshold(self.summaries, coverage), self.local(transformed, n_jobs), self.overall)

    def sets(self, probabilities: Array, coverage: float) -> Any:
        """The classes among which the outcome is with that coverage, (M, Q)."""
        return prediction_sets(probabilities, float(threshold(self.summaries, coverage)))


@dataclass(frozen=True, slots=True)
class StoredCalibration:
    """A calibration without the agents' rows, as it is put into files and sent to other processes."""

    option: RuleSettings
    rows: tuple[NDArray[np.intp], ...]  # (m,) numbers of the rows that each agent put to the collective
    squares: tuple[Array, ...]
    overall: Array
    summaries: tuple[Summary, ...]

    @classmethod
    def of(cls, calibration: Calibration) -> "StoredCalibration":
        """What of a calibration is not the agents'."""
        c = calibration
        return cls(c.option, c.sample.numbers, c.squares, c.overall, c.summaries)

    def restore(self, scorers: Sequence[Scorer]) -> Calibration:
        """The calibration, with the agents' rows."""
        sample = CalibrationRows(tuple(scorers), self.rows)
        return Calibration(self.option, sample, self.squares, self.overall, self.summaries)


def calibrate(
    agents: Sequence[Agent], scorers: Sequence[Scorer], option: RuleSettings, n_jobs: int | None
) -> Calibration:
    """Put the agents' own rows to the collective, and let each agent summarise how far off the answers are."""
    errors, summaries = list[Array](), list[Summary]()
    with progress("Calibrating", 2 * len(agents)) as advance:
        for place, agent in enumerate(agents):
            advance.name_step(f"rows of {agent.name}")
            errors.append(_errors(agents, scorers, place, option, n_jobs))
            advance()
        sample = CalibrationRows(tuple(scorers), tuple(map(sample_rows, agents)))
        squares = tuple(np.ascontiguousarray(each**2) for each in errors)
        bare = Calibration(option, sample, squares, np.concatenate(squares).mean(axis=0))
        for place, agent in enumerate(agents):
            advance.name_step(f"scores of {agent.name}")
            summaries.append(summary(_scores(bare, agent, place, errors[place], n_jobs)))
            advance()
    return replace(bare, summaries=tuple(summaries))


def _errors(
    agents: Sequence[Agent], scorers: Sequence[Scorer], place: int, option: RuleSettings, n_jobs: int | None
) -> Array:
    """Answers minus labels, (m, Q), for rows of one agent that are left out of their own neighbourhoods."""
    rule, errors = option.definition, np.empty((len(sample_rows(agents[place])), scorers[place].residuals.shape[1]))

    def heard(points: Places, evidence: Evidence, residuals: Array, _: Places) -> None:
        errors[points] = np.einsum("mk,mkq->mq", rule.weights(evidence), residuals)

    measure_left_out(agents, scorers, place, option.reach, heard, moments=rule.uses == MOMENTS, n_jobs=n_jobs)
    return errors


def _scores(bare: Calibration, agent: Agent, place: int, errors: Array, n_jobs: int | None) -> Array:
    """An agent's scores, (m,) or (m, Q)."""
    if agent.classes is not None:
        labels = agent.y[bare.sample.numbers[place]]
        return class_scores(labels + errors, labels)
    return score(errors, bare.local_left_out(place, n_jobs), bare.overall)
