"""Models from files of XGBoost, UBJSON or JSON."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.exceptions import InvalidInput
from degroot.models.features import rows_for
from degroot.models.labels import Numbered, labels_for, refuse_labels

NEEDED = "Models of XGBoost need an extra package: pip install 'degroot[xgboost]'"
LINEAR = "gblinear"
BEST = "best_iteration"  # trees after it were grown in vain
UBJSON, JSON = ".ubj", ".json"


def _logistic(margins: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(1.0 / (1.0 + np.exp(-margins)))


def _softmax(margins: NDArray[Any]) -> NDArray[Any]:
    powers = np.exp(margins - margins.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


CLASSIFIERS: dict[str, Callable[[NDArray[Any]], NDArray[Any]] | None] = {  # from margins; None: XGBoost does it
    "binary:logistic": None, "binary:hinge": None, "multi:softprob": None,
    "binary:logitraw": _logistic, "multi:softmax": _softmax,
}  # fmt: skip


class XGBoostModel:
    """A model that gives numbers: (n,), or (n, Q) for several. It answers on one thread, as many as ask at once."""

    def __init__(self, booster: Any, content: bytes, classes: Sequence[Any] | None = None) -> None:
        booster.set_param({"nthread": 1})
        self.booster, self.content, self.classes = booster, content, classes
        self.suffix = _suffix(content)
        learner = json.loads(booster.save_config())["learner"]
        self.is_linear = learner["gradient_booster"]["name"] == LINEAR
        best = booster.attr(BEST)
        self.trees = (0, 0 if best is None or self.is_linear else int(best) + 1)
        self.n_features_in_: int = booster.num_features()
        self.feature_names_in_: list[str] | None = booster.feature_names

    def __reduce__(self) -> tuple[Any, ...]:
        return from_xgboost, (self.content, self.classes)

    def answers(self, X: Any, margins: bool = False) -> NDArray[Any]:
        """What XGBoost says of each row."""
        rows = rows_for(self, X)
        if self.is_linear:  # which does not answer in place
            from xgboost import DMatrix

            return np.asarray(self.booster.predict(DMatrix(rows), output_margin=margins, validate_features=False))
        kind = "margin" if margins else "value"
        return np.asarray(self.booster.inplace_predict(rows, iteration_range=self.trees, predict_type=kind))

    def predict(self, X: Any) -> NDArray[Any]:
        """What the model says of each row."""
        return self.answers(X)


class XGBoostClassifier(Numbered, XGBoostModel):
    """A classifier."""

    def __init__(self, booster: Any, content: bytes, classes: Sequence[Any] | None, objective: str, count: int) -> None:
        XGBoostModel.__init__(self, booster, content, classes)
        self.objective, self.classes_ = objective, labels_for(count, classes)

    def answers(self, X: Any, margins: bool = False) -> NDArray[Any]:
        """The probability of class 1, or of all classes."""
        made = CLASSIFIERS[self.objective]
        said = XGBoostModel.answers(self, X, margins=made is not None)
        return said if made is None else made(said)


def from_xgboost(content: bytes, classes: Sequence[Any] | None = None) -> XGBoostModel:
    """The model in a file of XGBoost; no code of its own runs."""
    try:
        import xgboost
    except ImportError as error:
        raise InvalidInput(f"{NEEDED} ({error}).") from error
    booster = xgboost.Booster()
    with TemporaryDirectory() as folder:  # from memory it would read on behind the end of half a file
        file = Path(folder) / f"model{_suffix(content)}"
        file.write_bytes(content)
        booster.load_model(file)
    if "c" in (booster.feature_types or ()):
        raise InvalidInput("the model must take numbers; it was trained on categories.")
    learner = json.loads(booster.save_config())["learner"]
    objective, count = learner["objective"]["name"], int(learner["learner_model_param"]["num_class"])
    if objective in CLASSIFIERS:
        return XGBoostClassifier(booster, content, classes, objective, max(count, 2))
    refuse_labels(classes)
    return XGBoostModel(booster, content)


def _suffix(content: bytes) -> str:
    """How the name of a file with this content ends: in JSON, text or space follows the first brace."""
    return JSON if content[1:2].strip() in (b"", b'"') else UBJSON
