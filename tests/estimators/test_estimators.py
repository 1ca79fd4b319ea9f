import io
import os
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_regressor
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor, StackingRegressor, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_val_score
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor
from support.checks import parametrize_with_applicable_checks
from support.rules import ROUNDING

from degroot import Agent, Collective, DeGrootRegressor, InvalidInput
from degroot.rules.rules import RULES

NAMES = ["age", "dose", "weight"]


def problem(n_rows=120, seed=0):
    source = np.random.default_rng(seed)
    X = source.normal(size=(n_rows, 3)) * [1.0, 5.0, 0.2]
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * source.normal(size=n_rows)


def frame(X, kind=pd.DataFrame):
    return kind({name: X[:, k] for k, name in enumerate(NAMES)})


def small(**settings):
    return DeGrootRegressor(**{"n_agents": 3, "neighbours": 4, "random_state": 0, **settings})


@parametrize_with_applicable_checks(
    [
        DeGrootRegressor(),
        DeGrootRegressor([Ridge(), DecisionTreeRegressor()], n_agents=2, metric="manhattan", rule="error-average"),
    ]
)
def test_it_is_an_estimator_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_applicable_checks(
    [DeGrootRegressor(DecisionTreeRegressor(), kernel="tricube", metric="cosine", rule="trust-average")]
)
def test_it_is_one_with_other_settings_too(estimator, check):
    check(estimator)


