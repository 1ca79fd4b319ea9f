"""Progress: how far long work is and how long it will still take, on standard error."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

PATIENCE = 1.0  # seconds before a bar appears
INTERVAL = 30.0  # seconds between lines where there is no terminal

_shown = threading.Lock()  # there is one bar at a time: work inside other work shows none


class Advance(Protocol):
    """Tells that work is done."""

    def __call__(self, steps: int = 1, /) -> None:
        """So many steps more."""


@contextmanager
def progress(label: str, total: int, lines: bool = False, *, unit: str = "", done: int = 0) -> Iterator[Advance]:
    """Gives a function to call after each of `total` steps; shows how far they are if it takes more than a second.

    Where standard error is not a terminal there is no bar but, with `lines`, a line every half minute. With a `unit`
    it is told how many of them come each second. `done` steps were done before.
    """
    terminal = sys.stderr is not None and sys.stderr.isatty()
    if not (terminal or (lines and sys.stderr is not None)) or not _shown.acquire(blocking=False):
        yield _nothing
        return
    try:
        if terminal:
            with _bar(label, total, unit, done) as advance:
                yield advance
        else:
            yield _lines(label, total, unit, done)
    finally:
        _shown.release()


def _nothing(steps: int = 1, /) -> None:
    pass


@contextmanager
def _bar(label: str, total: int, unit: str, done: int) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    columns = [*Progress.get_default_columns(), *([TextColumn("{task.fields[told]}")] if unit else [])]
    bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False)
    task, begun, finished = bar.add_task(label, total=total, completed=done, told=""), time.monotonic(), done

    def advance(steps: int = 1, /) -> None:
        nonlocal finished
        finished += steps
        passed = time.monotonic() - begun
        bar.update(task, advance=steps, told=f"{finished:,} {unit}, {_rate(finished - done, passed, unit)}")
        if passed > PATIENCE and not bar.finished:
            bar.start()

    try:
        yield advance
    finally:
        bar.stop()


def _lines(label: str, total: int, unit: str, done: int) -> Advance:
    begun = said = time.monotonic()
    finished = done

    def advance(steps: int = 1, /) -> None:
        nonlocal finished, said
        finished, now = finished + steps, time.monotonic()
        if now - said > INTERVAL:
            said, left = now, (now - begun) / (finished - done) * (total - finished)
            told = [f"{finished:,} of {total:,}", _rate(finished - done, now - begun, unit), f"about {_duration(left)}"]
            sys.stderr.write(f"{label}: {', '.join(filter(None, told))} left\n")
            sys.stderr.flush()

    return advance


def _rate(steps: int, seconds: float, unit: str) -> str:
    return f"{steps / max(seconds, 1e-9):,.0f} {unit} a second" if unit else ""


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{round(seconds)} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
