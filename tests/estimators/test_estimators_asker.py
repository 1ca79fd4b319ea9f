"""Predictions for whoever asks: the groups of `predict`, intervals and sets, and what the collective says of itself."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from support.refusals import complaint

from degroot import DeGrootClassifier, DeGrootRegressor

TESTS = Path(__file__).parents[1]
GROUPS = np.array(["north", "south", "west"])[np.arange(180) % 3]


def problem(kind="one output"):
    random = np.random.default_rng(0)
    X = random.normal(size=(180, 2))
    y = np.sin(X[:, 0]) + (np.arange(180) % 3 - 1) * X[:, 1] + 0.1 * random.normal(size=180)
    return X, np.column_stack([y, X[:, 0] - y]) if kind == "two outputs" else y


@pytest.fixture(scope="module")
def model():
    X, y = problem()
    return DeGrootRegressor(Ridge(), neighbours=20).fit(X, y, groups=GROUPS)


@pytest.fixture(scope="module")
def classifier():
    X, y = problem()
    return DeGrootClassifier(LogisticRegression()).fit(X, np.where(y > 0, "high", "low"), groups=GROUPS)


def warning(act):
    """What `act` gives, and the one warning that it gives out."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = act()
    (one,) = told
    assert one.filename == __file__  # where it was called
    return found, str(one.message)


# -- whose view --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["one output", "two outputs"])
def test_a_group_gets_the_view_of_its_agent(kind):
    X, y = problem(kind)
    model = DeGrootRegressor(Ridge(), neighbours=20).fit(X, y, groups=GROUPS)
    groups = np.roll(GROUPS, 1)
    value, error = model.predict(X, return_std=True, groups=groups)
    for name in ("north", "south", "west"):
        rows = groups == name
        answer = model.collective_.consult(X[rows], asker=name)
        assert_allclose(value[rows], answer.value, rtol=1e-9)
        assert_allclose(error[rows], answer.standard_error, rtol=1e-9)
        assert_array_equal(model.predict(X[rows], groups=name), model.predict(X[rows], groups=groups[rows]))
    assert_array_equal(model.predict(X, groups=groups), value)
    assert_array_equal(model.predict(X), model.collective_.predict(X))


def test_on_another_processor_too_values_do_not_depend_on_what_else_is_asked():
    """OpenBLAS has kernels of its own for each: a vector times a matrix may differ from a row of a product."""
    code = """
import numpy as np
from sklearn.linear_model import Ridge
from degroot import DeGrootRegressor
from estimators.test_estimators_asker import GROUPS, problem
X, y = problem("two outputs")
model = DeGrootRegressor(Ridge(), neighbours=20).fit(X, y, groups=GROUPS)
groups = np.roll(GROUPS, 1)
assert np.array_equal(model.predict(X, groups=groups), model.predict(X, return_std=True, groups=groups)[0])
"""
    environment = os.environ | {"OPENBLAS_CORETYPE": "Haswell", "PYTHONPATH": str(TESTS)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_classes_too(classifier):
    X, _ = problem()
    found, expected = classifier.predict_proba(X, groups=GROUPS), classifier.collective_.predict(X, GROUPS)
    assert_array_equal(found, expected)
    assert_array_equal(classifier.predict(X, groups=GROUPS), classifier.classes_[expected.argmax(axis=1)])
    assert not np.array_equal(found, classifier.predict_proba(X))


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        (
            ["north", "x", "y", None],
            "3 of 4 rows have a group that is no agent with a view of its own ('x', 'y', missing): they get",
        ),
        (
            ["north", "x", "south", "south"],
            "1 of 4 rows has a group that is no agent with a view of its own ('x'): it gets",
        ),
        ([np.nan] * 4, "4 of 4 rows have a group that is no agent with a view of its own (missing): they get"),
        (
            pd.Series(["west", "", pd.NA, "north"], dtype=object),
            "2 of 4 rows have a group that is no agent with a view of its own (missing)",
        ),
        (
            list("abcd"),
            "4 of 4 rows have a group that is no agent with a view of its own ('a', 'b', 'c', 'd'): they get",
        ),
    ],
)
def test_a_group_that_is_no_agent_gets_the_consensus_and_one_warning(model, groups, told):
    X, _ = problem()
    found, message = warning(lambda: model.predict(X[:4], groups=groups))
    assert message.startswith(told)
    assert message.endswith(" the neutral consensus.")
    for row, group in enumerate(groups):
        known = isinstance(group, str) and group in model.collective_.names
        expected = model.predict(X[row : row + 1], groups=[group]) if known else model.predict(X[row : row + 1])
        assert_allclose(found[row], expected[0], rtol=1e-9)


