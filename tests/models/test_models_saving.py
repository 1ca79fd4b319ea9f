"""Models in skops files: opened again they answer bit by bit alike, and files hold nothing but numbers."""

import os
import subprocess
import sys

import numpy as np
import pytest
import skops.io
from numpy.testing import assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVR

from degroot import InvalidInput
from degroot.models.saving import model_file, steady, transformer_file
from degroot.models.skops import from_skops, is_harmless, transformer_from_skops

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RANDOM.normal(size=60)
LABELS = np.where(Y > 1, "high", np.where(Y < -1, "low", "mid"))
MODELS = [
    Ridge(), SVR(), PoissonRegressor(), RandomForestRegressor(4), BaggingRegressor(n_estimators=3),
    GradientBoostingRegressor(n_estimators=4), MLPRegressor(hidden_layer_sizes=[3], solver="lbfgs", max_iter=2000),
    GaussianProcessRegressor(RBF() + WhiteKernel()), LogisticRegression(), AdaBoostClassifier(n_estimators=3),
    ExtraTreesClassifier(4), HistGradientBoostingClassifier(max_iter=3), KNeighborsClassifier(3, algorithm="kd_tree"),
    KNeighborsClassifier(3, algorithm="ball_tree"), CalibratedClassifierCV(LogisticRegression(), cv=2),
    make_pipeline(StandardScaler(), Ridge()),
]  # fmt: skip


def fitted(model):
    return clone(model).fit(X, LABELS if is_classifier(model) else np.abs(Y))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_answers_alike_and_is_the_same_bytes_ever_after(model):
    model = fitted(model)
    content, suffix = model_file(model, X)
    again = from_skops(content)
    assert suffix == ".skops"
    assert_array_equal(again.predict(X), model.predict(X), strict=True)
    if is_classifier(model):
        assert_array_equal(again.predict_proba(X), model.predict_proba(X), strict=True)
        assert_array_equal(again.classes_, model.classes_)
    assert model_file(again, X)[0] == content
    assert model_file(model, X)[0] == content


def test_a_file_does_not_depend_on_the_process():
    code = "import test_models_saving as t, sys; sys.stdout.buffer.write(t.model_file(t.fitted(t.Ridge()), t.X)[0])"
    folder = os.path.dirname(__file__)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=folder)
    assert done.stdout == model_file(fitted(Ridge()), X)[0]


def test_a_transformer_may_wait_to_be_fitted():
    waiting = transformer_from_skops(transformer_file(StandardScaler(), X))
    assert_array_equal(waiting.fit_transform(X), StandardScaler().fit_transform(X))
    with pytest.raises(InvalidInput, match="must have transform"):
        transformer_from_skops(model_file(fitted(Ridge()), X)[0])


def test_only_types_that_hold_numbers_are_harmless():
    for name in ("sklearn.tree._tree.Tree", "sklearn.gaussian_process.kernels.RBF", "numpy.dtype"):
        assert is_harmless(name), name
    for name in ("os.system", "builtins.eval", "sklearn.gaussian_process.kernels.cdist", "sklearn.calibration.partial"):
        assert not is_harmless(name), name
    assert not is_harmless("sklearn.tree._tree.nothing")
    assert not is_harmless("")


def test_a_function_in_a_file_is_refused_and_not_called(tmp_path):
    bomb = FunctionTransformer(os.mkdir).fit(X)
    with pytest.raises(InvalidInput, match="mkdir"):
        transformer_from_skops(skops.io.dumps(bomb))
    with pytest.raises(InvalidInput, match="mkdir"):
        transformer_file(bomb, [[str(tmp_path / "made")]])
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_answers_otherwise_once_opened_is_refused(monkeypatch):
    monkeypatch.setattr("degroot.models.saving.from_skops", lambda _: Ridge(alpha=2.0).fit(X, Y))
    with pytest.raises(InvalidInput, match="it answers otherwise"):
        model_file(Ridge().fit(X, Y), X)


def test_what_is_shared_in_a_file_stays_shared():
    scaler = StandardScaler().fit(X)
    pair = make_pipeline(scaler, scaler)
    again = skops.io.loads(steady(skops.io.dumps(pair)))
    assert again[0] is again[1]
