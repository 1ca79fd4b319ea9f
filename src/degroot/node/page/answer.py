"""Answers as the page keeps them: the points, what the collective says of them, and how it was asked."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from degroot.answers import MISSING, Consensus
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
        return {
            "id": self.id, "status": DONE, "done": total, "total": total, "error": None, "at": moment(self.at),
            "way": self.terms.way, "guard": self.terms.guard, "coverage": self.terms.coverage, "rule": self.rule,
            "source": self.source, "ignored": list(self.ignored), "features": list(self.features),
            "names": list(consensus.names), "outputs": consensus.outputs, "classes": list(self.classes),
            "rows": total, "seconds": round(self.seconds, 3), "rounds": consensus.rounds,
            "missing": list(_missing(consensus)), "flags": list(_flags(consensus)),
        }  # fmt: skip

    def entry(self) -> dict[str, Any]:
        """Its line in a list of answers."""
        return {
            "id": self.id, "at": moment(self.at), "source": self.source, "rows": len(self.points),
            "way": self.terms.way, "status": DONE,
        }  # fmt: skip


def _missing(consensus: Consensus) -> Iterable[dict[str, Any]]:
    for flag in consensus.flags:
        if flag.kind == MISSING:
            yield {"agent": flag.agent, "reason": flag.about, "points": len(np.unique(flag.points))}


def _flags(consensus: Consensus) -> Iterable[dict[str, Any]]:
    for flag in consensus.flags:
        if flag.kind != MISSING:
            points = len(np.unique(flag.points))
            yield {"agent": flag.agent, "kind": flag.kind, "reason": flag.about, "points": points}
