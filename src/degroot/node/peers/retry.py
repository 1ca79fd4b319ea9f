"""Retries: what is over a peer's limit now is asked again a little later."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from grpc import StatusCode

from degroot.node.errors import PeerRefused

DAILY = "rows_per_day"  # the limit that lasts
PAUSE, TRIES = 0.2, 50  # seconds before it is tried again, and how often

Reply = TypeVar("Reply")


async def retry_when_limited(ask: Callable[[], Awaitable[Reply]]) -> Reply:
    """What `ask` gives; it is tried again as long as the peer refuses for a limit of its own."""
    for _ in range(TRIES - 1):
        try:
            return await ask()
        except PeerRefused as error:
            if not _over_a_limit(error):
                raise
        await asyncio.sleep(PAUSE)
    return await ask()


def _over_a_limit(error: PeerRefused) -> bool:
    """Whether a limit was exceeded that allows more in a moment; a day's budget does not."""
    call: Any = error.__cause__
    return call is not None and call.code() is StatusCode.RESOURCE_EXHAUSTED and DAILY not in error.reason
