"""Progress: what slow work does, how far it has come and how long it will still take, on standard error.

A terminal or a notebook has one line, written over in place without escape sequences, and taken away at the end.
Elsewhere commands write a line every half minute, and others nothing. There is one line for all work under way: work
inside other work is told on it too.
"""

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, takewhile
from typing import Protocol, TextIO
from unicodedata import combining, east_asian_width

PATIENCE = 1.0  # seconds before anything is shown
INTERVAL = 30.0  # seconds between lines where there is neither a terminal nor a notebook
TICK = 0.25  # seconds between looks at the clock, and at which a terminal's line is written again
NOTEBOOK_TICK = 1.0  # seconds at which a notebook's line is: all of them go through its server
CELLS = 12  # of a bar
USUAL_WIDTH, NOTEBOOK_WIDTH = 80, 100  # columns, where a terminal does not say, and in a notebook


class Advance(Protocol):
    """Tells that work is done."""

    def __call__(self, steps: int = 1, /) -> None:
        """So many steps more."""


class SlowWork:
    """Work under way. Call it after each step; any thread may."""

    def __init__(self, label: str, total: int | None, unit: str = "", done: int = 0, *, is_announced: bool = False):
        self.label, self.total, self.unit, self.finished, self.step = label, total, unit, done, ""
        self.is_announced = is_announced
        self.begun = self._last = time.monotonic()
        self.due = self.begun + PATIENCE  # when it is to be shown
        self._counted_from: tuple[float, int] | None = None  # the time, and the steps that were finished then

    def __call__(self, steps: int = 1, /) -> None:
        with _board.lock:
            self.finished, self._last = self.finished + steps, time.monotonic()
            if self._counted_from is None:
                self._counted_from = self._last, self.finished
            _board.refresh()

    def name_step(self, name: str) -> None:
        """Say what is being done now."""
        with _board.lock:
            self.step = name
            _board.refresh()

    def end_start_up(self) -> None:
        """Let rates count from here on. Where this is not said, they count from the end of the first step."""
        with _board.lock:
            self._counted_from = time.monotonic(), self.finished

    @property
    def rate(self) -> float | None:
        """Steps a second, without start-up; None where that is not known yet."""
        if self._counted_from is None:
            return None
        begun, before = self._counted_from
        seconds, steps = self._last - begun, self.finished - before
        return steps / seconds if steps > 0 and seconds > 0.0 else None

    def estimate_seconds_left(self, now: float) -> float | None:
        """How long it will still take; None where that is not known, or turned out to be too little."""
        rate = self.rate
        if rate is None or self.total is None:
            return None
        left = (self.total - self.finished) / rate - (now - self._last)
        return left if left > 0.0 else None


@contextmanager
def progress(
    label: str, total: int | None = None, lines: bool = False, *, unit: str = "", done: int = 0
) -> Iterator[SlowWork]:
    """Gives work of `total` steps, to be called after each; it is shown if it takes more than a second.

    A step need not have ended for that. With `lines` it is also told where standard error is neither a terminal nor a
    notebook, every half minute, and so is work inside it. With a `unit` it is told how many of them come each second;
    `done` steps were done before. Work without a `total` has no bar.
    """
    work = SlowWork(label, total, unit, done)
    if not _board.open(work, lines):
        yield work
        return
    try:
        yield work
    finally:
        _board.close(work)


@contextmanager
def announce(text: str) -> Iterator[None]:
    """Say `text` on standard error, once, if the work inside takes more than a second: what it is, and why it is slow.

    That second is for all work so announced, one after the other, in a process. In a terminal or notebook the text is
    there as long as the work goes on: on a line of its own or, where there is progress, after it. Elsewhere it is a
    line, once in a process. Of several threads that announce the same the first is heard.
    """
    work = SlowWork(text, None, is_announced=True)
    if not _board.open(work, lines=False):
        yield
        return
    try:
        yield
    finally:
        _board.close(work)


def write_line(text: str) -> None:
    """Write a line to standard error; where there is a line of progress, above it."""
    _board.write(text)


def take_line_away() -> None:
    """Take the line of a terminal away for good: the process is about to end without leaving its work."""
    _board.abandon()


# ---- all work under way ----------------------------------------------------------------------------------------------


class Screen(Protocol):
    """Where work under way is shown."""

    def show(self, works: Sequence[SlowWork], now: float) -> None:
        """Say how far it has come, if it is time to."""

    def clear(self) -> None:
        """Take away what will not be true any more."""


