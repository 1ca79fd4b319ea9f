"""Coverage: how often calibrated intervals hold the outcome on the rows of each agent, and how wide they are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from degroot.answers.calibration_report import CalibrationReport
from degroot.compute.compiled import Array
from degroot.compute.progress import progress
from degroot.consultation.asker import AskerView
from degroot.consultation.calibration import Calibration
from degroot.intervals import class_scores, half_width, prediction_sets, score, threshold


@dataclass(frozen=True, slots=True)
class LeftOutAnswers:
    """What the consensus did on the rows that one agent put to it."""

    scores: Array  # (m,) for classes or (m, Q), how far off it was
    local: Array  # (m, Q) its squared error near them; for classes the probabilities that it gave
    classes: bool

    def size(self, limit: Array, overall: Array) -> float:
        """The mean half-width of intervals up to a score, or for classes the mean number of classes in sets."""
        if self.classes:
            return float(prediction_sets(self.local, float(limit)).sum(axis=1).mean())
        return float(half_width(limit, self.local, overall).mean())


def score_left_out(calibration: Calibration, place: int, n_jobs: int | None = None) -> LeftOutAnswers:
    """What was found when the rows of the agent at `place` were put to the collective, from what is kept of it.

    A residual r enters by its square alone. Of classes, whose outcomes y are 0 or 1, a probability is |y - |r||.
    """
    agent, off = calibration.sample.scorers[place].agent, np.sqrt(calibration.squares[place])
    if agent.classes is not None:
        labels = agent.y[calibration.sample.numbers[place]]
        probabilities = np.abs(labels - off)
        return LeftOutAnswers(class_scores(probabilities, labels), probabilities, classes=True)
    local = calibration.local_left_out(place, n_jobs)
    return LeftOutAnswers(score(off, local, calibration.overall), local, classes=False)


def report_coverage(
    calibration: Calibration,
    view_of: Callable[[str], AskerView],
    classes: tuple[str, ...],
    coverage: float,
    n_jobs: int | None = None,
) -> CalibrationReport:
    """How often intervals of this coverage hold the outcome on each agent's rows: of the consensus, and of its view."""
    answers, views = list[LeftOutAnswers](), list[AskerView | None]()
    scorers = calibration.sample.scorers
    with progress("Preparing views", len(scorers)) as advance:
        for place, scorer in enumerate(scorers):
            advance.name_step(scorer.agent.name)
            answers.append(score_left_out(calibration, place, n_jobs))
            views.append(None if scorer.agent.scored_by_peers else view_of(scorer.agent.name))
            advance()
    return measure_coverage(calibration, answers, views, classes, coverage)


def measure_coverage(
    calibration: Calibration,
    answers: Sequence[LeftOutAnswers],
    views: Sequence[AskerView | None],
    classes: tuple[str, ...],
    coverage: float,
) -> CalibrationReport:
    """The same from the `answers` for each agent's rows, and its view.

    Of the consensus, the share of an agent's scores at or below the threshold that all agents' summaries give; of its
    own view, as `OwnCalibration.coverage_left_out` says.
    """
    limit, overall = threshold(calibration.summaries, coverage), calibration.overall
    own = [(np.nan, np.nan) if view is None else _of_view(view, coverage) for view in views]
    return CalibrationReport(
        tuple(scorer.agent.name for scorer in calibration.sample.scorers),
        float(coverage),
        np.array([len(each.scores) for each in answers]),
        np.array([float((each.scores <= limit).mean()) for each in answers]),
        np.array([each.size(limit, overall) for each in answers]),
        np.array([held for held, _ in own]),
        np.array([size for _, size in own]),
        classes,
        partial(measure_coverage, calibration, answers, views, classes),
    )


def _of_view(view: AskerView, coverage: float) -> tuple[float, float]:
    return view.calibration.coverage_left_out(coverage), view.calibration.size_left_out(coverage)
