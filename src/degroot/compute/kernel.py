"""Kernels: functions of arrays, written in the part of Python that numba compiles, called as machine code.

A kernel's machine code is kept in the `store`, beside the package or in the user's cache, and is called through ctypes:
numba is imported only where there is no machine code yet. Kernels may call kernels; these become part of their callers.
"""

import ctypes
import hashlib
import operator
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])

OUT_OF_ORDER = 1  # what machine code returns for arrays that are not C-contiguous and aligned; 0: it is done
RESULTS: dict[str, Any] = {"i8": ctypes.c_int64, "f8": ctypes.c_double, "b1": ctypes.c_bool}

declared: "list[tuple[Kernel, str]]" = []  # kernels of the modules imported so far, with what they are called with

ARRAY_TYPES = ("f8", "f4", "i8", "i4", "u8", "u4", "u1", "i1", "b1")

_loading = threading.RLock()
if hasattr(os, "register_at_fork"):  # neither LLVM nor a lock that is held survives a fork in the middle of its work
    os.register_at_fork(before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release)


class _NumbaTypes:
    """``numba.types``, imported when a kernel is compiled."""

    def __getattr__(self, name: str) -> Any:
        from numba import types

        return getattr(types, name)


types: Any = _NumbaTypes()


class Intrinsic:
    """A function that writes LLVM code into the kernels that call it, as `numba.extending.intrinsic` takes it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__doc__, self.__module__ = function.__doc__, function.__module__
        hash_source(self.__module__)

    def __call__(self, *arguments: Any) -> NoReturn:
        """Raise: there is nothing that Python could call."""
        raise TypeError(f"{self.function.__qualname__} is a part of kernels; Python cannot call it.")


def intrinsic(function: Callable[..., Any]) -> Any:
    """Make `function` an intrinsic of kernels."""
    return Intrinsic(function)


class MachineCode(NamedTuple):
    """A kernel for arguments of certain types."""

    call: Callable[..., int]  # gets arrays by their addresses; returns 0, or what went wrong
    result: Any  # the ctypes class of what the kernel returns, or None


class Kernel:
    """A function of C-contiguous arrays, numbers, and named tuples of these. Returns a number or nothing."""

    def __init__(self, function: Callable[..., Any], inline: bool = False) -> None:
        self.function, self.inline = function, inline
        self.name = f"{function.__module__}.{function.__qualname__}"
        self.__name__, self.__qualname__ = function.__name__, function.__qualname__
        self.__doc__, self.__module__ = function.__doc__, function.__module__
        self.__wrapped__ = function
        hash_source(self.__module__)
        self._has_tuples = False
        self._ready: dict[tuple[Any, ...], tuple[MachineCode, list[Callable[[Any], Any]]]] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Run the machine code, without the interpreter's lock."""
        values: Sequence[Any] = flatten(arguments) if self._has_tuples else arguments
        kinds = tuple([(x.dtype, x.ndim) if isinstance(x, np.ndarray) else x.__class__ for x in values])
        ready = self._ready.get(kinds)
        if ready is None:
            return self._prepare(arguments)
        (call, result), converters = ready
        given = [convert(x) for convert, x in zip(converters, values, strict=True)]
        if result is None:
            status = call(*given)
            if status:
                self._raise(status)
            return None
        returned = result()
        status = call(*given, ctypes.addressof(returned))
        if status:
            self._raise(status)
        return returned.value

    def _prepare(self, arguments: tuple[Any, ...]) -> Any:
        """Find or compile machine code for arguments of these types, and call it."""
        self._has_tuples = any(isinstance(x, tuple) for x in arguments)
        values = flatten(arguments)
        kinds = tuple([(x.dtype, x.ndim) if isinstance(x, np.ndarray) else x.__class__ for x in values])
        with _loading:
            from degroot.compute.store import load  # in here, so that no fork comes in the middle of an import

            if kinds not in self._ready:
                self._ready[kinds] = load(self, describe_types(arguments)), [_find_converter(x) for x in values]
        return self(*arguments)

    def _raise(self, status: int) -> NoReturn:
        if status == OUT_OF_ORDER:
            raise TypeError(f"{self.name}: arrays must be C-contiguous and aligned; one of them is not.")
        raise MemoryError(f"{self.name} failed: memory ran out, or an array would have a negative length.")

    def __reduce__(self) -> str:
        return self.__qualname__  # by reference, as functions are pickled


def compiled(function: Function) -> Function:
    """Compile `function` for the kernels that call it, and when Python calls it."""
    return Kernel(function)  # type: ignore[return-value]


