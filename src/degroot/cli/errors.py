"""Errors of the command line: what is wrong, in one line on standard error; exit codes, interrupts and examples."""

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from degroot.compute.progress import take_line_away
from degroot.exceptions import DeGrootError

MISTAKE, STORAGE_FAILED, STOPPED = 2, 75, 130  # exit codes; 75 is EX_TEMPFAIL: to try again may help
STORAGE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE)
STORAGE_ERRORS_OF_SQLITE = (5, 10, 13)  # SQLITE_BUSY, SQLITE_IOERR, SQLITE_FULL


def examples(*commands: str) -> str:
    r"""The end of a help text; its lines stay as they are.

    >>> examples("degroot demo")
    '\x08\nExample:\n  degroot demo'
    """
    title = "Example:" if len(commands) == 1 else "Examples:"
    return "\n".join(["\b", title, *(f"  {command}" for command in commands)])


def complain(message: str, code: int = MISTAKE) -> int:
    """Say what is wrong; the exit code that goes with it."""
    sys.stderr.write(f"degroot: {' '.join(message.split())}\n")
    return code


@contextmanager
def telling_storage_failures() -> Iterator[None]:
    """Let a command end with an exit code of its own where storage has failed: that is no mistake, and may pass."""
    try:
        yield
    except (DeGrootError, OSError) as error:
        if not _is_storage_failure(error):
            raise
        told = str(error)
        if isinstance(error, OSError):
            where = "" if error.filename is None else f"{error.filename}: "
            told = f"The state folder must have room and be writable; {where}{error.strerror}."
        raise typer.Exit(complain(told, STORAGE_FAILED)) from error


def _is_storage_failure(error: BaseException | None) -> bool:
    """Whether storage has failed, as an error or its causes say. Rights that are missing are a mistake instead."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in STORAGE_ERRORS:
            return True
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in STORAGE_ERRORS_OF_SQLITE:
            return True
        error = error.__cause__
    return False


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
        take_line_away()
        complain(message, STOPPED)
        sys.stderr.flush()
        os._exit(STOPPED)

    return end
