"""The cost model: what a question about one point costs, in seconds and bytes, from what scale.py measures."""

from dataclasses import dataclass

import numpy as np

from degroot.node.protocol.codec import tensor
from degroot.node.protocol.v3 import collective_pb2 as wire

LARGE = 1 << 26  # bytes of float32 rows beyond which they are searched where they are
NAME, VERSION = "organisation-0001", "0123456789abcdef"  # of members and their models, as long as they usually are


@dataclass(frozen=True)
class Constants:
    """Seconds of one core. K organisations, n rows and d features each, degree q."""

    begin: float  # per point and organisation, however few its rows
    search: float  # per row and feature, one point alone, where rows are kept in tiles
    search_large: float  # per row and feature, one point alone, where rows stay where they are
    search_many: float  # per row and feature, a point among a thousand
    solve: float  # per K^3
    jackknife: float  # per K^3
    sampled_solve: float  # per K q
    sampled_jackknife: float  # per K^2 q
    message: float  # per message to a peer and its reply

    def near(self, n: int, d: int) -> float:
        """The search for one point's neighbours."""
        return self.begin + (self.search if 4 * n * d <= LARGE else self.search_large) * n * d


@dataclass(frozen=True)
class Network:
    name: str
    round_trip: float  # seconds
    bandwidth: float  # bytes a second, of each organisation


LOCAL = Network("local network", 0.5e-3, 125e6)
CONTINENTS = Network("across continents", 150e-3, 12.5e6)
NETWORKS = (LOCAL, CONTINENTS)


def question_bytes(d: int, M: int = 1) -> int:
    return wire.Question(protocol=1, id=1, points=tensor(np.zeros((M, d)))).ByteSize()


def reply_bytes(models: int, M: int = 1, name: str = NAME) -> int:
    scored = [wire.Model(name=name, version=VERSION)] * models
    reply = wire.OpinionReply(id=1, model_version=VERSION, beliefs=tensor(np.zeros((M, 1))), scored=scored)
    reply.errors.CopyFrom(tensor(np.zeros((M, models))))
    return reply.ByteSize()


def beliefs_bytes(K: int, M: int = 1) -> int:
    one = tensor(np.zeros(M))
    beliefs = wire.Beliefs(round=1, beliefs=tensor(np.zeros((M, 1 + K, 1))), share=one, settled=one)
    return wire.PoolMessage(beliefs=beliefs).ByteSize()


@dataclass(frozen=True)
class Cost:
    """Of one question, but for the search, which all organisations do at the same time."""

    trips: float  # seconds on the way
    transfer: float  # seconds for bytes through one organisation's line
    messages: float  # seconds to handle messages, at one organisation
    weights: float
    bars: float  # seconds for error bars beyond that
    busiest: float  # bytes through the line of the organisation that has most of them
    total: float  # bytes in all

    @property
    def seconds(self) -> float:
        """Without the error bars."""
        return self.trips + self.transfer + self.messages + self.weights


def solving(constants: Constants, network: Network, K: int, d: int) -> Cost:
    """The asked node gets every organisation's errors of all K models."""
    return _asked_once(constants, network, K, d, K, constants.solve * K**3, constants.jackknife * K**3)


def sampled(constants: Constants, network: Network, K: int, d: int, q: int) -> Cost:
    """The asked node gets every organisation's errors of q models."""
    q = min(q, K)
    weights, bars = constants.sampled_solve * K * q, constants.sampled_jackknife * K**2 * q
    return _asked_once(constants, network, K, d, q, weights, bars)


def _asked_once(c: Constants, network: Network, K: int, d: int, models: int, weights: float, bars: float) -> Cost:
    out, back = (K - 1) * question_bytes(d), (K - 1) * reply_bytes(models)
    transfer = (out + back) / network.bandwidth
    return Cost(network.round_trip, transfer, (K - 1) * c.message, weights, bars, out + back, out + back)


def rounds(constants: Constants, network: Network, K: int, d: int, number: float) -> Cost:
    """In each of `number` rounds everybody tells all others; error bars are in the same messages."""
    begin, each = (K - 1) * question_bytes(d), (K - 1) * beliefs_bytes(K)
    through = 2 * number * each  # out of the line and into it
    trips = network.round_trip * (1 + number / 2)
    transfer = (begin + number * each) / network.bandwidth  # lines carry both directions at once
    total = begin + number * K * each
    return Cost(trips, transfer, number * (K - 1) * constants.message, 0.0, 0.0, begin + through, total)
