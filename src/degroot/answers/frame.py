"""Frames: an answer as columns of a table."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from degroot.answers.display.words import output_names, read_class
from degroot.answers.flags import MISSING
from degroot.exceptions import InvalidInput

if TYPE_CHECKING:
    from degroot.answers.answer import Consensus

FLAGS = "flags"  # beside MISSING, a column of text: who was left out or could not be checked
ASKER = "asker"  # a column of text: for whom the answer is
LABEL = "label"  # of classes: the most likely one
LIBRARIES = ("pandas", "polars")
SINGLE = {"weights": "weight", "beliefs": "belief", "sets": "set"}  # what one column of a field is called
OF_POINTS = ("value", "standard_error", "lower", "upper", "sets", "correction")  # without a place for every agent
SHARED = ("weights", "trust")  # fields without outputs
NUMBERS = (*OF_POINTS, "weights", "beliefs", "influence")  # as a rule
ALL = (LABEL, ASKER, *NUMBERS, "trust", MISSING, FLAGS)


def frame(answer: "Consensus", library: str, fields: Sequence[str] | str | None) -> Any:
    """The answer as a frame of pandas or polars; see `Consensus.to_frame`."""
    return make_frame(columns(answer, fields), library, answer.index)


def make_frame(told: dict[str, Any], library: str, index: Any = None) -> Any:
    """Columns as a frame of pandas, which takes an index, or polars."""
    if library not in LIBRARIES:
        raise InvalidInput(f"`library` must be one of {', '.join(map(repr, LIBRARIES))}; got {library!r}.")
    try:
        if library == "polars":
            import polars

            return polars.DataFrame(told)
        import pandas
    except ImportError as missing:
        raise InvalidInput(f"A frame needs {library}: pip install {library}.") from missing
    return pandas.DataFrame(told, index=index)


def columns(answer: "Consensus", fields: Sequence[str] | str | None = None) -> dict[str, Any]:
    """The columns of the fields that were asked for; by default of all that there are, without trust."""
    told: dict[str, Any] = {}
    for field in _list_fields(answer, fields):
        if field in (MISSING, FLAGS):
            told[field] = notes(answer, missing=field == MISSING)
            continue
        if field == ASKER:
            told[field] = askers(answer)
            continue
        if field == LABEL:
            told[field] = likeliest(answer, [read_class(written) for written in answer.classes])
            continue
        values = np.asarray(getattr(answer, field))
        names = column_names(field, answer.names, output_names(answer.outputs, answer.classes), answer.peers)
        flat = values.reshape(len(values), len(names))
        for name, column in zip(names, flat.T, strict=True):
            if name in told:
                raise InvalidInput(f"Columns must have distinct names; two are called {name!r}.")
            told[name] = column
    return told


def _list_fields(answer: "Consensus", fields: Sequence[str] | str | None) -> list[str]:
    there = [LABEL] if answer.classes and answer.value is not None else []
    there += [name for name in ALL[1:-2] if getattr(answer, name) is not None]
    if fields is None:
        unasked = ("trust", ASKER) if isinstance(answer.asker, str) else ("trust",)
        return [name for name in there if name not in unasked] + ([MISSING, FLAGS] if answer.flags else [])
    wanted = [fields] if isinstance(fields, str) else list(fields)
    for name in wanted:
        if name not in (*there, MISSING, FLAGS):
            known = ", ".join(map(repr, (*there, MISSING, FLAGS)))
            raise InvalidInput(f"`fields` must be among what the answer holds, {known}; got {name!r}.")
    return wanted


def column_names(
    field: str, agents: Sequence[str], outputs: Sequence[str] | None, peers: Sequence[Sequence[int]] | Any = None
) -> list[str]:
    """What the columns of a field are called, by the agents, the outputs and the models that each agent has scored.

    Examples
    --------
    >>> column_names("weights", ["north", "south"], None)
    ['weight_north', 'weight_south']
    >>> column_names("beliefs", ["north"], ["cat", "dog"])
    ['belief_north_cat', 'belief_north_dog']
    """
    names = [SINGLE.get(field, field)]
    if field == "trust":
        scored = [range(len(agents))] * len(agents) if peers is None else peers
        names = [f"trust_{agent}_{agents[j]}" for agent, models in zip(agents, scored, strict=True) for j in models]
    elif field not in OF_POINTS:
        names = [f"{names[0]}_{agent}" for agent in agents]
    if outputs is None or field in SHARED:
        return names
    return [f"{name}_{output}" for name in names for output in outputs]


def askers(answer: "Consensus") -> list[str | None]:
    """For whom the answer for each point is; None: for nobody, the consensus."""
    if answer.asker is None or isinstance(answer.asker, str):
        return [answer.asker] * answer.points
    return list(answer.asker)


def likeliest(answer: "Consensus", classes: Sequence[Any]) -> list[Any]:
    """The most likely of the classes for each point, the first of equally likely ones; None without an answer.

    Examples
    --------
    >>> from degroot.answers import Consensus
    >>> likeliest(Consensus(("north",), np.array([[0.2, 0.8], [0.5, 0.5], [np.nan, np.nan]])), ["cat", "dog"])
    ['dog', 'cat', None]
    """
    values = np.asarray(answer.value)
    known = np.isfinite(values).all(axis=1)
    return [classes[q] if there else None for q, there in zip(values.argmax(axis=1), known, strict=True)]


def notes(answer: "Consensus", *, missing: bool) -> list[str]:
    """What is told of each point, joined: ``agent`` for those that were missing, ``agent: kind`` for other flags."""
    rows = [""] * answer.points
    for flag in answer.flags:
        if (flag.kind == MISSING) == missing:
            text = flag.agent if missing else f"{flag.agent}: {flag.kind}"
            for row in flag.points.tolist():
                rows[row] = f"{rows[row]};{text}" if rows[row] else text
    return rows
