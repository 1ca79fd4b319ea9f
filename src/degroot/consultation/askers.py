"""Askers: for whom each row is answered, the views of those who ask, and the answers for several of them as one."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from degroot.answers.answer import Consensus
from degroot.answers.flags import Flag
from degroot.compute.tables import is_missing, take
from degroot.consultation.abstention import UnansweredRow
from degroot.consultation.asker import AskerView, LeftOut
from degroot.consultation.consult import field_shape
from degroot.exceptions import InvalidInput
from degroot.rules.rules import RuleSettings

NOBODY = -1  # the place of a row's asker where there is none: the consensus answers

KnownViews: TypeAlias = Mapping[int, tuple[RuleSettings, LeftOut]]  # by the place of the asker


class AskerViews:
    """The views of agents, by their places. Each is made when its agent first asks, and kept.

    Copies and pickles have no views, but what is `known` of them, by which they are quickly made again.
    """

    def __init__(self, known: KnownViews | None = None) -> None:
        self._known: KnownViews = known or {}
        self._made: dict[int, tuple[tuple[Any, ...], AskerView]] = {}  # with the settings that they are made for
        self._lock = threading.RLock()

    def __reduce__(self) -> Any:
        return AskerViews, (self._known,)

    @property
    def places(self) -> set[int]:
        """Whose views have been made."""
        return set(self._made)

    def get(
        self, place: int, settings: tuple[Any, ...], option: RuleSettings, make: Callable[[LeftOut | None], AskerView]
    ) -> AskerView:
        """The view that was made for these settings; or what `make` gives, from what is known of it for the rule."""
        with self._lock:
            made = self._made.get(place)
            if made is None or made[0] != settings:
                _, known = self.list_known(option).get(place, (option, None))
                made = self._made[place] = settings, make(known)
            return made[1]

    def list_known(self, option: RuleSettings) -> KnownViews:
        """What making views again takes, of all that were made or known before for this rule."""
        with self._lock:
            made = {place: (view.settings, view.left_out_errors) for place, (_, view) in self._made.items()}
        every = [*self._known.items(), *made.items()]
        return {place: found for place, found in every if found[0] == option}


def answer_by_asker(
    X: Any, places: NDArray[np.intp], fields: Sequence[str], K: int, Q: int, ask: Callable[[int, Any], dict[str, Any]]
) -> tuple[dict[str, Any], tuple[Flag, ...]]:
    """The fields for all rows of `X`, with an axis of outputs, and flags.

    ``ask(place, X)`` gives the same for the rows of one asker, or of `NOBODY`.
    """
    M = X.shape[0]
    out: dict[str, Any] = {
        name: np.zeros(field_shape(name, M, K, Q), np.bool_ if name == "sets" else float) for name in fields
    }
    flags: list[Flag] = []
    for place in np.unique(places).tolist():
        rows = np.flatnonzero(places == place)
        try:
            known = ask(place, take(X, rows))
        except UnansweredRow as error:
            raise error.move(int(rows[error.row])) from error
        for name in fields:
            out[name][rows] = known[name]
        flags += [Flag(each.agent, each.reason, rows[each.points]) for each in known["flags"]]
    return out, tuple(flags)


def consensus_fields(answer: Consensus, fields: Iterable[str], M: int, Q: int) -> dict[str, Any]:
    """The fields of the consensus as those of a view: with an axis of outputs, and without a correction; and flags."""
    K = len(answer.names)
    known: dict[str, Any] = {"correction": np.zeros((M, Q)), "flags": answer.flags}
    for name in fields:
        if name != "correction":
            known[name] = np.asarray(getattr(answer, name)).reshape(field_shape(name, M, K, Q))
    return known


def check_asker(asker: Any, names: Sequence[str], M: int) -> NDArray[np.intp]:
    """The place of each row's asker among the names, (M,); `NOBODY` where the consensus is asked for.

    Examples
    --------
    >>> check_asker("south", ["north", "south"], 2), check_asker(["south", None], ["north", "south"], 2)
    (array([1, 1]), array([ 1, -1]))
    """
    known = {name: place for place, name in enumerate(names)}
    if isinstance(asker, str):
        return np.full(M, _find_place(asker, known), np.intp)
    given = list(asker) if isinstance(asker, Iterable) and getattr(asker, "ndim", 1) != 0 else None
    if given is None or len(given) != M:
        what = repr(asker) if given is None else f"{len(given)} names"
        raise InvalidInput(f"`asker` must be one of the agents' names, or one for each of {M} rows; got {what}.")
    column = np.empty(M, object)
    column[:] = given
    nobody = is_missing(column)  # None, or what tables make of it
    return np.array([NOBODY if none else _find_place(name, known) for name, none in zip(given, nobody, strict=True)])


def _find_place(name: Any, known: Mapping[str, int]) -> int:
    if not isinstance(name, str) or name not in known:
        raise InvalidInput(f"`asker` must be one of {', '.join(map(repr, known))}; got {str(name)!r}.")
    return known[name]
