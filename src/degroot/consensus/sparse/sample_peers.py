"""Sampled peers: whom each agent scores, where it does not score everybody."""

import numpy as np
from numpy.typing import NDArray

from degroot.compute.kernel import compiled_for
from degroot.exceptions import InvalidInput

PeerIndices = NDArray[np.intp]

LEAST = 3  # its own model and two more: with fewer, one agent who leaves would part the others
EXCHANGES = 8  # for each place, of which most succeed
STEPS = 1 << 28  # in all exchanges together: many acquaintances need fewer
DRAWS = 20


def sample_peers(K: int, degree: int, seed: int = 0) -> PeerIndices:
    """The models that each of K agents scores, (K, degree), in ascending order: its own and others at random.

    Every agent scores as many models as agents score its own. Trust leads from everybody to everybody, also when any
    one agent is left out.

    Examples
    --------
    >>> peers = sample_peers(1000, 8)
    >>> np.unique(np.bincount(peers.ravel()))
    array([8])
    """
    check(K, degree)
    if degree == K:
        return np.tile(np.arange(K), (K, 1))
    generator = np.random.default_rng(seed)
    ring = generator.permutation(K)
    offsets = np.append([0, 1], 2 + generator.permutation(K - 2)[: degree - 2])
    places = _exchanged((np.arange(K)[:, None] + offsets) % K, generator)
    peers = np.empty_like(places)
    peers[ring] = ring[places]
    return np.sort(peers, axis=1)


def check(K: int, degree: int) -> None:
    """Refuse a degree that K agents cannot have."""
    if not min(LEAST, K) <= degree <= K:
        least = f"from {LEAST} to {K}" if K > LEAST else str(K)
        raise InvalidInput(f"`degree` must be {least} for {K} agents, their own models among them; got {degree}.")


def _exchanged(regular: PeerIndices, generator: np.random.Generator) -> PeerIndices:
    """The same numbers of acquaintances, with others: at random, which lets trust spread in the fewest rounds."""
    K, degree = regular.shape
    count = min(EXCHANGES * K * (degree - 2), STEPS // degree)
    for _ in range(DRAWS):
        places = regular.copy()
        _exchange(places, generator.integers(K, size=(count, 2)), generator.integers(2, degree, size=(count, 2)))
        if _holds_together(places):
            return places
    return regular  # which holds together always


@compiled_for("i8[2] i8[2] i8[2]")
def _exchange(places: PeerIndices, agents: PeerIndices, columns: PeerIndices) -> None:
    """Two agents exchange an acquaintance, if it is new to both. The first two columns stay: itself, and the next."""
    for n in range(len(agents)):
        a, b = agents[n, 0], agents[n, 1]
        x, y = places[a, columns[n, 0]], places[b, columns[n, 1]]
        if not ((places[a] == y).any() or (places[b] == x).any()):
            places[a, columns[n, 0]], places[b, columns[n, 1]] = y, x


@compiled_for("i8[2]")
def _holds_together(places: PeerIndices) -> bool:
    """Whether trust leads from everybody to everybody on a ring from which any one agent is left out.

    What is left of the ring is a path along which trust leads. It has to lead back to the start: from the last agent
    to ever earlier ones.
    """
    K = len(places)
    for gone in range(K):
        reached, at = K - 2, K - 2  # on the path, which starts after the one who is gone
        while at >= reached and reached > 0:
            for place in places[(gone + 1 + at) % K]:
                step = (place - gone - 1) % K
                if step < K - 1:
                    reached = min(reached, step)
            at -= 1
        if reached > 0:
            return False
    return True
