"""Membership: who can answer together, from who has scored, hears and lists whom."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from degroot.exceptions import DeGrootError


class TooFew(DeGrootError):
    """Fewer agents can answer than the quorum."""


@dataclass(frozen=True, slots=True)
class Membership:
    """Who answers, in order, and who is missing and why."""

    members: tuple[str, ...]
    missing: Mapping[str, str]  # name -> reason

    def check(self, quorum: int) -> None:
        """Refuse to answer with too few."""
        if len(self.members) < quorum:
            told = (
                "; ".join(f"{name}: {reason.rstrip('.')}" for name, reason in sorted(self.missing.items()))
                or "nobody else"
            )
            raise TooFew(f"At least {quorum} agents must answer, the quorum; {len(self.members)} can. Missing: {told}.")


def settle(
    roster: Sequence[str],
    scored: Mapping[str, Iterable[str]],
    missing: Mapping[str, str],
    asked: str,
    apart: Iterable[tuple[str, str]] = (),
    unlisted: Iterable[tuple[str, str]] = (),
) -> Membership:
    """Those of the roster who have all scored each other, once some have been left out: the fewest, one by one.

    Parameters
    ----------
    scored : whose models each agent at hand has scored
    missing : who is not at hand, and why; those who are not in the roster do not count
    asked : who is never left out
    apart : pairs that cannot hear each other
    unlisted : pairs of which the first does not have the second in its own roster

    Examples
    --------
    >>> settle(["a", "b", "c"], {"a": "abc", "b": "abc", "c": "c"}, {}, "a").missing
    {'c': 'has not scored yet: a, b'}
    >>> settle("abc", dict.fromkeys("abc", "abc"), {}, "a", unlisted=[("c", "b")]).missing
    {'b': 'not in the roster of: c'}
    """
    left = [name for name in roster if name in scored and name not in missing]
    reasons = {name: missing.get(name, "not reached yet") for name in roster if name not in left}
    known = {name: set(models) for name, models in scored.items()}
    cut = {pair for one, other in apart for pair in ((one, other), (other, one))}
    strangers = set(unlisted)
    while True:
        holes = {
            (scorer, model)
            for scorer in left
            for model in left
            if model not in known[scorer] or (scorer, model) in cut or (scorer, model) in strangers
        }
        if not holes:
            return Membership(tuple(left), reasons)
        count = Counter(name for pair in sorted(holes) for name in set(pair) if name != asked)
        removed = {name for _, name in holes & strangers}  # before who has removed somebody: that is its right
        worst = max(count, key=lambda name: (count[name], name in removed, left.index(name)), default=asked)
        left.remove(worst)
        reasons[worst] = _reason(worst, holes, cut, strangers)
        if worst == asked:
            return Membership((), reasons)


def _reason(name: str, holes: set[tuple[str, str]], cut: set[tuple[str, str]], strangers: set[tuple[str, str]]) -> str:
    by = sorted(scorer for scorer, other in holes & strangers if other == name)
    if by:
        return f"not in the roster of: {', '.join(by)}"
    lacking = sorted(other for scorer, other in holes & strangers if scorer == name)
    if lacking:
        return f"its roster lacks: {', '.join(lacking)}"
    unheard = sorted(other for scorer, other in holes & cut if scorer == name)
    if unheard:
        return f"cannot be heard by: {', '.join(unheard)}"
    by = sorted(scorer for scorer, model in holes if model == name and scorer != name)
    if by:
        return f"not scored yet by: {', '.join(by)}"
    return f"has not scored yet: {', '.join(sorted(model for scorer, model in holes if scorer == name))}"
