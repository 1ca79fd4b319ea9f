"""Models of scikit-learn from skops files, and from pickles of those who insist."""

from importlib import import_module
from importlib.util import find_spec
from inspect import isclass
from io import BytesIO
from typing import Any

from degroot.compute.tables import is_frame
from degroot.exceptions import InvalidInput
from degroot.files.npy import one_at_a_time

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
    "degroot.schema.space.SchemaSpace",  # lists and arrays of numbers
    "functools.partial",  # of a function that is named here or by skops, and of numbers
    "lightgbm.basic.Booster",  # a text file of LightGBM, and so are those that hold it
    "lightgbm.sklearn.LGBMClassifier",
    "lightgbm.sklearn.LGBMRegressor",
    "numpy.dtype",
    "numpy.mean",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.feature_selection._univariate_selection.f_regression",
    "sklearn.utils.validation.check_array",
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


class Framed:
    """A model that was trained on named columns: it gets them again."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.feature_names_in_ = [str(name) for name in model.feature_names_in_]
        self.n_features_in_ = len(self.feature_names_in_)

    def predict(self, X: Any) -> Any:
        """What the model says of each row."""
        return self.model.predict(self._named(X))

    def _named(self, X: Any) -> Any:
        if is_frame(X):
            return X
        import pandas as pd

        frame = pd.DataFrame(X, columns=self.feature_names_in_)
        plain = frame.infer_objects()  # numbers of pandas' own types come as Python objects
        return plain if all(getattr(each, "kind", "O") in "biuf" for each in plain.dtypes) else frame


class FramedClassifier(Framed):
    """A classifier that was trained on named columns."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.classes_ = model.classes_

    def predict_proba(self, X: Any) -> Any:
        """The probability of each of `classes_`."""
        return self.model.predict_proba(self._named(X))


class FramedTransformer(Framed):
    """A transformer that was fitted to named columns."""

    def transform(self, X: Any) -> Any:
        """Each row where the transformer puts it."""
        return self.model.transform(self._named(X))


def from_skops(content: bytes) -> Any:
    """The model in a skops file, if all its types are known to be harmless."""
    return predicting(opened(content))


def transformer_from_skops(content: bytes) -> Any:
    """The transformer in a skops file, if all its types are known to be harmless."""
    transformer = opened(content)
    if not hasattr(transformer, "transform"):
        raise InvalidInput(f"the transformer must have transform(X); it is a {type(transformer).__name__}.")
    return FramedTransformer(transformer) if _takes_frames(transformer) else transformer


def opened(content: bytes) -> Any:
    """What is in a skops file, if all its types are known to be harmless."""
    from skops.io import get_untrusted_types, loads
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        with one_at_a_time:
            return loads(content)
    except UntrustedTypesFoundException:
        named = get_untrusted_types(data=content)
    unknown = [name for name in named if not is_harmless(name)]
    if unknown:
        raise InvalidInput(f"a skops file must hold types of scikit-learn and numpy only; got {', '.join(unknown)}.")
    with one_at_a_time:
        return loads(content, trusted=named)


def from_pickle(content: bytes) -> Any:
    """The model in a pickle or joblib file. Whatever code it holds runs."""
    import joblib

    return predicting(joblib.load(BytesIO(content)))


def predicting(model: Any) -> Any:
    """The model, if it has answers; one that was trained on named columns gets them again."""
    if not (hasattr(model, "predict") or callable(model)):
        raise InvalidInput(f"the model must have predict(X) or be callable; it is a {type(model).__name__}.")
    if not _takes_frames(model):
        return model
    return FramedClassifier(model) if hasattr(model, "predict_proba") else Framed(model)


def _takes_frames(fitted: Any) -> bool:
    return hasattr(fitted, "feature_names_in_") and find_spec("pandas") is not None
