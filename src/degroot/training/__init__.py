"""From data files without models to a collective: a model for each organisation, and what pooling them is worth."""

from degroot.training.comparison import Comparison
from degroot.training.models import MODELS
from degroot.training.parting import parted
from degroot.training.run import Trained, train

__all__ = ["MODELS", "Comparison", "Trained", "parted", "train"]
