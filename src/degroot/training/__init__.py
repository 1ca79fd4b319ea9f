"""From data files without models to a collective: a model for each organisation, and what pooling them is worth.
Imports node and the layers below."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from degroot.training.export_node import export_organisation
    from degroot.training.models import MODELS
    from degroot.training.training import Trained, train

__all__ = ["MODELS", "Trained", "export_organisation", "train"]

HOMES = {"MODELS": "models", "Trained": "training", "export_organisation": "export_node", "train": "training"}


def __getattr__(name: str) -> Any:
    """A name, imported on first use: schemas are checked, and nodes made, without training."""
    if name in HOMES:
        return getattr(import_module(f"degroot.training.{HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
