"""The terms between a node and who asks it: ways and views, and batches merged into one answer."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from degroot.answers.answer import Consensus, drop_output_axis
from degroot.answers.flags import MISSING, Flag
from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.intervals import rows_needed
from degroot.node.protocol.codec import NodeAnswer

SOLVE, ROUNDS = "solve", "rounds"  # ways of answering
OWN, CONSENSUS = "own", "consensus"  # views: of the asked node, and of nobody
OF_AGENTS = {"weights": 0.0, "influence": 0.0, "beliefs": np.nan, "trust": np.nan}  # what those who are missing have
GRANT_OF = {"influence": "beliefs", "correction": "weights"}  # fields that are granted with others
NOT_LISTED = "not in the roster"


def check_way(way: str) -> None:
    """Refuse a way that is none."""
    if way not in (SOLVE, ROUNDS):
        raise InvalidInput(f"`way` must be {SOLVE!r} or {ROUNDS!r}; got {way[:100]!r}.")


def check_view(view: str, way: str) -> None:
    """Refuse a view that is none, or an own one by rounds."""
    if view not in (OWN, CONSENSUS):
        raise InvalidInput(f"`view` must be {OWN!r} or {CONSENSUS!r}; got {str(view)[:100]!r}.")
    if view == OWN and way != SOLVE:
        raise InvalidInput(f"A node's own view must be asked for by solving, way={SOLVE!r}; got {way!r}.")


def check_coverage(coverage: float | None, view: str) -> None:
    """Refuse a coverage that is none, or is asked for with the consensus, which no node can calibrate by itself."""
    if coverage is None:
        return
    rows_needed(coverage)
    if view != OWN:
        raise InvalidInput(
            f"Intervals between nodes must be asked for with a node's own view, on whose rows they are calibrated; got "
            f"`coverage` with the {view}."
        )


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


def merge_batches(answers: Sequence[NodeAnswer], outputs: int | None, known: Sequence[str], **about: Any) -> Consensus:
    """One answer to all batches, in order. The roster may have changed between them; the choice is that of the last.

    Parameters
    ----------
    answers : at least one, all with the same fields
    outputs : how many numbers a value is; None: one, as (M,)
    known : names of agents that have a place in the answer, whether a batch names them or not
    about : what is known of the question: further fields of `Consensus`
    """
    names = tuple(sorted({*known, *(name for answer in answers for name in answer.names)}))
    parts = [expand_to_roster(answer.fields, names, answer.names) for answer in answers]
    fields: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in answers[0].fields}
    if outputs is None:
        fields = drop_output_axis(fields)
    if "sets" in fields:
        fields["sets"] = fields["sets"] != 0.0
    rounds, last = max(answer.rounds for answer in answers), answers[-1]
    told: dict[str, Any] = {"asker": last.asker, "choice": last.choice, **about}
    return Consensus(names, **fields, flags=_merge_flags(answers, names), rounds=rounds or None, **told)


def _merge_flags(answers: Sequence[NodeAnswer], names: Sequence[str]) -> tuple[Flag, ...]:
    """Each flag once, with the points of all batches, counted from the first one; who is in no roster is missing."""
    places: dict[tuple[str, str], list[Any]] = {}
    start = 0
    for answer in answers:
        for flag in answer.flags:
            places.setdefault((flag.agent, flag.reason), []).append(flag.points + start)
        M = len(next(iter(answer.fields.values()), ()))
        for name in sorted(set(names) - set(answer.names)):
            places.setdefault((name, f"{MISSING}: {NOT_LISTED}"), []).append(np.arange(start, start + M))
        start += M
    return tuple(Flag(agent, why, np.concatenate(points)) for (agent, why), points in places.items())
