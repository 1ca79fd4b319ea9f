"""Sentences: the facts of an answer in words. What is not known is not spoken of."""

from collections.abc import Callable
from typing import Any

from degroot.answers.display import Digits, counted, joined, one_line, quoted, share, some
from degroot.answers.explanation.facts import LEFT_OUT, present
from degroot.answers.explanation.mixture import tell_correction, tell_mixture
from degroot.answers.flags import ABSTAINS, FAR_FROM_ALL, UNSCORED, kind

TRUST_ALIKE = 0.01  # mean trust that differs by less is about the same
FAR_MORE = 0.3  # by which an agent trusts its own model more than the others do


def trusting(here: list[dict[str, Any]]) -> list[str]:
    """Whom the others trust the most and the least, and who thinks far better of its own model than they do."""
    names = {each["name"] for each in here}
    known = [(each, mean) for each in here if (mean := trusted(each, names)) is not None]
    if len(known) < 2:
        return []
    if len(here) == 2:
        return [_both(known), *_proud(known)]
    known.sort(key=lambda pair: -pair[1])
    (best, most), (worst, least) = known[0], known[-1]
    if most - least <= TRUST_ALIKE:
        return ["The agents trust each other's models about alike.", *_proud(known)]
    return [
        f"The others trust the model of {one_line(best['name'])} the most ({share(most)} of their trust on average) "
        f"and that of {one_line(worst['name'])} the least ({share(least)}).",
        *_proud(known),
    ]


def trusted(agent: dict[str, Any], names: set[str]) -> float | None:
    """How much the others among `names` trust an agent's model, on average."""
    by = [value for name, value in (agent["trusted_by"] or {}).items() if name in names and name != agent["name"]]
    return sum(by) / len(by) if by else None


def _both(known: list[tuple[dict[str, Any], float]]) -> str:
    (one, in_one), (other, in_other) = known
    return (
        f"{one_line(one['name'])} gives {share(in_other)} of its trust to the model of {one_line(other['name'])}, "
        f"which gives {share(in_one)} to that of {one_line(one['name'])}."
    )


def _proud(known: list[tuple[dict[str, Any], float]]) -> list[str]:
    told = []
    for each, others in known:
        own = each["trusted_by"].get(each["name"])
        if own is not None and own - others >= FAR_MORE:
            told.append((own - others, one_line(each["name"]), own, others))
    return [
        f"{name} trusts its own model far more than the others do ({share(own)} against {share(others)})."
        for _, name, own, others in sorted(told, reverse=True)[:2]
    ]


UNVERIFIED, SUSPECT = "unverified", "suspect"
FAR, POOLED = "far", "pooled"  # of an asker
LACKING = {ABSTAINS: "abstains", UNSCORED: "could not be scored"}  # of models that lack an input
UNLIKE = "the point is unlike all rows that it is calibrated on"
FAR_FROM = {
    "inconsistent": "from what the others expect of its model",
    "implausible": "from all labels that the others have",
}


def notes(facts: dict[str, Any], digits: Digits) -> list[str]:
    """What an answer should be read with."""
    agents, here = facts["agents"], present(facts)
    if facts["asker"] is not None:
        return [*_missing(agents), *_notes_of_asker(facts, digits), *_of_point(facts)]
    return [
        *_missing(agents),
        *(_left_out(each, digits) for each in agents if each["left_out"]),
        *_flagged(here, UNVERIFIED, _unverified),
        *_flagged(here, SUSPECT, _suspect),
        *_others(agents),
        *_of_point(facts),
    ]


