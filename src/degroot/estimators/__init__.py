"""Estimators of scikit-learn: they partition rows among agents, train a model for each, and pool the models.
Imports the layers below only."""

from degroot.estimators.classifier import DeGrootClassifier
from degroot.estimators.regressor import DeGrootRegressor

__all__ = ["DeGrootClassifier", "DeGrootRegressor"]
