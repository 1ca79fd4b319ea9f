"""Schemes: the paper's ways to weigh the same models, and their errors on the same test points."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot import Agent, Collective, InvalidInput, baselines

Array = NDArray[np.float64]

WITHOUT_HOLD_OUT = ("DeGroot", "M-avg", "tau-avg", "MSE-avg", "best single")
OF_TABLE_1 = ("DeGroot", "M-avg", "CV-static", "CV-adaptive")


def errors(
    schemes: Iterable[str],
    agents: Sequence[Agent],
    X: Any,
    y: Array,
    neighbours: float,
    held_out: tuple[Any, Array] | None = None,
) -> dict[str, float]:
    """The mean squared error of each scheme on test points `X` with labels `y`.

    CV-static and CV-adaptive need held-out rows and labels. The best single model is the one that turns out best on
    the test points.
    """
    return {scheme: _error(scheme, agents, X, y, neighbours, held_out) for scheme in schemes}


def pooled(scheme: str, agents: Sequence[Agent], neighbours: float, held_out: Any = None) -> Any:
    """All agents' models as one that predicts, by any scheme that weighs them."""
    match scheme:
        case "DeGroot":
            return Collective(agents, neighbours, n_jobs=1)
        case "M-avg":
            return baselines.average(agents)
        case "tau-avg":
            return baselines.trust_average(agents, neighbours, n_jobs=1)
        case "MSE-avg":
            return baselines.error_average(agents, neighbours, n_jobs=1)
        case "CV-static":
            return baselines.cv_static(agents, held_out[0], held_out[1])
        case "CV-adaptive":
            return baselines.cv_adaptive(agents, held_out[0], held_out[1], neighbours)
    raise InvalidInput(f"There is no scheme {scheme!r} that weighs models.")


def gain(error: float, reference: float) -> float:
    """By how many percent `error` is below the `reference`."""
    return 100.0 * (1.0 - error / reference)


def mean_squared(prediction: Any, truth: Array) -> float:
    """The mean squared error."""
    return float(((np.asarray(prediction) - truth) ** 2).mean())


def _error(scheme: str, agents: Sequence[Agent], X: Any, y: Array, neighbours: float, held_out: Any) -> float:
    if scheme == "best single":
        return min(mean_squared(agent.predict(X), y) for agent in agents)
    return mean_squared(pooled(scheme, agents, neighbours, held_out).predict(X), y)
