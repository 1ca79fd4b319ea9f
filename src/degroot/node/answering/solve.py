"""Solving: from the opinions of all who answered to what the collective answers, in one round."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from degroot.answers.flags import MISSING, Flag
from degroot.compute.compiled import Array
from degroot.consultation.conclude import blank, conclude
from degroot.consultation.guarding import GuardInputs, flags, without_opinions
from degroot.exceptions import AgentError, DeGrootError
from degroot.guard.checks import Mask
from degroot.guard.forecast import AnswerForecast
from degroot.guard.validity import malformed
from degroot.node.peers.quorum import Membership
from degroot.node.protocol.models import Model
from degroot.node.protocol.opinion import Expectation, Opinion
from degroot.rules.evidence import Evidence, from_moments, scored_by_peers
from degroot.rules.rules import RuleSettings

OF_AGENTS = {"weights": 0.0, "influence": 0.0, "beliefs": np.nan, "trust": np.nan}  # what those who are missing have
STALE = "stale: an earlier version of its model was scored by"


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What the collective answers: fields of a `Consensus` with a place for everybody in the roster."""

    names: tuple[str, ...]
    fields: dict[str, Array]  # with an axis of outputs
    flags: tuple[Flag, ...]
    rounds: int = 0

    @property
    def missing(self) -> tuple[str, ...]:
        """Who took no part."""
        return tuple(flag.agent for flag in self.flags if flag.kind == MISSING)


def solve(
    roster: Sequence[str],
    who: Membership,
    opinions: Mapping[str, Opinion],
    option: RuleSettings,
    fields: Iterable[str],
    *,
    guard: bool,
    aside: Iterable[str] = (),
) -> NodeAnswer:
    """Weigh the members' opinions. `aside`: those whose models are scored by their peers."""
    told = [opinions[name] for name in who.members]
    evidence, beliefs = gathered(who.members, told), np.stack([each.beliefs for each in told], axis=1)
    notes = [*absent(who, len(beliefs)), *stale(who.members, opinions, len(beliefs))]
    kept = None
    if guard:
        verdict = grounds(who.members, told).verdict(beliefs, malformed(evidence))
        evidence = peers_scored(without_opinions(evidence, verdict.wrong), who.members, aside)
        evidence, kept = verdict.applied(evidence), verdict.kept
        notes += flags(verdict.codes, who.members)
    else:
        refuse(who.members, malformed(evidence))
        evidence = peers_scored(evidence, who.members, aside)
    names = list(fields)
    found = blank(names, len(beliefs), len(told), beliefs.shape[-1])
    conclude(option.definition, evidence, beliefs, found, kept)
    return NodeAnswer(tuple(roster), expand_to_roster(found, roster, who.members), tuple(notes))


class Impossible(DeGrootError):
    """Opinions that no rows could give, where no guard leaves them out point by point."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self.names = names

    def __str__(self) -> str:
        return f"What {', '.join(self.names)} said is none that rows could give."


def refuse(members: Sequence[str], wrong: Mask) -> None:
    """Refuse opinions that are wrong anywhere."""
    if wrong.any():
        raise Impossible([name for name, bad in zip(members, np.asarray(wrong.any(axis=0)), strict=True) if bad])


def gathered(members: Sequence[str], opinions: Sequence[Opinion]) -> Evidence:
    """What the members found of each other's models, in their order."""
    chosen: list[Any] = [_columns(members, opinion.scored) for opinion in opinions]
    places = [(None, None) if o.spread is None else (o.spread, o.effective) for o in opinions]
    spread, effective = (
        None if any(place[k] is None for place in places) else np.stack([place[k] for place in places], axis=1)  # type: ignore[misc]
        for k in (0, 1)
    )
    if opinions[0].moments is None:
        errors = np.stack([np.asarray(o.errors)[:, pick] for o, pick in zip(opinions, chosen, strict=True)], axis=1)
        return Evidence(errors, None, spread, effective)
    moments = np.stack([_moments(o, pick) for o, pick in zip(opinions, chosen, strict=True)], axis=1)
    return from_moments(moments, np.asarray(spread), np.asarray(effective))


def grounds(members: Sequence[str], opinions: Sequence[Opinion]) -> GuardInputs:
    """What the members say for each other to be held against."""
    told = [_among(_expectation(name, o), members, o.scored) for name, o in zip(members, opinions, strict=True)]
    low, high = (np.array([getattr(each, end) for each in told]) for end in ("low", "high"))
    return GuardInputs([each.said for each in told], [each.reach for each in told], low, high)


def peers_scored(evidence: Evidence, members: Sequence[str], aside: Iterable[str]) -> Evidence:
    """Evidence in which those `aside` do not score their own models."""
    return scored_by_peers(evidence, [place for place, name in enumerate(members) if name in set(aside)])


def expand_to_roster(found: dict[str, Array], roster: Sequence[str], members: Sequence[str]) -> dict[str, Array]:
    """The same fields with a place for everybody in the roster."""
    if list(roster) == list(members):
        return found
    places, K = [list(roster).index(name) for name in members], len(roster)
    wide = dict(found)
    for name, empty in OF_AGENTS.items():
        if name in found:
            array = found[name]
            shape = (len(array), K, K) if name == "trust" else (len(array), K, *array.shape[2:])
            wide[name] = np.full(shape, empty)
            wide[name][np.ix_(range(len(array)), places, places) if name == "trust" else (slice(None), places)] = array
    return wide


def absent(who: Membership, M: int) -> Iterable[Flag]:
    """Who is missing, and why."""
    for name, reason in who.missing.items():
        yield Flag(name, f"{MISSING}: {reason}", np.arange(M))


def stale(members: Sequence[str], opinions: Mapping[str, Opinion], M: int) -> Iterable[Flag]:
    """Whose model is another by now than the one that was scored."""
    known = {scorer: dict(opinions[scorer].scored) for scorer in members}
    for name in members:
        by = [scorer for scorer in members if known[scorer][name] != opinions[name].version]
        if by:
            yield Flag(name, f"{STALE} {', '.join(by)}", np.arange(M))


def _columns(members: Sequence[str], scored: Sequence[Model]) -> Any:
    """Where the members' models are among the scored ones."""
    names = [model.name for model in scored]
    if names == list(members):
        return slice(None)
    return np.array([names.index(name) for name in members])


def _moments(opinion: Opinion, pick: Any) -> Array:
    """Second moments of the models at `pick`, which may be in another order than they were told."""
    if isinstance(pick, slice):
        return np.asarray(opinion.moments)
    low = np.tril_indices(len(pick))
    row, column = np.maximum(pick[low[0]], pick[low[1]]), np.minimum(pick[low[0]], pick[low[1]])
    return np.asarray(opinion.moments)[:, row * (row + 1) // 2 + column]


def _expectation(name: str, opinion: Opinion) -> Expectation:
    if opinion.expectation is None:
        raise AgentError(name, "it must tell what it expects, as the guard asks for; it did not.")
    return opinion.expectation


def _among(expectation: Expectation, members: Sequence[str], scored: Sequence[Model]) -> Expectation:
    said, pick = expectation.said, _columns(members, scored)
    if isinstance(pick, slice):
        return expectation
    some = AnswerForecast(said.answers[:, pick], said.tolerance[:, pick], said.errors[:, pick], said.spread)
    return Expectation(some, expectation.reach, expectation.low, expectation.high)