def test_it_takes_arrays_of_other_libraries():
    # scikit-learn skips this check where SCIPY_ARRAY_API is unset, and scipy reads it once, on import
    code = """
from functools import partial
from sklearn.utils.estimator_checks import estimator_checks_generator
from degroot import DeGrootRegressor
checks = [pair for pair in estimator_checks_generator(DeGrootRegressor()) if "array_api" in str(pair[1])]
for estimator, check in checks:
    check(estimator)
print(len(checks))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "SCIPY_ARRAY_API": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 1


# -- in the company of scikit-learn ------------------------------------------------------------------------------------


def test_it_works_at_the_end_of_a_pipeline():
    X, y = problem()
    chain = make_pipeline(StandardScaler(), small()).fit(X, y)
    scaler = StandardScaler().fit(X)
    alone = small().fit(scaler.transform(X), y)
    assert_array_equal(chain.predict(X), alone.predict(scaler.transform(X)))
    value, error = chain.predict(X, return_std=True)
    assert_array_equal(value, chain.predict(X))
    assert error.shape == (len(X),)


def test_a_pipeline_can_hand_it_frames():
    X, y = problem()
    chain = make_pipeline(StandardScaler(), small()).set_output(transform="pandas").fit(frame(X), y)
    assert chain[-1].feature_names_in_.tolist() == NAMES
    assert isinstance(chain[-1].agents_[0].X, pd.DataFrame)
    plain = make_pipeline(StandardScaler(), small()).fit(X, y)
    assert_allclose(chain.predict(frame(X)), plain.predict(X), rtol=1e-12)


def test_a_search_sees_its_settings_and_those_of_its_models():
    X, y = problem()
    settings = {
        "degroot__neighbours": [3, 0.2],
        "degroot__rule": ["degroot", "average"],
        "degroot__estimator__alpha": [1e-3, 1e3],
    }
    chain = Pipeline([("scale", StandardScaler()), ("degroot", small(estimator=Ridge()))])
    search = GridSearchCV(chain, settings, cv=3, error_score="raise").fit(X, y)
    assert len(search.cv_results_["params"]) == 8
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    found = search.best_estimator_[-1]
    assert found.estimator.alpha == search.best_params_["degroot__estimator__alpha"]
    assert {agent.model.alpha for agent in found.agents_} == {found.estimator.alpha}
    assert found.collective_.rule == search.best_params_["degroot__rule"]


def test_a_search_can_change_what_its_models_are():
    X, y = problem()
    search = GridSearchCV(small(), {"estimator": [Ridge(1e6), DecisionTreeRegressor()]}, cv=3, error_score="raise")
    search.fit(X, y)
    assert type(search.best_estimator_.agents_[0].model) is type(search.best_params_["estimator"])


def test_it_can_be_cross_validated():
    X, y = problem()
    scores = cross_val_score(small(), X, y, cv=4, error_score="raise")
    assert scores.shape == (4,)
    assert np.isfinite(scores).all()
    assert cross_val_predict(small(), X, y, cv=4).shape == y.shape
    # `groups` belong to the splitter here, unless metadata is routed: the rows are dealt at random
    assert cross_val_score(
        small(), X, y, groups=np.arange(len(y)) % 6, cv=GroupKFold(3), error_score="raise"
    ).shape == (3,)


def test_it_can_be_a_part_of_other_estimators():
    X, y = problem()
    logarithmic = TransformedTargetRegressor(small(), func=np.log, inverse_func=np.exp).fit(X, np.exp(y))
    assert_allclose(np.log(logarithmic.predict(X)), small().fit(X, np.log(np.exp(y))).predict(X), rtol=1e-9, atol=1e-12)

    vote = VotingRegressor([("collective", small()), ("tree", DecisionTreeRegressor(random_state=0))]).fit(X, y)
    tree = DecisionTreeRegressor(random_state=0).fit(X, y)
    assert_allclose(vote.predict(X), (small().fit(X, y).predict(X) + tree.predict(X)) / 2, rtol=1e-12)

    for whole in (
        BaggingRegressor(small(), n_estimators=3, random_state=0),
        StackingRegressor([("collective", small())], Ridge(), cv=2),
    ):
        assert whole.fit(X, y).predict(X).shape == y.shape
    assert permutation_importance(small().fit(X, y), X, y, n_repeats=2).importances.shape == (3, 2)


def test_collectives_can_be_made_of_collectives():
    X, y = problem()
    model = small(estimator=small(estimator=Ridge(0.5), n_agents=2), n_agents=2).fit(X, y)
    assert model.agents_[0].model.agents_[0].model.alpha == 0.5
    assert model.get_params()["estimator__estimator__alpha"] == 0.5
    assert np.isfinite(model.predict(X)).all()


def test_a_clone_has_the_settings_and_no_agents():
    X, y = problem()
    model = small(estimator=DecisionTreeRegressor()).fit(X, y)
    copy = clone(model)
    assert repr(copy) == repr(model)
    with pytest.raises(NotFittedError):
        copy.predict(X)
    assert_array_equal(copy.fit(X, y).predict(X), model.predict(X))


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
@pytest.mark.parametrize("table", [np.asarray, csr_array, frame], ids=["numpy", "csr", "pandas"])
def test_it_answers_the_same_after_being_stored(table, metric, tmp_path):
    X, y = problem()
    model = small(metric=metric).fit(table(X), y)
    X = table(problem(seed=1)[0])
    joblib.dump(model, tmp_path / "model")
    for copy in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model")):
        for one, other in zip(model.predict(X, return_std=True), copy.predict(X, return_std=True), strict=True):
            assert_array_equal(one, other)


def test_it_is_a_regressor_that_says_what_it_takes():
    assert is_regressor(DeGrootRegressor())
    assert DeGrootRegressor(Ridge()).__sklearn_tags__().input_tags.sparse
    assert not DeGrootRegressor([Ridge(), _Dense()]).__sklearn_tags__().input_tags.sparse
    assert (
        not DeGrootRegressor(RandomForestRegressor()).__sklearn_tags__().input_tags.allow_nan
    )  # distances need numbers
    assert DeGrootRegressor(DecisionTreeRegressor(), space=SimpleImputer()).__sklearn_tags__().input_tags.allow_nan


class _Dense(RegressorMixin, BaseEstimator):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def fit(self, X, y):
        return self


def test_the_score_is_the_coefficient_of_determination():
    X, y = problem()
    model = small().fit(X, y)
    assert model.score(X, y) == r2_score(y, model.predict(X))


# -- tables ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_keep_the_names_of_their_features(kind):
    X, y = problem()
    model = small().fit(frame(X, kind), y)
    assert model.feature_names_in_.tolist() == NAMES
    assert model.n_features_in_ == 3
    assert isinstance(model.agents_[0].X, kind)
    plain = small().fit(X, y)
    assert not hasattr(plain, "feature_names_in_")
    assert plain.n_features_in_ == 3
    assert_allclose(model.predict(frame(X, kind)), plain.predict(X), rtol=1e-12)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize("columns", [["age", "dose", "height"], ["dose", "age", "weight"], ["age", "dose"]])
def test_other_features_are_refused(kind, columns):
    X, y = problem()
    model = small().fit(frame(X, kind), y)
    other = kind({name: X[:, k] for k, name in enumerate(columns)})
    with pytest.raises(ValueError, match="feature names"):
        model.predict(other)


@pytest.mark.parametrize("labels", [list, pd.Series, pl.Series, lambda y: pd.Series(y, index=np.arange(len(y))[::-1])])
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, None], ids=["pandas", "polars", "numpy"])
def test_labels_come_in_any_column_and_by_place(kind, labels):
    X, y = problem()
    table = X if kind is None else frame(X, kind)
    assert_array_equal(small().fit(table, labels(y)).predict(table), small().fit(table, y).predict(table))


def test_rows_go_by_place_not_by_index():
    X, y = problem()
    other = frame(X).set_index(np.arange(len(X))[::-1] // 2)
    assert_array_equal(small().fit(other, y).predict(other), small().fit(frame(X), y).predict(frame(X)))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize("rule", RULES)
def test_words_are_fine_where_model_and_space_understand_them(kind, rule):
    X, y = problem()
    table = frame(X, kind)
    ward = np.array(["heart", "lung", "skin"])[np.arange(len(X)) % 3]
    table = table.assign(ward=ward) if kind is pd.DataFrame else table.with_columns(pl.Series("ward", ward))

    def numbers():
        words = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
        return ColumnTransformer([("words", words, ["ward"]), ("numbers", StandardScaler(), NAMES)])

    model = small(estimator=make_pipeline(numbers(), Ridge()), space=numbers(), rule=rule).fit(table, y)
    value, error = model.predict(table, return_std=True)
    assert np.isfinite(value).all()
    assert np.isfinite(error).all()
    assert model.n_features_in_ == 4
    assert_allclose(clone(model).fit(table, y).predict(table), value, rtol=ROUNDING[rule])
    assert_allclose(pickle.loads(pickle.dumps(model)).predict(table), value, rtol=ROUNDING[rule])


@pytest.mark.parametrize("kind", [np.asarray, frame], ids=["numpy", "pandas"])
def test_gaps_are_fine_where_model_and_space_fill_them(kind):
    X, y = problem()
    X[::7, 1] = np.nan
    model = small(estimator=DecisionTreeRegressor(max_depth=3), space=SimpleImputer()).fit(kind(X), y)
    assert np.isfinite(model.predict(kind(X))).all()


@pytest.mark.parametrize("kind", [csr_matrix, csr_array])
@pytest.mark.parametrize("partition", ["random", "label", 1])
def test_sparse_rows_give_what_dense_rows_give(kind, partition):
    source = np.random.default_rng(0)
    X = np.where(source.random((150, 40)) < 0.05, source.normal(size=(150, 40)), 0.0)
    y = X.sum(axis=1)
    base = Ridge(solver="sparse_cg", tol=1e-14)  # left to itself, Ridge solves sparse and dense rows differently
    one, other = (small(estimator=base, partition=partition).fit(table, y) for table in (X, kind(X)))
    assert [len(agent.y) for agent in one.agents_] == [len(agent.y) for agent in other.agents_]
    for first, second in zip(one.predict(X, return_std=True), other.predict(kind(X), return_std=True), strict=True):
        assert_allclose(first, second, rtol=1e-5, atol=1e-7)


def test_lists_and_whole_numbers_are_fine():
    X, y = problem()
    X = np.round(X)
    model = small().fit(X.astype(int).tolist(), y)
    assert_array_equal(model.predict(X.astype(int)), small().fit(X, y).predict(X))


# -- agents ------------------------------------------------------------------------------------------------------------


def assert_each_row_once(model, X, y):
    """All rows are with somebody, each with its own label, and every model was trained on its agent's rows."""
    rows = np.concatenate([np.column_stack([agent.X, agent.y]) for agent in model.agents_])
    expected = np.column_stack([X, y])
    assert_array_equal(rows[np.lexsort(rows.T)], expected[np.lexsort(expected.T)])
    for agent in model.agents_:
        assert_allclose(agent.model.coef_, Ridge().fit(agent.X, agent.y).coef_)


