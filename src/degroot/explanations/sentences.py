"""Sentences: the facts of an answer in words. What is not known is not spoken of."""

from typing import Any

from degroot.explanations.facts import present
from degroot.explanations.notes import notes
from degroot.explanations.trusting import trusting
from degroot.reprs import Digits, counted, joined, one_line, quoted, share, some

ALONE = 0.9  # a weight with which an agent carries an answer nearly alone
LITTLE = 0.1  # a weight with which it has little say
STEADY, SHAKY = 0.1, 0.5  # what one agent may change of the interval's half, or of the range of beliefs
CLOSE = 0.5  # of the largest change, from which a second agent is named too
ALIKE = 1e-6  # weights that differ by less are the same


def sentences(facts: dict[str, Any], digits: Digits) -> list[str]:
    """What there is to say of a point, in paragraphs."""
    here = present(facts)
    paragraphs = [
        [*_value(facts, digits), *_stability(facts, here, digits)],
        [*_carriers(here), *_disagreement(facts, here, digits), *trusting(here)],
        notes(facts, digits),
    ]
    return ["\n".join(paragraph) for paragraph in paragraphs if paragraph]


# -- the value ---------------------------------------------------------------------------------------------------------


def _value(facts: dict[str, Any], digits: Digits) -> list[str]:
    if facts["value"] is None:
        unknown = f"The collective's value for point {facts['point']} is not known here."
        return [unknown, *_interval(facts, digits)]
    told = _class(facts) if facts["classes"] else _number(facts, digits)
    return [*told, *_interval(facts, digits), *_way(facts)]


def _number(facts: dict[str, Any], digits: Digits) -> list[str]:
    value, outputs = digits.write(facts["value"]), facts["outputs"]
    if outputs is None:
        return [f"The collective says {value} for point {facts['point']}."]
    return [f"The collective says {value} for output {facts['output']} of {len(outputs)} at point {facts['point']}."]


def _class(facts: dict[str, Any]) -> list[str]:
    ranked = sorted(facts["outputs"], key=lambda each: -each["value"])
    first, others = ranked[0], ranked[1:]
    name = quoted(facts["output"])
    if facts["output"] != first["name"]:
        return [
            f"The collective gives the class {name} a probability of {share(facts['value'])} at point "
            f"{facts['point']}; the most likely is {quoted(first['name'])}, {share(first['value'])}."
        ]
    then = f"; next is {quoted(others[0]['name'])}, {share(others[0]['value'])}" if others else ""
    likely = f"{name}, with a probability of {share(first['value'])}"
    return [f"The most likely class at point {facts['point']} is {likely}{then}."]


def _interval(facts: dict[str, Any], digits: Digits) -> list[str]:
    often = "" if facts["coverage"] is None else f", {100 * facts['coverage']:.4g} times in 100"
    if facts["lower"] is not None and facts["upper"] is not None:
        low, high = digits.write(facts["lower"]), digits.write(facts["upper"])
        return [f"For points like the agents' rows the outcome is between {low} and {high}{often}."]
    return _set(facts)


def _set(facts: dict[str, Any]) -> list[str]:
    """A set holds the outcome so often over all points: that is no probability of the classes in this one."""
    within = [quoted(each["name"]) for each in facts["outputs"] or [] if each["in_set"]]
    if not within:
        return []
    if facts["coverage"] is None:
        return [f"The set of classes is {{{', '.join(within)}}}."]
    share_ = f"{100 * facts['coverage']:.4g}"
    such = f"over all points like the agents' rows such sets hold the outcome {share_} times in 100"
    return [f"The {share_} % set is {{{', '.join(within)}}}: {such}."]


def _way(facts: dict[str, Any]) -> list[str]:
    told = []
    if facts["rule"] is not None:
        told.append(f"The rule was chosen on the agents' own rows: {facts['rule']}.")
    if facts["rounds"] is not None:
        told.append(f"The nodes pooled among themselves, in {counted(facts['rounds'], 'round')} at most.")
    return told


# -- stability ---------------------------------------------------------------------------------------------------------


def _stability(facts: dict[str, Any], here: list[dict[str, Any]], digits: Digits) -> list[str]:
    if len(here) == 1:
        return ["One agent answers alone: there is nobody to leave out, so nobody can tell how stable this is."]
    moved = sorted((each for each in here if each["influence"] is not None), key=lambda each: -abs(each["influence"]))
    if not moved:
        return _spread(facts, digits)
    most = moved[0]
    if digits.nothing(most["influence"]):
        return ["It is stable: leaving out any one agent changes nothing that is shown here."]
    return [_dependence(facts, here, moved, digits), *_spread(facts, digits)]


def _dependence(facts: dict[str, Any], here: list[dict[str, Any]], moved: list[dict[str, Any]], digits: Digits) -> str:
    """How far the answer hangs on the agent without whom it would change the most."""
    most, name = moved[0], one_line(moved[0]["name"])
    range_ = _reference(facts, here)
    size = abs(most["influence"])
    if range_ and size <= STEADY * range_:
        return f"It is stable: leaving out any one agent moves it by {digits.write(size)} at most (that is {name})."
    how = "It depends somewhat on" if range_ and size <= SHAKY * range_ else "It hangs on"
    how = how if range_ else "It depends most on"
    second = moved[1] if len(moved) > 1 else None
    if second is not None and abs(second["influence"]) > CLOSE * size:
        told = f"without {name} it would be {_changed(most, digits)}"
        other = one_line(second["name"])
        return f"{how} {name} and {other}: {told}, without {other} {_changed(second, digits)}."
    told = f"{how} {name}: without it the answer would be {_changed(most, digits)}"
    if second is None:
        return f"{told}."
    who, most_ = ("anybody else", " at most") if len(moved) > 2 else (one_line(second["name"]), "")
    if digits.nothing(second["influence"]):
        return f"{told}; leaving out {who} changes nothing that is shown here."
    return f"{told}; leaving out {who} moves it by {digits.write(abs(second['influence']))}{most_}."