def test_many_strange_groups_are_told_in_a_few_words(model):
    X, _ = problem()
    _, message = warning(lambda: model.predict(X[:9], groups=list("abcdefghi")))
    assert "9 of 9 rows have a group that is no agent with a view of its own ('a', 'b', 'c', 'd', 'e' ...)" in message


def test_numbers_are_the_names_that_fitting_gave_them():
    X, y = problem()
    whole, fractions = np.arange(180) % 3, np.arange(180) % 3 / 2
    for given, others in (
        (whole, [whole, whole.astype(float), pd.Series(whole), pd.Series(whole).astype(str), whole.astype(np.int8)]),
        (whole.astype(float), [whole, whole.astype(float), whole.astype(np.float32)]),
        (fractions, [fractions, fractions.astype(np.float32)]),
        (whole > 1, [whole > 1, pd.Series(whole > 1).astype(object)]),
    ):
        model = DeGrootRegressor(Ridge(), neighbours=20).fit(X, y, groups=given)
        expected = model.predict(X, groups=given)
        for other in others:
            assert_array_equal(model.predict(X, groups=other), expected)
    model = DeGrootRegressor(Ridge(), neighbours=20).fit(X, y, groups=whole)
    gaps = pd.Series(whole).where(np.arange(180) > 0)  # which makes them floats
    assert (
        "1 of 180 rows has a group that is no agent with a view of its own (missing)"
        in warning(lambda: model.predict(X, groups=gaps))[1]
    )


def test_groups_of_another_length_are_refused(model):
    X, _ = problem()
    told = complaint(lambda: model.predict(X[:4], groups=["north"] * 3))
    assert told == "`groups` must hold one label for each of 4 rows; its shape is (3,)."
    assert "its shape is (2, 2)" in complaint(lambda: model.predict(X[:2], groups=[["north"] * 2] * 2))


# -- settings ----------------------------------------------------------------------------------------------------------


def test_corrections_are_a_setting_of_the_estimator():
    X, y = problem()
    plain, corrected = (
        DeGrootRegressor(Ridge(), neighbours=20, correct=correct).fit(X, y, groups=GROUPS) for correct in (False, True)
    )
    assert_array_equal(corrected.predict(X), plain.predict(X))
    assert_array_equal(corrected.predict(X, groups="west"), plain.collective_.predict(X, "west", correct=True))
    assert not np.array_equal(corrected.predict(X, groups="west"), plain.predict(X, groups="west"))
    assert corrected.get_params()["correct"] is True
    assert "`correct` must be True or False" in complaint(lambda: DeGrootRegressor(correct="yes").fit(X, y))
    assert "`evidence` must be one of 'own'" in complaint(lambda: DeGrootRegressor(evidence="pooled").fit(X, y))


# -- intervals and sets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["one output", "two outputs"])
def test_intervals_are_those_of_the_collective(kind):
    X, y = problem(kind)
    model = DeGrootRegressor(Ridge(), neighbours=20).fit(X, y, groups=GROUPS)
    lower, upper = model.predict_interval(X, 0.8, groups=GROUPS)
    assert not model.collective_.is_calibrated  # nobody asked the consensus
    expected = model.collective_.consult(X, coverage=0.8, asker=GROUPS)
    assert_array_equal(lower, expected.lower)
    assert_array_equal(upper, expected.upper)
    (lower, upper), message = warning(lambda: model.predict_interval(X[:2], groups=["north", "east"]))
    assert message.startswith("1 of 2 rows has a group that is no agent with a view of its own ('east')")
    expected = model.collective_.consult(X[:2], coverage=0.9, asker=["north", None])
    assert_array_equal(lower, expected.lower)
    neutral = model.predict_interval(X)
    assert_array_equal(neutral[1], model.collective_.consult(X, coverage=0.9).upper)


def test_the_consensus_is_calibrated_once(model, monkeypatch):
    X, y = problem()
    fitted, calls = DeGrootRegressor(Ridge()).fit(X, y, groups=GROUPS), []
    calibrate = type(fitted.collective_).calibrate
    monkeypatch.setattr(type(fitted.collective_), "calibrate", lambda self: calls.append(1) or calibrate(self))
    fitted.predict_interval(X[:3])
    fitted.predict_interval(X[:3], 0.5)
    assert calls == [1]


