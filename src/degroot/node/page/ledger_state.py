"""The state of the ledger: whether it is whole, as it was last verified. It is verified when somebody wants it to be.

A ledger can hold a million records, which takes many seconds: one verification runs at a time, and its result is kept.
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from degroot.exceptions import DeGrootError
from degroot.node.page.encoding import moment
from degroot.node.records.export import read_ledger
from degroot.node.records.verification import Verification, verify_together
from degroot.node.server.threads import run_in_thread
from degroot.node.tls.signing import make_checker


class LedgerState:
    """What the last verification found. `ca`: of the certificates that have signed; None: nobody checks signatures."""

    def __init__(
        self, ledger: Path, name: str, ca: Path | None, log: Any, clock: Callable[[], float] = time.time
    ) -> None:
        self._ledger, self._name, self._ca, self._log, self._clock = ledger, name, ca, log, clock
        self._task: asyncio.Task[None] | None = None
        self._found: Verification | None = None
        self._at: float | None = None  # when it was found, or could not be
        self._error: str | None = None

    @property
    def is_working(self) -> bool:
        """Whether a verification runs."""
        return self._task is not None and not self._task.done()

    def begin(self) -> None:
        """Verify the ledger, unless that is being done."""
        if not self.is_working:
            self._task = asyncio.create_task(self._work())

    def describe(self) -> dict[str, Any]:
        """The last result, ready to be encoded."""
        found = self._found
        return {
            "working": self.is_working, "at": moment(self._at), "error": self._error,
            "checks_signatures": self._ca is not None, "result": None if found is None else {
                "whole": found.is_whole, "findings": list(found.findings), "disputes": list(found.disputes),
                "records": found.records,
                "first": moment(found.first), "last": moment(found.last), "receipts": found.receipts,
                "confirmed": found.confirmed, "unconfirmed": found.unconfirmed, "signed": found.is_signed,
            },
        }  # fmt: skip

    async def close(self) -> None:
        """Wait for nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        found, error = None, None
        try:
            found = await run_in_thread(self._verify)
        except DeGrootError as complaint:
            error = str(complaint)
        except Exception as mistake:  # a mistake of ours: the node goes on
            error = f"The page has failed ({type(mistake).__name__}); the node's log says why."
            self._log.exception("the ledger could not be verified")
        self._found, self._error, self._at = found, error, self._clock()

    def _verify(self) -> Verification:
        checker = None if self._ca is None else make_checker(self._ca, self._ledger.parent)
        with read_ledger(self._ledger, self._name) as content:
            return verify_together([content], checker)[0]
