"""The guard at work: what agents say is checked against what the others know, before a rule decides."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from degroot.answers.flags import Flag
from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.guard.bounds import Bounds, bounds, capped, within
from degroot.guard.checks import (
    Mask,
    consistent,
    malformed,
    objections,
    plausible,
    relative_distance,
    remaining,
    verified,
)
from degroot.guard.forecast import AnswerForecast, GuardStandards
from degroot.rules.evidence import Evidence, Pair, fill_unscored, with_errors

Codes = NDArray[np.uint8]  # (M, K) sums of the numbers below
MOST_OBJECTIONS = np.iinfo(np.intp).max  # against who is not there

MALFORMED, INCONSISTENT, IMPLAUSIBLE, UNVERIFIED, SUSPECT = 1, 2, 4, 8, 16
REASONS = {
    MALFORMED: "malformed: its reported errors are invalid (negative, not finite or not positive semi-definite)",
    INCONSISTENT: "inconsistent: its answer is far from what the others expect of its model, and was left out",
    IMPLAUSIBLE: "implausible: its answer is far from all labels that the others have, and was left out",
    UNVERIFIED: "unverified: too few others have rows nearby to check it",
    SUSPECT: "suspect: it failed the checks, as everybody did, and was kept since the fewest object to it",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the guard decides at M points."""

    kept: Mask  # (M, K) who takes part
    codes: Codes  # (M, K) what is to be said of whom
    wrong: Mask  # (M, K) whose reported errors are invalid
    distance: Array  # (M, K) how far each agent's rows are, relative to what is usual for it
    bounds: Bounds  # of what may be said of every model

    def apply(self, evidence: Evidence, pairs: Iterable[Pair] = (), present: Mask | None = None) -> Evidence:
        """Evidence that liars cannot bend far.

        For the `pairs` of agents and models that they have not scored, what others measured counts; `present` (M, K):
        whose models answer.
        """
        evidence = fill_unscored(without_opinions(evidence, self.wrong), pairs, present)
        places = np.arange(evidence.errors.shape[1])
        evidence = with_errors(evidence, within(evidence.errors, self.bounds, places))
        if evidence.spread is None:
            return evidence
        return replace(evidence, lies_in=None, spread=capped(evidence.spread, self.distance, self.kept))


def examine(
    forecasts: Sequence[AnswerForecast | None],
    standards: Sequence[GuardStandards | None],
    beliefs: Array,
    wrong: Mask | bool = False,
    present: Mask | None = None,
    unscored: Iterable[Pair] = (),
) -> Verdict:
    """Who of K agents is believed, given their beliefs (M, K, Q) and what they forecast of each other.

    `wrong`: whose opinions, (M, K), are known to be malformed. `present`: whose models answer, (M, K), all by default;
    those that abstain are not kept, and what their agents found of the others still counts. `unscored`: pairs of agents
    and models that they could not score, of which they know nothing.
    """
    said, usual = [each for each in forecasts if each is not None], [each for each in standards if each is not None]
    if not len(said) == len(usual) == beliefs.shape[1]:
        raise InvalidInput("Under a guard every agent must forecast the others' answers; some did not.")
    low, high = (np.array([getattr(each, end) for each in usual]) for end in ("low", "high"))
    expected, tolerance, local = (
        np.stack([getattr(each, name) for each in said], axis=1) for name in ("answers", "tolerance", "errors")
    )
    spread = np.stack([each.spread for each in said], axis=1)
    wrong = wrong | malformed(Evidence(local, spread=spread))
    distance = relative_distance(np.where(wrong, np.inf, spread), [each.distance for each in usual])
    against = objections(beliefs, expected, tolerance)
    faults = {MALFORMED: wrong, INCONSISTENT: ~consistent(against), IMPLAUSIBLE: ~plausible(beliefs, low, high)}
    if present is not None:
        faults |= {code: faults[code] & present for code in (INCONSISTENT, IMPLAUSIBLE)}
    failed = np.logical_or.reduce(list(faults.values()))
    weighed = against + len(said) * wrong
    if present is None:
        kept = heard = remaining(~failed, weighed)
    else:
        kept = remaining(~failed & present, np.where(present, weighed, MOST_OBJECTIONS))
        heard = kept | ~(present | wrong)
    faults = {code: fault & ~kept for code, fault in faults.items()} | {SUSPECT: failed & kept}
    checked, found = _look_up(np.where(wrong[..., None], 1.0, local), distance, heard, unscored)
    faults[UNVERIFIED] = ~checked if present is None else ~checked & present
    codes = sum(code * fault.astype(np.uint8) for code, fault in faults.items())
    return Verdict(kept, np.asarray(codes, np.uint8), wrong, distance, found)


def _look_up(local: Array, distance: Array, heard: Mask, unscored: Iterable[Pair]) -> tuple[Mask, Bounds]:
    """Whether each model is verified, (M, K), and the bounds of what may be said of it, by those who have scored it."""
    K = local.shape[1]
    knows = np.ones((K, K), np.bool_)  # row j: who has scored model j
    for scorer, model in unscored:
        knows[model, scorer] = False
    if knows.all():
        return verified(distance, heard), bounds(local, distance, heard)
    checked, found = np.empty(heard.shape, np.bool_), Bounds(*(np.empty(heard.shape) for _ in range(3)))
    scorers, which = np.unique(knows, axis=0, return_inverse=True)
    for number, some in enumerate(scorers):
        models = np.flatnonzero(which.reshape(-1) == number)
        part = bounds(local, distance, heard & some)
        checked[:, models] = verified(distance, heard & some)[:, models]
        for name in ("low", "high", "own"):
            getattr(found, name)[:, models] = getattr(part, name)[:, models]
    return checked, found


def list_flags(codes: Codes, names: Sequence[str]) -> Iterable[Flag]:
    """What there is to say of each agent, and at which points."""
    for place, some in enumerate(np.bitwise_or.reduce(codes, axis=0).tolist()):
        for code, reason in REASONS.items():
            if some & code:
                yield Flag(names[place], reason, np.flatnonzero(codes[:, place] & code))


def without_opinions(evidence: Evidence, whose: Mask) -> Evidence:
    """Evidence in which some agents say nothing: all models alike, and no rows nearby."""
    if not whose.any():
        return evidence
    K = evidence.errors.shape[1]
    row, column = np.tril_indices(K)
    return Evidence(
        np.where(whose[..., None], 1.0, evidence.errors),
        None if evidence.moments is None else np.where(whose[..., None], 1.0 * (row == column), evidence.moments),
        None if evidence.spread is None else np.where(whose, np.inf, evidence.spread),
        None if evidence.effective is None else np.where(whose, 1.0, evidence.effective),
    )
