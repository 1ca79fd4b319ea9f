"""The store of machine code: where the code of kernels is found, and where it is kept once it has been compiled.

The package brings code, made when it was built, for instruction sets of `LEVELS`. What it lacks is compiled on first
use, for the processor at hand, and kept in the user's cache; when several processes need the same kernel at once, one
compiles it for all.
"""

import ctypes
import hashlib
import json
import os
import platform
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from llvmlite import binding

from degroot.compute.kernel import RESULTS, Kernel, MachineCode, find_parts, hash_source
from degroot.compute.progress import announce, write_line
from degroot.exceptions import InvalidInput
from degroot.files import atomic
from degroot.files.lock import release_lock, try_lock

NATIVE = "native"  # in the place of a level: this processor
FORMAT = 2  # of files of machine code, and of how it is called
PACKAGE = Path(__file__).with_name("objects")
COMPILING = "Compiling kernels for this machine, first use only ..."

DIGEST_BYTES = hashlib.sha256().digest_size

WAIT_SECONDS = 60.0  # for another process to compile a kernel; it may have been stopped
POLL_SECONDS = 0.01

# Features that processors of a level have beyond the one before: the levels of the x86-64 ABI.
LEVELS = {
    "x86-64-v3": ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
}

_unwritable_told = threading.Event()


def load(kernel: Kernel, signature: str) -> MachineCode:
    """The machine code of a kernel for arguments of these types: from the package, the user's cache, or compiled."""
    name = name_file(kernel, signature)
    return link(find(name) or _compile(kernel, signature, name))


def find(name: str) -> "CodeFile | None":
    """A file of machine code for this processor, from the package or the user's cache; not one that is damaged."""
    targets = [*map(name_target, reversed(find_levels())), name_target(NATIVE)]
    in_package = filter(None, (read(PACKAGE / target / name) for target in targets))
    found = next(in_package, None)
    cached = None if found is not None else find_user_cache()
    return found if cached is None else read(cached / targets[-1] / name)


def name_target(level: str) -> str:
    """The folder of code for a level of `LEVELS` or, `NATIVE`, for this processor, on this system.

    The size of the head of a Python object is a part of it, since the code looks into objects.
    """
    return f"{sys.platform}-{object.__basicsize__}-{find_processor() if level == NATIVE else level}"


def name_file(kernel: Kernel, signature: str) -> str:
    """The file of a kernel's code: it says what the code was made from, so that a change of any part is seen."""
    modules, constants = find_parts(kernel)
    made_from = [FORMAT, signature, [hash_source(module) for module in sorted(modules)], sorted(constants)]
    digest = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()
    return f"{kernel.name.removeprefix('degroot.')}-{digest[:16]}.o"


@cache
def find_levels() -> list[str]:
    """The instruction sets of `LEVELS` that this processor has, the least one first."""
    if sys.platform == "win32" or platform.machine() not in ("x86_64", "AMD64"):
        return []
    has, levels = find_features(), []
    for level, features in LEVELS.items():
        if not all(has.get(feature, False) for feature in features):
            break
        levels.append(level)
    return levels


@cache
def find_processor() -> str:
    """This processor, by its kind, its name and a digest of its features."""
    features = hashlib.sha256(json.dumps(sorted(find_features().items())).encode()).hexdigest()
    return f"{platform.machine()}-{binding.get_host_cpu_name()}-{features[:8]}"


@cache
def find_features() -> dict[str, bool]:
    """What this processor can do, by LLVM's names; nothing where LLVM cannot tell."""
    try:
        return dict(binding.get_host_cpu_features())
    except RuntimeError:
        return {}


@cache
def find_user_cache() -> Path | None:
    """The folder of compiled code of this user: ``DEGROOT_KERNELS``, or where the system keeps caches, if anywhere."""
    if folder := os.environ.get("DEGROOT_KERNELS"):
        return Path(folder).absolute()
    from platformdirs import user_cache_path

    try:
        place = user_cache_path("degroot")
    except RuntimeError:  # there is no home
        return None
    return place / "kernels" if place.is_absolute() else None