@pytest.mark.parametrize("partition", ["random", "label", 2, -1, np.int64(2)])
@pytest.mark.parametrize("fraction", [0, 0.5, 1])
def test_every_row_is_dealt_once(partition, fraction):
    X, y = problem(n_rows=61)
    model = small(partition=partition, fraction=fraction).fit(X, y)
    assert model.collective_.names == ("agent 1", "agent 2", "agent 3")
    assert_each_row_once(model, X, y)


def test_rows_are_dealt_in_the_order_of_the_label_or_a_feature():
    X, y = problem()
    for partition, column in (("label", y), (1, X[:, 1])):
        model = small(partition=partition).fit(X, y)
        runs = [agent.y if partition == "label" else agent.X[:, 1] for agent in model.agents_]
        assert_array_equal(np.concatenate([np.sort(run) for run in runs]), np.sort(column))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_feature_has_a_number_and_a_name(kind):
    X, y = problem()
    by_name, by_number = (small(partition=partition).fit(frame(X, kind), y) for partition in ("dose", 1))
    for one, other in zip(by_name.agents_, by_number.agents_, strict=True):
        assert_array_equal(one.y, other.y)
    assert_array_equal(
        np.concatenate([np.sort(agent.X["dose"].to_numpy()) for agent in by_name.agents_]), np.sort(X[:, 1])
    )