def compiled_for(*signatures: str) -> Callable[[Function], Function]:
    """As `compiled`, with machine code for arguments of these types in the package; see `describe_types`."""

    def declare(function: Function) -> Function:
        kernel = Kernel(function)
        declared.extend((kernel, signature) for signature in signatures)
        return kernel  # type: ignore[return-value]

    return declare


def inlined(function: Function) -> Function:
    """As `compiled`, always a part of the callers: to hand over many arrays takes as long as some work on few rows."""
    return Kernel(function, inline=True)  # type: ignore[return-value]


def flatten(values: Sequence[Any]) -> list[Any]:
    """The values with those of tuples in their place.

    Examples
    --------
    >>> flatten((1, (2, (3.0,))))
    [1, 2, 3.0]
    """
    flat: list[Any] = []
    for value in values:
        if isinstance(value, tuple):
            flat += flatten(value)
        else:
            flat.append(value)
    return flat


def describe_types(values: Sequence[Any]) -> str:
    """The types of arguments: NumPy's code, for arrays with the number of dimensions; named tuples by their class.

    Examples
    --------
    >>> describe_types((np.zeros((2, 3)), 1, 0.5, True))
    'f8[2] i8 f8 b1'
    """
    return " ".join(_describe_type(value) for value in values)


def _describe_type(value: Any) -> str:
    if isinstance(value, np.ndarray):
        if not value.dtype.isnative:
            raise TypeError(f"Arrays for kernels must have the byte order of this machine; got {value.dtype}.")
        code = f"{value.dtype.kind}{value.dtype.itemsize}"
        if code not in ARRAY_TYPES:
            raise TypeError(f"Arrays for kernels must be of {', '.join(ARRAY_TYPES)}; got {value.dtype}.")
        return f"{code}[{value.ndim}]"
    if isinstance(value, tuple):
        return f"{type(value).__name__}({describe_types(value)})"
    if isinstance(value, bool | np.bool_):
        return "b1"
    if isinstance(value, int | np.integer):
        return "i8"
    if isinstance(value, float | np.floating):
        return "f8"
    raise TypeError(f"Kernels take arrays and numbers; got {type(value).__name__}.")


def _find_converter(value: Any) -> Callable[[Any], Any]:
    """What makes of an argument of this type what machine code takes: of an array its address."""
    if isinstance(value, np.ndarray):
        return id  # in CPython the address of the object
    if isinstance(value, bool | np.bool_):
        return int
    return float if isinstance(value, float | np.floating) else _as_int64


def _as_int64(value: Any) -> int:
    number = operator.index(value)
    if not -(2**63) <= number < 2**63:  # which ctypes would cut off
        raise OverflowError(f"Whole numbers for kernels must fit into 64 bits; got {number}.")
    return number


@cache
def hash_source(module: str) -> str:
    """A digest of a module's file, as it is when the first of its kernels is made: it may be edited before a call."""
    found = sys.modules[module].__spec__ if module in sys.modules else find_spec(module)
    if found is None or found.origin is None:  # typed into a session: nobody can tell whether it changes
        return f"{module} {os.getpid()} {time.time_ns()}"
    return hashlib.sha256(Path(found.origin).read_bytes()).hexdigest()


def find_globals(function: Callable[..., Any]) -> dict[str, Any]:
    """What `function` refers to by name, around it or in its module."""
    plain: Any = function
    cells = zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True)
    names = set(_names_in(plain.__code__)) & plain.__globals__.keys()
    return {name: plain.__globals__[name] for name in names} | {name: cell.cell_contents for name, cell in cells}


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def find_parts(kernel: Kernel) -> tuple[set[str], set[str]]:
    """The modules of its package that a kernel is made from, and the constants by name that its parts refer to."""
    package = kernel.__module__.partition(".")[0]
    modules = {__name__, f"{__package__}.kernel_compiler"}  # by which it is compiled and called
    constants: set[str] = set()
    seen, waiting = set(), [kernel.function]
    while waiting:
        function: Any = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        modules.add(function.__module__)
        for name, value in find_globals(function).items():
            if isinstance(value, int | float | str | tuple):
                constants.add(f"{function.__qualname__} {name} {value!r}")
            if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == package:
                modules.add(value.__name__)
            for part in _list_parts(value):
                home = str(part.__module__)
                if home.partition(".")[0] == package:
                    modules.add(home)
                    waiting += [part] if isinstance(part, FunctionType) else []
    return modules, constants


def _list_parts(value: Any) -> list[Any]:
    """The functions and classes that a kernel takes from a global value."""
    if isinstance(value, Kernel | Intrinsic):
        return [value.function]
    if isinstance(value, ModuleType):
        return [each.function for each in vars(value).values() if isinstance(each, Kernel | Intrinsic)]
    return [value] if isinstance(value, FunctionType | type) else []