class Board:
    """All work under way that is told, in the order in which it began, and the thread that looks at the clock."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._works: list[SlowWork] = []
        self._screen: Screen | None = None
        self._ticking: tuple[threading.Event, threading.Thread] | None = None
        self._announced: dict[str, float] = {}  # seconds that work so announced has taken
        self._written: set[str] = set()  # announcements that are lines already

    def open(self, work: SlowWork, lines: bool) -> bool:
        """Whether the work will be told; then it has to be closed."""
        with self.lock:
            if not self._works:
                self._screen = _find_screen(sys.stderr, self._written)
            if self._screen is None or not (self._screen_is_live or work.is_announced or lines or self._has_lines):
                return False
            if work.is_announced:
                work.due -= self._announced.get(work.label, 0.0)
            self._works.append(work)
            if self._ticking is None:
                self._start_ticking()
            self.refresh()
            return True

    @property
    def _screen_is_live(self) -> bool:
        return isinstance(self._screen, LiveLine)

    @property
    def _has_lines(self) -> bool:
        """Whether there is work that is told line by line, so that work inside it is too."""
        return any(not each.is_announced for each in self._works)

    def close(self, work: SlowWork) -> None:
        """Tell of the work no more."""
        with self.lock:
            if work not in self._works:  # of a process that was forked, or that gave up its line
                return
            self._works.remove(work)
            if work.is_announced:
                self._add_announced(work)
            if self._works:
                return
            self._clear()
            ticking, self._ticking = self._ticking, None
        if ticking is not None:
            stop, thread = ticking
            stop.set()
            thread.join()

    def write(self, text: str) -> None:
        """Write a line, above that of work under way."""
        with self.lock, suppress(OSError, ValueError):
            if self._works and self._screen is not None:
                self._screen.clear()
            if sys.stderr is not None:
                sys.stderr.write(f"{_make_printable(text)}\n")
                sys.stderr.flush()
            self.refresh()

    def abandon(self) -> None:
        """Tell of nothing any more."""
        with self.lock:
            self._works.clear()
            self._clear()

    def refresh(self) -> None:
        """Show the work under way, once some of it has taken its second."""
        with self.lock:
            now = time.monotonic()
            if self._screen is None or not any(now > each.due for each in self._works):
                return
            try:
                self._screen.show(self._works, now)
            except (OSError, ValueError):  # nobody reads it any more
                self._screen = None

    def _clear(self) -> None:
        with suppress(OSError, ValueError, RuntimeError):  # closed, or in the middle of a line when a signal came
            if self._screen is not None:
                self._screen.clear()
        self._screen = None

    def _add_announced(self, work: SlowWork) -> None:
        """Add the time that it took, which goes on where another thread has announced the same."""
        for other in self._works:
            if other.is_announced and other.label == work.label:
                other.begun = min(other.begun, work.begun)
                return
        self._announced[work.label] = self._announced.get(work.label, 0.0) + time.monotonic() - work.begun

    def _start_ticking(self) -> None:
        stop = threading.Event()

        def tick() -> None:
            while not stop.wait(TICK):
                self.refresh()

        thread = threading.Thread(target=tick, name="degroot-progress", daemon=True)
        self._ticking = stop, thread
        thread.start()


_board = Board()


def _forget_work() -> None:
    """In a forked process: the thread that looks at the clock is not there, and the lock may never be let go."""
    global _board
    _board = Board()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_work)


# ---- where it is shown -----------------------------------------------------------------------------------------------


def _find_screen(stream: TextIO | None, written: set[str]) -> Screen | None:
    """Where `stream`, which is standard error, shows work; None: nowhere. `written`: announcements that were lines."""
    if stream is None or stream.closed or _is_worker():
        return None
    if type(stream).__module__ == "ipykernel.iostream":
        return LiveLine(stream, NOTEBOOK_TICK, NOTEBOOK_WIDTH)
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        return LiveLine(stream, TICK)
    return LogLines(stream, written)


def _is_worker() -> bool:
    """Whether another Python process has started this one to work for it, and tells how far all is."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


class LiveLine:
    """One line that is written over in place."""

    def __init__(self, stream: TextIO, tick: float, width: int | None = None) -> None:
        self._stream, self._tick, self._width = stream, tick, width
        self._shown, self._next = 0, float("-inf")  # how wide it is, and when it is written again
        self._marks = BLOCKS if _can_write(stream, "".join(BLOCKS)) else PLAIN_BLOCKS

    def show(self, works: Sequence[SlowWork], now: float) -> None:
        """Write over the line, if it has stood for a while."""
        if now < self._next:
            return
        width = self._width or _find_width(self._stream)
        line = _cut(_make_printable(_describe_on_line(works, now, self._marks)), width - 1)
        wide = measure_width(line)
        self._write(f"\r{line}{' ' * max(0, self._shown - wide)}")
        self._shown, self._next = wide, now + self._tick

    def clear(self) -> None:
        """Take the line away; it may be written again at once."""
        if self._shown:
            self._write(f"\r{' ' * self._shown}\r")
        self._shown, self._next = 0, float("-inf")

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.encode(encoding, "replace").decode(encoding))
        self._stream.flush()


