"""The mixture behind an asker's answer in words: what was mixed, why, and where the correction comes from."""

from typing import Any

from degroot.answers.display import Digits, counted, joined, one_line
from degroot.answers.flags import UNSCORED, kind
from degroot.asker.names import (
    AVERAGE,
    CENTRED,
    CENTRED_NEAR,
    EQUAL,
    GLOBAL,
    INVERSE,
    LOCAL,
    MIXTURE_CORRECTED,
    OWN,
    OWN_CORRECTED,
    TRUST,
)

WORDS = {
    OWN: "its own model",
    LOCAL: "weights of least error near the point",
    TRUST: "weights by the errors near the point, which is one round of pooling",
    EQUAL: "equal weights",
    CENTRED: "weights of least error once the models' mean errors are taken off",
    **dict.fromkeys(CENTRED_NEAR, "weights of least error once mean errors near the point are taken off"),
    GLOBAL: "weights of least error on all its rows",
    INVERSE: "weights by the errors on all its rows",
    AVERAGE: "the plain average",
    OWN_CORRECTED: "its own model with a learned correction",
    MIXTURE_CORRECTED: "the mixture of all others with a learned correction",
}
SHOWN = 0.005  # share from which a candidate is named


def tell_mixture(facts: dict[str, Any]) -> list[str]:
    """What was mixed for the asker, and why; nothing where the guard lets its own model answer."""
    mixture, name = facts["mixture"], one_line(facts["asker"] or "")
    if mixture is None or any(kind(reason) == "alone" for each in facts["agents"] for reason in each["flags"]):
        return []
    used = [each for each in mixture["candidates"] if (each["share"] or 0.0) >= SHOWN]
    if len(mixture["candidates"]) == 1:
        scored = [each for each in facts["agents"] if all(kind(reason) != UNSCORED for reason in each["flags"])]
        return [_why_alone(mixture, name, len(scored))]
    tried = f"on {counted(mixture['rows'], 'row')} of {name}, left out in {counted(mixture['folds'], 'fold')}"
    by_share = sorted(used, key=lambda each: -each["share"])
    return [
        f"It {'mixes' if len(used) > 1 else 'takes'} what does best {tried}{_errors(facts, mixture)}:",
        *(f"  {100 * each['share']:.0f} % {_describe_candidate(each['name'])}" for each in by_share),
    ]


def tell_correction(facts: dict[str, Any], digits: Digits) -> list[str]:
    """How far the answer is from the weighted mean of the predictions, and why."""
    correction, value = facts["correction"], facts["value"]
    if correction is None or digits.nothing(correction):
        return []
    side = "above" if correction > 0 else "below"
    mean = "" if value is None else f", {digits.write(value - correction)}"
    return [
        f"It is {digits.write(abs(correction))} {side} the weighted mean of the predictions{mean}: "
        f"{joined(_sources(facts))}."
    ]


def _why_alone(mixture: dict[str, Any], name: str, agents: int) -> str:
    if agents > 1 and mixture["folds"] < 2:
        return f"All rows of {name} are of one unit, so that none can be left out to try others: its own model answers."
    others = " All others say the same of its rows." if agents > 1 else ""
    return f"There is nothing to choose from but the own model of {name}.{others}"


def _describe_candidate(name: str) -> str:
    return one_line(name) if WORDS.get(name, name) == name else f"{one_line(name)}: {WORDS[name]}"


def _errors(facts: dict[str, Any], mixture: dict[str, Any]) -> str:
    """The least error beside that of the own model, where that is another one."""
    errors = {each["name"]: each["error"] for each in mixture["candidates"] if each["error"] is not None}
    least = min(errors.values(), default=None)
    if least is None or errors.get(OWN) in (None, least):
        return ""
    score = "Brier score" if facts["classes"] else "mean squared error"
    return f" ({score} of the best of them {least:.4g}, of its own model {errors[OWN]:.4g})"


def _sources(facts: dict[str, Any]) -> list[str]:
    """What takes an answer away from the weighted mean."""
    shares = {each["name"]: each["share"] or 0.0 for each in (facts["mixture"] or {"candidates": []})["candidates"]}
    centring = any(shares.get(name, 0.0) > 0.0 for name in (CENTRED, *CENTRED_NEAR))
    learned = any(shares.get(name, 0.0) > 0.0 for name in (OWN_CORRECTED, MIXTURE_CORRECTED))
    guarded = any(kind(reason) in ("inconsistent", "alone") for each in facts["agents"] for reason in each["flags"])
    told = ["models' mean errors are taken off (centring)"] * centring
    told += ["a correction learned on its own rows is added"] * learned
    if guarded or not told:
        told.append("the guard holds what the others say to what its own rows lead to expect")
    return told