def _notes_of_asker(facts: dict[str, Any], digits: Digits) -> list[str]:
    """What the asker's rows say of the point and of the others' answers."""
    asker = one_line(facts["asker"])
    told = {
        FAR: f"The point is far outside the rows of {asker}, which say little of it{_widened(facts, 'its labels')}.",
        "alone": f"At least half of the others' answers were not believed: the own model of {asker} answers.",
        POOLED: f"{asker} has too few rows of its own for this coverage: intervals are calibrated on all agents' rows.",
    }
    known, others = [], []
    for each in facts["agents"]:
        for what, reason in ((kind(reason), reason) for reason in each["flags"]):
            if what in told and each["name"] == facts["asker"]:
                known.append(told[what])
            elif what == "inconsistent":
                known.append(_tell_replaced(each, asker, digits))
            elif what in LACKING:
                known.append(_tell_lacking(each, reason))
            else:
                others.append(f"{one_line(each['name'])} is flagged as {one_line(reason, 200)}.")
    return known + others


def _tell_replaced(agent: dict[str, Any], asker: str, digits: Digits) -> str:
    name, belief = one_line(agent["name"]), "" if agent["belief"] is None else f", {digits.write(agent['belief'])},"
    expected = f"what the rows of {asker} lead to expect of its model"
    return f"What {name} says{belief} is far from {expected}, and was replaced by that."


def _tell_lacking(agent: dict[str, Any], reason: str) -> str:
    """That a model abstains, or could not be scored, which lacks an input."""
    return f"{one_line(agent['name'])} {LACKING[kind(reason)]}: {one_line(reason.partition(': ')[2], 200)}."


def _of_point(facts: dict[str, Any]) -> list[str]:
    """Flags that are about no single agent."""
    wide = ", and the set holds all classes" if any(each["in_set"] for each in facts["outputs"] or []) else ""
    if not _has_flag(facts, FAR):  # which has told of the interval
        wide = wide or _widened(facts, "all labels" if facts["asker"] is None else "its labels")
    far = f"The point is far outside the rows of all agents: nobody has seen anything like it{wide}."
    return [
        far if kind(reason) == FAR_FROM_ALL else f"The answer is flagged as {one_line(reason, 200)}."
        for reason in facts["flags"]
    ]


def _widened(facts: dict[str, Any], labels: str) -> str:
    return "" if facts["lower"] is None else f", and the interval is widened to hold {labels}"


def is_far(facts: dict[str, Any]) -> bool:
    """Whether the point is far outside the rows that intervals are calibrated on."""
    return _has_flag(facts, FAR) or any(kind(reason) == FAR_FROM_ALL for reason in facts["flags"])


def _has_flag(facts: dict[str, Any], what: str) -> bool:
    """Whether the asker has a flag of that kind."""
    return any(
        kind(reason) == what for each in facts["agents"] if each["name"] == facts["asker"] for reason in each["flags"]
    )


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
    abstains = [reason for reason in agent["flags"] if kind(reason) == ABSTAINS]
    if abstains:
        return _tell_lacking(agent, abstains[0])
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
    known = {*LEFT_OUT, ABSTAINS, UNVERIFIED, SUSPECT}
    return [
        _tell_lacking(each, reason)
        if kind(reason) in LACKING
        else f"{one_line(each['name'])} is flagged as {one_line(reason, 200)}."
        for each in agents
        for reason in each["flags"]
        if kind(reason) not in known
    ]


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
        [*tell_mixture(facts), *tell_correction(facts, digits)],
        [*_carriers(here), *_disagreement(facts, here, digits), *trusting(here)],
        notes(facts, digits),
    ]
    return ["\n".join(paragraph) for paragraph in paragraphs if paragraph]


# -- the value ---------------------------------------------------------------------------------------------------------


def _value(facts: dict[str, Any], digits: Digits) -> list[str]:
    if facts["value"] is None:
        unknown = f"The collective's value for point {facts['point']}{_tell_asker(facts)} is not known here."
        return [unknown, *_interval(facts, digits)]
    told = _class(facts) if facts["classes"] else _number(facts, digits)
    return [*told, *_own(facts, digits), *_interval(facts, digits), *_way(facts)]