def test_a_smaller_fraction_makes_the_agents_more_alike():
    X, y = problem(n_rows=2000)

    def difference(fraction):
        return np.ptp([agent.y.mean() for agent in small(partition="label", fraction=fraction).fit(X, y).agents_])

    assert difference(0) < 0.3 * difference(0.5) < 0.3 * difference(1)


def test_the_deal_can_be_ones_own():
    X, y = problem()
    seen = []

    def halves(X, y):
        seen.append((X.shape, y.shape))
        return np.flatnonzero(X[:, 0] < 0), np.flatnonzero(X[:, 0] >= 0)

    model = small(partition=halves).fit(X, y)
    assert seen == [(X.shape, y.shape)]
    assert_array_equal(model.agents_[0].X, X[X[:, 0] < 0])
    assert_array_equal(model.agents_[1].y, y[X[:, 0] >= 0])
    assert_each_row_once(model, X, y)


@pytest.mark.parametrize("partition", ["height", 3, -4, 1.0, None])
def test_an_unknown_partition_is_refused(partition):
    X, y = problem()
    with pytest.raises(
        InvalidInput, match="`partition` must be 'random', 'label', a callable or one of the features"
    ) as caught:
        small(partition=partition).fit(frame(X), y)
    assert repr(partition) in str(caught.value)


@pytest.mark.parametrize("kind", [list, np.array, pd.Series, pl.Series, pd.Categorical])
def test_a_group_is_an_agent(kind):
    X, y = problem()
    groups = np.array(["south", "north", "west", "east"])[np.arange(len(X)) % 4]
    model = small().fit(X, y, groups=kind(groups))
    assert model.collective_.names == ("east", "north", "south", "west")
    assert all(type(name) is str for name in model.collective_.names)
    for agent in model.agents_:
        assert_array_equal(agent.X, X[groups == agent.name])
        assert_array_equal(agent.y, y[groups == agent.name])


