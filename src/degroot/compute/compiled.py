"""Work on many points: threads that take the points block by block, and the arrays that kernels take.

Kernels release the interpreter's lock and use one thread each, so plain threads over blocks of points
use every core. Unlike numba's own thread pools they may be called from several threads at once and after a fork.
"""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

# the one memory layout for which the kernels are compiled
KERNEL_LAYOUT: tuple[Literal["C"], Literal["A"], Literal["W"]] = ("C", "A", "W")

_BLOCK_BYTES = 1 << 20  # what a thread takes at least: enough to forget the cost of handing it over

_HELD_BYTES = 1 << 24  # what a thread holds at once

_worker = threading.local()


@cache
def threads() -> int:
    """How many threads to use: every core of this process, or what ``NUMBA_NUM_THREADS`` says (joblib sets it)."""
    with suppress(KeyError, ValueError):
        return max(1, int(os.environ["NUMBA_NUM_THREADS"]))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def as_kernel_array(array: ArrayLike, dtype: type = np.float64) -> Array:
    """`array` in the one memory layout for which the kernels are compiled, copied where it has another."""
    if type(array) is np.ndarray and array.dtype == dtype and array.flags.carray:
        return array  # at once: `np.require` takes longer than a kernel for one point
    return np.require(array, dtype, KERNEL_LAYOUT)


def over_points(kernel: Callable[..., None], *arrays: NDArray[Any]) -> None:
    """Call `kernel` with blocks of points, the first axis of all `arrays`, on all threads."""
    point = arrays[0].itemsize * int(np.prod(arrays[0].shape[1:], dtype=np.int64))
    block = max(_BLOCK_BYTES // max(1, point), -(-len(arrays[0]) // (4 * threads())))
    if len(arrays[0]) <= block:
        kernel(*arrays)
        return
    in_blocks(lambda start, stop: kernel(*(array[start:stop] for array in arrays)), len(arrays[0]), block)


def count_threads(n_jobs: int | None) -> int:
    """How many threads to use: as many as asked for; all for None or a negative number."""
    return n_jobs if n_jobs and n_jobs > 0 else threads()


def block_size(M: int, floats: int, n_jobs: int | None) -> int:
    """How many of M points a thread takes at once: enough to be quick, few enough to hold `floats` for each."""
    size = min(4096, max(4, _HELD_BYTES // (8 * floats)), -(-M // (4 * count_threads(n_jobs))))
    return size if size < 64 else -(-size // 64) * 64


@contextmanager
def on_one_thread(is_alone: bool = True) -> Iterator[None]:
    """Share nothing among threads inside, on this thread."""
    before = getattr(_worker, "busy", False)
    _worker.busy = before or is_alone
    try:
        yield
    finally:
        _worker.busy = before


def in_blocks(work: Callable[[int, int], object], count: int, block: int, n_threads: int | None = None) -> None:
    """Call ``work(start, stop)`` for consecutive blocks of at most `block` of `count` points, on all threads.

    `n_threads` is a number of threads; None or a negative number means all. Blocks called from inside a block run one
    after the other: the outer call has the cores already.
    """
    block = max(1, block)
    starts = range(0, count, block)
    most = count_threads(n_threads)
    busy = getattr(_worker, "busy", False)

    def run(start: int) -> None:
        with on_one_thread(busy or len(starts) > 1 or most == 1):
            work(start, min(start + block, count))

    if busy or most == 1 or len(starts) <= 1:
        for start in starts:
            run(start)
        return
    with ThreadPoolExecutor(min(len(starts), most)) as pool:
        tasks = [pool.submit(run, start) for start in starts]
        try:
            for task in tasks:
                task.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
