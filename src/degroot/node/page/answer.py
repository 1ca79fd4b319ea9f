"""Answers as the page keeps them: the points, what the collective says of them, and how it was asked."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from degroot.answers import MISSING, Consensus, Flag
from degroot.batch import output_names
from degroot.node.page.encoding import moment
from degroot.node.page.inquiries import Terms
from degroot.points import Array

WORKING, DONE, FAILED = "working", "done", "failed"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer with all that is needed to show it again."""

    id: str
    at: float  # seconds since 1970
    seconds: float
    source: str
    terms: Terms
    rule: str
    features: tuple[str, ...]
    ignored: tuple[str, ...]
    points: Array  # (M, d)
    consensus: Consensus

    @property
    def outputs(self) -> tuple[str, ...] | None:
        """What the outputs are called: classes or numbers; None: there is one."""
        return output_names(self.consensus.outputs, self.consensus.classes)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes whose probabilities the outputs are, if they are."""
        return (self.outputs or ()) if self.consensus.classes else ()

    def summary(self) -> dict[str, Any]:
        """What there is to say of all of it."""
        consensus, total = self.consensus, len(self.points)
        return entry(self.id, self.at, self.source, total, self.terms.way, DONE) | {
            "done": total, "total": total, "error": None, "guard": self.terms.guard, "coverage": self.terms.coverage,
            "rule": self.rule, "ignored": list(self.ignored), "features": list(self.features),
            "names": list(consensus.names), "outputs": consensus.outputs, "classes": list(self.classes),
            "seconds": round(self.seconds, 3), "rounds": consensus.rounds,
            "missing": [_told(flag) for flag in consensus.flags if flag.kind == MISSING],
            "flags": [_told(flag) for flag in consensus.flags if flag.kind != MISSING],
        }  # fmt: skip


def entry(id_: str, at: float, source: str, rows: int, way: str, status: str) -> dict[str, Any]:
    """The line of a question in a list of answers."""
    return {"id": id_, "at": moment(at), "source": source, "rows": rows, "way": way, "status": status}


def _told(flag: Flag) -> dict[str, Any]:
    points = len(np.unique(flag.points))
    return {"agent": flag.agent, "kind": flag.kind, "reason": flag.about, "points": points}
