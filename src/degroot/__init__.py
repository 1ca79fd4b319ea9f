"""Collective prediction without sharing data, models or labels."""

from typing import TYPE_CHECKING, Any

from degroot.agents import Agent
from degroot.collective import Collective, Consensus
from degroot.exceptions import AgentError, DeGrootError, InvalidInput

if TYPE_CHECKING:
    from degroot.estimators import DeGrootRegressor

__all__ = ["Agent", "AgentError", "Collective", "Consensus", "DeGrootError", "DeGrootRegressor", "InvalidInput"]


def __getattr__(name: str) -> Any:
    """The estimators on first use: importing scikit-learn takes longer than all the rest."""
    if name == "DeGrootRegressor":
        from degroot.estimators import DeGrootRegressor

        return DeGrootRegressor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
