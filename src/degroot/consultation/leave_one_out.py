"""Leave-one-out: an agent puts its own rows to the collective, each left out of its own neighbourhood.

What comes out stays with the agent: only sums or quantiles of it are pooled.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from degroot.agents.agent import Agent, Scorer
from degroot.compute.compiled import Array, block_size, in_blocks
from degroot.compute.tables import take
from degroot.consultation.abstention import group_by_members, list_unscored
from degroot.consultation.consult import INVALID, MalformedOpinions, Question, give_opinion
from degroot.consultation.roster import scored_by_peers_indices
from degroot.exceptions import InvalidInput
from degroot.guard.checks import malformed
from degroot.rules.evidence import Evidence, NeighbourhoodSpec, Pair, fill_unscored, stack_evidence

ROWS = 2000  # of each agent, at most: a sample of them settles what they are asked for
SEED = 0
PARTS = 10  # of an agent's rows, of which it tells the sums

Places: TypeAlias = NDArray[np.intp]
# points, what the agents that take part there found of each other, residuals (m, members, Q), and who these are
Heard: TypeAlias = Callable[[Places, Evidence, Array, Places], None]


def sample_rows(agent: Agent, most: int = ROWS) -> NDArray[np.intp]:
    """The numbers of the rows that an agent puts to the collective: all, or a random sample of them."""
    if agent.n_rows <= most:
        return np.arange(agent.n_rows)
    chosen: NDArray[np.intp] = np.random.default_rng(SEED).choice(agent.n_rows, most, replace=False)
    return chosen


def measure_left_out(
    agents: Sequence[Agent],
    scorers: Sequence[Scorer],
    place: int,
    reach: NeighbourhoodSpec,
    heard: Heard,
    *,
    moments: bool = False,
    n_jobs: int | None = None,
    most: int = ROWS,
) -> None:
    """Put rows of the agent at `place` to everybody, block by block, each left out of its own neighbourhood.

    Its own model takes part by its honest predictions. Where there are none, since peers score it, it does not; nor do
    models that abstain at a row.
    """
    rows = sample_rows(agents[place], most)
    X, K = take(agents[place].X, rows), len(agents)
    residuals = scorers[place].residuals[rows].transpose(0, 2, 1)
    transformed = [_transform(scorer, X, agents[place]) for scorer in scorers]
    peers_score = scored_by_peers_indices(agents)
    pairs, present = [*((k, k) for k in peers_score), *list_unscored(scorers)], find_members(agents, place, X)
    question, nothing = Question(reach, moments, distances=True), np.empty((len(rows), 0))
    check = any(type(scorer) is not Scorer for scorer in scorers)  # what a plain one measures comes from rows

    def block(start: int, stop: int) -> None:
        part = slice(start, stop)
        opinions = (
            give_opinion(scorer, points[part], nothing[part], question, rows[part] if k == place else None)
            for k, (scorer, points) in enumerate(zip(scorers, transformed, strict=True))
        )
        measured = [each.measured for each in opinions if each.measured is not None]
        try:
            groups = list(gather_left_out(measured, pairs, present[part], check=check))
        except MalformedOpinions as error:
            raise agents[error.agents[0]].error(INVALID) from error
        for at, evidence, members in groups:
            heard(start + at, evidence, residuals[part][np.ix_(at, members)], members)

    held = K * (K * (K + 1) // 2 if moments else K)
    in_blocks(block, len(rows), block_size(len(rows), held, n_jobs), n_jobs)


def find_members(agents: Sequence[Agent], place: int, X: Any) -> NDArray[np.bool_]:
    """Who takes part at rows `X` of the agent at `place`, (m, K): its own model if there are honest predictions of it.

    At a row at which all others abstain they take part with what stands in for their predictions.
    """
    own, M = agents[place], X.shape[0]
    everybody = np.arange(len(agents)) != (place if own.scored_by_peers else -1)
    present = np.tile(everybody, (M, 1))
    for k, agent in enumerate(agents):
        abstains = None if k == place and own.own_predictions is not None else agent.find_abstentions(X, own.lacks)
        if abstains is not None:
            present[:, k] &= ~abstains
    present[~present.any(axis=1)] = everybody
    return present


def gather_left_out(
    measured: Sequence[Evidence], pairs: Iterable[Pair], present: NDArray[np.bool_], *, check: bool = True
) -> Iterator[tuple[Places, Evidence, Places]]:
    """What all agents measured near an agent's left-out rows, for rows at which the same agents take part together.

    `pairs`: of agents and models that they have not scored. `present`: who takes part, (m, K). `check`: whether
    opinions may be malformed.
    """
    evidence, (m, K) = stack_evidence(measured), present.shape
    if check and (wrong := malformed(evidence).any(axis=0)).any():
        raise MalformedOpinions(np.flatnonzero(wrong).tolist())
    if present.all():
        yield np.arange(m), fill_unscored(evidence, pairs), np.arange(K)
        return
    evidence = fill_unscored(evidence, pairs, present)
    for points, members in group_by_members(present):
        yield points, evidence.among(points, members), members


def _transform(scorer: Scorer, X: Any, owner: Agent) -> Any:
    try:
        return scorer.transform(X)
    except InvalidInput as error:
        raise scorer.agent.error(f"it must be able to locate the rows of {owner.name!r}; {error}") from error


def sums_over_parts(values: Array) -> tuple[Array, NDArray[np.intp]]:
    """Sums of `values` (n, ...) over at most ten consecutive parts of the rows, (parts, ...), and the parts' sizes.

    Examples
    --------
    >>> sums_over_parts(np.arange(12.0))
    (array([ 1.,  5.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11.]), array([2, 2, 1, 1, 1, 1, 1, 1, 1, 1]))
    """
    parts = np.array_split(values, min(PARTS, len(values)))
    return np.array([part.sum(axis=0) for part in parts]), np.array([len(part) for part in parts])


def total_standard_error(sums: Array) -> float:
    r"""The standard error of the total of B sums over parts, :math:`\sqrt{B}\, s` with s their standard deviation.

    NaN for a single part: it says nothing of chance.

    Examples
    --------
    >>> total_standard_error(np.array([1.0, 1.0, 1.0, 5.0]))
    4.0
    """
    return float(np.sqrt(len(sums) * sums.var(ddof=1))) if len(sums) > 1 else np.nan
