"""scikit-learn's face: estimators that deal rows to agents, train a model for each, and let them pool."""

from degroot.estimators.classifier import DeGrootClassifier
from degroot.estimators.regressor import DeGrootRegressor

__all__ = ["DeGrootClassifier", "DeGrootRegressor"]