def test_groups_can_be_numbers():
    X, y = problem()
    model = small().fit(X, y, groups=np.arange(len(X)) // 40 * 10)
    assert model.collective_.names == ("0", "10", "20")


@pytest.mark.parametrize("length", [0, 1, 119, 121])
def test_there_is_one_group_for_each_row(length):
    X, y = problem()
    with pytest.raises(InvalidInput, match=r"`groups` must h(ave|old) one (label|value) for each"):
        small().fit(X, y, groups=np.zeros(length))


def test_a_list_has_one_estimator_for_each_agent():
    X, y = problem()
    models = [Ridge(0.1), DecisionTreeRegressor(max_depth=2), LinearRegression()]
    model = small(estimator=models).fit(X, y)
    assert [type(agent.model) for agent in model.agents_] == [Ridge, DecisionTreeRegressor, LinearRegression]
    assert not hasattr(models[0], "coef_")  # a clone was trained
    with pytest.raises(InvalidInput, match="A list of estimators must have one for each of 4 agents; it has 3"):
        small(estimator=models, n_agents=4).fit(X, y)
    with pytest.raises(InvalidInput, match="A list of estimators must have one for each of 2 agents; it has 3"):
        small(estimator=models).fit(X, y, groups=np.arange(len(X)) % 2)


def test_what_is_given_is_left_as_it_is():
    X, y = problem()
    given, space = Ridge(), StandardScaler()
    before = X.copy(), y.copy()
    small(estimator=given, space=space).fit(X, y).predict(X)
    assert not hasattr(given, "coef_")
    assert not hasattr(space, "mean_")
    assert_array_equal(X, before[0])
    assert_array_equal(y, before[1])


def test_a_frozen_model_is_everybodys():
    X, y = problem()
    frozen = LinearRegression().fit(X, y)
    model = small(estimator=FrozenEstimator(frozen)).fit(X, y)
    assert_allclose(model.predict(X), frozen.predict(X), rtol=1e-12, atol=1e-12)
    assert_allclose(model.predict(X, return_std=True)[1], 0, atol=1e-12)


def test_every_agent_needs_a_row():
    X, y = problem(n_rows=4)
    with pytest.raises(InvalidInput, match=r"must be at most the number of rows.*got n_agents=5 and n_samples=4"):
        DeGrootRegressor().fit(X, y)
    with pytest.raises(InvalidInput, match=r"must be at most the number of rows.*got n_agents=5 and n_samples=4"):
        DeGrootRegressor(partition="label").fit(frame(X), y)
    assert DeGrootRegressor(n_agents=4).fit(X, y).predict(X).shape == (4,)


@pytest.mark.parametrize("n_agents", [0, -1, 2.5, "3", None])
def test_the_number_of_agents_is_a_positive_whole_number(n_agents):
    X, y = problem()
    with pytest.raises(InvalidInput, match="`n_agents` must be a whole number, at least 1; got "):
        small(n_agents=n_agents).fit(X, y)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, np.nan, "half", None])
@pytest.mark.parametrize("partition", ["label", 0])
def test_the_fraction_lies_between_0_and_1(fraction, partition):
    X, y = problem()
    with pytest.raises(InvalidInput, match=f"`fraction` must lie between 0 and 1; got .*{fraction}"):
        small(partition=partition, fraction=fraction).fit(X, y)


def test_one_agent_is_its_model():
    X, y = problem()
    model = small(n_agents=1).fit(X, y)
    assert_array_equal(model.predict(X), Ridge().fit(X, y).predict(X))
    assert np.isnan(model.predict(X, return_std=True)[1]).all()


def test_it_has_to_be_fitted_first():
    with pytest.raises(NotFittedError, match="DeGrootRegressor instance is not fitted yet"):
        DeGrootRegressor().predict(problem()[0])
    assert not hasattr(DeGrootRegressor(), "agents_")


