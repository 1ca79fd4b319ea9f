"""Losses: how much more the collective would err without each of its agents, measured on rows of their own."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from degroot.agents.agent import Agent, Scorer
from degroot.asker.mixture import clustered_standard_error
from degroot.compute.compiled import Array
from degroot.compute.progress import progress
from degroot.consultation.asker import AskerView
from degroot.consultation.leave_one_out import (
    ROWS,
    Places,
    measure_left_out,
    sample_rows,
    sums_over_parts,
    total_standard_error,
)
from degroot.rules.evidence import MOMENTS, Evidence
from degroot.rules.rules import RuleSettings

FEWEST = 50  # rows of each agent, if it has so many
WORK = 640_000  # rows of each agent times K²: leaving out each of many agents takes long


@dataclass(frozen=True, slots=True)
class Losses:
    """The mean squared error with everybody, and what is added to it without each agent."""

    rows: int
    error: float
    loss: Array  # (K,)
    loss_error: Array  # (K,) standard errors of it
    own_error: float | None = None  # for an asker, of its own model


def losses(agents: Sequence[Agent], scorers: Sequence[Scorer], option: RuleSettings, n_jobs: int | None) -> Losses:
    r"""What each agent's leaving would cost: :math:`\overline{e_{-i}^2} - \overline{e^2}`.

    Here e is the error of the collective on a row of an agent that is left out of its own neighbourhood, :math:`e_{-i}`
    that of the collective without agent i (its model and its say on the others). As weights sum to 1, an error is the
    weighted mean of the models' residuals. Only sums over parts of each agent's rows are pooled.

    Where an agent does not take part on its own rows, since its peers score its model, these rows say nothing of what
    its leaving would cost, and do not count for it. NaN if no row does.
    """
    tables, sizes = [], []
    with progress("Leaving agents out", len(agents)) as advance:
        for scorer in scorers:
            scorer.ready(option.reach)
        for place, agent in enumerate(agents):
            advance.name_step(f"on rows of {agent.name}")
            sums, counts = sums_over_parts(_squared_errors(agents, scorers, place, option, n_jobs))
            tables.append(sums)
            sizes.append(counts)
            advance()
    table, counts = np.concatenate(tables), np.concatenate(sizes)
    costs = np.array([_cost(table[:, 0], without, counts) for without in table[:, 1:].T])
    return Losses(int(counts.sum()), float(table[:, 0].sum() / counts.sum()), costs[:, 0], costs[:, 1])


def losses_of_asker(view: AskerView, *, correct: bool = False) -> Losses:
    r"""What each model's leaving would cost an asker, :math:`\overline{e_{-i}^2} - \overline{e^2}` on its own rows.

    Here e is the error of the asker's mixture on a row of its own, whole units left out, and :math:`e_{-i}` that of the
    mixture without model i, fitted anew. Standard errors are clustered by units. NaN where there is nothing to try:
    for one agent, and where all rows are of one unit.
    """
    everybody = ((view.corrected_left_out if correct else view.left_out) ** 2).sum(axis=-1)
    own = float((view.own_errors**2).sum(axis=-1).mean())
    rows, error = len(view.sample), float(everybody.mean())
    if view.K == 1 or view.n_folds < 2:
        return Losses(rows, error, np.full(view.K, np.nan), np.full(view.K, np.nan), own)
    added = (view.errors_without(correct) ** 2).sum(axis=-1) - everybody[:, None]
    chance = clustered_standard_error(added, view.units[view.sample])
    return Losses(rows, error, added.mean(axis=0), chance, own)


def _cost(everybody: Array, without: Array, counts: NDArray[np.intp]) -> tuple[float, float]:
    """The mean difference and its standard error, from sums over parts of the rows; unknown ones are NaN."""
    known = ~np.isnan(without)
    if not known.any():
        return np.nan, np.nan
    added, rows = without[known] - everybody[known], counts[known].sum()
    return float(added.sum() / rows), total_standard_error(added) / rows


def _squared_errors(
    agents: Sequence[Agent], scorers: Sequence[Scorer], place: int, option: RuleSettings, n_jobs: int | None
) -> Array:
    """Squared errors on the rehearsed rows of one agent, (m, 1 + K): with everybody, and without each."""
    K, rule = len(agents), option.definition
    most = min(ROWS, max(FEWEST, WORK // K**2))
    squares = np.full((len(sample_rows(agents[place], most)), 1 + K), np.nan)

    def heard(points: Places, evidence: Evidence, residuals: Array, members: Places) -> None:
        outputs = [np.ascontiguousarray(residuals[..., q]) for q in range(residuals.shape[2])]
        errors = np.einsum("mk,mkq->mq", rule.weights(evidence), residuals)
        squares[points] = (errors**2).sum(axis=1)[:, None]  # also without those who abstain there
        if agents[place].scored_by_peers:
            squares[points, 1 + place] = np.nan
        squares[np.ix_(points, 1 + members)] = sum(rule.values_without(evidence, output) ** 2 for output in outputs)

    measure_left_out(
        agents, scorers, place, option.reach, heard, moments=rule.uses == MOMENTS, n_jobs=n_jobs, most=most
    )
    return squares
