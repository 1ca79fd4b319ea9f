"""Answers as the page keeps them: the points, what the collective says of them, and how it was asked."""

import io
import json
import re
import secrets
from collections import OrderedDict
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Any
from zipfile import BadZipFile

import numpy as np

from degroot.answers.answer import Consensus
from degroot.answers.flags import MISSING, Flag
from degroot.batch import output_names
from degroot.compute.compiled import Array
from degroot.files.atomic import save
from degroot.node.page.encoding import moment
from degroot.node.page.requests import AskTerms

WORKING, DONE, FAILED = "working", "done", "failed"


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer with all that is needed to show it again."""

    id: str
    at: float  # seconds since 1970
    seconds: float
    source: str
    terms: AskTerms
    rule: str
    features: tuple[str, ...]
    ignored: tuple[str, ...]
    points: Array  # (M, d)
    consensus: Consensus

    @property
    def outputs(self) -> tuple[str, ...] | None:
        """What the outputs are called: classes or numbers; None: there is one."""
        return output_names(self.consensus.outputs, self.consensus.classes)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes whose probabilities the outputs are, if they are."""
        return (self.outputs or ()) if self.consensus.classes else ()

    def summary(self) -> dict[str, Any]:
        """What there is to say of all of it."""
        consensus, total = self.consensus, len(self.points)
        return entry(self.id, self.at, self.source, total, self.terms.way, DONE) | {
            "done": total, "total": total, "error": None, "guard": self.terms.guard, "coverage": self.terms.coverage,
            "rule": self.rule, "ignored": list(self.ignored), "features": list(self.features),
            "names": list(consensus.names), "outputs": consensus.outputs, "classes": list(self.classes),
            "seconds": round(self.seconds, 3), "rounds": consensus.rounds,
            "missing": [_told(flag) for flag in consensus.flags if flag.kind == MISSING],
            "flags": [_told(flag) for flag in consensus.flags if flag.kind != MISSING],
        }  # fmt: skip


def entry(id_: str, at: float, source: str, rows: int, way: str, status: str) -> dict[str, Any]:
    """The line of a question in a list of answers."""
    return {"id": id_, "at": moment(at), "source": source, "rows": rows, "way": way, "status": status}


def _told(flag: Flag) -> dict[str, Any]:
    points = len(np.unique(flag.points))
    return {"agent": flag.agent, "kind": flag.kind, "reason": flag.about, "points": points}


FOLDER = "answers"  # in the folder for the node's state
KEPT, OPEN = 100, 2  # answers on disk, and in memory
ID = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)
ABOUT, POINTS = "about", "points"
FIELDS = ("value", "standard_error", "weights", "beliefs", "trust", "influence", "lower", "upper", "sets")
PLAIN = ("id", "at", "seconds", "source", "rule", "features", "ignored")


def new_id() -> str:
    """An id that nobody guesses."""
    return secrets.token_urlsafe(16)


class Archive:
    """Answers by their ids; the oldest make way for new ones."""

    def __init__(self, state: Path, kept: int = KEPT) -> None:
        self._folder, self._kept = state / FOLDER, kept
        self._open: OrderedDict[str, Answer] = OrderedDict()
        self._lock = Lock()

    def save(self, answer: Answer) -> None:
        """Keep an answer: all of it or, if that fails, nothing."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        save(self._path(answer.id), _packed(answer))
        with self._lock:
            self._hold(answer)
            for path in self._newest()[self._kept :]:
                path.unlink(missing_ok=True)
                self._open.pop(path.stem, None)

    def find(self, id_: str) -> Answer | None:
        """The answer with this id, if it is kept."""
        if ID.fullmatch(id_) is None:
            return None
        with self._lock:
            answer = self._open.get(id_)
            if answer is None:
                with suppress(FileNotFoundError):
                    answer = _unpacked(self._path(id_))
            if answer is not None:
                self._hold(answer)
            return answer

    def entries(self) -> list[dict[str, Any]]:
        """A line for each answer, the newest first."""
        entries = []
        for path in self._newest():
            with suppress(OSError, ValueError, KeyError, BadZipFile):  # it has just made way, or is none of ours
                about = _about(path)
                told = {name: about[name] for name in ("at", "source", "rows")}
                entries.append(entry(about["id"], **told, way=about["terms"]["way"], status=DONE))
        return entries

    def _hold(self, answer: Answer) -> None:
        self._open[answer.id] = answer
        self._open.move_to_end(answer.id)
        while len(self._open) > OPEN:
            self._open.popitem(last=False)

    def _path(self, id_: str) -> Path:
        return self._folder / f"{id_}.npz"

    def _newest(self) -> list[Path]:
        found = []
        for path in self._folder.glob("*.npz"):
            with suppress(OSError):
                found.append((path.stat().st_mtime_ns, path))
        return [path for _, path in sorted(found, reverse=True)]


def _packed(answer: Answer) -> bytes:
    consensus = answer.consensus
    about = {name: getattr(answer, name) for name in PLAIN} | {
        "rows": len(answer.points), "terms": asdict(answer.terms), "names": consensus.names,
        "rounds": consensus.rounds, "classes": consensus.classes,
        "flags": [[flag.agent, flag.reason] for flag in consensus.flags],
    }  # fmt: skip
    arrays: dict[str, Any] = {ABOUT: np.frombuffer(json.dumps(about).encode(), np.uint8), POINTS: answer.points}
    arrays |= {name: getattr(consensus, name) for name in FIELDS if getattr(consensus, name) is not None}
    arrays |= {f"flag{k}": flag.points for k, flag in enumerate(consensus.flags)}
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def _about(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        about: dict[str, Any] = json.loads(archive[ABOUT].tobytes())
        return about


def _unpacked(path: Path) -> Answer:
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    about = json.loads(arrays[ABOUT].tobytes())
    flags = tuple(Flag(agent, why, arrays[f"flag{k}"]) for k, (agent, why) in enumerate(about["flags"]))
    terms = AskTerms(**about["terms"])
    consensus = Consensus(
        tuple(about["names"]), **{name: arrays[name] for name in FIELDS if name in arrays}, flags=flags,
        rounds=about["rounds"], coverage=terms.coverage, classes=tuple(about["classes"]),
    )  # fmt: skip
    return Answer(
        about["id"], about["at"], about["seconds"], about["source"], terms, about["rule"], tuple(about["features"]),
        tuple(about["ignored"]), arrays[POINTS], consensus,
    )  # fmt: skip
