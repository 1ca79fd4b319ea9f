"""The cache of kernels on disk: when several processes need the same kernel at once, one compiles it for all."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from numba.core.compiler_lock import global_compiler_lock

from degroot.files.lock import release_lock, try_lock

WAIT_SECONDS = 60.0  # for another process to compile a kernel; it may have been stopped
POLL_SECONDS = 0.01


def share_compilation(kernel: Any) -> None:
    """Let one process at a time compile a kernel; those that wait find it in the cache then."""
    folder = kernel.stats.cache_path
    if not folder:  # nothing is kept on disk
        return
    code, compile_here = kernel.py_func.__code__, kernel.compile
    path = Path(folder) / f"{Path(code.co_filename).stem}.{code.co_name}-{code.co_firstlineno}.lock"

    def compile_or_load(signature: Any) -> Any:
        # the compiler's own lock first: two threads never hold one each and wait for the other
        with global_compiler_lock, _hold(path):
            return compile_here(signature)

    kernel.compile = compile_or_load


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
