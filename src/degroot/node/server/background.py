"""Background tasks: a failure of one is logged and reported at once, and not lost with the task."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


def start_background(
    name: str, work: Coroutine[Any, Any, None], log: Any, report: Callable[[str], None] | None = None
) -> asyncio.Task[None]:
    """Start a task that nobody waits for; `report` is called with the reason if it fails."""

    def note_end(task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        log.error("background task failed", task=name, exc_info=error)
        if report is not None:
            report(f"its background task {name!r} has failed: restart the node ({type(error).__name__}: {error})")

    task = asyncio.create_task(work, name=name)
    task.add_done_callback(note_end)
    return task
