"""Approximation: what is lost where agents look for the nearest of their rows only approximately."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack

from degroot.agents import Agent
from degroot.evidence import Peers, Reach, scored_by_peers
from degroot.judges import Judge, gather
from degroot.points import Array
from degroot.rehearsal import sampled
from degroot.rules import MOMENTS, Option
from degroot.tables import take

POINTS = 200  # asked at most


@dataclass(frozen=True, slots=True)
class Approximation:
    """What an approximate search finds, and how much it changes the weights, on some points."""

    points: int  # how many were asked
    recall: Array  # (K,) for each agent, the share of the nearest rows that its search finds
    mean_change: float  # of a weight, against the exact search
    largest_change: float

    def __str__(self) -> str:
        return (
            f"recall {self.recall.min():.3f} to {self.recall.max():.3f}, weights change by {self.mean_change:.2g} "
            f"on average and {self.largest_change:.2g} at most ({self.points} points)"
        )


def own_rows(judges: Sequence[Judge], agents: Sequence[Agent]) -> list[Any]:
    """Some rows of the agents, as points, `located` by each judge."""
    asked = [agents[k] for k in np.unique(np.linspace(0, len(agents) - 1, min(len(agents), POINTS)).astype(int))]
    rows = [take(agent.X, sampled(agent, max(1, POINTS // len(asked)))) for agent in asked]
    return [_stacked([judge.locate(some) for some in rows]) for judge in judges]


def _stacked(parts: list[Any]) -> Any:
    return vstack(parts, format="csr") if issparse(parts[0]) else np.vstack(parts)


def measure(
    judges: Sequence[Judge],
    located: Sequence[Any],
    option: Option,
    *,
    aside: Sequence[int] = (),
    peers: Peers | None = None,
) -> Approximation:
    """Ask the judges about points, `located` by each of them, by their own search and exactly.

    `aside` are the places of agents whose models only others score; `peers` are the models that each scores. Of more
    than 200 points some are asked.
    """
    M = located[0].shape[0]
    asked = np.unique(np.linspace(0, M - 1, min(M, POINTS)).astype(int))
    points = [each[asked] for each in located]
    for judge in judges:
        judge.ready(option.reach)
    weights, exact = (
        _weights(those, points, option, aside, peers)
        for those in (judges, [_exact(judge, option.reach) for judge in judges])
    )
    change = np.abs(weights - exact)
    recall = [judge.near[option.reach].recall(part) for judge, part in zip(judges, points, strict=True)]
    return Approximation(len(asked), np.array(recall), float(change.mean()), float(change.max()))


def _exact(judge: Judge, reach: Reach) -> Judge:
    """The same judge with an exact search."""
    return replace(judge, near={reach: judge.near[reach].exactly()}, search="exact")


def _weights(
    judges: Sequence[Judge], points: Sequence[Any], option: Option, aside: Sequence[int], peers: Peers | None
) -> Array:
    moments = option.made.uses == MOMENTS
    evidence = gather(judges, points, option.reach, moments=moments, spread=bool(aside), peers=peers)
    return option.made.weights(scored_by_peers(evidence, aside))
