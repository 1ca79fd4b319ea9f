"""Computing beside the event loop: what is quick is computed at once, all else in a few threads.

Models have threads of their own: one that takes its time, or is served elsewhere and does not answer, keeps others who
ask it waiting, and nobody else.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")

_workers = ThreadPoolExecutor(4, "degroot")
_models = ThreadPoolExecutor(8, "degroot-model")


async def run_in_thread(quick: bool, work: Callable[..., Result], *arguments: Any) -> Result:
    """What `work` gives, without keeping others waiting for long. It asks no model."""
    return work(*arguments) if quick else await _in(_workers, work, *arguments)


async def run_model_in_thread(quick: bool, work: Callable[..., Result], *arguments: Any) -> Result:
    """What `work`, which asks the node's own model, gives."""
    return work(*arguments) if quick else await _in(_models, work, *arguments)


async def _in(pool: ThreadPoolExecutor, work: Callable[..., Result], *arguments: Any) -> Result:
    return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)