def test_sets_are_those_of_the_collective(classifier):
    X, _ = problem()
    found = classifier.predict_set(X, 0.9, groups=GROUPS)
    assert_array_equal(found, classifier.collective_.consult(X, coverage=0.9, asker=GROUPS).sets)
    assert found.shape == (180, 2)
    assert found.dtype == bool
    assert_array_equal(classifier.predict_set(X), classifier.collective_.consult(X, coverage=0.9).sets)


# -- what the collective says ------------------------------------------------------------------------------------------


def test_an_answer_an_explanation_and_gains_are_at_hand(model):
    X, _ = problem()
    answer = model.consult(X[:3], ["value", "correction"], groups=["west", "north", "west"])
    expected = model.collective_.consult(X[:3], ["value", "correction"], asker=["west", "north", "west"])
    assert_array_equal(answer.value, expected.value)
    assert_array_equal(answer.correction, expected.correction)
    assert answer.asker.tolist() == ["west", "north", "west"]
    assert "got 'trust'" in complaint(lambda: model.consult(X[:3], "trust", groups="west"))
    told = model.explain(X[:3], 1, groups=["west", "north", "west"], coverage=0.9)
    assert told.text == model.collective_.consult(X[:3], coverage=0.9, asker=["west", "north", "west"]).explain(1).text
    assert "output" in complaint(lambda: model.explain(X[:3], output=7, groups="west"))
    assert model.explain(X[:3], 2).text == model.collective_.consult(X[:3]).explain(2).text
    assert str(model.gains()) == str(model.collective_.gains())


def test_an_audit_is_at_hand(model):
    X, _ = problem()
    assert str(model.audit(X[:20])) == str(model.collective_.audit(X[:20]))
    for groups in ("west", ["west"] * 20):
        assert str(model.audit(X[:20], groups=groups)) == str(model.collective_.audit(X[:20], asker="west"))
    assert complaint(lambda: model.audit(X[:20], groups=GROUPS[:20])) == (
        "`groups` of an audit must be one agent for all rows; got 3."
    )
    told, message = warning(lambda: model.audit(X[:20], groups="east"))
    assert message.startswith("20 of 20 rows have a group that is no agent with a view of its own ('east')")
    assert str(told) == str(model.audit(X[:20]))


# -- in the company of scikit-learn ------------------------------------------------------------------------------------


def test_groups_are_routed_to_predictions_and_scores():
    X, y = problem()
    with sklearn.config_context(enable_metadata_routing=True):
        model = DeGrootRegressor(Ridge()).set_fit_request(groups=True).set_predict_request(groups=True)
        chain = make_pipeline(StandardScaler(), model).fit(X, y, groups=GROUPS)
        expected = chain[-1].predict(chain[0].transform(X), groups=GROUPS)
        assert_array_equal(chain.predict(X, groups=GROUPS), expected)
        scored = DeGrootRegressor(Ridge()).set_fit_request(groups=True).set_score_request(groups=True)
        done = cross_validate(
            scored, X, y, params={"groups": GROUPS}, cv=KFold(3), return_estimator=True, return_indices=True
        )
        for score, fitted, rows in zip(done["test_score"], done["estimator"], done["indices"]["test"], strict=True):
            assert score == r2_score(y[rows], fitted.predict(X[rows], groups=GROUPS[rows]))
        kinds = DeGrootClassifier().set_fit_request(groups=True).set_predict_proba_request(groups=True)
        labels = np.where(y > 0, "high", "low")
        chain = make_pipeline(StandardScaler(), kinds).fit(X, labels, groups=GROUPS)
        expected = chain[-1].predict_proba(chain[0].transform(X), groups=GROUPS)
        assert_array_equal(chain.predict_proba(X, groups=GROUPS), expected)
    assert chain.predict(X, groups=GROUPS).shape == (180,)  # without routing the last step takes what is given


def test_scores_are_of_the_predictions_for_the_groups(model, classifier):
    X, y = problem()
    labels, weights = np.where(y > 0, "high", "low"), np.linspace(0.0, 1.0, 180)
    assert model.score(X, y, groups=GROUPS) == r2_score(y, model.predict(X, groups=GROUPS))
    assert model.score(X, y, weights) == r2_score(y, model.predict(X), sample_weight=weights)
    assert classifier.score(X, labels, groups=GROUPS) == accuracy_score(labels, classifier.predict(X, groups=GROUPS))
    assert classifier.score(X, labels, weights) == accuracy_score(labels, classifier.predict(X), sample_weight=weights)
