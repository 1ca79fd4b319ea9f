"""Facts: what is known of the answer for one point, as plain numbers, lists and dictionaries."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from degroot.answers.choice import Choice, Mixture
from degroot.answers.display import label
from degroot.answers.display.words import output_names
from degroot.answers.flags import ABSTAINS, FAR_FROM_ALL, MISSING, UNSCORED, Flag
from degroot.exceptions import InvalidInput
from degroot.schema import Column

if TYPE_CHECKING:
    from degroot.answers.answer import Consensus

LEFT_OUT = ("malformed", "inconsistent", "implausible")  # where it was not let take part in a consensus


def facts(answer: "Consensus", point: Any, output: Any = None, target: Column | None = None) -> dict[str, Any]:
    """All that is known of one point, ready for JSON: what is not known is None.

    `output` is the number of an output or the name of a class; by default the most likely class, or the first output.
    `target` is what is predicted, by a schema.
    """
    i = place(point, answer.points, "point", "points")
    names = output_names(answer.outputs, answer.classes) or ()
    q = None if answer.outputs is None else _output(answer, i, output, names)
    if q is None and output not in (None, 0):
        raise InvalidInput(f"`output` must be 0 or left out, as there is one output; got {output!r}.")
    told: dict[str, Any] = {
        "point": i,
        "target": None if target is None else target.name,
        "unit": (None if target is None else target.unit) or None,
        "output": None if q is None else names[q],
        "value": _one(answer.value, i, q),
        "standard_error": _one(answer.standard_error, i, q),
        "lower": _one(answer.lower, i, q),
        "upper": _one(answer.upper, i, q),
        "coverage": answer.coverage,
        "outputs": None if q is None else _outputs(answer, i, names),
        "classes": bool(answer.classes),
        "rule": str(answer.choice.option) if isinstance(answer.choice, Choice) else None,
        "rounds": answer.rounds,
    }
    asker, here = _asker(answer, i), [flag for flag in answer.flags if np.any(np.asarray(flag.points) == i)]
    of_agents = [flag for flag in here if flag.agent in answer.names and flag.kind != FAR_FROM_ALL]
    agents = _agents(answer, i, q, told["value"], of_agents, asker)
    return told | {
        "asker": asker,
        "own": next((each["belief"] for each in agents if each["name"] == asker), None),
        "correction": None if asker is None else _one(answer.correction, i, q),
        "mixture": _mixture(answer.choice, asker),
        "flags": [flag.reason for flag in here if flag.agent not in answer.names or flag.kind == FAR_FROM_ALL],
        "agents": agents,
    }


def present(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The agents that took part."""
    return [agent for agent in facts["agents"] if agent["missing"] is None and not agent["left_out"]]


def _asker(answer: "Consensus", i: int) -> str | None:
    """For whom the answer is; None: the consensus."""
    asker = answer.asker if answer.asker is None or isinstance(answer.asker, str) else answer.asker[i]
    return None if asker is None else str(asker)


def _mixture(choice: Any, asker: str | None) -> dict[str, Any] | None:
    """What was mixed for an asker, and the evidence."""
    found = choice.get(asker) if isinstance(choice, dict) else choice
    if asker is None or not isinstance(found, Mixture):
        return None
    columns = (found.shares, found.errors, found.differences, found.standard_errors)
    keys = ("share", "error", "difference", "standard_error")
    numbers = [dict(zip(keys, map(_number, row), strict=True)) for row in zip(*columns, strict=True)]
    candidates = [{"name": name} | each for name, each in zip(found.candidates, numbers, strict=True)]
    return {"rows": found.rows, "folds": found.folds, "candidates": candidates}


