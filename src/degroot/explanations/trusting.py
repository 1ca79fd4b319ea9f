"""Trusting: who trusts whom, in words."""

from typing import Any

from degroot.reprs import one_line, share

ALIKE = 0.01  # mean trust that differs by less is about the same
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
    if most - least <= ALIKE:
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
