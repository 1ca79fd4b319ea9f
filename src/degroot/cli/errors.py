"""Complaints: what is wrong, in one line on standard error."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


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

    def stop(_number: int, _frame: object) -> None:
        complain("stopped", STOPPED)
        sys.stderr.flush()
        os._exit(STOPPED)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
