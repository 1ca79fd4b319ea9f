"""Answers as the page keeps them: the points, what the collective says of them, and how it was asked.

There are two of every question, from the node's own view and the consensus: one is in front, the other beside it.
"""

import io
import json
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from degroot.answers.answer import Consensus
from degroot.answers.choice import Mixture
from degroot.answers.flags import MISSING, Flag
from degroot.batch import output_names
from degroot.compute.compiled import Array
from degroot.files.atomic import save
from degroot.node.answering.terms import CONSENSUS
from degroot.node.config import ANSWER_DAYS
from degroot.node.page.encoding import moment, numbers
from degroot.node.page.fields import describe_target
from degroot.node.page.requests import AskTerms
from degroot.node.records.chain import LATEST
from degroot.node.records.ledger import DAY
from degroot.node.state.version import SET_BY
from degroot.schema import Schema, schema_from_text

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
    question: str = ""  # its number in ledgers
    schema: Schema | None = None  # by which the points are numbers
    note: str = ""  # what there is to say of columns that the points do not have
    person: str = ""  # who has asked; an earlier version did not know

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

    def _list_units(self) -> dict[str, str]:
        """The units of features that have any."""
        columns = () if self.schema is None else self.schema.columns
        return {column.name: column.unit for column in columns if column.unit}

    def summary(self) -> dict[str, Any]:
        """What there is to say of all of it."""
        front, total = self.front, len(self.points)
        return entry(self.id, self.at, self.source, total, self.terms, self.person, DONE) | {
            "question": self.question, "done": total, "total": total, "error": None, "coverage": self.terms.coverage,
            "rule": self.rule, "ignored": list(self.ignored), "features": list(self.features), "note": self.note,
            "target": describe_target(self.schema), "units": self._list_units(),
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


def entry(
    id_: str, at: float, source: str, rows: int, terms: AskTerms, person: str, status: str
) -> dict[str, Any]:  # fmt: skip
    """The line of a question in a list of answers."""
    told = {"id": id_, "at": moment(at), "source": source, "rows": rows, "status": status}
    return told | {"way": terms.way, "purpose": terms.purpose, "person": person}


def _describe_flag(flag: Flag) -> dict[str, Any]:
    points = len(np.unique(flag.points))
    return {"agent": flag.agent, "kind": flag.kind, "reason": flag.about, "points": points}


FOLDER = "answers"  # in the folder for the node's state
KEPT, OPEN = 100, 2  # answers on disk, and in memory
UNKEPT, UNKEPT_SECONDS = 4, 3600.0  # those in memory that are not kept on disk, and how long they are there
ID = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)
ABOUT, POINTS = "about", "points"
FIELDS = (
    "value", "standard_error", "weights", "beliefs", "trust", "influence", "lower", "upper", "sets", "correction",
)  # fmt: skip
BESIDE = "beside_"  # how names of arrays begin that are not those of the answer in front
PLAIN = ("id", "at", "seconds", "source", "rule", "features", "ignored", "question", "note", "person")


def new_id() -> str:
    """An id that nobody guesses."""
    return secrets.token_urlsafe(16)


class KeptAnswer(NamedTuple):
    """An answer on disk."""

    at: float  # seconds since 1970
    written: int  # the time of its file
    path: Path
    told: tuple[str, float, str, int, AskTerms, str]  # id, time, source, rows, terms and who has asked


