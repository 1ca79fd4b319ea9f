"""Types of scikit-learn and the like that hold numbers and nothing else, beyond those that skops trusts by itself.

skops leaves out what is written in C and takes its numbers on trust: trees, mostly. No code of a file's own runs with
them, but a forged tree can lead its reader outside its arrays, and end the process.
"""

from importlib import import_module
from inspect import isclass

MODULES = (
    "sklearn._loss.loss",
    "sklearn.calibration",
    "sklearn.ensemble._hist_gradient_boosting.predictor",
    "sklearn.gaussian_process._gpc",
    "sklearn.gaussian_process.kernels",
    "sklearn.metrics._dist_metrics",
    "sklearn.neighbors._ball_tree",
    "sklearn.neighbors._kd_tree",
    "sklearn.neural_network._stochastic_optimizers",
    "sklearn.tree._tree",
)
NAMES = (
    "collections.OrderedDict",
    "lightgbm.basic.Booster",  # a text file of LightGBM, and so are those that hold it
    "lightgbm.sklearn.LGBMClassifier",
    "lightgbm.sklearn.LGBMRegressor",
    "numpy.dtype",
    "numpy.mean",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.feature_selection._univariate_selection.f_regression",
    "xgboost.core.Booster",  # a file of XGBoost, and so are those that hold it
    "xgboost.sklearn.XGBClassifier",
    "xgboost.sklearn.XGBRegressor",
)


def is_harmless(name: str) -> bool:
    """Whether this is the name of a type or function that can only hold numbers or work on them."""
    module, _, what = name.rpartition(".")
    if name in NAMES:
        return True
    found = getattr(import_module(module), what, None) if module in MODULES else None
    return isclass(found) and found.__module__ == module
