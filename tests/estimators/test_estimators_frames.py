"""Estimators on frames with categories, texts, booleans, dates and gaps."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from support.refusals import complaint

from degroot import DeGrootClassifier, DeGrootRegressor

GROUPS = np.repeat(["north", "south", "west"], 60)


def make_visits():
    random = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "ward": random.choice(["a", "b", "c"], 180),
            "sex": pd.Categorical(random.choice(["female", "male"], 180)),
            "urgent": random.random(180) < 0.3,
            "arrival": pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 366, 180), "D"),
            "weight": random.normal(70, 10, 180),
        }
    )
    frame.loc[random.random(180) < 0.1, ["ward", "weight"]] = np.nan
    return frame, (frame["weight"].fillna(70) / 10 + 2 * (frame["ward"] == "a") + frame["urgent"]).to_numpy()


def make_model():
    texts = make_column_selector(dtype_exclude=["number", "datetime"])
    numbers = make_column_selector(dtype_include="number")
    encoder = OneHotEncoder(handle_unknown="ignore")
    return make_pipeline(make_column_transformer((encoder, texts), (SimpleImputer(), numbers)), Ridge(1.0))


def test_a_pipeline_on_frames_is_trained_and_asked_as_it_is():
    X, y = make_visits()
    model = DeGrootRegressor(make_model(), rule="average").fit(X, y, groups=GROUPS)
    alone = [make_model().fit(X[name == GROUPS], y[name == GROUPS]).predict(X) for name in model.collective_.names]
    np.testing.assert_allclose(model.predict(X), np.mean(alone, axis=0))
    assert np.isfinite(model.predict(X, groups=GROUPS)).all()
    assert model.collective_.schema.column("ward").categories == ("a", "b", "c")


def test_gaps_in_a_frame_of_numbers_reach_models_that_take_them():
    X, y = make_visits()
    model = DeGrootRegressor(HistGradientBoostingRegressor(max_iter=5), n_agents=2, random_state=0)
    assert np.isfinite(model.fit(X[["weight"]], y).predict(X[["weight"]])).all()
    shuffled = cross_val_predict(model, X[["weight"]], y, cv=3)
    assert np.isfinite(shuffled).all()


def test_a_classifier_takes_frames_with_categories():
    X, y = make_visits()
    mixed = X.drop(columns="arrival").astype({"ward": "category"})
    labels = np.where(y > np.median(y), "high", "low")
    booster = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    model = DeGrootClassifier(booster, n_agents=2, random_state=0).fit(mixed, labels)
    assert model.score(mixed, labels) > 0.8


def test_a_model_that_takes_no_gaps_names_its_rows_and_columns():
    X, y = make_visits()
    with pytest.raises(ValueError, match=r"Agent 'north': .*'weight'"):
        DeGrootRegressor(Ridge()).fit(X[["weight"]], y, groups=GROUPS)


def test_a_model_that_takes_no_frames_says_which_do():
    X, y = make_visits()
    with pytest.raises(ValueError, match=r"Agent 'north': its model must train on .* pipelines that encode them"):
        DeGrootRegressor().fit(X, y, groups=GROUPS)


@pytest.mark.parametrize("estimator", [DeGrootRegressor, DeGrootClassifier])
def test_columns_of_one_name_are_refused_in_one_line(estimator):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["x", "y"])
    y, twice = np.arange(20) % 2, X.set_axis(["x", "x"], axis=1)
    told = "The columns of `X` must have different names; 'x' is there twice."
    assert complaint(lambda: estimator(n_agents=2).fit(twice, y)) == told
    assert complaint(lambda: estimator(n_agents=2, random_state=0).fit(X, y).predict(twice)) == told


@pytest.mark.parametrize("estimator", [DeGrootRegressor, DeGrootClassifier])
def test_names_that_are_no_texts_are_refused_of_mixed_frames_only(estimator):
    X, y = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2))), np.arange(20) % 2
    assert len(estimator(n_agents=2, random_state=0).fit(X, y).predict(X)) == 20
    mixed = X.assign(**{"1": "a"}).set_axis([0, 1, 2], axis=1)
    told = "The columns of a frame must have names that are texts; got 0."
    assert complaint(lambda: estimator(n_agents=2).fit(mixed, y)) == told


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA], ids=["None", "NaN", "NA"])
@pytest.mark.parametrize("is_frame", [True, False])
def test_missing_labels_are_refused_with_their_row(gap, is_frame):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["x", "y"])
    y = np.array(["low", "high"] * 10, object)
    y[3] = gap
    for labels in (y, pd.Series(y), y.tolist()):
        message = complaint(lambda labels=labels: DeGrootClassifier().fit(X if is_frame else X.to_numpy(), labels))
        assert message.startswith("`y` must hold no missing labels; row 3 is ")