def read(path: Path) -> "CodeFile | None":
    """A file of machine code; None where there is none that can be used."""
    try:
        return CodeFile.unpack(path.read_bytes())
    except OSError:
        return None


def _compile(kernel: Kernel, signature: str, name: str) -> "CodeFile":
    from degroot.compute.kernel_compiler import compile_kernel

    with announce(COMPILING):
        target = find_writable_target()
        if target is None:
            return compile_kernel(kernel, signature, name)
        with _hold(target / f"{name}.lock"):
            file = find(name)  # another process may have been first
            if file is None:
                file = compile_kernel(kernel, signature, name)
                save(target / name, file.pack())
            return file


def find_writable_target() -> Path | None:
    """The folder of the user's cache for this processor, which is made; where that fails, say so once."""
    folder = find_user_cache()
    if folder is None:
        _tell_unwritable("this user has no folder for caches")
        return None
    target = folder / name_target(NATIVE)
    with suppress(OSError):
        target.mkdir(parents=True, exist_ok=True)
        if os.access(target, os.W_OK):
            return target
    _tell_unwritable(f"{target} cannot be written")
    return None


def save(path: Path, content: bytes) -> None:
    """Write a file, all of it or nothing; where that fails, say so once."""
    try:
        atomic.save(path, content)
    except InvalidInput:
        _tell_unwritable(f"{path.parent} cannot be written")


def _tell_unwritable(why: str) -> None:
    if not _unwritable_told.is_set():
        _unwritable_told.set()
        write_line(
            f"Compiled kernels cannot be kept: {why}. "
            "Every process compiles anew; set DEGROOT_KERNELS to a folder that can be written."
        )


@contextmanager
def _hold(path: Path) -> Iterator[None]:
    """Hold a lock between processes; without it where it cannot be had."""
    try:
        file = path.open("ab")
    except OSError:  # the cache can only be read
        yield
        return
    with file:
        limit = time.monotonic() + WAIT_SECONDS
        with suppress(OSError):  # there are file systems without locks
            while not try_lock(file) and time.monotonic() < limit:
                time.sleep(POLL_SECONDS)
        try:
            yield
        finally:
            with suppress(OSError):
                release_lock(file)  # also for processes that were forked meanwhile and have it open


# -- machine code in memory --------------------------------------------------------------------------------------------


class CodeFile(NamedTuple):
    """A file of machine code: a digest of the rest, a line that says how the code is called, and an object file."""

    symbol: str
    arguments: str  # a letter for each: f for float64, i for what is a whole number or an address
    result: str  # "none", or a key of `RESULTS`
    code: bytes

    def pack(self) -> bytes:
        """The content of the file."""
        content = json.dumps([self.symbol, self.arguments, self.result]).encode() + b"\n" + self.code
        return hashlib.sha256(content).digest() + content

    @classmethod
    def unpack(cls, content: bytes) -> "CodeFile | None":
        """From the content of the file; None where that is damaged."""
        digest, content = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        if hashlib.sha256(content).digest() != digest:
            return None
        head, _, code = content.partition(b"\n")
        symbol, arguments, result = json.loads(head)
        return cls(symbol, arguments, result, code)


def link(file: CodeFile) -> MachineCode:
    """The machine code of a file, ready to be called; on one thread at a time."""
    engine = _engine()
    engine.add_object_file(binding.object_file.ObjectFileRef.from_data(file.code))
    engine.finalize_object()
    address = engine.get_function_address(file.symbol)
    if not address:
        raise RuntimeError(f"A file of machine code must hold {file.symbol}; it does not.")
    kinds = [ctypes.c_double if letter == "f" else ctypes.c_int64 for letter in file.arguments]
    result = RESULTS.get(file.result)
    if result is not None:
        kinds.append(ctypes.c_int64)
    return MachineCode(ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(address), result)


@cache
def _engine() -> Any:
    """LLVM's linker of machine code into this process."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(codemodel="jitdefault")
    return binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
