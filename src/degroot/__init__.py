"""Collective prediction without sharing data, models or labels."""

from typing import TYPE_CHECKING, Any

from degroot.agents import Agent
from degroot.collective import Collective, Consensus
from degroot.exceptions import AgentError, DeGrootError, InvalidInput

if TYPE_CHECKING:
    from degroot.estimators import DeGrootRegressor

__all__ = ["Agent", "AgentError", "Collective", "Consensus", "DeGrootError", "DeGrootRegressor", "InvalidInput"]


def __getattr__(name: str) -> Any:
    """What is made on first use: importing scikit-learn takes longer than all the rest."""
    if name == "DeGrootRegressor":
        from degroot.estimators import DeGrootRegressor

        return DeGrootRegressor
    if name == "__version__":
        from importlib.metadata import version

        return version("degroot")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