class Archive:
    """Answers by their ids, each for some days; the oldest make way for new ones.

    Parameters
    ----------
    days : float
        How long answers are kept on disk. 0: they are not; the last few are in memory for a while.
    kept : int
        How many are kept on disk at most.
    """

    def __init__(
        self, state: Path, days: float = ANSWER_DAYS, kept: int = KEPT, clock: Callable[[], float] = time.time
    ) -> None:
        self._folder, self._kept, self._clock = state / FOLDER, kept, clock
        self._seconds = days * DAY if days else UNKEPT_SECONDS
        self.is_kept = days > 0.0  # whether answers are written to disk
        self._open: OrderedDict[str, Answer] = OrderedDict()
        self._lock = Lock()

    def save(self, answer: Answer) -> None:
        """Keep an answer: all of it or, if that fails, nothing."""
        if self.is_kept:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            save(self._path(answer.id), _pack_answer(answer))
        with self._lock:
            self._hold(answer)
        self.expire()

    def find(self, id_: str) -> Answer | None:
        """The answer with this id, if it is kept."""
        if ID.fullmatch(id_) is None:
            return None
        with self._lock:
            answer = self._open.get(id_)
            if answer is None and self.is_kept:
                with suppress(Exception):  # a file can raise anything that is damaged, or none of ours
                    answer = _unpacked(self._path(id_))
            if answer is None or answer.id != id_ or self._has_expired(answer.at):
                return None
            self._hold(answer)
            return answer

    def entries(self) -> list[dict[str, Any]]:
        """A line for each answer, the newest first."""
        if not self.is_kept:
            held = [each for each in self._held() if not self._has_expired(each.at)]
            return [
                entry(each.id, each.at, each.source, len(each.points), each.terms, each.person, DONE) for each in held
            ]
        return [entry(*each.told, DONE) for each in _list_answers(self._folder) if not self._has_expired(each.at)]

    def expire(self) -> None:
        """Delete what is kept for too long, or is too much; with nothing to be kept, all. Other files stay.

        So it is with answers that a restore has moved aside.
        """
        for folder in (self._folder, *self._folder.parent.glob(f"{SET_BY}*/{FOLDER}")):
            for place, kept in enumerate(_list_answers(folder)):
                if not self.is_kept or place >= self._kept or self._has_expired(kept.at):
                    kept.path.unlink(missing_ok=True)
                    with self._lock:
                        self._open.pop(kept.path.stem, None)
        with self._lock:
            for id_ in [id_ for id_, answer in self._open.items() if self._has_expired(answer.at)]:
                del self._open[id_]

    def describe(self) -> str:
        """How long answers are kept, in words."""
        if not self.is_kept:
            return f"answers are not kept: the last {UNKEPT} can be seen for an hour, until the node stops"
        days = self._seconds / DAY
        return f"the last {self._kept} are kept, for {days:g} day{'' if days == 1.0 else 's'}"

    def find_end(self, answer: Answer) -> float:
        """Until when an answer is kept, in seconds since 1970, unless it has to make way before."""
        return min(answer.at + self._seconds, LATEST)

    def _has_expired(self, at: float) -> bool:
        return self._clock() - at > self._seconds

    def _hold(self, answer: Answer) -> None:
        self._open[answer.id] = answer
        self._open.move_to_end(answer.id)
        while len(self._open) > (OPEN if self.is_kept else UNKEPT):
            self._open.popitem(last=False)

    def _held(self) -> list[Answer]:
        with self._lock:
            return sorted(self._open.values(), key=lambda each: -each.at)

    def _path(self, id_: str) -> Path:
        return self._folder / f"{id_}.npz"


def _list_answers(folder: Path) -> list[KeptAnswer]:
    """Those in a folder, the newest first; not files that are damaged, or none of ours."""
    found = []
    for path in folder.glob("*.npz"):
        with suppress(Exception):  # which such a file can raise
            about = _about(path)
            told = (about["id"], float(about["at"]), str(about["source"]), int(about["rows"]))
            if ID.fullmatch(path.stem) and about["id"] == path.stem and moment(told[1]):
                written = path.stat().st_mtime_ns
                terms, person = _restore_terms(about["terms"]), str(about.get("person", ""))
                found.append(KeptAnswer(told[1], written, path, (*told, terms, person)))
    return sorted(found, key=itemgetter(0, 1), reverse=True)


def _pack_answer(answer: Answer) -> bytes:
    about = {name: getattr(answer, name) for name in PLAIN} | {
        "rows": len(answer.points), "terms": asdict(answer.terms), **_describe_consensus(answer.front),
        "lacking": answer.lacking, "schema": "" if answer.schema is None else answer.schema.to_toml(),
        "beside": None if answer.beside is None else _describe_consensus(answer.beside),
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
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:  # which leaves a damaged file open
        about: dict[str, Any] = json.loads(archive[ABOUT].tobytes())
        return about


def _unpacked(path: Path) -> Answer:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    about = json.loads(arrays[ABOUT].tobytes())
    terms = _restore_terms(about["terms"])
    front, told = _restore_answer({"coverage": terms.coverage} | about, arrays, ""), about.get("beside")
    return Answer(
        about["id"], about["at"], about["seconds"], about["source"], terms, about["rule"], tuple(about["features"]),
        tuple(about["ignored"]), arrays[POINTS], front, None if told is None else _restore_answer(told, arrays, BESIDE),
        about.get("lacking", ""), about.get("question", ""), _restore_schema(about.get("schema", "")),
        about.get("note", ""), about.get("person", ""),
    )  # fmt: skip


def _restore_schema(text: str) -> Schema | None:
    return schema_from_text(text, "the kept answer") if text else None


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
