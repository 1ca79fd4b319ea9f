"""Estimators with units: rows of one unit go to one agent and into one fold."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, cross_validate
from support.refusals import complaint

from degroot import DeGrootClassifier, DeGrootRegressor
from degroot.estimators.self_scoring import CROSS, train_with_own_predictions


def problem(n_units=24, seed=0):
    """Rows of units of 2 to 6 rows, in no order, with a number that each unit has in common."""
    source = np.random.default_rng(seed)
    units = source.permutation(np.repeat(np.arange(n_units), source.integers(2, 7, n_units)))
    X = source.normal(size=(len(units), 2)) + source.normal(size=(n_units, 2))[units]
    return X, X[:, 0] - X[:, 1] + source.normal(size=n_units)[units], units


def own_predictions(y, units, classes=None, seed=0, model=None):
    X = problem()[0]
    return train_with_own_predictions(model or Ridge(), X, y, "north", classes, CROSS, seed, units).own


class Remembers(RegressorMixin, BaseEstimator):
    """It says 1 of rows that it was trained on, and 0 of others."""

    def fit(self, X, y):
        self.seen_ = {tuple(row) for row in np.asarray(X)}
        return self

    def predict(self, X):
        return np.array([float(tuple(row) in self.seen_) for row in np.asarray(X)])


class RemembersUnits(ClassifierMixin, BaseEstimator):
    """It says "yes" of rows whose unit, the first feature, it was trained on, and "no" of others."""

    def fit(self, X, y):
        self.classes_, self.seen_ = np.array(["no", "yes"]), set(X[:, 0])
        return self

    def predict(self, X):
        return np.where([unit in self.seen_ for unit in X[:, 0]], "yes", "no")


# -- folds of whole units ----------------------------------------------------------------------------------------------


def test_own_predictions_of_a_unit_do_not_depend_on_its_labels():
    _, y, units = problem()
    before = own_predictions(y, units)
    for unit in (0, 7, 23):
        mine = units == unit
        after = own_predictions(np.where(mine, y + 1000.0, y), units)
        assert_allclose(after[mine], before[mine], rtol=1e-9)
        assert (np.abs(after - before)[~mine] > 1e-3).mean() > 0.6  # four of five folds have seen it
    apart = own_predictions(np.where(units == 7, y + 1000.0, y), None)
    assert np.abs(apart - own_predictions(y, None))[units == 7].max() > 1.0  # without units they do


def test_own_predictions_are_those_of_models_without_the_unit():
    """An oracle: which units share a fold is read off a model that remembers, and each fold is trained anew."""
    X, y, units = problem()

    class Fold(Remembers):
        def predict(self, X):
            return np.full(len(X), hash(frozenset(self.seen_)) % 1000003, float)

    fold = own_predictions(y, units, model=Fold())
    assert len(set(fold)) == 5
    assert all(len(set(fold[units == unit])) == 1 for unit in set(units))
    expected = np.empty(len(y))
    for each in set(fold):
        expected[fold == each] = LinearRegression().fit(X[fold != each], y[fold != each]).predict(X[fold == each])
    assert_allclose(own_predictions(y, units, model=LinearRegression()), expected, rtol=1e-9)
    sizes = np.unique(fold, return_counts=True)[1]
    assert sizes.max() - sizes.min() <= 6  # as large as a unit at most


def test_no_unit_is_in_its_own_training_rows_with_classes():
    X, y, units = problem()
    X = np.column_stack([units, X])
    labels = np.where(y > 0, "yes", "no")
    found = train_with_own_predictions(RemembersUnits(), X, labels, "north", np.array(["no", "yes"]), CROSS, 0, units)
    assert_array_equal(found.own, np.tile([1.0, 0.0], (len(y), 1)))


def test_folds_of_classes_have_nearly_the_same_mix():
    units = np.repeat(np.arange(40), 3)
    labels = np.where(units % 4 == 0, "yes", "no")  # every unit is of one class

    class Share(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_, self.share_ = np.array(["no", "yes"]), np.mean(y == "yes")
            return self

        def predict_proba(self, X):
            return np.tile([1 - self.share_, self.share_], (len(X), 1))

    own = train_with_own_predictions(
        Share(), np.zeros((120, 1)), labels, "north", np.array(["no", "yes"]), CROSS, 0, units
    ).own
    assert_allclose(own[:, 1], 0.25)


@pytest.mark.parametrize("labels", [["a", "b", "b", "a", "a", "b"], ["a", "b", "c", "d", "e", "f"], ["a"] * 5 + ["b"]])
def test_few_units_and_rare_classes_make_fewer_folds_and_no_warning(labels):
    units, classes = np.array([1, 1, 2, 2, 3, 3]), np.unique(labels)
    X = np.arange(6.0)[:, None]
    done = train_with_own_predictions(LogisticRegression(), X, np.array(labels), "north", classes, CROSS, 0, units)
    assert_allclose(done.own.sum(axis=1), 1.0)


def test_two_units_are_two_folds():
    X, units = np.arange(8.0)[:, None], np.array([0, 0, 0, 0, 0, 0, 1, 1])
    y = np.where(units == 0, 5.0, 7.0)
    own = train_with_own_predictions(Ridge(), X, y, "north", None, CROSS, 0, units).own
    assert_allclose(own, np.where(units == 0, 7.0, 5.0))


def test_a_single_unit_cannot_score_itself():
    X, y, _ = problem()
    told = "to score itself it must have rows of at least two units; all its 20 rows are of unit 'ann'."
    groups, units = np.arange(60) // 20, np.array(["ann"] * 20 + [f"p{k}" for k in range(40)])
    message = complaint(lambda: DeGrootRegressor().fit(X[:60], y[:60], groups, units))
    assert message == f"Agent '0': {told} `self_scoring` 'train' or 'peers' does without."
    for scoring in ("train", "peers"):
        assert DeGrootRegressor(self_scoring=scoring).fit(X[:60], y[:60], groups, units).agents_[0].n_units == 1


@pytest.mark.parametrize("made", [DeGrootRegressor, DeGrootClassifier])
def test_units_of_one_row_each_are_as_none(made):
    X, y, _ = problem()
    y = y if made is DeGrootRegressor else np.where(y > 0, "yes", "no")
    units = np.random.default_rng(1).permutation(len(y))
    plain, labelled = (made(n_agents=3, random_state=0).fit(X, y, units=each) for each in (None, units))
    for one, other in zip(plain.agents_, labelled.agents_, strict=True):
        assert_array_equal(one.X, other.X)
        assert_array_equal(one.own_predictions, other.own_predictions)
    assert_array_equal(plain.predict(X), labelled.predict(X))


def test_other_labels_of_the_same_units_change_nothing():
    X, y, units = problem()
    other = np.array([f"p{(k * 7) % 24}" for k in units])
    one, two = (DeGrootRegressor(n_agents=3, random_state=0).fit(X, y, units=each) for each in (units, other))
    assert_array_equal(one.predict(X), two.predict(X))


# -- whole units to agents ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, list, pd.Series])
def test_whole_units_are_dealt_at_random(kind):
    X, y, units = problem()
    model = DeGrootRegressor(n_agents=5, random_state=0).fit(X, y, units=kind(units))
    held = [set(agent.units.tolist()) for agent in model.agents_]
    assert sorted(len(each) for each in held) == [4, 5, 5, 5, 5]
    assert set.union(*held) == set(units.tolist())
    assert sum(map(len, held)) == 24
    for agent in model.agents_:
        mine = np.isin(units, list(set(agent.units.tolist())))
        assert_array_equal(agent.X, X[mine])
        assert_array_equal(agent.units, units[mine])


def test_every_agent_must_get_a_unit():
    X, y, units = problem(4)
    message = complaint(lambda: DeGrootRegressor(n_agents=5).fit(X, y, units=units))
    assert message == "Every agent must get a unit; got 4 units for 5 agents."


def test_groups_must_not_split_a_unit():
    X, y, units = problem()
    groups = np.where(units % 2, "north", "south")
    model = DeGrootRegressor().fit(X, y, groups, units)
    assert_array_equal(model.agents_[0].units, units[groups == "north"])
    groups[np.flatnonzero(units == 6)[0]] = "north"
    told = (
        "Units must not span agents; unit 6 is in 'north' and in 'south'. If these are different units, label them "
        "apart."
    )
    assert complaint(lambda: DeGrootRegressor().fit(X, y, groups, units)) == told


def test_other_partitions_must_not_split_a_unit():
    X, y, units = problem()
    told = r"Units must not span agents; unit \d+ is in 'agent 1' and in 'agent 2'. `partition` 'random' deals whole"
    for partition in ("label", 0, lambda X, y: np.array_split(np.arange(len(y)), 2)):
        with pytest.raises(ValueError, match=told):
            DeGrootRegressor(n_agents=2, partition=partition).fit(X, y, units=units)
    whole = DeGrootRegressor(partition=lambda X, y: [np.flatnonzero(units % 2 == k) for k in (0, 1)])
    assert_array_equal(whole.fit(X, y, units=units).agents_[1].units, units[units % 2 == 1])


@pytest.mark.parametrize("units", [[1, 2], [[1]], ["", "a"]])
def test_units_are_checked(units):
    X, y, _ = problem()
    assert complaint(lambda: DeGrootRegressor().fit(X, y, units=units)).startswith("`units` must hold")


# -- metadata routing --------------------------------------------------------------------------------------------------


def test_units_are_routed_as_groups_are():
    X, y, units = problem()
    groups = np.where(units % 2, "north", "south")
    with sklearn.config_context(enable_metadata_routing=True):
        model = DeGrootRegressor(Ridge()).set_fit_request(groups="who", units=True)
        done = cross_validate(
            model, X, y, params={"who": groups, "units": units, "groups": units}, cv=GroupKFold(3),
            return_estimator=True, return_indices=True,
        )  # fmt: skip
    for fitted, rows in zip(done["estimator"], done["indices"]["train"], strict=True):
        assert fitted.collective_.names == ("north", "south")
        assert_array_equal(fitted.agents_[0].units, units[rows][groups[rows] == "north"])
