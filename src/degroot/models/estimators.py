"""Models of scikit-learn from skops files, and from pickles of those who insist."""

from importlib.util import find_spec
from io import BytesIO
from typing import Any

from degroot.exceptions import InvalidInput


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
        import pandas as pd

        return pd.DataFrame(X, columns=self.feature_names_in_)


class FramedClassifier(Framed):
    """A classifier that was trained on named columns."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.classes_ = model.classes_

    def predict_proba(self, X: Any) -> Any:
        """The probability of each of `classes_`."""
        return self.model.predict_proba(self._named(X))


def from_skops(content: bytes) -> Any:
    """The model in a skops file, if all its types are known to be harmless."""
    return _predicting(_loaded(content))


def transformer_from_skops(content: bytes) -> Any:
    """The transformer in a skops file, if all its types are known to be harmless."""
    transformer = _loaded(content)
    if not hasattr(transformer, "transform"):
        raise InvalidInput(f"the transformer must have transform(X); it is a {type(transformer).__name__}.")
    return transformer


def _loaded(content: bytes) -> Any:
    from skops.io import get_untrusted_types, loads

    unknown = get_untrusted_types(data=content)
    if unknown:
        raise InvalidInput(f"a skops file must hold types of scikit-learn and numpy only; got {', '.join(unknown)}.")
    return loads(content)


def from_pickle(content: bytes) -> Any:
    """The model in a pickle or joblib file. Whatever code it holds runs."""
    import joblib

    return _predicting(joblib.load(BytesIO(content)))


def _predicting(model: Any) -> Any:
    if not (hasattr(model, "predict") or callable(model)):
        raise InvalidInput(f"the model must have predict(X) or be callable; it is a {type(model).__name__}.")
    if not hasattr(model, "feature_names_in_") or find_spec("pandas") is None:
        return model
    return FramedClassifier(model) if hasattr(model, "predict_proba") else Framed(model)
