"""Coverage: how often calibrated intervals hold the outcome on the rows of each agent, and how wide they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from degroot.answers.calibration_report import CalibrationReport
from degroot.compute.compiled import Array
from degroot.compute.tables import take
from degroot.consultation.asker import AskerView
from degroot.consultation.calibration import Calibration
from degroot.intervals import Summary, class_scores, half_width, prediction_sets, score, threshold


@dataclass(frozen=True, slots=True)
class RehearsedAnswers:
    """What the consensus did on the rows that one agent put to it."""

    scores: Array  # (m,) for classes or (m, Q), how far off it was
    local: Array  # (m, Q) its squared error near them; for classes the probabilities that it gave
    classes: bool

    def size(self, limit: Array, overall: Array) -> float:
        """The mean half-width of intervals up to a score, or for classes the mean number of classes in sets."""
        if self.classes:
            return float(prediction_sets(self.local, float(limit)).sum(axis=1).mean())
        return float(half_width(limit, self.local, overall).mean())


def rehearse(calibration: Calibration, place: int, n_jobs: int | None = None) -> RehearsedAnswers:
    """What was found when the rows of the agent at `place` were put to the collective, from what is kept of it.

    A residual r enters by its square alone. Of classes, whose outcomes y are 0 or 1, a probability is |y - |r||.
    """
    scorers, rows = calibration.rehearsed.scorers, calibration.rehearsed.numbers[place]
    agent, off = scorers[place].agent, np.sqrt(calibration.squares[place])
    if agent.classes is not None:
        probabilities = np.abs(agent.y[rows] - off)
        return RehearsedAnswers(class_scores(probabilities, agent.y[rows]), probabilities, classes=True)
    X = take(agent.X, rows)
    local = calibration.local([each.transform(X) for each in scorers], n_jobs, (place, np.arange(len(rows))))
    return RehearsedAnswers(score(off, local, calibration.overall), local, classes=False)


def measure_coverage(
    names: Sequence[str],
    rehearsed: Sequence[RehearsedAnswers],
    views: Sequence[AskerView | None],
    summaries: Sequence[Summary],
    overall: Array,
    classes: tuple[str, ...],
    coverage: float,
) -> CalibrationReport:
    """How often intervals of this coverage hold the outcome, by agent.

    Of the consensus, the share of an agent's scores at or below the threshold that all agents' `summaries` give; of its
    own view, as `OwnCalibration.coverage_left_out` says.
    """
    limit = threshold(summaries, coverage)
    own = [(np.nan, np.nan) if view is None else _of_view(view, coverage) for view in views]
    return CalibrationReport(
        tuple(names),
        float(coverage),
        np.array([len(each.scores) for each in rehearsed]),
        np.array([float((each.scores <= limit).mean()) for each in rehearsed]),
        np.array([each.size(limit, overall) for each in rehearsed]),
        np.array([held for held, _ in own]),
        np.array([size for _, size in own]),
        classes,
        partial(measure_coverage, names, rehearsed, views, summaries, overall, classes),
    )


def _of_view(view: AskerView, coverage: float) -> tuple[float, float]:
    return view.calibration.coverage_left_out(coverage), view.calibration.size_left_out(coverage)
