"""The process in which a model file of another organisation is opened and asked; `degroot.models.sandbox` starts it.

It runs as a script, by its path: importing packages of `degroot` would bring what it does not need.
Messages have a small fixed head and a body whose length follows from the head. Rows and numbers are raw and
little-endian, all else is JSON or text. Nothing is pickled in either direction.

::

    parent                                    worker
    LENGTH, JSON: what to open      ->        imports the libraries that the file needs
                                    <-        READY
    the file's content              ->        sets its limits, opens the file
                                    <-        DESCRIPTION, REFUSED or NO_MEMORY
    QUESTION, rows                  ->        asks the model
                                    <-        NUMBERS, LABELS, RAISED or NO_MEMORY
"""

import json
import os
import re
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from struct import Struct
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

LENGTH = Struct("<I")
QUESTION = Struct("<BBII")  # method, memory order, rows, columns
REPLY = Struct("<BBII")  # kind, type of the numbers, then rows (of JSON and text: bytes), columns (0: one-dimensional)
READY, DESCRIPTION, REFUSED, NUMBERS, LABELS, RAISED, NO_MEMORY = range(7)  # kinds of replies
METHODS = ("predict", "predict_proba")
NUMBER_TYPES = ("<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "<u2", "|u1", "|b1")
LABEL_TYPES: dict[str, tuple[type, ...]] = {  # dtype: what its labels are in JSON
    "U": (str,), "O": (str, bool, int, float), "b1": (bool,), "f2": (float,), "f4": (float,), "f8": (float,),
    **{f"{kind}{size}": (int,) for kind in "iu" for size in (1, 2, 4, 8)},
}  # fmt: skip
LABEL_CHARACTERS = 1000
LARGEST_OUTPUTS = 10_000  # numbers for one row, classes
LARGEST_FEATURES = 100_000  # names of
JSON_BYTES = 1 << 24
REASON_CHARACTERS = 500

BOOSTERS_NEED_NOT = ("pandas", "pyarrow", "sklearn", "matplotlib", "dask")  # used where they are, and large
LIBRARIES: dict[str, tuple[str, tuple[str, ...]]] = {  # what a module needs that opens files, and can do without
    "degroot.models.onnx": ("onnxruntime", ()),
    "degroot.models.skops": ("skops.io", ("pyarrow",)),
    "degroot.models.lightgbm": ("lightgbm", BOOSTERS_NEED_NOT),
    "degroot.models.xgboost": ("xgboost", BOOSTERS_NEED_NOT),
}
IDLE_SECONDS = 5.0  # after which it looks whether its parent still lives
CLONE_NEWUSER, CLONE_NEWNET, PR_SET_NO_NEW_PRIVS = 0x10000000, 0x40000000, 38  # of Linux


# -- labels and arrays, for both ends ----------------------------------------------------------------------------------


def encode_labels(labels: NDArray[Any]) -> list[Any]:
    """Labels as JSON takes them: their dtype and a flat list."""
    kind, values = labels.dtype.kind, labels.ravel().tolist()
    if kind not in "UObfiu" or (kind == "f" and labels.dtype.itemsize > 8):
        raise ValueError(f"labels must be text, numbers or booleans; they are {labels.dtype}")
    plain = [each.item() if isinstance(each, np.generic) else each for each in values]
    return [kind if kind in "UO" else f"{kind}{labels.dtype.itemsize}", plain]


def decode_labels(told: Any) -> NDArray[Any]:
    """The labels (n,) that were encoded, if they are labels: a ValueError or TypeError says that they are not."""
    dtype, values = told
    kinds = LABEL_TYPES.get(dtype)
    if kinds is None or not isinstance(values, list) or not all(type(each) in kinds for each in values):
        raise ValueError("labels must be text, numbers or booleans of one type")
    if any(isinstance(each, str) and len(each) > LABEL_CHARACTERS for each in values):
        raise ValueError(f"labels must have at most {LABEL_CHARACTERS} characters")
    try:
        return np.array(values, dtype=dtype)
    except OverflowError as error:
        raise ValueError("labels must fit their type") from error


def as_bytes(rows: NDArray[Any]) -> memoryview:
    """The memory of an array in C order."""
    return rows.reshape(-1).view(np.uint8).data


# -- the process -------------------------------------------------------------------------------------------------------


def main() -> None:
    """Open the file that the parent sends, and answer its questions until it closes the connection."""
    parent = os.getppid()
    end_with_parent()
    connection = socket.socket(fileno=int(sys.argv[-1]))
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        serve(connection, parent)
    os._exit(0)  # without the libraries' own farewells, which may hang


def serve(connection: socket.socket, parent: int) -> None:
    """The whole conversation."""
    (length,) = LENGTH.unpack(receive(connection, LENGTH.size))
    order = json.loads(receive(connection, length))
    formats = import_formats()
    import_library((formats.SAFE | formats.NUMBERED)[order["suffix"]].__module__)
    leave_network()
    reply(connection, READY)
    content = bytes(receive(connection, order["bytes"]))
    cpu = CpuLimit(order["seconds"])
    set_limits(order["memory_bytes"], len(content), order["suffix"])
    try:
        file = Path(f"copy{order['suffix']}")
        classes = None if order["classes"] is None else decode_labels(order["classes"])
        model = formats.open_content(file, content, classes)[0]
        described = json.dumps(describe(model)).encode()
        if order["suffix"] == ".skops" and getattr(model, "feature_names_in_", None) is not None:
            with suppress(ImportError):
                import_module("pandas")  # now, not within the time of the first question
    except Exception as error:
        reply_error(connection, REFUSED, error, reason_of(error, file))
        return
    forbid_files()
    reply(connection, DESCRIPTION, described)
    while await_question(connection, parent):
        answer_question(connection, model, cpu)


def answer_question(connection: socket.socket, model: Any, cpu: "CpuLimit") -> None:
    """Receive one question and send the answer, or what the model raised."""
    method, order, n, d = QUESTION.unpack(receive(connection, QUESTION.size))
    try:
        rows = np.empty((n, d), dtype="<f8", order="F" if order else "C")
    except MemoryError:
        reply(connection, NO_MEMORY)  # for which the parent ends this process
        raise
    receive_into(connection, as_bytes(rows.T if order else rows))
    cpu.extend()
    try:
        ask = model if method == 0 and not hasattr(model, "predict") else getattr(model, METHODS[method])
        head, body = encode_answer(np.asarray(ask(rows)), n)
    except Exception as error:
        reply_error(connection, RAISED, error, describe_error(error))
        return
    send(connection, REPLY.pack(*head), body)


def encode_answer(answer: NDArray[Any], n: int) -> tuple[tuple[int, int, int, int], Any]:
    """The head and the body of a reply with this answer to n rows."""
    if answer.ndim not in (1, 2) or answer.shape[0] != n or not 1 <= (columns := width(answer)) <= LARGEST_OUTPUTS:
        raise ValueError(f"the model must give an answer for each of {n} rows; its shape is {answer.shape}")
    second = columns if answer.ndim == 2 else 0
    little = answer.dtype.newbyteorder("<").str
    if little in NUMBER_TYPES:
        numbers = np.ascontiguousarray(answer, dtype=little)
        return (NUMBERS, NUMBER_TYPES.index(little), n, second), as_bytes(numbers)
    body = json.dumps(encode_labels(answer)).encode()
    if len(body) > JSON_BYTES:
        raise ValueError("labels must be short; they are not")
    return (LABELS, 0, len(body), second), body


def width(answer: NDArray[Any]) -> int:
    """How many outputs each row has."""
    return int(answer.shape[1]) if answer.ndim == 2 else 1


def describe(model: Any) -> dict[str, Any]:
    """What the parent has to know of the model."""
    classes, names = getattr(model, "classes_", None), getattr(model, "feature_names_in_", None)
    takes = getattr(model, "n_features_in_", None)
    if classes is not None and (np.ndim(classes) != 1 or not 1 <= len(classes) <= LARGEST_OUTPUTS):
        raise ValueError(f"a classifier must have one list of at most {LARGEST_OUTPUTS} classes")
    return {
        "has_probabilities": hasattr(model, "predict_proba"),
        "classes": None if classes is None else encode_labels(np.asarray(classes)),
        "n_features": None if takes is None else int(takes),
        "feature_names": None if names is None else [str(name) for name in names],
    }


# -- imports -----------------------------------------------------------------------------------------------------------


def import_formats() -> Any:
    """`degroot.models.formats`, and of this package only what that needs: no package runs its ``__init__``."""
    root = Path(__file__).resolve().parents[1]
    for name in ("degroot", "degroot.compute", "degroot.files", "degroot.models"):
        package = ModuleType(name)
        package.__path__ = [str(root.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    return import_module("degroot.models.formats")


def import_library(module: str) -> None:
    """What a module opens files with, without what that can do without. Where it is missing, opening says so."""
    library, needless = LIBRARIES[module]
    absence = Absence(needless)
    sys.meta_path.insert(0, absence)
    try:
        import_module(library)
    except ImportError:
        sys.meta_path.remove(absence)
        with suppress(ImportError):
            import_module(library)


class Absence:
    """Lets packages look as if they were not installed."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = frozenset(names)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Part of the protocol of `sys.meta_path`."""
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


# -- limits ------------------------------------------------------------------------------------------------------------


def set_limits(memory_bytes: int, content_bytes: int, suffix: str) -> None:
    """Limits for opening the file: of memory beyond what is in use now, and files no longer than the content."""
    import resource

    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, content_bytes, is_final=False)  # XGBoost reads its file from a folder
    with suppress(OSError, ValueError):
        in_use = int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()
        stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
        stacks = (os.cpu_count() or 1) * (stack if stack > 0 else 1 << 23) if suffix == ".onnx" else 0
        limit(resource.RLIMIT_AS, in_use + stacks + memory_bytes)  # onnxruntime has a thread for each core
    if sys.platform == "linux":
        with suppress(Exception):
            load_libc().prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def forbid_files() -> None:
    """Write no byte to any file from now on."""
    import resource

    sys.dont_write_bytecode = True
    limit(resource.RLIMIT_FSIZE, 0)
    os.chdir("/")  # the folder in which the file was opened goes away


def limit(kind: int, value: int, is_final: bool = True) -> None:
    """Set a limit, or leave a lower one as it is."""
    import resource

    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (value, value if is_final else hard))


class CpuLimit:
    """A backstop that the kernel keeps: so many seconds of all cores for one question."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds * (os.cpu_count() or 1) + 2
        self.until = 0
        self.extend()

    def extend(self) -> None:
        """Allow as much again from now on."""
        import resource

        until = int(time.process_time() + self.seconds)
        if until > self.until:
            self.until = until
            limit(resource.RLIMIT_CPU, until, is_final=False)


def end_with_parent() -> None:
    """Let the kernel end this process when the parent's end of standard input is closed, busy as it may be.

    PR_SET_PDEATHSIG would end it as soon as the thread that started it is gone.
    """
    import fcntl
    import select

    with suppress(OSError, AttributeError):
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)  # SIGIO, which ends it
    if select.select([0], [], [], 0)[0]:
        os._exit(0)


def leave_network() -> None:
    """Move to a network namespace without any network, where the system allows it.

    Users other than root need a user namespace for that, where capabilities mean nothing: none for a user that needs
    one to read Python's own files (`os.access` looks without them).
    """
    is_root = os.geteuid() == 0
    if sys.platform == "linux" and (is_root or os.access(os.__file__, os.R_OK)):
        with suppress(Exception):
            load_libc().unshare(CLONE_NEWNET if is_root else CLONE_NEWUSER | CLONE_NEWNET)


def load_libc() -> Any:
    """The C library."""
    import ctypes

    return ctypes.CDLL(None)


# -- messages ----------------------------------------------------------------------------------------------------------


def await_question(connection: socket.socket, parent: int) -> bool:
    """Wait for a question; false when there will be none."""
    import select

    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    while not waiting.poll(IDLE_SECONDS * 1000):
        if os.getppid() != parent:
            return False
    return True


def receive(connection: socket.socket, length: int) -> bytearray:
    """So many bytes."""
    into = bytearray(length)
    receive_into(connection, memoryview(into))
    return into


def receive_into(connection: socket.socket, memory: memoryview) -> None:
    """Fill the memory."""
    while len(memory):
        count = connection.recv_into(memory)
        if not count:
            raise EOFError
        memory = memory[count:]


def reply(connection: socket.socket, kind: int, body: bytes = b"") -> None:
    """Send JSON or text."""
    send(connection, REPLY.pack(kind, 0, len(body), 0), body)


def send(connection: socket.socket, head: bytes, body: Any) -> None:
    """Send head and body, small ones at once."""
    if len(body) <= 1 << 16:
        connection.sendall(head + bytes(body))
    else:
        connection.sendall(head)
        connection.sendall(body)


def reply_error(connection: socket.socket, kind: int, error: Exception, reason: str) -> None:
    """Send what went wrong; of memory that was refused, only that."""
    lacks = isinstance(error, MemoryError) or LACKS_MEMORY.search(reason) is not None
    reply(connection, *((NO_MEMORY,) if lacks else (kind, reason.encode(errors="replace")[:REASON_CHARACTERS])))


LACKS_MEMORY = re.compile("bad_?alloc|memoryerror|alloc failed|(failed to|cannot) allocate memory|out of memory", re.I)


def reason_of(error: Exception, file: Path) -> str:
    """Why the file cannot be opened, without its name."""
    text = str(error) if type(error).__name__ == "InvalidInput" else describe_error(error)
    return text.removeprefix(f"{file}: ").rpartition(f"{file} cannot be opened: ")[2].rstrip(".")


def describe_error(error: Exception) -> str:
    """The first line of what an error says, after its name."""
    lines: Sequence[str] = f"{type(error).__name__}: {error}".splitlines()
    return lines[0].rstrip(".: ")


if __name__ == "__main__":
    main()
