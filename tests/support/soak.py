"""A soak: mixed questions to five nodes while one after the other is killed and started again.

One is killed only after the one before is back, however long that takes: with three of five away there is no quorum,
and a refusal would be right.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from support.consortium import PATIENCE, Consortium, made_rows

from degroot.exceptions import DeGrootError
from degroot.node.client import RemoteCollective

SIZES = (1, 1, 1, 10, 200, 1500)
TOLERANCE = 1e-9  # between a node's answer and the one in process, over the largest
WARM = 0.25  # share of the time after which memory is first looked at
LEAST = 3  # restarts: where nodes are slow to come back, it takes longer than it should


def resident(pid: int) -> float:
    """Megabytes that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20


@dataclass(frozen=True)
class Soaked:
    """What came of it."""

    questions: int
    restarts: int
    without: int  # answers that somebody was missing from
    refused: int
    wrong: int
    first: float  # megabytes that the asked node held after a quarter of the time
    last: float  # and in the end
    failures: tuple[str, ...]


def soak(folder: Path, seconds: float, every: float, evidence: str = "pooled") -> Soaked:
    """Ask and restart; what came of it. With evidence at home it is the first node's view that is asked for."""
    with Consortium(folder, 5, rows=list(made_rows(0, 5, n=400, d=4)), evidence=evidence) as nodes:
        nodes.start().ready()
        return Soak(nodes, seconds, every).run()


class Soak:
    """Questions, restarts and what was counted."""

    def __init__(self, nodes: Consortium, seconds: float, every: float) -> None:
        self.nodes, self.every = nodes, every
        self.begun = self.killed = time.monotonic()  # killed: when one was, last
        self.until, self.random = self.begun + seconds, np.random.default_rng(0)
        self.warm = self.begun + WARM * seconds
        self.same: dict[frozenset[str], object] = {}  # collectives in process, by who is missing
        self.asked = self.wrong = self.refused = self.without = self.restarts = 0
        self.first = 0.0
        self.failures: list[str] = []

    def run(self) -> Soaked:
        following, place = self.begun + self.every / 2, 0
        steady, others = self.nodes.names[0], self.nodes.names[1:]
        pooled = self.nodes.evidence == "pooled"
        ways = {
            way: self.nodes.connect(steady, caller=steady, way=way, tolerance=1e-12)
            for way in ("solve", "rounds")[: 1 + pooled]
        }
        while time.monotonic() < self.until or self.restarts < LEAST:
            if time.monotonic() > following and self._is_whole(ways["solve"]):
                following = time.monotonic() + self.every
                self._restart(others[place % len(others)])
                place += 1
            self._ask(ways["rounds" if pooled and self.random.random() < 0.2 else "solve"])
            if not self.first and time.monotonic() > self.warm:
                self.first = resident(self.nodes.processes[steady].pid)
        last = resident(self.nodes.processes[steady].pid)
        counted = self.asked, self.restarts, self.without, self.refused, self.wrong
        return Soaked(*counted, self.first, last, tuple(self.failures[:5]))

    def _is_whole(self, node: RemoteCollective) -> bool:
        """Whether the asked node sees everybody, also the one that was restarted last."""
        states = node.members
        whole = set(states.values()) == {"ready"}
        assert whole or time.monotonic() < self.killed + PATIENCE, states
        return whole

    def _restart(self, name: str) -> None:
        self.killed = time.monotonic()
        self.nodes.kill(name)
        self.nodes.start(name)
        self.restarts += 1

    def _ask(self, node: RemoteCollective) -> None:
        X = self.random.normal(size=(int(self.random.choice(SIZES)), 4))
        self.asked += 1
        try:
            answer = node.consult(X, ["value", "standard_error", "weights"])
        except DeGrootError as error:
            self.refused += 1
            self.failures.append(str(error))
            return
        missing = [(flag.agent, flag.points) for flag in answer.flags if flag.reason.startswith("missing")]
        self.without += bool(missing)
        absent = np.zeros((len(X), len(answer.names)), bool)
        for agent, points in missing:
            absent[points, answer.names.index(agent)] = True
        for pattern in np.unique(absent, axis=0):
            points = np.flatnonzero((absent == pattern).all(axis=1))
            self._compare(answer, X, points, frozenset(np.array(answer.names)[pattern]))

    def _compare(self, answer: object, X: np.ndarray, points: np.ndarray, missing: frozenset[str]) -> None:
        if missing not in self.same:
            self.same[missing] = self.nodes.collective(without=missing)
        expected = self.same[missing].consult(X[points], ["value", "standard_error"], asker=answer.asker)
        for name in ("value", "standard_error"):
            right = getattr(expected, name)
            if np.abs(getattr(answer, name)[points] - right).max() > TOLERANCE * max(1.0, np.abs(right).max()):
                self.wrong += 1
                self.failures.append(f"{name} is off without {sorted(missing)}")
                return