def test_fitting_again_forgets_the_first_time():
    X, y = problem()
    model = small().fit(frame(X), y)
    model.fit(X[:, :2], y)
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")
    assert_array_equal(model.predict(X[:, :2]), small().fit(X[:, :2], y).predict(X[:, :2]))


# -- chance ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [int, np.random.RandomState])
@pytest.mark.parametrize(
    "base",
    [
        DecisionTreeRegressor(splitter="random"),
        make_pipeline(StandardScaler(), RandomForestRegressor(n_estimators=3)),
        [MLPRegressor(max_iter=3), Ridge(), DecisionTreeRegressor(max_features=1)],
    ],
)
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_the_same_seed_gives_the_same_model(source, base):
    X, y = problem()
    first = small(estimator=base, random_state=source(3)).fit(X, y)
    again = small(estimator=base, random_state=source(3)).fit(X, y)
    other = small(estimator=base, random_state=source(4)).fit(X, y)
    assert_array_equal(first.predict(X), again.predict(X))
    assert (first.predict(X) != other.predict(X)).any()


def test_every_model_has_a_seed_of_its_own():
    X, y = problem()
    model = small(estimator=DecisionTreeRegressor()).fit(X, y)
    assert len({agent.model.random_state for agent in model.agents_}) == 3
    fixed = small(estimator=DecisionTreeRegressor(random_state=7)).fit(X, y)
    assert {agent.model.random_state for agent in fixed.agents_} == {7}


def test_fitting_leaves_the_worlds_chance_alone():
    X, y = problem()
    before = np.random.get_state()[1].copy()
    small().fit(X, y).predict(X)
    assert_array_equal(np.random.get_state()[1], before)


