"""The cache: what is finished, kept on disk, so that an interrupted run goes on where it stopped.

A part is the rows of one task. Its name is a digest of whatever they depend on: the settings (but for the number of
repetitions), the case, the repetition, the data, the code and the libraries. A part that is damaged counts as missing.
"""

import hashlib
import json
import platform
from dataclasses import asdict
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import degroot
from degroot.files.atomic import make_folder, save
from degroot.paper.catalogue import NAMES, module_name
from degroot.paper.data.datasets import Data
from degroot.paper.experiment import ExperimentTask, Row

LIBRARIES = ("numba", "numpy", "scipy", "scikit-learn")
# No row depends on these.
BESIDES = {"compute/progress.py"} | {f"paper/{name}.py" for name in ("drawing", "report", "reproduce", "statistics")}


class Parts:
    """The parts in a folder, which is made if it is not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, task: ExperimentTask, data: Data | None) -> list[Row] | None:
        """The rows of `task`, or None where they are not there or damaged."""
        try:
            path = self._path(task, data)
            kept = json.loads(path.read_text(encoding="utf-8"))
            rows: list[Row] = kept["rows"]
            return rows if kept["digest"] == _digest([path.name, rows]) else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def write(self, task: ExperimentTask, data: Data | None, rows: list[Row]) -> None:
        """Keep the rows of `task`: all of them or, if the machine stops now, none."""
        path = self._path(task, data)
        save(
            make_folder(path.parent) / path.name,
            json.dumps({"digest": _digest([path.name, rows]), "rows": rows}).encode(),
        )

    def _path(self, task: ExperimentTask, data: Data | None) -> Path:
        module = task.trial.__module__
        settings = {name: value for name, value in asdict(task.settings).items() if name != "reps"}
        content = None if data is None else [data.fingerprint, data.complete]
        trial = task.trial.__qualname__
        name = _digest([trial, settings, task.case, task.repetition, content, code_version(module)])
        return self.folder / module.rpartition(".")[2] / f"{name}.json"


@cache
def code_version(module: str) -> str:
    """A digest of Python, the libraries and this package, without the experiments that `module` does not use."""
    root = Path(degroot.__file__).parent
    unused = set(NAMES) - _experiments(module)
    skipped = BESIDES | {module_name(name).partition(".")[2].replace(".", "/") + ".py" for name in unused}
    files = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
    sources = [(file, (root / file).read_text(encoding="utf-8")) for file in files if file not in skipped]
    return _digest([platform.python_version(), [(library, version(library)) for library in LIBRARIES], sources])


def _experiments(module: str) -> set[str]:
    """The experiments that a module uses, itself included."""
    used = {
        getattr(value, "__module__", None) or getattr(value, "__name__", "")
        for value in vars(import_module(module)).values()
    }
    others = {name for name in NAMES if module_name(name) in used - {module}}
    return {module.rpartition(".")[2]}.union(*(_experiments(module_name(name)) for name in others))


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
