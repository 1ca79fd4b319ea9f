"""From a file, or the folder with it, to the agents and settings of a collective."""

from dataclasses import dataclass, field
from functools import lru_cache, partial
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

from degroot.agents.agent import Agent, Scorer
from degroot.consultation.asker import LeftOut
from degroot.consultation.calibration import StoredCalibration
from degroot.exceptions import InvalidInput
from degroot.rules.rules import RuleSettings
from degroot.saved.agents import FiledAgent, SavedAgent
from degroot.saved.document import Document, damaged
from degroot.saved.handwritten import listed_agent
from degroot.saved.prepared import read_calibration, read_views
from degroot.saved.scored import METRIC, check_scored, places_scored, scored_agent
from degroot.saved.settings import KNOWN, choice_of, read_settings

TRIES = 5  # to load what others save at the same time
SMALL = 1 << 26  # bytes of all files together that are read when they are loaded, to see whether they are whole


@dataclass(frozen=True, slots=True)
class Saved:
    """What a collective is made of."""

    agents: tuple[Agent, ...]
    settings: dict[str, Any]  # arguments of `Collective`
    calibration: StoredCalibration | None = None
    views: dict[int, tuple[RuleSettings, LeftOut]] = field(default_factory=dict)  # by the place of the asker


def load(path: str | Path, *, unsafe_pickle: bool = False) -> Saved:
    """The collective in this file, or in the file ``collective.toml`` of this folder.

    What agents have scored is mapped into memory, not read. `unsafe_pickle` opens models in pickles too, which run
    whatever code is in them.
    """
    for _ in range(TRIES):
        document = Document.read(Path(path), unsafe_pickle)
        try:
            found = _found(document)
        except InvalidInput:
            if document.is_current:
                raise
        else:
            if document.is_current:
                return found
    raise _replaced(path)


def member(path: str | Path, place: int, told: str, unsafe_pickle: bool = False) -> tuple[Agent, Scorer]:
    """One agent of a saved collective and its scorer, and nothing of the others; `told` is the digest of the file."""
    document = _read_told(Path(path), told, unsafe_pickle)
    agent = _member(document, place)
    if not document.is_current:
        raise _replaced(path)
    return agent, agent.scores.score_models(agent)


@lru_cache(maxsize=1)  # processes with many members open one after the other
def _read_told(path: Path, told: str, unsafe_pickle: bool) -> Document:
    document = Document.read(path, unsafe_pickle)
    if document.digest != told:
        raise _replaced(path)
    return document


def digest(path: str | Path) -> str:
    """A digest of all that answers depend on: the file, and the files that it lists.

    A saved collective lists the digests of its files, which need not be read again.
    """
    document = Document.read(Path(path))
    if document.digests:
        return document.digest
    return sha256("".join([document.digest, *map(_content_digest, document.files)]).encode()).hexdigest()


def stamp(path: str | Path) -> list[list[int]]:
    """By which the files of a saved collective are known again without being read: their sizes and times."""
    found = [file.stat() for file in Document.read(Path(path)).kept if file.exists()]
    return [[each.st_size, each.st_mtime_ns] for each in found]


def verify(path: str | Path) -> None:
    """Read all files of a saved collective, and refuse one that is not as it was saved. Loading reads few."""
    document = Document.read(Path(path))
    try:
        _check_files(document)
    except InvalidInput as error:
        raise error if document.is_current else _replaced(path) from error


def _found(document: Document) -> Saved:
    settings, space = read_settings(document.top), document.space(document.top)
    if space is not None:
        settings["space"] = space
    if "choice" in document.top.entries:
        settings["rule"] = choice_of(document.top.table("choice", KNOWN))
    if not document.is_scored:
        return Saved(_listed(document), settings)
    check_scored(document, settings.get("degree"))
    agents = _scored(document, space)
    if sum(file.stat().st_size for file in document.kept if file.exists()) <= SMALL:
        _check_files(document)
    metric = settings.get("metric", METRIC)
    return Saved(agents, settings, read_calibration(document, metric), read_views(document, metric))


def _check_files(document: Document) -> None:
    for file, told in document.kept.items():
        if _content_digest(file) != told:
            raise damaged(file)


def _listed(document: Document) -> tuple[Agent, ...]:
    agents: list[FiledAgent] = []
    for entry in document.agents:
        agents.append(listed_agent(document, entry, agents[0].features if agents else None))
    return tuple(agents)


def _scored(document: Document, space: Any) -> tuple[Agent, ...]:
    agents = [_member(document, place) for place in range(len(document.agents))]
    for place, agent in enumerate(agents):
        agent.met = [agents[k] for k in places_scored(document, place)]
        agent.shared_space = space
    return tuple(agents)


def _member(document: Document, place: int) -> SavedAgent:
    path = document.top.path.absolute()
    return scored_agent(document, place, partial(member, path, place, document.digest, document.unsafe_pickle))


def _replaced(path: str | Path) -> InvalidInput:
    return InvalidInput(f"{path} must stay as it is while it is read; it has been replaced.")


def _content_digest(file: Path) -> str:
    try:
        with file.open("rb") as content:
            return file_digest(content, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"A collective must list files that can be read; {file}: {reason}.") from error