def _number(facts: dict[str, Any], digits: Digits) -> list[str]:
    value, outputs = _measure(facts, digits.write(facts["value"])), facts["outputs"]
    if outputs is None:
        what = "for" if facts["target"] is None else f"for {quoted(facts['target'])} at"
        return [f"The collective says {value} {what} point {facts['point']}{_tell_asker(facts)}."]
    which = f"output {facts['output']} of {len(outputs)} at point {facts['point']}"
    return [f"The collective says {value} for {which}{_tell_asker(facts)}."]


def _measure(facts: dict[str, Any], number: str) -> str:
    """A number with the unit of the target, where that is known."""
    return f"{number} {one_line(facts['unit'])}" if facts["unit"] else number


def _tell_asker(facts: dict[str, Any]) -> str:
    return "" if facts["asker"] is None else f", asked by {one_line(facts['asker'])}"


def _own(facts: dict[str, Any], digits: Digits) -> list[str]:
    """What the asker's own model says, and how far the collective moves that."""
    if facts["own"] is None:
        return []
    name, own = one_line(facts["asker"]), digits.write(facts["own"])
    said = f"gives {quoted(facts['output'])} a probability of {own}" if facts["classes"] else f"says {own}"
    move = facts["value"] - facts["own"]
    if digits.nothing(move):
        return [f"The own model of {name} {said}, and the collective leaves it there."]
    return [
        f"The own model of {name} {said}; the collective moves it by {digits.write(abs(move))} "
        f"{'up' if move > 0 else 'down'}."
    ]


def _class(facts: dict[str, Any]) -> list[str]:
    ranked = sorted(facts["outputs"], key=lambda each: -each["value"])
    first, others = ranked[0], ranked[1:]
    name = quoted(facts["output"])
    if facts["output"] != first["name"]:
        return [
            f"The collective gives the class {name} a probability of {share(facts['value'])} at point "
            f"{facts['point']}{_tell_asker(facts)}; the most likely is {quoted(first['name'])}, "
            f"{share(first['value'])}."
        ]
    then = f"; next is {quoted(others[0]['name'])}, {share(others[0]['value'])}" if others else ""
    likely = f"{name}, with a probability of {share(first['value'])}"
    asked = f"{_tell_asker(facts)}," if facts["asker"] is not None else ""
    what = "" if facts["target"] is None else f" of {quoted(facts['target'])}"
    return [f"The most likely class{what} at point {facts['point']}{asked} is {likely}{then}."]


def _interval(facts: dict[str, Any], digits: Digits) -> list[str]:
    often = "" if facts["coverage"] is None else f", {100 * facts['coverage']:.4g} times in 100"
    if facts["lower"] is not None and facts["upper"] is not None:
        low, high = digits.write(facts["lower"]), _measure(facts, digits.write(facts["upper"]))
        if is_far(facts):
            return [f"The interval is from {low} to {high}, and promises nothing here: {UNLIKE}."]
        return [f"For points like {_calibrated(facts)} the outcome is between {low} and {high}{often}."]
    return _set(facts)


def _calibrated(facts: dict[str, Any]) -> str:
    """On whose rows intervals are calibrated."""
    pooled = facts["asker"] is None or _has_flag(facts, POOLED)
    return "the agents' rows" if pooled else f"the rows of {one_line(facts['asker'])}"


def _set(facts: dict[str, Any]) -> list[str]:
    """A set holds the outcome so often over all points: that is no probability of the classes in this one."""
    within = [quoted(each["name"]) for each in facts["outputs"] or [] if each["in_set"]]
    if not within:
        return []
    if facts["coverage"] is None:
        return [f"The set of classes is {{{', '.join(within)}}}."]
    if is_far(facts):
        return [f"The set is {{{', '.join(within)}}}, and promises nothing here: {UNLIKE}."]
    share_ = f"{100 * facts['coverage']:.4g}"
    such = f"over all points like {_calibrated(facts)} such sets hold the outcome {share_} times in 100"
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
