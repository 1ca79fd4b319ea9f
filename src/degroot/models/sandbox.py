"""Model files of other organisations, opened and asked in a process of their own.

No kind of file that is opened here runs code of its own, but any may be slow, take memory or meet a bug of the library
that reads it. What holds, on Linux:

- A question of at most `CHUNK_ROWS` rows takes at most `seconds`, and so does opening the file; then the process is
  killed. The kernel also limits its CPU time.
- The process cannot map more than `memory_bytes` beyond what it needed to import its libraries (onnxruntime: and the
  stacks of its threads).
- It writes no core file, and once the file is open no byte to any file. While the file is opened it may write
  files of the content's length at most: XGBoost reads from a temporary folder, which is removed.
- It inherits a connection to the parent and no other file descriptor, and of the environment only `INHERITED`.
- It ends when the parent closes the connection or dies, even in the middle of a question.
- The parent believes nothing: replies are never unpickled, and their size, shape and type must fit the question.
  Whatever runs in the process can at most give wrong numbers in its replies.

Best effort: a network namespace of its own, without any network, where the system lets the user make one, and no new
privileges (`no_new_privs`). On other systems than Linux the limits are those that the system keeps (macOS: not that
of memory).

Not covered: code that takes over the process (a bug in a library) runs as the node's user and can read its files.

A process that failed is gone, and the next question starts another. After three failures in a row none is started for
a minute.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.tables import column_names, is_frame, is_sparse
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.models import sandbox_worker as worker
from degroot.models.features import check_features
from degroot.models.formats import NUMBERED, SAFE
from degroot.models.lightgbm import LightGBMModel

CHUNK_ROWS = 1000
START_SECONDS = 120.0  # for Python and the libraries, before the file is opened
END_SECONDS = 5.0  # for a process that closed the connection, until it has ended
FAILURES_IN_A_ROW = 3
RETRY_SECONDS = 60.0  # after so many failures, until another process is started
INHERITED = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE")
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",  # glibc reserves 64 MiB for each more
    "ORT_DISABLE_TELEMETRY": "1",  # onnxruntime 1.29 and later tells its maker of models, and keeps a file of that
}  # fmt: skip
START = "import runpy, sys; sys.path += sys.argv[2].split(':'); runpy.run_path(sys.argv[1], run_name='__main__')"
COMMAND = (sys.executable, "-I", "-c", START, str(Path(worker.__file__).resolve()))  # then paths and the connection
PATHS = re.compile(r"(?<![\w./:])(?:/[\w.+@%~-]+)+/([\w.+@%~-]+)")


class SandboxError(DeGrootError):
    """What the process did, or why the model cannot be opened, in one line that can follow "its copy: "."""


class SandboxLimitExceeded(SandboxError):
    """A model took more than `open_in_sandbox` was told to allow. `limit`: ``"seconds"`` or ``"memory_bytes"``."""

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(limit, message)
        self.limit, self.message = limit, message

    def __str__(self) -> str:
        return self.message


def open_in_sandbox(
    suffix: str,
    content: bytes,
    classes: Sequence[Any] | None = None,
    *,
    memory_bytes: int,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> "SandboxedModel":
    """The model in a file whose name ends in `suffix`, in a process of its own.

    It answers as `degroot.models.formats.open_content` would, asked for float64 rows on one thread and in chunks.

    Parameters
    ----------
    suffix, content
        The file. Pickles are refused.
    classes
        Labels of classes 0, 1, … of a classifier in a file of LightGBM or XGBoost.
    memory_bytes
        How much memory opening the file and answering may take, beyond the libraries.
    seconds
        How long opening the file may take, and answering a question of at most `CHUNK_ROWS` rows.
    clock
        Seconds, to wait `RETRY_SECONDS` after failures.
    """
    suffix = suffix.lower()
    if suffix not in SAFE | NUMBERED:
        known = ", ".join(SAFE | NUMBERED)
        raise SandboxError(f"cannot be opened: the name of its file must end in one of {known}; got {suffix!r}")
    if os.name != "posix":
        raise SandboxError(f"cannot be opened: that needs Linux or another POSIX system; this is {sys.platform}")
    order = _Order(suffix, content, None if classes is None else _encode_classes(classes), memory_bytes)
    process, description = _Process.open(order, seconds)
    kind = SandboxedClassifier if description.has_probabilities else SandboxedModel
    return kind(order, seconds, process, description, clock)


@dataclass(frozen=True, slots=True)
class _Order:
    """What a process has to open, and with how much memory."""

    suffix: str
    content: bytes
    classes: list[Any] | None  # encoded
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class _Description:
    """What a process says of its model."""

    has_probabilities: bool
    classes: tuple[Any, ...] | None  # encoded labels
    n_features: int | None
    feature_names: tuple[str, ...] | None

    @classmethod
    def parse(cls, told: Any) -> "_Description":
        """The description in a reply, if it is one; else a ValueError, TypeError or KeyError."""
        has, classes, n, names = (told[key] for key in ("has_probabilities", "classes", "n_features", "feature_names"))
        if classes is not None and not 1 <= len(worker.decode_labels(classes)) <= worker.LARGEST_OUTPUTS:
            raise ValueError("too many classes")
        if type(has) is not bool or not (n is None or (type(n) is int and 0 <= n < 1 << 32)):
            raise ValueError("no number of features")
        if names is not None and not (
            isinstance(names, list)
            and len(names) <= worker.LARGEST_FEATURES
            and all(isinstance(name, str) and len(name) <= worker.LABEL_CHARACTERS for name in names)
        ):
            raise ValueError("no names of features")
        return cls(has, None if classes is None else tuple(classes), n, None if names is None else tuple(names))

    def __eq__(self, other: object) -> bool:  # as text: nan equals nan, and True is not 1
        return isinstance(other, _Description) and repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]


class SandboxedModel:
    """A model in a process of its own. Threads may ask it at once; they take turns.

    Attributes
    ----------
    n_features_in_ : int or None
        How many features it takes, if it says so.
    feature_names_in_ : list of str or None
        Their names, if it has any.
    classes_ : (Q,) array
        The labels, of models that have them.
    """

    classes_: NDArray[Any]

    def __init__(
        self,
        order: _Order,
        seconds: float,
        process: "_Process",
        description: _Description,
        clock: Callable[[], float],
    ) -> None:
        self.seconds = seconds
        self._order, self._process, self._description = order, process, description
        self._clock = clock
        self._lock = Lock()
        self._failures: list[Callable[[], SandboxError]] = []  # in a row, the first few, to be raised again
        self._retry_at = 0.0  # on the clock, after many failures
        self._is_closed = False
        self.n_features_in_ = description.n_features
        self.feature_names_in_ = None if description.feature_names is None else list(description.feature_names)
        if description.classes is not None:
            self.classes_ = worker.decode_labels(description.classes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.suffix!r})"

    @property
    def suffix(self) -> str:
        """How the name of its file ends."""
        return self._order.suffix

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.popen.pid

    def written(self, name: str) -> str:
        """A feature's name as the file has it."""
        return LightGBMModel.written(name) if self.suffix in (".txt", ".lgb") else name

    def predict(self, X: Any) -> NDArray[Any]:
        """What the model says of each row: (n,), or (n, Q) for several outputs."""
        return self._ask("predict", X)

    def close(self) -> None:
        """End the process, without waiting for it; the model answers no more."""
        self._is_closed = True
        self._process.kill()  # whoever waits for its answer waits no longer
        self._end_if_idle()

    def _ask(self, method: str, X: Any) -> NDArray[Any]:
        rows = self._rows(X)
        starts = range(0, max(1, rows.shape[0]), CHUNK_ROWS)
        answers = [self._ask_chunk(method, rows[start : start + CHUNK_ROWS]) for start in starts]
        if len({answer.shape[1:] for answer in answers}) > 1:
            raise SandboxError("gave some rows more answers than others")
        return answers[0] if len(answers) == 1 else np.concatenate(answers)

    def _rows(self, X: Any) -> Any:
        """`X` as something with rows that can be sliced, if it has the model's features."""
        names = column_names(X)
        if names is not None:
            check_features(self, names)
        rows = X.tocsr() if is_sparse(X) else np.asarray(X, dtype=np.float64) if is_frame(X) else np.asarray(X)
        if rows.ndim != 2:
            raise InvalidInput(f"`X` must be 2-dimensional, (rows, features); its shape is {rows.shape}.")
        if self.n_features_in_ is not None and rows.shape[1] != self.n_features_in_:
            raise InvalidInput(f"The model takes {self.n_features_in_} features; the rows have {rows.shape[1]}.")
        return rows

    def _ask_chunk(self, method: str, chunk: Any) -> NDArray[Any]:
        rows = np.asarray(chunk.toarray() if is_sparse(chunk) else chunk, dtype="<f8")
        try:
            with self._lock:
                self._check_open()
                return self._ask_process(method, rows)
        finally:
            if self._is_closed:  # meanwhile
                self._end_if_idle()

    def _ask_process(self, method: str, rows: NDArray[Any]) -> NDArray[Any]:
        try:
            answer = self._running_process().ask(method, rows, self.seconds)
        except SandboxError as error:
            if self._process.has_ended:
                self._note_failure(error)
            raise
        self._failures.clear()
        return answer

    def _check_open(self) -> None:
        if self._is_closed:
            raise SandboxError("is closed")
        if len(self._failures) >= FAILURES_IN_A_ROW and self._clock() < self._retry_at:
            raise self._failures[0]()

    def _running_process(self) -> "_Process":
        """The process, or another where it has ended."""
        if self._process.has_ended:
            self._process.end()
            self._process, description = _Process.open(self._order, self.seconds)
            if self._is_closed:
                raise SandboxError("is closed")
            if description != self._description:
                self._process.end()
                raise SandboxError("says something else of itself when it is opened again")
        return self._process

    def _note_failure(self, error: SandboxError) -> None:
        again: Callable[[], SandboxError] = partial(type(error), *error.args)
        self._failures = [*self._failures, again][:FAILURES_IN_A_ROW]
        self._retry_at = self._clock() + RETRY_SECONDS

    def _end_if_idle(self) -> None:
        """End the process, unless some thread asks it: then that thread ends it."""
        if self._lock.acquire(blocking=False):
            try:
                self._process.end()
            finally:
                self._lock.release()


