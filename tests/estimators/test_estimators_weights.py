"""Weights of rows, and rows on which a model cannot be trained: an error says whose rows, and which column."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from degroot import AgentError, DeGrootClassifier, DeGrootRegressor, InvalidInput
from degroot.compute.gaps import describe_gaps
from degroot.estimators.self_scoring import CROSS, train_with_own_predictions

GROUPS = np.repeat(["north", "south"], 20)


def problem(seed=0):
    source = np.random.default_rng(seed)
    X = source.normal(size=(40, 3))
    return X, X @ [1.0, -2.0, 0.5] + source.normal(size=40), source.uniform(0.1, 3.0, size=40)


# -- weights -----------------------------------------------------------------------------------------------------------


def test_weights_go_to_every_agents_model():
    X, y, weight = problem()
    model = DeGrootRegressor(Ridge()).fit(X, y, groups=GROUPS, sample_weight=weight)
    for agent, name in zip(model.agents_, ["north", "south"], strict=True):
        rows = name == GROUPS
        expected = Ridge().fit(X[rows], y[rows], sample_weight=weight[rows])
        assert_allclose(agent.predict(X), expected.predict(X))
    labels = y > 0
    kinds = DeGrootClassifier().fit(X, labels, groups=GROUPS, sample_weight=weight)
    expected = LogisticRegression(max_iter=1000).fit(X[:20], labels[:20], sample_weight=weight[:20])
    assert_allclose(kinds.agents_[0].predict(X), expected.predict_proba(X))


def test_equal_weights_change_nothing_and_others_do():
    X, y, weight = problem()
    plain, equal, other = (
        DeGrootRegressor(random_state=0).fit(X, y, sample_weight=w) for w in (None, [1] * 40, weight)
    )
    assert_array_equal(plain.predict(X), equal.predict(X))
    assert not np.allclose(plain.predict(X), other.predict(X))


@pytest.mark.parametrize("make", [LinearRegression, lambda: make_pipeline(StandardScaler(), LinearRegression())])
def test_out_of_fold_predictions_are_of_models_with_weights(make):
    """A row of weight 0 is as good as absent from all training, and is predicted like others."""
    X, y, weight = problem()
    weight[::4] = 0.0
    wild = np.where(weight == 0.0, 1e6, y)
    done = train_with_own_predictions(LinearRegression(), X, wild, "north", None, CROSS, 0, sample_weight=weight)
    expected = LinearRegression().fit(X, y, sample_weight=weight)
    assert_allclose(done.model.predict(X), expected.predict(X))
    assert np.abs(done.own).max() < 100
    plain = train_with_own_predictions(LinearRegression(), X, y, "north", None, CROSS, 0)
    ones = train_with_own_predictions(make(), X, y, "north", None, CROSS, 0, sample_weight=np.ones(40))
    assert_allclose(ones.own, plain.own)


def test_a_pipeline_hands_weights_to_its_last_step_also_where_metadata_is_routed():
    X, y, weight = problem()
    expected = LinearRegression().fit(X, y, sample_weight=weight).predict(X)
    chain = make_pipeline(make_pipeline(StandardScaler(), LinearRegression()))
    done = train_with_own_predictions(chain, X, y, "north", None, CROSS, 0, sample_weight=weight)
    assert_allclose(done.model.predict(X), expected)
    with sklearn.config_context(enable_metadata_routing=True):
        last = LinearRegression().set_fit_request(sample_weight=True)
        chain = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), last)
        done = train_with_own_predictions(chain, X, y, "north", None, CROSS, 0, sample_weight=weight)
    assert_allclose(done.model.predict(X), expected)


def test_rows_without_weight_are_left_out():
    X, y, weight = problem()
    weight[::3] = 0.0
    units, kept = np.arange(40) // 2, weight > 0
    for labels, kind in ((y, DeGrootRegressor), (y > 0, DeGrootClassifier)):
        one = kind(random_state=0).fit(X, labels, groups=GROUPS, units=units, sample_weight=weight)
        settings = {"groups": GROUPS[kept], "units": units[kept], "sample_weight": weight[kept]}
        other = kind(random_state=0).fit(X[kept], labels[kept], **settings)
        assert_array_equal(one.consult(X).value, other.consult(X).value)
        assert [agent.n_rows for agent in one.agents_] == [agent.n_rows for agent in other.agents_]


def test_a_class_without_weight_is_not_learned():
    X, y, _ = problem()
    labels = np.where(y > 0, "high", "low")
    weight = (labels == "high").astype(float)
    done = train_with_own_predictions(
        LogisticRegression(), X, labels, "north", np.array(["high", "low"]), CROSS, 0, sample_weight=weight
    )
    assert set(done.model.predict(X)) == {"high"}
    assert_array_equal(done.own, np.tile([1.0, 0.0], (40, 1)))


def test_a_search_passes_weights_on():
    X, y, weight = problem()
    search = GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=2)
    done = train_with_own_predictions(search, X, y, "north", None, CROSS, 0, sample_weight=weight)
    assert_allclose(done.model.predict(X), Ridge().fit(X, y, sample_weight=weight).predict(X))


def test_weights_that_cannot_be_used_are_refused():
    X, y, weight = problem()

    def fit(sample_weight, estimator=None):
        DeGrootRegressor(estimator).fit(X, y, groups=GROUPS, sample_weight=sample_weight)

    with pytest.raises(InvalidInput, match="`sample_weight` must hold one number for each of 40 rows"):
        fit(weight[1:])
    with pytest.raises(InvalidInput, match="`sample_weight` must not be negative; row 3 is -1"):
        fit(np.where(np.arange(40) == 3, -1.0, weight))
    with pytest.raises(InvalidInput, match="`sample_weight` must be finite; row 0 is nan"):
        fit(np.full(40, np.nan))
    with pytest.raises(InvalidInput, match="all weights are zero"):
        fit(np.zeros(40))
    with pytest.raises(InvalidInput, match="Every group must have a row with a weight above zero; 'south' has none"):
        fit(np.where(GROUPS == "south", 0.0, weight))
    with pytest.raises(AgentError, match=r"its fit must take sample_weight; that of KNeighborsRegressor does not\.$"):
        fit(weight, KNeighborsRegressor())


# -- columns without a value -------------------------------------------------------------------------------------------


def gappy(rows, column=1):
    X, y, _ = problem()
    X[rows, column] = np.nan
    return X, y


SPACE = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
EMPTY = r"column 1 has no value in any of 20 rows\. Leave it out"


@pytest.mark.parametrize("space", [None, SPACE])
def test_a_column_without_any_value_is_named_with_whose_it_is(space):
    X, y = gappy(GROUPS == "south")
    for model in (
        DeGrootRegressor(HistGradientBoostingRegressor(), space=space),
        DeGrootRegressor(space=space),
        DeGrootClassifier(HistGradientBoostingClassifier(), space=space),
    ):
        labels = y if isinstance(model, DeGrootRegressor) else y > 0
        with pytest.raises(AgentError, match=rf"^Agent 'south': .*{EMPTY}") as error:
            model.fit(X, labels, groups=GROUPS)
        assert len(str(error.value)) < 250
        with pytest.raises(AgentError, match=r"^Agent 'south': .*column 'dose' has no value in any of 20 rows"):
            model.fit(pd.DataFrame(X, columns=["age", "dose", "size"]), labels, groups=GROUPS)


def test_a_model_that_takes_empty_columns_is_trained_on_them():
    X, y = gappy(GROUPS == "south")
    for model in (RandomForestRegressor(5), make_pipeline(SimpleImputer(keep_empty_features=True), Ridge())):
        found = DeGrootRegressor(model, space=SPACE, random_state=0).fit(X, y, groups=GROUPS).predict(X)
        assert np.isfinite(found).all()


def test_gaps_are_named_where_a_model_does_not_take_them():
    X, y = gappy([3, 5, 25])
    with pytest.raises(AgentError, match=r"^Agent 'north': .*column 1 is NaN in 2 of 20 rows"):
        DeGrootRegressor(Ridge(), space=SPACE).fit(X, y, groups=GROUPS)
    with pytest.raises(
        AgentError, match=r"^Agent 'north': `X` must be finite; column 1 is NaN in 2 of 20 rows\. .*space"
    ):
        DeGrootRegressor(HistGradientBoostingRegressor()).fit(X, y, groups=GROUPS)
    model = DeGrootRegressor(HistGradientBoostingRegressor()).fit(*problem()[:2], groups=GROUPS)
    with pytest.raises(InvalidInput, match=r"^`X` must be finite; column 1 is NaN in 3 of 40 rows\. "):
        model.predict(X)


def test_a_model_that_takes_no_gaps_abstains_where_the_rows_of_others_have_them():
    X, y = gappy([25])
    model = DeGrootRegressor([Ridge(), HistGradientBoostingRegressor()], space=SPACE).fit(X, y, groups=GROUPS)
    assert np.isfinite(model.predict(X)).all()


def test_a_column_whose_values_are_all_in_one_fold_is_named():
    X, y = gappy(np.arange(1, 40))
    with pytest.raises(AgentError, match=r"must train on 16 of its 20 rows; .*column 1 has no value.*self_scoring"):
        DeGrootRegressor(HistGradientBoostingRegressor(), space=SPACE, n_agents=1).fit(X[:20], y[:20])


def test_an_error_that_is_not_about_gaps_is_told_as_it_is():
    X, y = gappy([3])
    with pytest.raises(AgentError, match=r"it raised ValueError: .*n_splits=50"):
        DeGrootRegressor(make_pipeline(SimpleImputer(), RidgeCV(cv=50)), space=SPACE).fit(X, y, groups=GROUPS)


def test_gaps_are_described_by_column():
    table = np.array([[1.0, np.nan, np.nan], [2.0, np.nan, 3.0]])
    assert describe_gaps(table[:, [0]]) is None
    assert describe_gaps(table[:, [0, 2]], only_empty=True) is None
    assert describe_gaps(np.full((2, 6), np.nan)) == "columns 0, 1, 2, 3, 2 more have no value in any of 2 rows"
    words = pd.DataFrame({"a": ["x", None], "b": ["y", "z"]}, dtype=object)
    assert describe_gaps(words) == "column 'a' is NaN in 1 of 2 rows"


# -- few rows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partition", ["random", "label", 0])
def test_more_agents_than_rows_are_refused_with_both_numbers(partition):
    X, y, _ = problem()
    with pytest.raises(InvalidInput, match="got n_agents=10 and n_samples=5"):
        DeGrootRegressor(n_agents=10, partition=partition).fit(X[:5], y[:5])


def test_a_group_of_one_row_is_scored_by_its_peers():
    X, y, _ = problem()
    model = DeGrootRegressor().fit(X, y, groups=["alone", *GROUPS[1:]])
    assert [agent.scored_by_peers for agent in model.agents_] == [True, False, False]
    assert np.isfinite(model.predict(X)).all()


def test_a_group_of_one_row_that_its_model_cannot_learn_from_is_named():
    X, y, _ = problem()
    with pytest.raises(
        AgentError, match=r"'alone': its model must train on its 1 row; .*Join its row to another group's"
    ):
        DeGrootRegressor(RidgeCV(cv=3)).fit(X, y, groups=["alone", *GROUPS[1:]])
