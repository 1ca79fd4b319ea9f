"""Logs: one line for each event on standard error, as JSON unless a person watches; never contents of rows."""

import logging
import sys
import threading
import warnings
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from math import isfinite
from numbers import Integral
from typing import Any

import structlog
from structlog.typing import FilteringBoundLogger, Processor

LONGEST = 500  # of a text
MANY = 100  # entries of a list of names


class Stderr:
    """Standard error, whatever it is at the time; if nobody can read it, the node goes on."""

    def write(self, line: str) -> int:
        """Write a line."""
        with suppress(OSError, ValueError):  # a broken pipe, a closed file
            return sys.stderr.write(line) if sys.stderr is not None else 0
        return 0

    def flush(self) -> None:
        """Pass it on."""
        with suppress(OSError, ValueError):
            if sys.stderr is not None:
                sys.stderr.flush()


def logger(name: str) -> FilteringBoundLogger:
    """A logger whose lines say who wrote them.

    Examples
    --------
    >>> logger("north").info("peer is ready", peer="south", rows=1000)
    """
    bound: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(Stderr()),  # type: ignore[arg-type]
        processors=_processors(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )
    return bound.bind(logger=name)


def capture_libraries(log: Any) -> None:
    """Let warnings and messages of libraries be lines of the log, as all else is; each place warns once.

    Exceptions that nobody handles are such lines too.
    """

    def show(message: Any, category: type[Warning], filename: str, lineno: int, *_: Any, **__: Any) -> None:
        log.warning("library warning", category=category.__name__, message=str(message), place=f"{filename}:{lineno}")

    warnings.showwarning = show
    logging.getLogger().handlers = [LibraryMessages(log)]
    _capture_exceptions(log)


def _capture_exceptions(log: Any) -> None:
    """Log what ends the process or a thread, and what Python can only ignore, such as errors in ``__del__``."""

    def tell(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if issubclass(kind, Exception):
            log.error("unhandled exception", exc_info=(kind, error, trace))
        else:  # the process was told to stop
            sys.__excepthook__(kind, error, trace)

    def tell_of_thread(failed: threading.ExceptHookArgs) -> None:
        if failed.exc_type is SystemExit:  # which ends a thread silently
            return
        name = None if failed.thread is None else failed.thread.name
        trace = failed.exc_type, failed.exc_value, failed.exc_traceback
        log.error("unhandled exception", thread=name, exc_info=trace)

    def tell_of_ignored(failed: Any) -> None:
        place = getattr(failed.object, "__qualname__", type(failed.object).__qualname__)  # and not what is in it
        trace = failed.exc_type, failed.exc_value, failed.exc_traceback
        log.error("unhandled exception", ignored_in=place, message=failed.err_msg, exc_info=trace)

    sys.excepthook, threading.excepthook, sys.unraisablehook = tell, tell_of_thread, tell_of_ignored


class LibraryMessages(logging.Handler):
    """Passes on what libraries, asyncio among them, tell Python's own logging: it would write other lines."""

    def __init__(self, log: Any) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record as a line of the log."""
        write = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        try:
            message = record.getMessage()
        except Exception:  # arguments that do not fit: no library expects that to fail
            message = str(record.msg)
        write("library message", library=record.name, message=message, exc_info=record.exc_info or None)


def without_contents(_: Any, __: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Leave names and single numbers as they are, and of all else tell only what it is and how large."""
    return {key: value if key == "exc_info" else _told(value) for key, value in event.items()}


def _told(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, float):
        return float(value) if isfinite(value) else str(value)  # JSON has no infinity
    if isinstance(value, str | BaseException):
        return _line(str(value))
    if isinstance(value, list | tuple | set | frozenset) and all(isinstance(entry, str) for entry in value):
        names = sorted(value) if isinstance(value, set | frozenset) else value
        return [_line(name) for name in names[:MANY]]
    return f"<{type(value).__name__}{_size(value)}>"


def _line(text: str) -> str:
    text = text if text.isprintable() else repr(text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _size(value: Any) -> str:
    if hasattr(value, "shape"):
        return f" of shape {tuple(value.shape)}"
    return f" of length {len(value)}" if hasattr(value, "__len__") else ""


def _processors() -> list[Processor]:
    render: list[Processor]
    if sys.stderr is not None and sys.stderr.isatty():
        formatter = structlog.dev.plain_traceback  # others show what variables hold
        render = [structlog.dev.ConsoleRenderer(exception_formatter=formatter)]
    else:
        render = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        without_contents,
        *render,
    ]
