"""Choosing a rule: each agent tries the options on its own rows, and only sums of squared errors are pooled."""

from collections.abc import Sequence

import numpy as np

from degroot.agents.agent import Agent, Scorer
from degroot.answers.choice import Choice
from degroot.compute.compiled import Array
from degroot.compute.progress import progress
from degroot.consultation.leave_one_out import (
    Places,
    measure_left_out,
    sample_rows,
    sums_over_parts,
    total_standard_error,
)
from degroot.rules.evidence import MOMENTS, PAPER_NEIGHBOURHOOD, Evidence, NeighbourhoodSpec
from degroot.rules.rules import STACKING_NEIGHBOURHOOD, RuleSettings
from degroot.stacking.local import RIDGE

WIDE = NeighbourhoodSpec(0.2, "tricube", least=40, most=2000)
MANY = NeighbourhoodSpec(0.1, "uniform", least=30)
CLEARLY = 1.5  # standard errors by which an option has to be better than the first


OPTIONS = (
    *(
        RuleSettings("stacking", reach, ridge)
        for reach in (STACKING_NEIGHBOURHOOD, WIDE)
        for ridge in (RIDGE, 2.0, 10.0, 50.0)
    ),
    RuleSettings("degroot", PAPER_NEIGHBOURHOOD),
    RuleSettings("degroot", MANY),
    RuleSettings("average", PAPER_NEIGHBOURHOOD),
)


def choose(
    agents: Sequence[Agent], scorers: Sequence[Scorer], options: Sequence[RuleSettings], n_jobs: int | None
) -> Choice:
    r"""The option with the least mean squared error on the agents' own rows; the first, unless that is clearly better.

    Each agent tells, for every option, the sums of squared errors over ten parts of its rows. The best option is taken
    when its mean squared error is below that of the first by more than 1.5 standard errors of the difference, which
    the sums over parts give: sampling noise alone should not overturn a good default.
    """
    told = []
    with progress("Choosing a rule", len(agents)) as advance:
        for place in range(len(agents)):
            told.append(sums_over_parts(_squared_errors(agents, scorers, place, options, n_jobs).T))
            advance()
    sums, rows = np.concatenate([each[0] for each in told]), int(sum(each[1].sum() for each in told))
    errors = sums.sum(axis=0) / rows
    best = int(np.argmin(errors))
    gains = sums[:, 0] - sums[:, best]
    return Choice(
        options[best if gains.sum() > CLEARLY * total_standard_error(gains) else 0], tuple(options), errors, rows
    )


def _squared_errors(
    agents: Sequence[Agent], scorers: Sequence[Scorer], place: int, options: Sequence[RuleSettings], n_jobs: int | None
) -> Array:
    """The squared error of every option on the rows that one agent puts to the collective, (options, m)."""
    squares = np.empty((len(options), len(sample_rows(agents[place]))))
    for reach in dict.fromkeys(option.reach for option in options):
        tried = [k for k, option in enumerate(options) if option.reach == reach]

        def heard(points: Places, evidence: Evidence, residuals: Array, _: Places, tried: list[int] = tried) -> None:
            for k in tried:
                weights = options[k].definition.weights(evidence)
                squares[k, points] = (np.einsum("mk,mkq->mq", weights, residuals) ** 2).sum(axis=1)

        moments = any(options[k].definition.uses == MOMENTS for k in tried)
        measure_left_out(agents, scorers, place, reach, heard, moments=moments, n_jobs=n_jobs)
    return squares
