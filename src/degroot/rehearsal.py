"""Rehearsals: an agent puts its own rows to the collective, each left out of its own neighbourhood.

What comes out stays with the agent: only sums or quantiles of it are pooled.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from degroot.agents import Agent
from degroot.evidence import Evidence, Reach, scored_by_peers
from degroot.exceptions import InvalidInput
from degroot.judges import Judge, gather
from degroot.members import aside
from degroot.points import Array, block_size, in_blocks
from degroot.tables import take

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
    judges: Sequence[Judge],
    place: int,
    reach: Reach,
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
    residuals = judges[place].residuals[rows].transpose(0, 2, 1)
    located = [_located(judge, X, agents[place]) for judge in judges]
    alone = aside(agents)
    members = np.array([k for k in range(K) if k != place or k not in alone])

    def block(start: int, stop: int) -> None:
        points = [each[start:stop] for each in located]
        evidence = gather(judges, points, reach, moments=moments, spread=True, own=(place, rows[start:stop]))
        evidence = scored_by_peers(evidence, alone)
        if len(members) < K:
            evidence = evidence.among(np.arange(stop - start), members)
        heard(slice(start, stop), evidence, residuals[start:stop, members])

    held = K * (K * (K + 1) // 2 if moments else K)
    in_blocks(block, len(rows), block_size(len(rows), held, n_jobs), n_jobs)


def _located(judge: Judge, X: Any, owner: Agent) -> Any:
    try:
        return judge.locate(X)
    except InvalidInput as error:
        raise judge.agent.error(f"it must be able to locate the rows of {owner.name!r}; {error}") from error
