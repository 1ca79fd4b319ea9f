"""The overview of an answer: its first points, a line each."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from degroot.answers.display.numbers import Digits, share
from degroot.answers.display.view import View
from degroot.answers.display.words import counted, label, one_line, some
from degroot.answers.flags import MISSING
from degroot.answers.frame import askers
from degroot.compute.compiled import Array

if TYPE_CHECKING:
    from degroot.answers.answer import Consensus

LINES = 6  # points that are shown
OUTPUTS = 4  # of a point
NUMBERS = ("value", "own", "correction", "standard_error", "lower", "upper")
FIELDS = ("value", "standard_error", "lower", "upper", "sets", "weights", "beliefs", "trust", "influence", "correction")


def overview(answer: "Consensus") -> View:
    """How many points and agents, the first points, and what else the answer holds."""
    M, K = answer.points, len(answer.names)
    what, whom = ("Consensus", "") if answer.asker is None else ("Answers", f" to {_askers(answer)}")
    title = f"{what} of {counted(K, 'agent')}{whom} on {counted(M, 'point')}"
    held = [name for name in FIELDS if getattr(answer, name) is not None]
    left = (f"and {M - LINES:,} more",) if M > LINES else ()
    return View(
        title,
        (f"agents: {some(answer.names, 8)}",),
        _rows(answer, min(M, LINES)),
        (*left, *_flagged(answer), f"fields: {', '.join(held) or 'none'}"),
    )


def _askers(answer: "Consensus") -> str:
    return some([each for each in dict.fromkeys(askers(answer)) if each is not None]) or "nobody"


def _rows(answer: "Consensus", count: int) -> tuple[tuple[str, ...], ...]:
    if not count:
        return ()
    points, asked = [_point(answer, i) for i in range(count)], askers(answer)[:count]
    columns = [("point", points), *_numbers(answer, asked), *_words(answer, count)]
    if not (answer.asker is None or isinstance(answer.asker, str)):
        columns.insert(1, ("asker", [one_line(each or "-") for each in asked]))
    if len(columns) == 1:
        return ()
    heads, cells = zip(*columns, strict=True)
    return (heads, *zip(*cells, strict=True))


def _point(answer: "Consensus", i: int) -> str:
    return str(i) if answer.index is None else one_line(str(answer.index[i]))


def _numbers(answer: "Consensus", asked: Sequence[str | None]) -> list[tuple[str, list[str]]]:
    """Values, standard errors and bounds; of several outputs the values only, a column for each."""
    columns, count = [], len(asked)
    for name in NUMBERS if answer.outputs is None else NUMBERS[:1]:
        field = _own(answer, asked) if name == "own" else getattr(answer, name)
        if field is None:
            continue
        several = field[:count].reshape(count, -1)
        digits = Digits.of(several.ravel().tolist()) if name == "correction" else _digits(several)
        for q in range(min(several.shape[1], OUTPUTS)):
            head = name.replace("_", " ") + ("" if answer.outputs is None else f" {_name_output(answer, q)}")
            columns.append((head, [digits.write(value) for value in several[:, q].tolist()]))
    return columns


def _own(answer: "Consensus", asked: Sequence[str | None]) -> Array | None:
    """What each asker's own model says, one for each point; NaN for the consensus."""
    if answer.asker is None or answer.beliefs is None:
        return None
    places = [None if name is None else answer.names.index(name) for name in asked]
    return np.array([np.nan if k is None else answer.beliefs[i, k] for i, k in enumerate(places)])


def _digits(values: Array) -> Digits:
    finite = values[np.isfinite(values)]
    return Digits.of(finite.tolist(), [float(np.ptp(finite))] if finite.size else [])


def _name_output(answer: "Consensus", q: int) -> str:
    return one_line(label(answer.classes[q])) if answer.classes else str(q)


def _words(answer: "Consensus", count: int) -> list[tuple[str, list[str]]]:
    """Which classes are in the set, who has the largest weight, and who is missing or flagged."""
    tell: dict[str, tuple[Any, Callable[[int], str]]] = {
        "set": (answer.sets, lambda i: _set(answer, i)),
        "largest weight": (answer.weights, lambda i: _leader(answer, i)),
        "flags": (answer.flags or None, lambda i: _flags(answer, i)),
    }
    return [(name, [told(i) for i in range(count)]) for name, (field, told) in tell.items() if field is not None]


def _set(answer: "Consensus", i: int) -> str:
    return some([_name_output(answer, q) for q in np.flatnonzero(np.asarray(answer.sets)[i]).tolist()])


def _leader(answer: "Consensus", i: int) -> str:
    weights: Sequence[float] = np.asarray(answer.weights)[i].tolist()
    k = int(np.argmax(weights))
    return f"{one_line(answer.names[k])} {share(weights[k])}"


def _flags(answer: "Consensus", i: int) -> str:
    return ", ".join(f"{one_line(flag.agent)} {flag.kind}" for flag in answer.flags if np.any(flag.points == i))


def _flagged(answer: "Consensus") -> list[str]:
    """Who was missing or flagged anywhere."""
    told = []
    for what, wanted in ((MISSING, True), ("flagged", False)):
        names = dict.fromkeys(flag.agent for flag in answer.flags if (flag.kind == MISSING) == wanted)
        told += [f"{what}: {some(names, 8)}"] if names else []
    return told
