"""Work: a question that came through the page and is not answered yet, or could not be."""

import time
from dataclasses import dataclass
from typing import Any

from degroot.node.page.answer import FAILED, WORKING, entry
from degroot.node.page.inquiries import Inquiry


@dataclass(slots=True)
class Work:
    """A question that is being answered, or could not be."""

    id: str
    at: float  # seconds since 1970
    inquiry: Inquiry
    done: int = 0  # rows
    error: str | None = None
    ended: float | None = None  # when; None: it is still at work

    @property
    def status(self) -> str:
        """How it stands."""
        return WORKING if self.error is None else FAILED

    def summary(self) -> dict[str, Any]:
        """What there is to say of it."""
        terms, total = self.inquiry.terms, len(self.inquiry.points)
        return self.entry() | {
            "done": self.done, "total": total, "error": self.error, "guard": terms.guard, "coverage": terms.coverage,
            "ignored": list(self.inquiry.ignored), "seconds": round((self.ended or time.time()) - self.at, 3),
            "rounds": None, "missing": [], "flags": [],
        }  # fmt: skip

    def entry(self) -> dict[str, Any]:
        """Its line in a list of answers."""
        inquiry = self.inquiry
        return entry(self.id, self.at, inquiry.source, len(inquiry.points), inquiry.terms.way, self.status)