@pytest.mark.parametrize("base", [Ridge(), DecisionTreeRegressor(splitter="random")])
def test_many_workers_give_what_one_gives(base):
    X, y = problem()
    one, two = (small(estimator=base, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    for first, second in zip(one.predict(X, return_std=True), two.predict(X, return_std=True), strict=True):
        assert_array_equal(first, second)


# -- from agents -------------------------------------------------------------------------------------------------------


def trained(table=np.asarray):
    X, y = problem()
    parts = np.array_split(np.argsort(y), 3)
    return [
        Agent(Ridge().fit(table(X[rows]), y[rows]), table(X[rows]), y[rows], name)
        for rows, name in zip(parts, ("low", "middle", "high"), strict=True)
    ]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("table", [np.asarray, frame, lambda X: frame(X, pl.DataFrame), csr_array])
def test_from_agents_it_is_their_collective(table, rule):
    agents, X = trained(table), table(problem(seed=1)[0])
    settings = {"neighbours": 5, "rule": rule, "metric": "manhattan", "kernel": "gaussian"}
    model = DeGrootRegressor.from_agents(agents, **settings)
    collective = Collective(agents, **settings)
    answer = collective.consult(X)
    value, error = model.predict(X, return_std=True)
    assert_array_equal(value, answer.value)
    assert_array_equal(error, answer.standard_error)
    assert model.agents_ == tuple(agents)
    assert model.n_features_in_ == 3
    assert hasattr(model, "feature_names_in_") == hasattr(X, "columns")
    assert_allclose(pickle.loads(pickle.dumps(model)).predict(X), value, rtol=ROUNDING[rule])


def test_from_agents_it_refuses_other_features():
    with pytest.raises(ValueError, match="4 features, but DeGrootRegressor is expecting 3"):
        DeGrootRegressor.from_agents(trained()).predict(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="feature names"):
        DeGrootRegressor.from_agents(trained(frame)).predict(frame(problem()[0])[NAMES[::-1]])


def test_from_agents_that_fill_gaps_it_takes_gaps():
    X, y = problem()
    X[::5, 2] = np.nan
    filled = make_pipeline(SimpleImputer(), Ridge())
    agents = [
        Agent(clone(filled).fit(X[rows], y[rows]), X[rows], y[rows], name, space=SimpleImputer())
        for rows, name in zip(np.array_split(np.arange(len(X)), 2), "ab", strict=True)
    ]
    assert_array_equal(DeGrootRegressor.from_agents(agents).predict(X), Collective(agents).predict(X))


def test_from_no_agents_there_is_nothing():
    with pytest.raises(InvalidInput, match="A collective must have at least one agent; it has none"):
        DeGrootRegressor.from_agents([])


# -- what it is for ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_the_standard_error_is_the_collectives(rule):
    X, y = problem()
    model = small(rule=rule).fit(X, y)
    value, error = model.predict(X, return_std=True)
    answer = model.collective_.consult(X)
    assert value.shape == error.shape == (len(X),)
    assert_array_equal(value, answer.value)
    assert_allclose(model.predict(X), value, rtol=ROUNDING[rule])
    assert_array_equal(error, answer.standard_error)
    assert (error >= 0).all()


CENTRES = np.array([(-3, -4), (-2, -2), (-1, -1), (0, 0), (3, 2)])


def blobs(rows, source):
    """The paper's synthetic problem: rows around five centres, and their label without noise."""
    X = np.concatenate([source.normal(centre, 1, (rows, 2)) for centre in CENTRES])
    return X, 1 / (1 + np.exp(X.sum(axis=1))), np.repeat(np.arange(5), rows)


def test_it_beats_the_average_on_the_papers_problem():
    ratios, errors = [], []
    for seed in range(6):
        source = np.random.default_rng(seed)
        X, y, groups = blobs(200, source)
        asked, truth, _ = blobs(40, source)
        labels = y + source.normal(0, 0.1, len(y))
        error = {
            rule: np.mean(
                (
                    DeGrootRegressor(LinearRegression(), neighbours=5, rule=rule).fit(X, labels, groups).predict(asked)
                    - truth
                )
                ** 2
            )
            for rule in ("degroot", "average", "trust-average", "error-average")
        }
        errors.append(error["degroot"])
        ratios.append([error[rule] / error["degroot"] for rule in ("average", "trust-average", "error-average")])
    # the design measured 3.1e-3 over 30 seeds, and 9, 3.5 and 4 times that for the others
    assert np.min(ratios, axis=0)[0] > 3
    assert np.mean(ratios, axis=0)[0] > 5
    assert (np.mean(ratios, axis=0)[1:] > 2).all()
    assert 1e-3 < np.mean(errors) < 6e-3


def test_who_is_alone_in_knowing_a_place_has_the_weight_there():
    source = np.random.default_rng(0)
    X, y, groups = blobs(200, source)
    model = DeGrootRegressor(LinearRegression(), neighbours=5).fit(X, y, groups)
    weights = model.collective_.consult(X).weights
    by_place = np.array([weights[groups == k].mean(axis=0) for k in range(5)])
    assert by_place[0, 0] > 0.8  # the outermost agents are alone where they are; the others overlap
    assert by_place[4, 4] > 0.8


def test_stored_models_do_not_depend_on_the_file(tmp_path):
    X, y = problem()
    model = small().fit(X, y)
    buffer = io.BytesIO()
    joblib.dump(model, buffer, compress=3)
    buffer.seek(0)
    joblib.dump(model, tmp_path / "model")
    mapped = joblib.load(tmp_path / "model", mmap_mode="r")  # read-only arrays
    assert_array_equal(joblib.load(buffer).predict(X), model.predict(X))
    assert_array_equal(mapped.predict(X), model.predict(X))


def test_trained_agents_survive_cloning_and_refitting():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    agents = [Agent(lambda X, level=level: np.full(len(X), level), X, y, f"{level}") for level in (1e5, 2e5)]
    model = DeGrootRegressor.from_agents(agents, neighbours=3)
    for other in (clone(model).fit(X, y), clone(model).fit(X[:10], y[:10])):
        assert list(other.agents_) == agents
        assert_array_equal(other.predict(X), model.predict(X))
    assert max(cross_val_score(model, X, y)) < -1e6  # these models are bad, and nobody trained better ones in secret
