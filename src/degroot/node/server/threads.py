"""Computing beside the event loop, in a few threads, so that nobody else has to wait for what takes its time.

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


async def run_in_thread(work: Callable[..., Result], *arguments: Any) -> Result:
    """What `work` gives. It asks no model."""
    return await asyncio.get_running_loop().run_in_executor(_workers, work, *arguments)


async def run_model_in_thread(work: Callable[..., Result], *arguments: Any) -> Result:
    """What `work`, which asks the node's own model, gives."""
    return await asyncio.get_running_loop().run_in_executor(_models, work, *arguments)
