"""Computing beside the event loop: what is quick is computed at once, all else in a thread of its own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")

_workers = ThreadPoolExecutor(4, "degroot")


async def computed(quick: bool, work: Callable[..., Result], *arguments: Any) -> Result:
    """What `work` gives, without keeping others waiting for long."""
    if quick:
        return work(*arguments)
    return await asyncio.get_running_loop().run_in_executor(_workers, work, *arguments)
