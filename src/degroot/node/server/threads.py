"""Computing beside the event loop, in a few threads, so that nobody else has to wait for what takes its time.

Models have threads of their own: one that takes its time, or is served elsewhere and does not answer, keeps others who
ask it waiting, and nobody else.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from degroot.compute.compiled import on_one_thread, threads

SPLIT_SECONDS = 0.02  # of computing: a batch that takes less is not worth the threads that would share it
FIXED_SECONDS = 0.001  # of computing that do not depend on the number of rows

Result = TypeVar("Result")

_workers = ThreadPoolExecutor(4, "degroot")
_models = ThreadPoolExecutor(8, "degroot-model")


async def run_in_thread(work: Callable[..., Result], *arguments: Any) -> Result:
    """What `work` gives. It asks no model."""
    return await asyncio.get_running_loop().run_in_executor(_workers, work, *arguments)


async def run_model_in_thread(work: Callable[..., Result], *arguments: Any) -> Result:
    """What `work`, which asks the node's own model, gives."""
    return await asyncio.get_running_loop().run_in_executor(_models, work, *arguments)


class BatchWork:
    """Computes batches of one kind beside the event loop, each on one thread unless that takes long.

    Threads to share a batch are started for it, and wait for each other. Where many batches are at work, as in a
    stream, that costs more than it saves: short ones are better computed side by side. How long a row takes is known
    from the batches before; the first is computed on one thread.
    """

    def __init__(self, run: Callable[..., Any] = run_in_thread) -> None:
        self._run = run
        self.seconds_per_row = 0.0  # of computing, in the last batch that was computed on one thread

    async def compute(self, rows: int, work: Callable[[], Result]) -> Result:
        """What `work` gives, which is about so many rows."""
        is_long = rows * self.seconds_per_row > SPLIT_SECONDS
        result: Result = await self._run(self._compute_shared if is_long else self._compute_alone, rows, work)
        return result

    def _compute_alone(self, rows: int, work: Callable[[], Result]) -> Result:
        begun = time.thread_time()
        with on_one_thread():
            result = work()
        self.seconds_per_row = max(0.0, time.thread_time() - begun - FIXED_SECONDS) / max(rows, 1)
        return result

    def _compute_shared(self, rows: int, work: Callable[[], Result]) -> Result:
        begun = time.perf_counter()
        result = work()
        most = (time.perf_counter() - begun) * threads() / max(rows, 1)  # on one thread it would take no longer
        self.seconds_per_row = min(self.seconds_per_row, most)
        return result
