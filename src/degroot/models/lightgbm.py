"""Models from text files of LightGBM."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.tables import is_frame
from degroot.exceptions import InvalidInput
from degroot.models.features import NEEDS_FRAMES, rows_for
from degroot.models.labels import Numbered, labels_for, refuse_labels
from degroot.models.lightgbm_check import check_trees
from degroot.schema.columns import plain_text

NEEDED = "Models of LightGBM need an extra package: pip install 'degroot[lightgbm]'"
ONE_OF, ONE_AGAINST_ALL, TWO = "multiclass", "multiclassova", "binary"  # objectives of classifiers
FEW = 1000  # rows that one thread answers sooner than several


class LightGBMModel:
    """A model that gives numbers: (n,), or (n, Q) for several."""

    suffix = ".txt"

    def __init__(self, booster: Any, content: bytes, classes: Sequence[Any] | None = None) -> None:
        self.booster, self.content, self.classes = booster, content, classes
        self.n_features_in_: int = booster.num_feature()
        names = booster.feature_name()
        unnamed = names == [f"Column_{k}" for k in range(len(names))]
        self.feature_names_in_: list[str] | None = None if unnamed else names
        self.own_categories = [[plain_text(each) for each in known] for known in booster.pandas_categorical or ()]
        self.takes_codes = not self.own_categories  # whether rows hold what it calls categories by number

    def __reduce__(self) -> tuple[Any, ...]:
        return from_lightgbm, (self.content, self.classes), {"takes_codes": self.takes_codes}

    @staticmethod
    def written(name: str) -> str:
        """A feature's name as LightGBM writes it."""
        return name.replace(" ", "_")

    def answers(self, X: Any) -> NDArray[Any]:
        """What LightGBM says of each row."""
        by_name = is_frame(X) and bool(self.own_categories)  # LightGBM looks its categories up
        if not by_name and not self.takes_codes:
            raise InvalidInput(NEEDS_FRAMES)
        rows = X if by_name else rows_for(self, X)
        threads = {"num_threads": 1} if rows.shape[0] <= FEW else {}
        return np.asarray(self.booster.predict(rows, **threads))

    def predict(self, X: Any) -> NDArray[Any]:
        """What the model says of each row."""
        return self.answers(X)


class LightGBMClassifier(Numbered, LightGBMModel):
    """A classifier."""

    def __init__(self, booster: Any, content: bytes, classes: Sequence[Any] | None, objective: str) -> None:
        LightGBMModel.__init__(self, booster, content, classes)
        self.objective = objective
        self.classes_ = labels_for(2 if objective == TWO else booster.num_model_per_iteration(), classes)

    def answers(self, X: Any) -> NDArray[Any]:
        """The probability of class 1, or of all classes."""
        said = LightGBMModel.answers(self, X)
        return said / said.sum(axis=1, keepdims=True) if self.objective == ONE_AGAINST_ALL else said


def from_lightgbm(content: bytes, classes: Sequence[Any] | None = None) -> LightGBMModel:
    """The model in a text file of LightGBM; no code of its own runs."""
    head = check_trees(content)
    try:
        import lightgbm
    except ImportError as error:
        raise InvalidInput(f"{NEEDED} ({error}).") from error
    booster = lightgbm.Booster(model_str=content.decode())
    objective = head.get("objective", "").split(" ")[0]
    if objective in (ONE_OF, ONE_AGAINST_ALL, TWO):
        return LightGBMClassifier(booster, content, classes, objective)
    refuse_labels(classes)
    return LightGBMModel(booster, content)
