"""All kernels at once: what the package is built with, and `degroot warm-up`.

``python -m degroot.compute.kernel_build FOLDER [LEVEL ...]`` compiles for levels of `LEVELS`, or the highest one here.
"""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from degroot.compute import store
from degroot.compute.compiled import threads
from degroot.compute.kernel import declared

ROOT = Path(__file__).parents[1]
ALL = "all"  # in the place of levels
MARK = "@compiled_for("  # what modules with declared kernels contain

# what numba is told to compile for, beside the name of a level: vectors as wide as the level has them
TUNING = {"x86-64-v4": "-prefer-256-bit"}


class KernelTask(NamedTuple):
    """A kernel to compile, in words that another process understands."""

    module: str
    kernel: str
    signature: str
    file: str


def list_tasks() -> list[KernelTask]:
    """All declared kernels, those that take longest first."""
    for path in sorted(ROOT.rglob("*.py")):
        if path != Path(__file__) and MARK in path.read_text(encoding="utf-8"):
            import_module(".".join(("degroot", *path.relative_to(ROOT).with_suffix("").parts)))
    tasks = [
        KernelTask(kernel.__module__, kernel.__name__, signature, store.name_file(kernel, signature))
        for kernel, signature in declared
    ]
    return sorted(dict.fromkeys(tasks), key=lambda task: (not task.module.startswith("degroot.neighbourhoods"), task))


def build(folder: Path, level: str, advance: Callable[[], object], n_jobs: int | None = None) -> int:
    """Compile what is not in ``folder / target`` yet, in processes of their own; remove what is out of date."""
    target = folder / store.name_target(level)
    tasks = list_tasks()
    target.mkdir(parents=True, exist_ok=True)
    names = {task.file for task in tasks}
    for path in target.iterdir():
        if path.name not in names:
            path.unlink()
    missing = [task for task in tasks if store.read(target / task.file) is None]
    compile_tasks(missing, target, level, advance, n_jobs)
    return len(missing)


def compile_tasks(
    tasks: Sequence[KernelTask], target: Path, level: str, advance: Callable[[], object], n_jobs: int | None = None
) -> None:
    """Compile kernels into a folder, in processes of their own, since one process compiles one at a time."""
    if not tasks:
        return
    workers = min(len(tasks), n_jobs or threads())
    with ProcessPoolExecutor(workers, get_context("spawn"), _choose_level, (level,)) as pool:
        for done in as_completed([pool.submit(_compile, task, target) for task in tasks]):
            done.result()
            advance()


def _choose_level(level: str) -> None:
    """Let numba, which is not imported yet, compile for a level."""
    if level != store.NATIVE:
        os.environ["NUMBA_CPU_NAME"] = level
        os.environ["NUMBA_CPU_FEATURES"] = TUNING.get(level, "")


def _compile(task: KernelTask, target: Path) -> None:
    from degroot.compute.kernel_compiler import compile_kernel

    kernel = getattr(import_module(task.module), task.kernel)
    store.save(target / task.file, compile_kernel(kernel, task.signature, task.file).pack())


def list_missing() -> tuple[list[KernelTask], int]:
    """The declared kernels that neither the package nor the user's cache has, and how many there are in all."""
    tasks = list_tasks()
    return [task for task in tasks if store.find(task.file) is None], len(tasks)


def build_package(folder: Path, levels: Sequence[str]) -> None:
    """Compile for levels, and remove what is for others or out of date.

    By default for the highest level of this processor; ``all``: for every level of such processors.
    """
    own = store.find_levels()
    if list(levels) == [ALL]:
        levels = list(store.LEVELS) if own else [store.NATIVE]
    levels = levels or (own or [store.NATIVE])[-1:]
    unknown = {*levels} - {store.NATIVE, *(store.LEVELS if own else ())}
    if unknown:
        raise SystemExit(f"DEGROOT_KERNEL_LEVELS must be levels of such processors; got {', '.join(unknown)}.")
    for level in levels:
        build(folder, level, lambda: None)
    for other in folder.iterdir():
        if other.name not in map(store.name_target, levels):
            shutil.rmtree(other)


if __name__ == "__main__":
    build_package(Path(sys.argv[1]), sys.argv[2:])