def place(given: Any, count: int, name: str, nouns: str) -> int:
    """A place among so many, counted from the end if it is negative."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or not -count <= given < count:
        raise InvalidInput(f"`{name}` must be the number of one of {count} {nouns}; got {given!r}.")
    return int(given) % count


def _output(answer: "Consensus", i: int, output: Any, names: Sequence[str]) -> int:
    if output is None:
        value = None if answer.value is None else answer.value[i]
        return int(np.argmax(value)) if answer.classes and value is not None else 0
    if isinstance(output, str) or answer.classes:
        if str(output) not in names:
            raise InvalidInput(f"`output` must be one of {', '.join(names)}; got {output!r}.")
        return names.index(str(output))
    return place(output, len(names), "output", "outputs")


def _outputs(answer: "Consensus", i: int, names: Sequence[str]) -> list[dict[str, Any]]:
    """Every output, or class, with its value; for classes also whether it is in the set."""
    sets = None if answer.sets is None else answer.sets[i].tolist()
    return [
        {"name": name, "value": _one(answer.value, i, q), "in_set": None if sets is None else sets[q]}
        for q, name in enumerate(names)
    ]


def _agents(
    answer: "Consensus", i: int, q: int | None, value: float | None, flags: Sequence[Flag], asker: str | None
) -> list[dict[str, Any]]:
    """What is known of each agent."""
    K, trusted, likely = len(answer.names), _trusted(answer, i), _likely(answer, i)
    beliefs, influences = (_each(field, i, q, K) for field in (answer.beliefs, answer.influence))
    weights = _each(answer.weights, i, None, K)
    return [
        {
            "name": name,
            "belief": beliefs[k],
            "weight": weights[k],
            "influence": influences[k],
            "without": _less(value, influences[k]),
            "likely": likely[k],
            "trusted_by": trusted[k],
            **_standing([flag for flag in flags if flag.agent == name], asker),
        }
        for k, name in enumerate(answer.names)
    ]


def _standing(flags: Sequence[Flag], asker: str | None) -> dict[str, Any]:
    """Whether an agent took part, and what else there is to say of it.

    For an asker only those are left out who abstain, or whose models it could not score: an answer that is not believed
    is replaced.
    """
    left_out = (*LEFT_OUT, ABSTAINS) if asker is None else (UNSCORED, ABSTAINS)
    return {
        "missing": next((flag.about for flag in flags if flag.kind == MISSING), None),
        "left_out": any(flag.kind in left_out for flag in flags),
        "flags": [flag.reason for flag in flags if flag.kind != MISSING],
    }


def _trusted(answer: "Consensus", i: int) -> list[dict[str, float] | None]:
    """For each agent, how much those who have scored its model trust it, by their names."""
    if answer.trust is None:
        return [None] * len(answer.names)
    trust: list[dict[str, float]] = [{} for _ in answer.names]
    for name, row, models in zip(answer.names, answer.trust[i], _scored(answer), strict=True):
        for value, model in zip(row.tolist(), models, strict=True):
            if np.isfinite(value):
                trust[model][name] = value
    return list(trust)


def _scored(answer: "Consensus") -> Iterable[Iterable[int]]:
    """Whose models each agent has scored."""
    return [range(len(answer.names))] * len(answer.names) if answer.peers is None else answer.peers.tolist()


def _likely(answer: "Consensus", i: int) -> list[str | None]:
    """For classes, the one that each agent holds for the most likely."""
    if answer.beliefs is None or not answer.classes:
        return [None] * len(answer.names)
    return [
        label(answer.classes[int(np.argmax(each))]) if np.isfinite(each).all() else None for each in answer.beliefs[i]
    ]


def _one(field: Any, i: int, q: int | None) -> float | None:
    """One number of a field with a place for each point."""
    return None if field is None else _number(field[i] if q is None else field[i, q])


def _each(field: Any, i: int, q: int | None, K: int) -> list[float | None]:
    """The numbers of all K agents at a point."""
    if field is None:
        return [None] * K
    return [_number(value) for value in (field[i] if q is None else field[i, :, q])]


def _less(value: float | None, difference: float | None) -> float | None:
    return None if value is None or difference is None else _number(value - difference)


def _number(value: Any) -> float | None:
    """A number that JSON can hold."""
    return float(value) if np.isfinite(value) else None