class SandboxedClassifier(SandboxedModel):
    """A classifier in a process of its own."""

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The probability of each of `classes_`, (n, Q)."""
        return self._ask("predict_proba", X)


class _BadReply(Exception):
    """A reply that does not fit the question."""


class _NoMemory(Exception):
    """The process says that it lacks memory."""


class _Process:
    """A process and the connection to it. An error that says what it did has ended it, unless the model raised it."""

    def __init__(self, memory_bytes: int, folder: str) -> None:
        self.memory_bytes = memory_bytes
        self.connection, other = socket.socketpair()
        inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
        try:
            with other:
                self.popen = subprocess.Popen(
                    [*COMMAND, ":".join(filter(os.path.isabs, sys.path)), str(other.fileno())],
                    stdin=subprocess.PIPE,  # never written to: it ends the process when it is closed
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[other.fileno()],
                    env={**inherited, **ENVIRONMENT, "TMPDIR": folder},
                    cwd=folder,
                    start_new_session=True,
                )
        except OSError as error:
            self.connection.close()
            raise SandboxError(f"cannot be opened: no process can be started: {error.strerror}") from error
        self.end = weakref.finalize(self, _end, self.popen, self.connection)

    @classmethod
    def open(cls, order: _Order, seconds: float) -> tuple["_Process", _Description]:
        """Start a process that opens the file, and what it says of the model."""
        with tempfile.TemporaryDirectory(prefix="degroot-", ignore_cleanup_errors=True) as folder:
            process = cls(order.memory_bytes, folder)
            try:
                return process, process._open_file(order, seconds)
            except BaseException:
                process.end()
                raise

    @property
    def has_ended(self) -> bool:
        """Whether it is gone, by itself or by somebody else."""
        return not self.end.alive or self.popen.poll() is not None

    def kill(self) -> None:
        """Kill it, and let whoever talks to it find out."""
        _kill(self.popen)

    def ask(self, method: str, rows: NDArray[Any], seconds: float) -> NDArray[Any]:
        """What the model says of the rows."""
        is_fortran = rows.flags.f_contiguous and not rows.flags.c_contiguous
        with self._exchange(seconds) as deadline:
            head = worker.QUESTION.pack(worker.METHODS.index(method), int(is_fortran), *rows.shape)
            self._send(head, worker.as_bytes(np.ascontiguousarray(rows.T if is_fortran else rows)), deadline)
            kind, place, first, columns = self._receive_head(deadline)
            if kind == worker.RAISED:
                raise SandboxError(f"raised {self._receive_text(first, deadline)}")
            if columns > worker.LARGEST_OUTPUTS:
                raise _BadReply
            shape = (len(rows), columns) if columns else (len(rows),)
            if kind == worker.LABELS:
                return worker.decode_labels(self._receive_json(first, deadline)).reshape(shape)
            if kind != worker.NUMBERS or first != len(rows) or place >= len(worker.NUMBER_TYPES):
                raise _BadReply
            return self._receive_numbers(shape, np.dtype(worker.NUMBER_TYPES[place]), deadline)

    def _open_file(self, order: _Order, seconds: float) -> _Description:
        with self._exchange(START_SECONDS, SandboxError(f"took more than {START_SECONDS:g} s to start")) as deadline:
            told = {
                "suffix": order.suffix,
                "bytes": len(order.content),
                "classes": order.classes,
                "memory_bytes": order.memory_bytes,
                "seconds": seconds,
            }
            body = json.dumps(told).encode()
            self._send(worker.LENGTH.pack(len(body)), body, deadline)
            if self._receive_head(deadline) != (worker.READY, 0, 0, 0):
                raise _BadReply
        with self._exchange(seconds) as deadline:
            self._send(b"", order.content, deadline)
            kind, _, length, _ = self._receive_head(deadline)
            if kind == worker.REFUSED:
                raise SandboxError(f"cannot be opened: {self._receive_text(length, deadline)}")
            if kind != worker.DESCRIPTION:
                raise _BadReply
            return _Description.parse(self._receive_json(length, deadline))

    @contextmanager
    def _exchange(self, seconds: float, late: SandboxError | None = None) -> Iterator[float]:
        """A deadline; whatever goes wrong before it ends the process, but for what the model raised.

        `late`: what is raised behind it, where the deadline is not the model's.
        """
        try:
            yield time.monotonic() + seconds
        except SandboxError:
            raise
        except TimeoutError:
            self.end()
            raise (late or _too_slow(seconds)) from None
        except _NoMemory:
            self.end()
            told = f"needed more than {self.memory_bytes} bytes of memory"
            raise SandboxLimitExceeded("memory_bytes", told) from None
        except (EOFError, OSError):
            raise self._tell_end(seconds) from None
        except (_BadReply, ValueError, TypeError, KeyError, RecursionError):
            self.end()
            raise SandboxError("sent a reply that does not fit the question") from None
        except BaseException:  # somebody interrupts the parent: what comes next would be the rest of this reply
            self.end()
            raise

    def _send(self, head: bytes, body: Any, deadline: float) -> None:
        message = [head + bytes(body)] if len(body) <= 1 << 16 else [head, body]
        for part in message:
            self.connection.settimeout(_seconds_left(deadline))
            self.connection.sendall(part)

    def _receive_head(self, deadline: float) -> tuple[int, int, int, int]:
        head: tuple[int, int, int, int] = worker.REPLY.unpack(self._receive(worker.REPLY.size, deadline))
        if head[0] == worker.NO_MEMORY:
            raise _NoMemory
        return head

    def _receive_numbers(self, shape: tuple[int, ...], dtype: np.dtype[Any], deadline: float) -> NDArray[Any]:
        is_bool = dtype.kind == "b"  # any byte is a number, but not every byte is true or false
        numbers = np.empty(shape, np.uint8 if is_bool else dtype)
        self._receive_into(worker.as_bytes(numbers), deadline)
        return numbers != 0 if is_bool else numbers.astype(dtype.newbyteorder("="), copy=False)

    def _receive_text(self, length: int, deadline: float) -> str:
        """One line of bounded length, without control characters and paths of this machine."""
        if length > worker.REASON_CHARACTERS:
            raise _BadReply
        text = self._receive(length, deadline).decode(errors="replace")
        plain = "".join(each if each.isprintable() else " " for each in text)
        return PATHS.sub(r"\1", " ".join(plain.split()))

    def _receive_json(self, length: int, deadline: float) -> Any:
        if length > worker.JSON_BYTES:
            raise _BadReply
        return json.loads(self._receive(length, deadline))

    def _receive(self, length: int, deadline: float) -> bytearray:
        into = bytearray(length)
        self._receive_into(memoryview(into), deadline)
        return into

    def _receive_into(self, left: memoryview, deadline: float) -> None:
        while len(left):
            self.connection.settimeout(_seconds_left(deadline))
            count = self.connection.recv_into(left)
            if not count:
                raise EOFError
            left = left[count:]

    def _tell_end(self, seconds: float) -> SandboxError:
        """How the process ended; it is ended now if it only closed the connection."""
        with suppress(subprocess.TimeoutExpired):
            self.popen.wait(END_SECONDS)
        code = self.popen.poll()
        self.end()
        if code is None:
            return SandboxError("closed the connection")
        if code >= 0:
            return SandboxError(f"ended with exit code {code}")
        if -code == signal.SIGXCPU:
            return _too_slow(seconds)
        with suppress(ValueError):
            return SandboxError(f"ended by signal {signal.Signals(-code).name}")
        return SandboxError(f"ended by signal {-code}")


def _too_slow(seconds: float) -> SandboxLimitExceeded:
    return SandboxLimitExceeded("seconds", f"took more than {seconds:g} s")


def _kill(popen: subprocess.Popen[bytes]) -> None:
    if popen.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(popen.pid, signal.SIGKILL)


def _end(popen: subprocess.Popen[bytes], connection: socket.socket) -> None:
    """Kill the process if it runs, and forget it; another thread waits until it is gone."""
    _kill(popen)
    connection.close()
    if popen.stdin is not None:
        popen.stdin.close()
    if popen.poll() is None:
        with suppress(RuntimeError):  # no thread can be started while Python ends
            Thread(target=popen.wait, name="degroot-reaper", daemon=True).start()


def _encode_classes(classes: Sequence[Any]) -> list[Any]:
    try:
        return worker.encode_labels(np.asarray(classes))
    except ValueError as error:
        raise InvalidInput(f"`classes` must be text, numbers or booleans; got {classes!r}.") from error


def _seconds_left(deadline: float) -> float:
    """Seconds until the deadline; a TimeoutError behind it."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
