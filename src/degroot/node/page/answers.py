"""Answers as the page keeps them: the points, what the collective says of them, and how it was asked.

There are two of every question, from the node's own view and the consensus: one is in front, the other beside it.
"""

import io
import json
import re
import secrets
from collections import OrderedDict
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from threading import Lock
from typing import Any
from zipfile import BadZipFile

import numpy as np

from degroot.answers.answer import Consensus
from degroot.answers.choice import Mixture
from degroot.answers.flags import MISSING, Flag
from degroot.batch import output_names
from degroot.compute.compiled import Array
from degroot.files.atomic import save
from degroot.node.answering.answer import CONSENSUS
from degroot.node.page.encoding import moment, numbers
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
    front: Consensus
    beside: Consensus | None = None
    lacking: str = ""  # why there is nothing beside it, or no interval there

    @property
    def view(self) -> Consensus | None:
        """The answer from the node's own view."""
        return self.front if self.front.asker is not None else self.beside

    @property
    def consensus(self) -> Consensus | None:
        """The neutral consensus."""
        return self.front if self.front.asker is None else self.beside

    @property
    def outputs(self) -> tuple[str, ...] | None:
        """What the outputs are called: classes or numbers; None: there is one."""
        return output_names(self.front.outputs, self.front.classes)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes whose probabilities the outputs are, if they are."""
        return (self.outputs or ()) if self.front.classes else ()

    def summary(self) -> dict[str, Any]:
        """What there is to say of all of it."""
        front, total = self.front, len(self.points)
        return entry(self.id, self.at, self.source, total, self.terms.way, DONE) | {
            "done": total, "total": total, "error": None, "coverage": self.terms.coverage,
            "rule": self.rule, "ignored": list(self.ignored), "features": list(self.features),
            "names": list(front.names), "outputs": front.outputs, "classes": list(self.classes),
            "seconds": round(self.seconds, 3), "rounds": None if self.consensus is None else self.consensus.rounds,
            "asker": front.asker, "lacking": self.lacking,
            "mixed": None if self.view is None else describe_mixture(self.view.choice),
            "missing": [_describe_flag(flag) for flag in front.flags if flag.kind == MISSING],
            "flags": [_describe_flag(flag) for flag in front.flags if flag.kind != MISSING],
        }  # fmt: skip


def describe_mixture(choice: Any) -> dict[str, Any] | None:
    """What was mixed for the node, those with the largest share first."""
    if not isinstance(choice, Mixture):
        return None
    columns = zip(choice.candidates, *map(numbers, (choice.shares, choice.errors)), strict=True)
    found = [{"name": name, "share": share, "error": error} for name, share, error in columns]
    return {
        "rows": choice.rows, "folds": choice.folds, "candidates": sorted(found, key=lambda each: -each["share"]),
    }  # fmt: skip


def entry(id_: str, at: float, source: str, rows: int, way: str, status: str) -> dict[str, Any]:
    """The line of a question in a list of answers."""
    return {"id": id_, "at": moment(at), "source": source, "rows": rows, "way": way, "status": status}


def _describe_flag(flag: Flag) -> dict[str, Any]:
    points = len(np.unique(flag.points))
    return {"agent": flag.agent, "kind": flag.kind, "reason": flag.about, "points": points}


FOLDER = "answers"  # in the folder for the node's state
KEPT, OPEN = 100, 2  # answers on disk, and in memory
ID = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)
ABOUT, POINTS = "about", "points"
FIELDS = (
    "value", "standard_error", "weights", "beliefs", "trust", "influence", "lower", "upper", "sets", "correction",
)  # fmt: skip
BESIDE = "beside_"  # how names of arrays begin that are not those of the answer in front
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
        save(self._path(answer.id), _pack_answer(answer))
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


def _pack_answer(answer: Answer) -> bytes:
    about = {name: getattr(answer, name) for name in PLAIN} | {
        "rows": len(answer.points), "terms": asdict(answer.terms), **_describe_consensus(answer.front),
        "lacking": answer.lacking, "beside": None if answer.beside is None else _describe_consensus(answer.beside),
    }  # fmt: skip
    arrays: dict[str, Any] = {ABOUT: np.frombuffer(json.dumps(about).encode(), np.uint8), POINTS: answer.points}
    arrays |= _arrays(answer.front)
    if answer.beside is not None:
        arrays |= {f"{BESIDE}{name}": values for name, values in _arrays(answer.beside).items()}
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def _describe_consensus(consensus: Consensus) -> dict[str, Any]:
    """What is kept of an answer beside its arrays."""
    return {
        "names": consensus.names, "rounds": consensus.rounds, "classes": consensus.classes,
        "coverage": consensus.coverage, "flags": [[flag.agent, flag.reason] for flag in consensus.flags],
        "asker": consensus.asker,
        "choice": _write_mixture(consensus.choice) if isinstance(consensus.choice, Mixture) else None,
    }  # fmt: skip


def _write_mixture(mixed: Mixture) -> dict[str, Any]:
    known = {each.name: getattr(mixed, each.name) for each in fields(mixed)}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in known.items()}


def _arrays(consensus: Consensus) -> dict[str, Any]:
    arrays: dict[str, Any] = {name: getattr(consensus, name) for name in FIELDS if getattr(consensus, name) is not None}
    return arrays | {f"flag{k}": flag.points for k, flag in enumerate(consensus.flags)}


def _about(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as archive:
        about: dict[str, Any] = json.loads(archive[ABOUT].tobytes())
        return about


def _unpacked(path: Path) -> Answer:
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    about = json.loads(arrays[ABOUT].tobytes())
    terms = _restore_terms(about["terms"])
    front, told = _restore_answer({"coverage": terms.coverage} | about, arrays, ""), about.get("beside")
    return Answer(
        about["id"], about["at"], about["seconds"], about["source"], terms, about["rule"], tuple(about["features"]),
        tuple(about["ignored"]), arrays[POINTS], front, None if told is None else _restore_answer(told, arrays, BESIDE),
        about.get("lacking", ""),
    )  # fmt: skip


def _restore_terms(written: dict[str, Any]) -> AskTerms:
    """How it was asked. Earlier versions knew no view but the consensus, and terms that there are no more."""
    known = {each.name for each in fields(AskTerms)}
    return AskTerms(**{"view": CONSENSUS} | {name: value for name, value in written.items() if name in known})


def _restore_answer(about: dict[str, Any], arrays: dict[str, Any], prefix: str) -> Consensus:
    """An answer whose arrays have names that begin so."""
    flags = tuple(Flag(agent, why, arrays[f"{prefix}flag{k}"]) for k, (agent, why) in enumerate(about["flags"]))
    known = {name: arrays[f"{prefix}{name}"] for name in FIELDS if f"{prefix}{name}" in arrays}
    return Consensus(
        tuple(about["names"]), **known, flags=flags, rounds=about["rounds"], coverage=about["coverage"],
        classes=tuple(about["classes"]), asker=about.get("asker"), choice=_read_mixture(about.get("choice")),
    )  # fmt: skip


def _read_mixture(written: dict[str, Any] | None) -> Mixture | None:
    if written is None:
        return None
    known: dict[str, Any] = {
        name: np.array(value) if isinstance(value, list) else value for name, value in written.items()
    }
    return Mixture(**known | {"candidates": tuple(written["candidates"])})
