"""Notes: who was missing, left out or unchecked at a point, and what that means."""

from collections.abc import Callable
from typing import Any

from degroot.explanations.facts import LEFT_OUT, present
from degroot.flags import kind
from degroot.reprs import Digits, one_line, some

UNVERIFIED, SUSPECT = "unverified", "suspect"
FAR_FROM = {
    "inconsistent": "from what the others expect of its model",
    "implausible": "from all labels that the others have",
}


def notes(facts: dict[str, Any], digits: Digits) -> list[str]:
    """What an answer should be read with."""
    agents, here = facts["agents"], present(facts)
    return [
        *_missing(agents),
        *(_left_out(each, digits) for each in agents if each["left_out"]),
        *_flagged(here, UNVERIFIED, _unverified),
        *_flagged(here, SUSPECT, _suspect),
        *_others(agents),
    ]


def _missing(agents: list[dict[str, Any]]) -> list[str]:
    """Who was missing, those with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for each in agents:
        if each["missing"] is not None:
            reasons.setdefault(each["missing"], []).append(each["name"])
    return [
        f"{some(names)} {'was' if len(names) == 1 else 'were'} missing ({one_line(reason, 200)}): "
        f"the others answered without {'it' if len(names) == 1 else 'them'}."
        for reason, names in reasons.items()
    ]


def _left_out(agent: dict[str, Any], digits: Digits) -> str:
    belief = "" if agent["belief"] is None else f", {digits.write(agent['belief'])},"
    kinds = [kind(reason) for reason in agent["flags"]]
    clauses = ["no rows could give the opinion that it sent"] if "malformed" in kinds else []
    far = [FAR_FROM[each] for each in kinds if each in FAR_FROM]
    clauses += [f"its answer{belief} is far {' and '.join(far)}"] if far else []
    return f"{one_line(agent['name'])} was left out: {', and '.join(clauses)}."


def _flagged(here: list[dict[str, Any]], what: str, tell: Callable[[list[str], bool], str]) -> list[str]:
    """A sentence about those who have a flag of one kind."""
    names = [each["name"] for each in here if any(kind(reason) == what for reason in each["flags"])]
    return [tell(names, len(names) == len(here))] if names else []


def _unverified(names: list[str], everybody: bool) -> str:
    who = "None of those who answered could" if everybody else f"{some(names)} could not"
    them = "the answer" if everybody else "it" if len(names) == 1 else "them"
    return (
        f"{who} be checked here, as too few others have rows nearby: "
        f"that is no fault, but no other agent can vouch for {them}."
    )


def _suspect(names: list[str], everybody: bool) -> str:
    who = f"{some(names)} {'was' if len(names) == 1 else 'were'}"
    return f"All agents failed the checks, and {who} kept since the fewest object: do not rely on this answer."


def _others(agents: list[dict[str, Any]]) -> list[str]:
    """Flags of any other kind, in their own words."""
    known = {*LEFT_OUT, UNVERIFIED, SUSPECT}
    return [
        f"{one_line(each['name'])} is flagged as {one_line(reason, 200)}."
        for each in agents
        for reason in each["flags"]
        if kind(reason) not in known
    ]
