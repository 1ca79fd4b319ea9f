"""The state of pooling: what one agent does, knowing its own trust and what the others send, and nothing else."""

from collections.abc import Sequence

import numpy as np

from degroot.compute.compiled import Array
from degroot.guard.checks import Mask
from degroot.trust import inverse_error_weights

ROUNDING = 1e-14  # changes of weights that are none
RATIOS = 3  # rounds over which the slowest change counts


class PoolingState:
    r"""One agent's part in pooling at M points, with K members and Q outputs.

    Beliefs are (M, 1 + K, Q): with everybody, and without each member in turn. In every round the agent replaces its
    beliefs by the average of all, weighted by its trust, :math:`p_i \leftarrow \sum_j \tau_{ij} p_j`; without member d
    its trust in the others is :math:`\tau_{ij} / \sum_{l \ne d} \tau_{il}`. It also hands its weight on,
    :math:`w_j \leftarrow \sum_i w_i \tau_{ij}`: what reaches it in the end is its own weight in the consensus.

    Parameters
    ----------
    place : int
        Which member this agent is.
    errors : (M, K)
        Its errors of all members' models near the points.
    beliefs : (M, Q)
        Its own predictions.
    kept : (M, K)
        Who takes part.
    tolerance : float
        How far apart the beliefs may be in the end, over how far apart they were at first.
    """

    def __init__(self, place: int, errors: Array, beliefs: Array, kept: Mask, tolerance: float) -> None:
        (M, K), self.place, self.kept, self.tolerance = errors.shape, place, kept, tolerance
        self._trust = _trust(errors, kept)
        self._runs = _without_each(self._trust)
        self._counts = _counting(kept)
        self.beliefs: Array = np.repeat(beliefs[:, None], 1 + K, axis=1)
        self.weight: Array = kept[:, place] / kept.sum(axis=1)
        self.base: Array | None = None  # (M, Q) the first member's first beliefs, from which all are told
        self._scale = np.zeros((M, 1, beliefs.shape[1]))
        self._change, self._ratios = np.full(M, np.inf), [np.ones(M)] * RATIOS
        self.settled = np.zeros(M, bool)
        self.heard: Array = np.empty((K, *self.beliefs.shape))  # as last heard

    def share(self, member: int) -> Array:
        """How much of its weight goes to a member, (M,)."""
        return self.weight * self._trust[:, member]

    def listen(self, beliefs: Sequence[Array], shares: Sequence[Array]) -> None:
        """Take in a round, what everybody believes and what each hands on to this agent, and pool."""
        self.heard = np.stack(beliefs)
        if self.base is None:
            self.base = self.heard[0, :, 0].copy()
            self.heard -= self.base[None, :, None]
            self._scale = np.where(self._counts[:, :, :1], np.abs(self.heard[:, :, :1]), 0.0).max(axis=0)
        self._pool(np.sum(shares, axis=0))

    @property
    def apart(self) -> Array:
        """How far apart the members' beliefs were when last heard, (M, 1 + K, Q)."""
        return _range(self.heard, self._counts)

    def agreed(self) -> tuple[Array, Array]:
        """Means of the beliefs last heard, less the base: (M, Q) with everybody, (M, K, Q) without each member."""
        mean = np.where(self._counts, self.heard, 0.0).sum(axis=0) / np.maximum(self._counts.sum(axis=0), 1)
        return mean[:, 0], mean[:, 1:]

    def stray(self, following: Sequence[Array]) -> Mask:
        """Which members' next beliefs, (K,), are not averages of those last heard."""
        mask, slack = self._counts, 1e-9 * self._scale
        low = np.where(mask, self.heard, np.inf).min(axis=0) - slack
        high = np.where(mask, self.heard, -np.inf).max(axis=0) + slack
        empty = ~mask.any(axis=0)
        outside = [(((each < low) | (each > high)) & ~empty & mask[k]).any() for k, each in enumerate(following)]
        return np.array(outside)

    def _pool(self, weight: Array) -> None:
        change = np.abs(weight - self.weight)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.nan_to_num(change / self._change, nan=1.0, posinf=1.0)
            self._ratios = [*self._ratios[1:], ratio]
            slowest = np.max(self._ratios, axis=0)
            to_come = np.where(slowest < 1.0, change * slowest / (1.0 - slowest), np.inf)
        weighed = (to_come <= self.tolerance * weight) | (change <= ROUNDING * weight)
        together = (self.apart <= self.tolerance * self._scale).all(axis=(1, 2))
        self.settled = weighed & together
        self._change, self.weight = change, weight
        self.beliefs = np.einsum("mrk,kmrq->mrq", self._runs, self.heard)


def _trust(errors: Array, kept: Mask) -> Array:
    """Trust (M, K) in those who are kept, and none in others."""
    trust = np.zeros_like(errors)
    for pattern in np.unique(kept, axis=0):
        points, members = np.flatnonzero((kept == pattern).all(axis=1)), np.flatnonzero(pattern)
        place = np.ix_(points, members)
        trust[place] = inverse_error_weights(errors[place])
    return trust


def _without_each(trust: Array) -> Array:
    """Trust with everybody, and without each member in turn: (M, 1 + K, K)."""
    K = trust.shape[1]
    runs = np.repeat(trust[:, None], 1 + K, axis=1)
    runs[:, np.arange(1, K + 1), np.arange(K)] = 0.0
    total = runs.sum(axis=-1, keepdims=True)
    shared: Array = np.divide(runs, total, out=np.zeros_like(runs), where=total > 0.0)
    return shared


def _counting(kept: Mask) -> Mask:
    """Who counts in which run: (K, M, 1 + K, 1)."""
    K = kept.shape[1]
    mask = np.repeat(kept.T[:, :, None], 1 + K, axis=2)
    mask[np.arange(K), :, np.arange(1, K + 1)] = False
    return mask[..., None]


def _range(beliefs: Array, mask: Mask) -> Array:
    low, high = np.where(mask, beliefs, np.inf).min(axis=0), np.where(mask, beliefs, -np.inf).max(axis=0)
    return np.where(high >= low, high - low, 0.0)
