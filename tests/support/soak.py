"""A soak: mixed questions to five nodes while one after the other is killed and started again.

One is killed only after the one before is back, however long that takes: with three of five away there is no quorum,
and a refusal would be right. `soak_operations` does all that an operator does in years.
"""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from support.authority import renew
from support.coast import Coast
from support.consortium import PATIENCE, Consortium, made_rows
from support.drills import missing, until
from support.under_load import read_log

from degroot.exceptions import DeGrootError
from degroot.node.client import RemoteCollective
from degroot.node.tls.authority import issue

SIZES = (1, 1, 1, 10, 200, 1500)
TOLERANCE = 1e-9  # between a node's answer and the one in process, over the largest
WARM = 0.25  # share of the time after which memory is first looked at
LATE_SECONDS = 30.0  # until the last node has a roster that the asked one has
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
        allow_many_rows(nodes)
        nodes.start().ready()
        return Soak(nodes, seconds, every).run()


def soak_operations(folder: Path, seconds: float, every: float) -> Soaked:
    """Ask one node for its view while others are restarted, renewed, removed, added, revoked and replaced."""
    with Coast(folder, 5, rows=list(made_rows(0, 5, n=400, d=4)), evidence="own") as nodes:
        nodes.sign(add=[(name, f"127.0.0.1:{nodes.ports[name]}") for name in nodes.names])
        allow_many_rows(nodes)
        nodes.start().ready()
        return OperatedSoak(nodes, seconds, every).run()


def allow_many_rows(nodes: Consortium) -> None:
    """A million rows, which a peer may ask about in a day, are asked in minutes."""
    for name in nodes.names:
        path = nodes.folder / name / "node.toml"
        path.write_text(path.read_text().replace("[[peers]]\n", f"[[peers]]\nrows_per_day = {10**9}\n"))


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
        self.operations = (self._restart,)  # of which one is done at a time, to one node after the other
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
                turn, step = divmod(place, len(self.operations))
                self.operations[step](others[turn % len(others)])
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
        away = [(flag.agent, flag.points) for flag in answer.flags if flag.reason.startswith("missing")]
        self.without += bool(away)
        absent, removed = np.zeros((len(X), len(answer.names)), bool), set(self.nodes.names) - set(answer.names)
        for agent, points in away:
            absent[points, answer.names.index(agent)] = True
        for pattern in np.unique(absent, axis=0):
            points = np.flatnonzero((absent == pattern).all(axis=1))
            self._compare(answer, X, points, frozenset(removed | set(np.array(answer.names)[pattern])))

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


@dataclass
class Out:
    """A time in which a member was removed or revoked, and is rightly refused, and lets nobody in itself."""

    name: str
    begin: datetime
    end: datetime | None = None  # when the asked node saw everybody again; None: it lasts

    def explains(self, line: dict[str, str]) -> bool:
        """Whether a refusal in a log belongs to it. Other nodes may hear of the member's return a little later."""
        at, late = datetime.fromisoformat(line["timestamp"]), timedelta(seconds=LATE_SECONDS)
        concerned = self.name in (line["caller"], line["logger"])
        return concerned and self.begin <= at and (self.end is None or at <= self.end + late)


class OperatedSoak(Soak):
    """The same with everything that is done to nodes over the years; refusals in their logs have to be explained."""

    def __init__(self, nodes: Coast, seconds: float, every: float) -> None:
        super().__init__(nodes, seconds, every)
        self.operations = (self._restart, self._renew, self._remove, self._add, self._replace)
        self.removed: set[str] = set()
        self.out: list[Out] = []  # who was removed or revoked, and when

    def run(self) -> Soaked:
        result = super().run()
        lines = [line for name in self.nodes.names for line in read_log(self.nodes, name, "refused")]
        unexplained = [str(line) for line in lines if not any(each.explains(line) for each in self.out)]
        return replace(result, refused=result.refused + len(unexplained), failures=(*result.failures, *unexplained[:5]))

    def _is_whole(self, node: RemoteCollective) -> bool:
        wanted = set(self.nodes.names) - self.removed
        whole = super()._is_whole(node) and set(node.members) == wanted
        if whole:  # nobody is out but who was removed
            for each in self.out:
                each.end = each.end or (None if each.name in self.removed else datetime.now(UTC))
        return whole

    def _renew(self, name: str) -> None:
        for each in (name, self.nodes.names[0]):
            renew(self.nodes.keys, each)

    def _remove(self, name: str) -> None:
        self.removed.add(name)
        self.out.append(Out(name, datetime.now(UTC)))
        self.nodes.sign(remove=[name])

    def _add(self, name: str) -> None:
        self.nodes.sign(add=[(name, f"127.0.0.1:{self.nodes.ports[name]}")])
        self.removed.remove(name)

    def _replace(self, name: str) -> None:
        """Revoke the certificate of a member, which is then missing for that reason, and give it another."""
        self.out.append(Out(name, datetime.now(UTC)))
        self.nodes.sign(revoke=[name])
        steady, X = self.nodes.names[0], np.zeros((1, 4))
        with self.nodes.connect(steady, caller=steady) as node:  # others are not told why
            until(lambda: "revoked" in missing(node.consult(X)).get(name, ""), lambda: str(node.members))
        self.killed = time.monotonic()
        issue(self.nodes.keys, name, 90, ["127.0.0.1", "localhost"], force=True)
