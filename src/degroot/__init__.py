"""Better predictions together; labels stay at home.

The public names and modules. Imports the packages below it, each when something of it is first used."""

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from degroot.agents.agent import Agent
    from degroot.answers.answer import Consensus
    from degroot.answers.calibration_report import CalibrationReport
    from degroot.answers.choice import Choice
    from degroot.answers.explanation import Explanation
    from degroot.answers.flags import Flag
    from degroot.answers.gains import Gains
    from degroot.audit import Audit
    from degroot.collective import Collective
    from degroot.estimators import DeGrootClassifier, DeGrootRegressor
    from degroot.exceptions import AgentError, DeGrootError, InvalidInput
    from degroot.models import load_model
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

HOMES = {
    "agents.agent": ["Agent"],
    "answers.answer": ["Consensus"],
    "answers.calibration_report": ["CalibrationReport"],
    "answers.choice": ["Choice"],
    "answers.explanation": ["Explanation"],
    "answers.flags": ["Flag"],
    "answers.gains": ["Gains"],
    "audit": ["Audit"],
    "collective": ["Collective"],
    "estimators": ["DeGrootClassifier", "DeGrootRegressor"],
    "exceptions": ["AgentError", "DeGrootError", "InvalidInput"],
    "models": ["load_model"],
    "node.client": ["connect"],
}  # where each name comes from
MODULE_OF = {name: f"degroot.{module}" for module, names in HOMES.items() for name in names}
MODULES = (
    "baselines",
    "batch",
    "cluster",
    "consensus",
    "estimators",
    "exceptions",
    "guard",
    "intervals",
    "jackknife",
    "maps",
    "mlflow",
    "models",
    "partitions",
    "plot",
    "saved",
    "schema",
    "stacking",
    "trust",
)  # that need no import of their own: `degroot.trust`


def __getattr__(name: str) -> Any:
    """A public name, when it is first used."""
    if name in MODULES:
        return import_module(f"degroot.{name}")
    if name in MODULE_OF:
        value = globals()[name] = getattr(_open_home(name), name)
        return value
    if name == "__version__":
        from importlib.metadata import version

        return version("degroot")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *MODULES})


def _open_home(name: str) -> Any:
    """The module that a name comes from.

    Without the garbage collector, which would look at all modules again and again: a third of the time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return import_module(MODULE_OF[name])
    except ModuleNotFoundError as error:
        if name != "connect":
            raise
        from degroot.exceptions import InvalidInput

        raise InvalidInput(f"The node needs extra packages: pip install 'degroot[node]' ({error}).") from error
    finally:
        if collects:
            gc.enable()
