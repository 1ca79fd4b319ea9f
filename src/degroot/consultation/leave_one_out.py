"""Rehearsals: an agent puts its own rows to the collective, each left out of its own neighbourhood.

What comes out stays with the agent: only sums or quantiles of it are pooled.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from degroot.agents.agent import Agent, Scorer
from degroot.compute.compiled import Array, block_size, in_blocks
from degroot.compute.tables import take
from degroot.consultation.opinion import gather
from degroot.consultation.roster import scored_by_peers_indices
from degroot.exceptions import InvalidInput
from degroot.rules.evidence import Evidence, NeighbourhoodSpec, scored_by_peers

ROWS = 2000  # of each agent, at most: a sample of them settles what they are asked for
SEED = 0

Heard: TypeAlias = Callable[[slice, Evidence, Array], None]  # points, what was found, residuals (m, K, Q)


def sampled(agent: Agent, most: int = ROWS) -> NDArray[np.intp]:
    """The numbers of the rows that an agent rehearses with."""
    if agent.n_rows <= most:
        return np.arange(agent.n_rows)
    chosen: NDArray[np.intp] = np.random.default_rng(SEED).choice(agent.n_rows, most, replace=False)
    return chosen


def rehearse(
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
    rows = sampled(agents[place], most)
    X, K = take(agents[place].X, rows), len(agents)
    residuals = scorers[place].residuals[rows].transpose(0, 2, 1)
    transformed = [_transform(scorer, X, agents[place]) for scorer in scorers]
    alone = scored_by_peers_indices(agents)
    members = np.array([k for k in range(K) if k != place or k not in alone])

    def block(start: int, stop: int) -> None:
        points = [each[start:stop] for each in transformed]
        evidence = gather(scorers, points, reach, moments=moments, spread=True, own=(place, rows[start:stop]))
        evidence = scored_by_peers(evidence, alone)
        if len(members) < K:
            evidence = evidence.among(np.arange(stop - start), members)
        heard(slice(start, stop), evidence, residuals[start:stop, members])

    held = K * (K * (K + 1) // 2 if moments else K)
    in_blocks(block, len(rows), block_size(len(rows), held, n_jobs), n_jobs)


def _transform(scorer: Scorer, X: Any, owner: Agent) -> Any:
    try:
        return scorer.transform(X)
    except InvalidInput as error:
        raise scorer.agent.error(f"it must be able to locate the rows of {owner.name!r}; {error}") from error


PARTS = 10  # of an agent's rows, of which it tells the sums


def sums_over_parts(values: Array) -> tuple[Array, NDArray[np.intp]]:
    """Sums of `values` (n, ...) over at most ten consecutive parts of the rows, (parts, ...), and the parts' sizes.

    Examples
    --------
    >>> sums_over_parts(np.arange(12.0))
    (array([ 1.,  5.,  4.,  5.,  6.,  7.,  8.,  9., 10., 11.]), array([2, 2, 1, 1, 1, 1, 1, 1, 1, 1]))
    """
    parts = np.array_split(values, min(PARTS, len(values)))
    return np.array([part.sum(axis=0) for part in parts]), np.array([len(part) for part in parts])


def chance(sums: Array) -> float:
    r"""The standard error of the total of B sums over parts, :math:`\sqrt{B}\, s` with s their standard deviation.

    NaN for a single part: it says nothing of chance.

    Examples
    --------
    >>> chance(np.array([1.0, 1.0, 1.0, 5.0]))
    4.0
    """
    return float(np.sqrt(len(sums) * sums.var(ddof=1))) if len(sums) > 1 else np.nan
