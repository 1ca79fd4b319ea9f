"""Progress: how far long work is and how long it will still take, on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 1.0  # seconds before a bar appears
INTERVAL = 30.0  # seconds between lines where there is no terminal


@contextmanager
def progress(label: str, total: int, lines: bool = False) -> Iterator[Callable[[], None]]:
    """Gives a function to call after each of `total` steps; shows how far they are if it takes more than a second.

    Where standard error is not a terminal there is no bar but, with `lines`, a line every half minute.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield _lines(label, total) if lines and sys.stderr is not None else lambda: None
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


def _lines(label: str, total: int) -> Callable[[], None]:
    begun = said = time.monotonic()
    done = 0

    def advance() -> None:
        nonlocal done, said
        done, now = done + 1, time.monotonic()
        if now - said > INTERVAL:
            said, left = now, (now - begun) / done * (total - done)
            sys.stderr.write(f"{label}: {done} of {total}, about {_duration(left)} left\n")
            sys.stderr.flush()

    return advance


def _duration(seconds: float) -> str:
    return f"{round(seconds)} s" if seconds < 90 else f"{round(seconds / 60)} min"