class LogLines:
    """A line every half minute, and one for each announcement."""

    def __init__(self, stream: TextIO, written: set[str]) -> None:
        self._stream, self._written, self._said = stream, written, time.monotonic()

    def show(self, works: Sequence[SlowWork], now: float) -> None:
        """Say what is new, if it is time to."""
        for work in works:
            if work.is_announced and now > work.due and work.label not in self._written:
                self._written.add(work.label)
                self._write(work.label)
        told = [work for work in works if not work.is_announced]
        if told and now - self._said > INTERVAL:
            self._said = now
            self._write(_describe_in_log(told, now))

    def clear(self) -> None:
        """Leave the lines: they were true when they were written."""

    def _write(self, line: str) -> None:
        self._stream.write(f"{_make_printable(line)}\n")
        self._stream.flush()


BLOCKS, PLAIN_BLOCKS = ("█", "░", "…"), ("#", "-", "...")


def _can_write(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _find_width(stream: TextIO) -> int:
    """How many columns there are."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL_WIDTH
    except (OSError, ValueError):
        return USUAL_WIDTH


# ---- what is said ----------------------------------------------------------------------------------------------------


def _describe_on_line(works: Sequence[SlowWork], now: float, marks: tuple[str, str, str]) -> str:
    """All work in one line: a bar, how long it has taken and will still take, and what is being done."""
    main, inner = _find_main(works)
    full, empty, more = marks
    clock = format_clock(now - main.begun)
    if main.total is None:
        return f"{_describe_doing(main, inner).rstrip(' .…')} {more} {clock}"
    length, rate = int(CELLS * _share(main)), main.rate
    head = f"{main.label} {full * length}{empty * (CELLS - length)} {_share(main):4.0%}"
    told = [f"{head} of {main.total:,} {main.unit}" if main.unit else head, clock, _describe_left(main, now)]
    told += [f"{rate:,.0f} a second"] if main.unit and rate is not None else []
    return ": ".join(filter(None, (", ".join(filter(None, told)), _describe_steps(main, inner))))


def _describe_in_log(works: Sequence[SlowWork], now: float) -> str:
    """All work in one line of a log."""
    main, inner = _find_main(works)
    passed = f"{format_clock(now - main.begun)} so far"
    if main.total is None:
        return f"{_describe_doing(main, inner).rstrip(' .…')}: {passed}"
    rate, doing = main.rate, _describe_steps(main, inner)
    told = [f"{main.finished:,} of {main.total:,} {main.unit}" if main.unit else f"{_share(main):.0%}"]
    told += [f"{rate:,.0f} {main.unit} a second"] if main.unit and rate is not None else []
    told += [_describe_left(main, now) or passed]
    return f"{main.label}: {', '.join(told)}{f' ({doing})' if doing else ''}"


def _find_main(works: Sequence[SlowWork]) -> tuple[SlowWork, list[SlowWork]]:
    """The work that has the bar, the outermost that counts its steps, and all inside it; without such the innermost."""
    before = list(takewhile(lambda each: each.total is None, works))
    if len(before) < len(works):
        return works[len(before)], list(works[len(before) + 1 :])
    return works[-1], []


def _describe_doing(main: SlowWork, inner: Sequence[SlowWork]) -> str:
    return ": ".join(filter(None, (main.label, _describe_steps(main, inner))))


def _describe_steps(main: SlowWork, inner: Sequence[SlowWork]) -> str:
    """What is being done now, from the outside in; threads that do the same are told once."""
    told = [main.step]
    for each in inner:
        told += [each.label if each.total is None else f"{each.label} {_share(each):.0%}", each.step]
    return ", ".join(filter(None, dict.fromkeys(told)))


def _share(work: SlowWork) -> float:
    return min(1.0, work.finished / work.total) if work.total else 1.0


def _describe_left(work: SlowWork, now: float) -> str:
    left = work.estimate_seconds_left(now)
    return "" if left is None else f"about {format_duration(left)} left"


def format_duration(seconds: float) -> str:
    """About how long that is.

    Examples
    --------
    >>> [format_duration(seconds) for seconds in (12.3, 200.0, 9000.0)]
    ['12 s', '3 min', '2.5 h']
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def format_clock(seconds: float) -> str:
    """Hours, minutes and seconds that have passed.

    Examples
    --------
    >>> [format_clock(seconds) for seconds in (7.9, 125.0, 3725.0)]
    ['0:07', '2:05', '1:02:05']
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def measure_width(text: str) -> int:
    """How many columns a terminal takes for `text`.

    Examples
    --------
    >>> measure_width("north"), measure_width("北")
    (5, 2)
    """
    return sum(map(_count_columns, text))


def _count_columns(character: str) -> int:
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def _make_printable(text: str) -> str:
    """Text on one line, without what a terminal would take for a command."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _cut(text: str, width: int) -> str:
    """As much of `text` as has room."""
    ends = accumulate(map(_count_columns, text))
    return text[: sum(1 for _ in takewhile(lambda end: end <= width, ends))]