def _changed(agent: dict[str, Any], digits: Digits) -> str:
    """What the answer would be without an agent."""
    by = f"{digits.write(abs(agent['influence']))} {'lower' if agent['influence'] > 0 else 'higher'}"
    return by if agent["without"] is None else f"{digits.write(agent['without'])} ({by})"


def _reference(facts: dict[str, Any], here: list[dict[str, Any]]) -> float:
    """What changes are held against: half of the interval, or else the range of beliefs; 0 where there is neither.

    The answer of two without one of them is the other's belief: their range would say that it always hangs on one.
    """
    if facts["lower"] is not None and facts["upper"] is not None:
        return float(facts["upper"] - facts["lower"]) / 2.0
    beliefs = [each["belief"] for each in here if each["belief"] is not None]
    return float(max(beliefs) - min(beliefs)) if len(beliefs) > 2 else 0.0


def _spread(facts: dict[str, Any], digits: Digits) -> list[str]:
    error = facts["standard_error"]
    if error is None:
        return []
    bare = facts["lower"] is None and not facts["classes"]
    aside = ", which is no interval for the outcome" if bare else ""
    return [f"The standard error over agents is {digits.write(error)}{aside}."]


# -- who carries it, and who disagrees ---------------------------------------------------------------------------------


def _carriers(here: list[dict[str, Any]]) -> list[str]:
    ranked = sorted((each for each in here if each["weight"] is not None), key=lambda each: -each["weight"])
    if len(ranked) < 2:
        return []
    first, second, K = ranked[0], ranked[1], len(ranked)
    if first["weight"] - ranked[-1]["weight"] <= ALIKE:
        return [f"All {K} agents have the same weight, {share(first['weight'])}."]
    name, weight = one_line(first["name"]), share(first["weight"])
    if first["weight"] >= ALONE:
        return [f"{name} carries it nearly alone, with a weight of {weight}."]
    if first["weight"] > 0.5:
        return [f"{name} carries it, with a weight of {weight}; next is {_weighed(second)}."]
    return [_together(ranked)]


def _together(ranked: list[dict[str, Any]]) -> str:
    """Of whom it takes several to have half of the weight."""
    total, count = 0.0, 0
    while count < len(ranked) and total <= 0.5:
        total, count = total + ranked[count]["weight"], count + 1
    if count <= 3:
        return f"{joined([_weighed(each) for each in ranked[:count]])} carry it together."
    return (
        f"Nobody carries it: the largest weights are those of {joined([_weighed(each) for each in ranked[:3]])}, "
        f"and it takes {count} of {len(ranked)} agents to have half of the weight."
    )


def _weighed(agent: dict[str, Any]) -> str:
    return f"{one_line(agent['name'])} ({share(agent['weight'])})"


def _disagreement(facts: dict[str, Any], here: list[dict[str, Any]], digits: Digits) -> list[str]:
    said = sorted((each for each in here if each["belief"] is not None), key=lambda each: float(each["belief"]))
    if len(said) < 2:
        return []
    low, high = said[0], said[-1]
    if digits.nothing(high["belief"] - low["belief"]):
        return [f"All agents say the same, {digits.write(low['belief'])}.", *_other_classes(facts, here)]
    say = "give it a probability" if facts["classes"] else "say"
    told = (
        f"On their own the agents would {say} from {digits.write(low['belief'])} ({one_line(low['name'])}) "
        f"to {digits.write(high['belief'])} ({one_line(high['name'])})."
    )
    return [told, *_farthest(facts, said, digits), *_other_classes(facts, here)]


def _farthest(facts: dict[str, Any], said: list[dict[str, Any]], digits: Digits) -> list[str]:
    """Who is farthest from the answer, among more than two."""
    value = facts["value"]
    if value is None or len(said) < 3:
        return []
    who = max(said, key=lambda each: abs(each["belief"] - value))
    apart = who["belief"] - value
    if digits.nothing(apart):
        return []
    little = ", and has little say" if who["weight"] is not None and who["weight"] < LITTLE else ""
    side = "above" if apart > 0 else "below"
    return [f"{one_line(who['name'])} is the farthest from the answer, {digits.write(abs(apart))} {side} it{little}."]


def _other_classes(facts: dict[str, Any], here: list[dict[str, Any]]) -> list[str]:
    """For classes, who would have chosen another one."""
    known = [each for each in here if each["likely"] is not None]
    if not known or facts["value"] is None:
        return []
    best = max(facts["outputs"], key=lambda each: float(each["value"]))["name"]
    others: dict[str, list[str]] = {}
    for each in known:
        if each["likely"] != best:
            others.setdefault(each["likely"], []).append(each["name"])
    if not others:
        return [
            "All agents would choose that class." if best == facts["output"] else f"All agents would choose {best}."
        ]
    return [f"{some(names)} would choose {quoted(each)}." for each, names in others.items()]
