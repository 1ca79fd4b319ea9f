"""Leave-one-out: an agent puts its own rows to the collective, each left out of its own neighbourhood.

What comes out stays with the agent: only sums or quantiles of it are pooled.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from degroot.agents.agent import Agent, Scorer
from degroot.compute.compiled import Array, block_size, in_blocks
from degroot.compute.tables import take
from degroot.consultation.consult import INVALID, MalformedOpinions, Question, give_opinion
from degroot.consultation.roster import scored_by_peers_indices
from degroot.exceptions import InvalidInput
from degroot.guard.checks import malformed
from degroot.rules.evidence import Evidence, NeighbourhoodSpec, scored_by_peers, stack_evidence

ROWS = 2000  # of each agent, at most: a sample of them settles what they are asked for
SEED = 0
PARTS = 10  # of an agent's rows, of which it tells the sums

Heard: TypeAlias = Callable[[slice, Evidence, Array], None]  # points, what was found, residuals (m, K, Q)


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

    Its own model takes part by its honest predictions. Where there are none, since peers score it, it does not.
    """
    rows = sample_rows(agents[place], most)
    X, K = take(agents[place].X, rows), len(agents)
    residuals = scorers[place].residuals[rows].transpose(0, 2, 1)
    transformed = [_transform(scorer, X, agents[place]) for scorer in scorers]
    peers_score = scored_by_peers_indices(agents)
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
            evidence, members = gather_left_out(measured, place, peers_score, check=check)
        except MalformedOpinions as error:
            raise agents[error.agents[0]].error(INVALID) from error
        heard(part, evidence, residuals[part][:, members])

    held = K * (K * (K + 1) // 2 if moments else K)
    in_blocks(block, len(rows), block_size(len(rows), held, n_jobs), n_jobs)


def gather_left_out(
    measured: Sequence[Evidence], place: int, peers_score: Sequence[int], *, check: bool = True
) -> tuple[Evidence, NDArray[np.intp]]:
    """What all agents measured near rows of the agent at `place`, and who takes part, in one place for all routes.

    The agent itself has left each row out. If peers score its model, there is no honest prediction of its own for these
    rows: its model takes no part. `check`: whether opinions may be malformed.
    """
    evidence, K = stack_evidence(measured), len(measured)
    if check and (wrong := malformed(evidence).any(axis=0)).any():
        raise MalformedOpinions(np.flatnonzero(wrong).tolist())
    evidence = scored_by_peers(evidence, peers_score)
    members = np.array([k for k in range(K) if k != place or k not in peers_score])
    if len(members) < K:
        evidence = evidence.among(np.arange(evidence.errors.shape[0]), members)
    return evidence, members


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
