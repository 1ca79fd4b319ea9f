"""Measuring gains: on its own left-out rows, an organisation's own model, the control, and the collective's answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from degroot.agents.agent import Agent
from degroot.answers.gains import Gains
from degroot.asker.mixture import clustered_standard_error
from degroot.compute.compiled import Array
from degroot.compute.progress import progress
from degroot.consultation.asker import AskerView
from degroot.consultation.shapley import list_coalitions, measure_contributions

SCORED_BY_PEERS = "its peers score its model, whose errors on its own rows are not known"
ONE_UNIT = "all its rows are of one unit, and none can be left out"


@dataclass(frozen=True, slots=True)
class RowLosses:
    """Losses (m,) on rows of one organisation that nothing was learned from."""

    units: NDArray[np.intp]  # (m,) which unit each row belongs to
    own: Array
    control: Array
    collective: Array
    average: Array
    neutral: Array | None = None
    pooled: Array | None = None


def measure_gains(
    agents: Sequence[Agent],
    view_of: Callable[[str], AskerView],
    *,
    shapley: bool,
    correct: bool,
    classes: Sequence[str],
) -> Gains:
    """What every agent gains, from the views that `view_of` gives; with `shapley` also who contributes to whom."""
    K = len(agents)
    measured: list[RowLosses | str] = []
    contributions, errors = np.full((2, K, K), np.nan)
    sets = len(list_coalitions(K - 1).sets) if shapley else 0
    # of many small problems: threads of BLAS that wait for each other take long
    with threadpool_limits(1), progress("Measuring gains", K * (1 + sets), lines=shapley) as advance:
        for k, agent in enumerate(agents):
            advance.name_step(agent.name)
            reason = _reason(agent)
            measured.append(reason or _left_out(view_of(agent.name), correct))
            advance(1 + sets if reason else 1)
            if shapley and not reason:
                contributions[k], errors[k] = measure_contributions(view_of(agent.name), advance)
    found = {"contributions": contributions, "contributions_error": errors} if shapley else {}
    names, models = [agent.name for agent in agents], [type(agent.model).__name__ for agent in agents]
    return compare_losses(names, models, measured, classes=tuple(classes), correct=correct, **found)


def _reason(agent: Agent) -> str:
    """Why an agent's gain cannot be measured; empty where it can."""
    if agent.scored_by_peers:
        return SCORED_BY_PEERS
    return ONE_UNIT if agent.n_units < 2 else ""


def _left_out(view: AskerView, correct: bool) -> RowLosses:
    rows, answered = view.sample, view.corrected_left_out if correct else view.left_out
    errors = (view.own_errors, view.control_left_out, answered, view.average_errors)
    losses = ((view.as_answered(each, rows) ** 2).sum(axis=1) for each in errors)
    return RowLosses(view.units[rows], *losses)


def compare_losses(
    names: Sequence[str], models: Sequence[str], measured: Sequence[RowLosses | str], **about: Any
) -> Gains:
    """Losses of every organisation's rows, or why there are none, put together and compared."""
    there = [each if isinstance(each, RowLosses) else None for each in measured]
    own, control, pooled = (_compare(there, name) for name in ("own", "control", "pooled"))
    if any(each is not None and each.neutral is not None for each in there):
        about["neutral"] = _means(there, "neutral")
    if any(each is not None and each.pooled is not None for each in there):
        about |= {"pooled": _means(there, "pooled"), "against_pooled": pooled[0], "against_pooled_error": pooled[1]}
    return Gains(
        tuple(names), tuple(models),
        rows=np.array([0 if each is None else len(each.own) for each in there]),
        units=np.array([0 if each is None else len(np.unique(each.units)) for each in there]),
        own=_means(there, "own"), control=_means(there, "control"), collective=_means(there, "collective"),
        average=_means(there, "average"),
        difference=own[0], standard_error=own[1], p_value=correct_by_holm(own[2]),
        against_control=control[0], against_control_error=control[1],
        against_control_p_value=correct_by_holm(control[2]),
        reasons=tuple(each if isinstance(each, str) else "" for each in measured),
        **about,
    )  # fmt: skip


def _means(there: Sequence[RowLosses | None], name: str) -> Array:
    found = [None if each is None else getattr(each, name) for each in there]
    return np.array([np.nan if losses is None else losses.mean() for losses in found])


def _compare(there: Sequence[RowLosses | None], name: str) -> tuple[Array, Array, Array]:
    """The collective's losses minus those of another: mean differences (K,), standard errors, p-values."""
    found = np.full((len(there), 3), np.nan)
    for k, each in enumerate(there):
        losses = None if each is None else getattr(each, name)
        if each is not None and losses is not None:
            found[k] = measure_difference(each.collective - losses, each.units)
    return found[:, 0], found[:, 1], found[:, 2]


def measure_difference(differences: Array, units: NDArray[np.intp]) -> tuple[float, float, float]:
    """The mean of paired `differences` (m,), its standard error clustered by units, and the p-value of Student's t.

    Examples
    --------
    >>> measure_difference(np.array([1.0, 2.0, 3.0, 4.0]), np.arange(4))
    (2.5, 0.645497, 0.030466)
    """
    mean, error = float(differences.mean()), float(clustered_standard_error(differences, units))
    count = len(np.unique(units))
    if count < 2:
        return mean, error, np.nan
    if error == 0.0:
        return mean, error, 1.0 if mean == 0.0 else 0.0
    from scipy.special import stdtr

    return mean, error, float(2.0 * stdtr(count - 1, -abs(mean) / error))


def correct_by_holm(p_values: Array) -> Array:
    """P-values (K,) corrected for their number: the chance of any false one is at most the level. NaN are not counted.

    Holm, *A simple sequentially rejective multiple test procedure*, 1979.

    Examples
    --------
    >>> correct_by_holm(np.array([0.01, 0.04, np.nan, 0.03]))
    array([0.03, 0.06,  nan, 0.06])
    """
    corrected = np.full(len(p_values), np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    stepped = np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1))
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected
