"""Better predictions together; labels stay at home.

The public names. Imports the packages below it, those with optional or heavy dependencies on first use."""

from typing import TYPE_CHECKING, Any

from degroot.agents.agent import Agent
from degroot.answers.answer import Consensus
from degroot.answers.calibration_report import CalibrationReport
from degroot.answers.choice import Choice
from degroot.answers.explanation import Explanation
from degroot.answers.flags import Flag
from degroot.answers.gains import Gains
from degroot.audit import Audit
from degroot.collective import Collective
from degroot.exceptions import AgentError, DeGrootError, InvalidInput
from degroot.models import load_model

if TYPE_CHECKING:
    from degroot.estimators import DeGrootClassifier, DeGrootRegressor
    from degroot.node.client import connect

__all__ = [
    "Agent",
    "AgentError",
    "Audit",
    "CalibrationReport",
    "Choice",
    "Collective",
    "Consensus",
    "DeGrootClassifier",
    "DeGrootError",
    "DeGrootRegressor",
    "Explanation",
    "Flag",
    "Gains",
    "InvalidInput",
    "connect",
    "load_model",
]


def __getattr__(name: str) -> Any:
    """What is made on first use: importing scikit-learn takes longer than all the rest."""
    if name in ("DeGrootClassifier", "DeGrootRegressor"):
        from degroot import estimators

        return getattr(estimators, name)
    if name == "connect":
        try:
            from degroot.node.client import connect
        except ModuleNotFoundError as error:
            raise InvalidInput(f"The node needs extra packages: pip install 'degroot[node]' ({error}).") from error
        return connect
    if name == "__version__":
        from importlib.metadata import version

        return version("degroot")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
