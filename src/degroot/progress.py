"""Progress: a bar for what takes long, on a terminal only."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 1.0  # seconds before a bar appears


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[], None]]:
    """Gives a function to call after each of `total` steps; shows how far they are if it takes more than a second."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False)
    task, begun = bar.add_task(label, total=total), time.monotonic()

    def advance() -> None:
        bar.advance(task)
        if time.monotonic() - begun > PATIENCE and not bar.finished:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()
