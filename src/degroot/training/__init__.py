"""From data files without models to a collective: a model for each organisation, and what pooling them is worth.
Imports node and the layers below."""

from degroot.training.export_node import export_organisation
from degroot.training.models import MODELS
from degroot.training.training import Trained, train

__all__ = ["MODELS", "Trained", "export_organisation", "train"]
