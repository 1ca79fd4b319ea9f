"""Abstentions in an answer: who takes part at which point, what stands in for the others, and how it is told.

A prediction that is NaN says that the model abstains: it lacks an input there (`degroot.agents.abstention`). In the
neutral consensus its agent takes no part at that point. In an asker's view the asker's own prediction stands in.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from degroot.agents.abstention import ColumnMask, Mask, find_gaps, find_needed
from degroot.answers.display.words import some
from degroot.answers.flags import ABSTAINS, UNSCORED, Flag
from degroot.compute.compiled import Array
from degroot.compute.tables import take
from degroot.exceptions import DeGrootError, InvalidInput

if TYPE_CHECKING:
    from degroot.agents.agent import Agent, Scorer
    from degroot.rules.evidence import Pair

Places = NDArray[np.intp]
UNANSWERED, ALL_ABSTAIN = "Each row must have what at least one model takes; ", "all of them abstain"
MEAN_STANDS_IN = "; the mean of those that answer stands in for it"


class NobodyAnswers(DeGrootError):
    """A point at which all models abstain."""

    def __init__(self, point: int) -> None:
        super().__init__(point)
        self.point = point

    def __str__(self) -> str:
        return f"Some model must answer each row; all of them abstain at row {self.point}."


class UnansweredRow(InvalidInput):
    """A row for which all models abstain."""

    def __init__(self, row: int, lacking: str) -> None:
        super().__init__(row, lacking)
        self.row, self.lacking = row, lacking  # the columns, in a sentence

    def __str__(self) -> str:
        return self.describe(f"row {self.row}")

    def describe(self, where: str) -> str:
        """The error about the row that is at `where`."""
        return f"{UNANSWERED}{where}: {f'it lacks {self.lacking}' if self.lacking else ALL_ABSTAIN}."

    @classmethod
    def parse(cls, text: str) -> "UnansweredRow | None":
        """The error that says this text, as another process has sent it; None: it says something else.

        Examples
        --------
        >>> UnansweredRow.parse(str(UnansweredRow(3, "'age' and 'sex'"))).lacking
        "'age' and 'sex'"
        """
        found = re.fullmatch(rf"{UNANSWERED}row ([0-9]{{1,15}}): (?:it lacks (.+)|{ALL_ABSTAIN})\.", text)
        return None if found is None else cls(int(found[1]), found[2] or "")

    def move(self, row: int) -> "UnansweredRow":
        """The same, of a row that others number otherwise."""
        return UnansweredRow(row, self.lacking)


def describe_nobody(
    row: int, X: Any, absent: ColumnMask, features: Sequence[str] | None, optional: Sequence[ColumnMask] = ()
) -> UnansweredRow:
    """The error that all models abstain at a row of `X`, with the columns that are missing there.

    `optional`: the columns that each model can do without; none: not known.
    """
    needed = [find_needed(absent, own) for own in optional]
    if needed and all(each is not None for each in needed):  # whatever other gaps there are
        return UnansweredRow(row, name_columns(np.any([each for each in needed if each is not None], axis=0), features))
    gaps = find_gaps(take(X, slice(row, row + 1)))
    missing = np.zeros(X.shape[1], np.bool_) if gaps is None else gaps[0]
    if absent is not None:
        missing = missing | absent
    return UnansweredRow(row, name_columns(missing, features))


def name_columns(columns: Mask, features: Sequence[str] | None) -> str:
    """The marked columns (d,) in a sentence, by their names where they have any.

    Examples
    --------
    >>> name_columns(np.array([True, False, True]), ("age", "sex", "weight")), name_columns(np.array([True]), None)
    ("'age' and 'weight'", 'column 0')
    """
    marked = np.flatnonzero(columns).tolist()
    return some([f"column {place}" if features is None else repr(features[place]) for place in marked])


# ---- who takes part ------------------------------------------------------------------------------------------------


def find_present(beliefs: Array) -> Mask | None:
    """Who answers at each point, (M, K), from `beliefs` (M, K, Q) that are NaN elsewhere; None: everybody everywhere.

    Raises `NobodyAnswers` at a point where nobody does.
    """
    present = np.asarray(~np.isnan(beliefs).any(axis=-1))
    if present.all():
        return None
    answered = present.any(axis=1)
    if not answered.all():
        raise NobodyAnswers(int(answered.argmin()))
    return present


def group_by_members(kept: Mask) -> Iterator[tuple[Places, Places]]:
    """Points at which the same agents are `kept`, (M, K), and these agents, group by group.

    Examples
    --------
    >>> for points, members in group_by_members(np.array([[True, True], [False, True], [True, True]])):
    ...     print(points, members)
    [1] [1]
    [0 2] [0 1]
    """
    patterns, which = np.unique(kept, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        yield np.flatnonzero(which.reshape(-1) == number), np.flatnonzero(pattern)


def list_unscored(scorers: Sequence["Scorer"]) -> tuple["Pair", ...]:
    """The places of agents and of models that they could not score, each of all models' scorers in order."""
    return tuple(
        (place, int(model))
        for place, scorer in enumerate(scorers)
        if scorer.unscored is not None
        for model in np.flatnonzero(scorer.unscored)
    )


def list_unscored_by_columns(lacks: Sequence[ColumnMask], optional: Sequence[ColumnMask]) -> tuple["Pair", ...]:
    """The same from columns (d,) alone: those that each agent lacks, and those that its model can do without.

    Examples
    --------
    >>> lacks = [np.array([True, False]), None]
    >>> list_unscored_by_columns(lacks, lacks)
    ((0, 1),)
    """
    return tuple(
        (place, model)
        for place, own in enumerate(lacks)
        for model, other in enumerate(optional)
        if model != place and find_needed(own, other) is not None
    )


