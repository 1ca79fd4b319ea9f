"""Errors of the command line: what is wrong, in one line on standard error; exit codes, interrupts and examples."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer


def examples(*commands: str) -> str:
    r"""The end of a help text; its lines stay as they are.

    >>> examples("degroot demo")
    '\x08\nExample:\n  degroot demo'
    """
    title = "Example:" if len(commands) == 1 else "Examples:"
    return "\n".join(["\b", title, *(f"  {command}" for command in commands)])


MISTAKE, STOPPED = 2, 130  # exit codes


def complain(message: str, code: int = MISTAKE) -> int:
    """Say what is wrong; the exit code that goes with it."""
    sys.stderr.write(f"degroot: {' '.join(message.split())}\n")
    return code


@contextmanager
def stopping_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process here and now: an interruption that a library's callback swallows would be lost."""

    before = signal.signal(signal.SIGINT, _end_at_once("stopped"))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def stopping_in_order(message: str) -> Iterator[None]:
    """Let Ctrl-C end the command once the work under way is done; a second one ends the process at once."""

    def interrupt(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, _end_at_once(message))
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process ends: no other Ctrl-C shall be in its way
        raise typer.Exit(complain(message, STOPPED)) from None
    except BaseException:
        signal.signal(signal.SIGINT, before)
        raise
    signal.signal(signal.SIGINT, before)


def _end_at_once(message: str) -> Callable[[int, object], None]:
    def end(_number: int, _frame: object) -> None:
        complain(message, STOPPED)
        sys.stderr.flush()
        os._exit(STOPPED)

    return end
