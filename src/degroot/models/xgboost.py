"""Models from files of XGBoost, UBJSON or JSON."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.tables import is_frame
from degroot.exceptions import InvalidInput
from degroot.models.features import NEEDS_FRAMES, rows_for
from degroot.models.labels import Numbered, labels_for, refuse_labels
from degroot.schema.columns import plain_text

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
        self.own_categories = _list_categories(booster)
        self.takes_codes = not self.own_categories  # whether rows hold what it calls categories by number

    def __reduce__(self) -> tuple[Any, ...]:
        return from_xgboost, (self.content, self.classes), {"takes_codes": self.takes_codes}

    def answers(self, X: Any, margins: bool = False) -> NDArray[Any]:
        """What XGBoost says of each row."""
        by_name = is_frame(X) and bool(self.own_categories)  # XGBoost looks its categories up
        if not by_name and not self.takes_codes:
            raise InvalidInput(NEEDS_FRAMES)
        rows = X if by_name else rows_for(self, X)
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
    learner = json.loads(booster.save_config())["learner"]
    objective, count = learner["objective"]["name"], int(learner["learner_model_param"]["num_class"])
    if objective in CLASSIFIERS:
        return XGBoostClassifier(booster, content, classes, objective, max(count, 2))
    refuse_labels(classes)
    return XGBoostModel(booster, content)


def _list_categories(booster: Any) -> dict[int, list[str]]:
    """Its categories as texts, by the place of the feature."""
    meant = [place for place, kind in enumerate(booster.feature_types or ()) if kind == "c"]
    if not meant:
        return {}
    kept = dict(enumerate(booster.get_categories(export_to_arrow=True).to_arrow()))
    for place in meant:
        if kept[place][1] is None:
            raise InvalidInput("the model must know the names of its categories, on which it was trained; it does not.")
    return {place: [plain_text(each) for each in kept[place][1].to_pylist()] for place in meant}


def _suffix(content: bytes) -> str:
    """How the name of a file with this content ends: in JSON, text or space follows the first brace."""
    return JSON if content[1:2].strip() in (b"", b'"') else UBJSON