def check_scored(agents: Sequence["Agent"], pairs: Iterable["Pair"]) -> None:
    """Refuse a model that nobody has scored; `pairs`: of agents and models that they have not."""
    unscored = np.zeros((len(agents), len(agents)), np.bool_)
    for pair in pairs:
        unscored[pair] = True
    for model in np.flatnonzero(unscored.all(axis=0)).tolist():
        raise agents[model].error(
            "its model must be scored by somebody: no other agent has the columns that it takes, so that it needs "
            "`own_predictions`, or rows without gaps."
        )


# ---- an asker's stand-ins ------------------------------------------------------------------------------------------


class StandIns(NamedTuple):
    """What an asker takes for the predictions of models that abstain, or that it could not score, at m points.

    That is its own prediction; where its own model abstains too, the mean of those that answer.
    """

    beliefs: Array  # (m, K, Q) without gaps
    absent: Mask  # (m, K) for whom something stands in
    heard: Mask  # (m, K) of whom the mean stands in for the own model, where that abstains
    own: int  # the place of the asker's model

    def move_weights(self, weights: Array) -> Array:
        """Weights (m, K) with those of absent models on what stands in for them: the weighted mean stays the same."""
        moved = np.where(self.absent, 0.0, weights)
        lost = (weights - moved).sum(axis=1)
        alone = self.absent[:, self.own]
        moved[:, self.own] += np.where(alone, 0.0, lost)
        share = np.where(alone, lost, 0.0) / self.heard.sum(axis=1)
        moved += share[:, None] * self.heard
        return moved

    def part(self, points: slice) -> "StandIns":
        """The same for some of the points."""
        return StandIns(self.beliefs[points], self.absent[points], self.heard[points], self.own)


def stand_in(beliefs: Array, own: int, unscored: Mask | None = None) -> StandIns | None:
    """What stands in where `beliefs` (m, K, Q) are NaN, and for models that the asker could not score, (K,).

    None: nothing has to. Raises `NobodyAnswers` at a point where all models abstain.

    Examples
    --------
    >>> found = stand_in(np.array([[[1.0], [np.nan], [5.0]], [[np.nan], [3.0], [5.0]]]), own=0)
    >>> found.beliefs[..., 0].tolist()
    [[1.0, 1.0, 5.0], [4.0, 3.0, 5.0]]
    >>> found.move_weights(np.array([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]]))
    array([[0.75, 0.  , 0.25],
           [0.  , 0.5 , 0.5 ]])
    """
    present = find_present(beliefs)
    if present is None and unscored is None:
        return None
    answering = np.ones(beliefs.shape[:2], np.bool_) if present is None else present
    absent: Mask = ~answering if unscored is None else ~answering | unscored
    absent[:, own] = ~answering[:, own]
    heard = np.where((~absent).any(axis=1, keepdims=True), ~absent, answering)
    mean = np.where(heard[..., None], beliefs, 0.0).sum(axis=1) / heard.sum(axis=1)[:, None]
    standing = np.where(absent[:, own, None], mean, beliefs[:, own])
    return StandIns(np.where(absent[..., None], standing[:, None], beliefs), absent, heard, own)


# ---- flags ---------------------------------------------------------------------------------------------------------


class AgentColumns(NamedTuple):
    """What flags tell of columns: K agents, the columns (d,) that each lacks and those its model can do without."""

    names: Sequence[str]
    lacks: Sequence[ColumnMask]
    optional: Sequence[ColumnMask]  # none: not known
    features: Sequence[str] | None  # names of the columns


def flag_abstentions(about: AgentColumns, X: Any, absent: ColumnMask, abstains: Mask) -> Iterator[Flag]:
    """Who abstains at which of the points `X`, and why.

    `absent`: columns (d,) that the points do not have; `abstains`: (M, K).
    """
    names, _, optional, features = about
    for place in np.flatnonzero(abstains.any(axis=0)).tolist():
        points, own = np.flatnonzero(abstains[:, place]), optional[place] if optional else None
        needed = find_needed(absent, own)
        if needed is not None:
            why = f"its model takes {name_columns(needed, features)}, which the asked rows do not have"
        else:
            gaps = find_gaps(take(X, points))
            columns = np.asarray(False if gaps is None else gaps.any(axis=0) & (True if own is None else ~own))
            why = "it gave no prediction"
            if columns.any():
                why = f"its model takes no gaps, and there are some in {name_columns(columns, features)}"
        yield Flag(names[place], f"{ABSTAINS}: {why}", points)


def flag_unscored(about: AgentColumns, pairs: Iterable["Pair"], points: int | Mask) -> Iterator[Flag]:
    """Whose models could not be scored by whom, and why: `pairs` of agents and models.

    `points`: how many there are, or (M, K) at which of them each model counts.
    """
    names, lacks, optional, features = about
    reasons: dict[tuple[int, str], list[str]] = {}
    for scorer, model in pairs:
        needed = find_needed(lacks[scorer], optional[model]) if lacks else None
        reasons.setdefault((model, "" if needed is None else name_columns(needed, features)), []).append(names[scorer])
    for (model, columns), scorers in sorted(reasons.items()):
        why = f"its model takes no gaps, and all rows of {some(scorers)} have some"
        if columns:
            why = f"its model takes {columns}, which the rows of {some(scorers)} do not have"
        at = np.arange(points) if isinstance(points, int) else np.flatnonzero(points[:, model])
        if len(at):
            yield Flag(names[model], f"{UNSCORED}: {why}", at)
