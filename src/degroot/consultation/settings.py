"""Settings: refused where no collective could use them."""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from degroot.exceptions import InvalidInput
from degroot.neighbourhoods.codes import KERNELS, METRICS
from degroot.rules.names import FOR_SAMPLES

AUTO = "auto"  # the rule that is chosen
LOCAL, RAY = "local", "ray"  # engines
PLACEMENTS = WORKERS, AGENTS = "workers", "agents"  # what the processes of a cluster are: each all agents, or one
OWN = "own"  # the evidence of an asker: its own rows
EVIDENCE = (OWN,)


def check_settings(neighbours: Any, metric: str, kernel: Any, n_jobs: Any = None) -> None:
    """Refuse settings that no agent could use. `neighbours` and `kernel` may be None: the rule's own."""
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise InvalidInput(f"`n_jobs` must be a whole number other than 0, or None; got {n_jobs!r}.")
    if neighbours is not None:
        _check_neighbours(neighbours)
    check_choice("metric", metric, METRICS)
    if kernel is not None:
        check_choice("kernel", kernel, KERNELS)


def _check_neighbours(neighbours: Any) -> None:
    if isinstance(neighbours, bool) or not isinstance(neighbours, (Integral, Real)):
        raise InvalidInput(f"`neighbours` must be a whole number or a fraction of the rows; got {neighbours!r}.")
    if isinstance(neighbours, Integral):
        if neighbours < 1:
            raise InvalidInput(f"`neighbours` must be at least 1 when it is a whole number; got {neighbours}.")
    elif not 0.0 < float(neighbours) <= 1.0:
        raise InvalidInput(f"`neighbours` must lie in (0, 1] when it is a fraction; got {neighbours}.")


def check_choice(name: str, value: object, known: Iterable[str]) -> None:
    """Refuse a value of the setting `name` that is not one of the known ones."""
    if not isinstance(value, str) or value not in known:
        raise InvalidInput(f"`{name}` must be one of {', '.join(map(repr, known))}; got {value!r}.")


def choose_placement(asked: str | None, *, is_saved: bool) -> str:
    """The placement that was asked for; by default workers where the collective was saved: they map its files.

    Examples
    --------
    >>> choose_placement(None, is_saved=True), choose_placement(None, is_saved=False)
    ('workers', 'agents')
    """
    return asked or (WORKERS if is_saved else AGENTS)


def check_degree(degree: Any, rule: str, guard: Any) -> None:
    """Raise unless `degree` is None, or a whole number that goes with the rule and the guard."""
    if degree is None:
        return
    if isinstance(degree, bool) or not isinstance(degree, Integral):
        raise InvalidInput(f"`degree` must be a whole number or None; got {degree!r}.")
    if rule not in FOR_SAMPLES:
        raise InvalidInput(f"`degree` must come with one of the rules {', '.join(FOR_SAMPLES)}; got {rule!r}.")
    if guard:
        raise InvalidInput("`guard` must know every agent's score of every model; got a `degree` too.")


def check_ridge(ridge: Any) -> None:
    """Raise unless `ridge` is None, or finite and not negative."""
    if ridge is not None and (
        isinstance(ridge, bool) or not isinstance(ridge, Real) or not 0.0 <= float(ridge) < np.inf
    ):
        raise InvalidInput(f"`ridge` must be a finite number that is not negative; got {ridge!r}.")


def check_guard(guard: Any) -> None:
    """Raise unless `guard` is True, False or None."""
    if guard is not None and not isinstance(guard, bool | np.bool_):
        raise InvalidInput(f"`guard` must be True, False or None; got {guard!r}.")


def check_flag(name: str, value: Any) -> None:
    """Raise unless the setting `name` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"`{name}` must be True or False; got {value!r}.")
