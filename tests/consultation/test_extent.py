"""Points far outside the rows of all agents: which they are, what is said of them, and that no interval is narrow."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, csr_matrix
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from degroot import Agent, Collective, DeGrootClassifier, DeGrootRegressor
from degroot.consultation import extent
from degroot.consultation.consult import LocalEngine
from degroot.consultation.extent import ALL_AGENTS, Extents, RowRange, find_range
from degroot.schema import Column, Schema

FAR = "far from all"


def is_outside(rows, x):
    """The definition, word for word: in some feature beyond the range by more than its width."""
    for j in range(rows.shape[1]):
        known = [value for value in rows[:, j] if not np.isnan(value)]
        low, high = min(known), max(known)
        width = high - low if high > low else max(abs(high), 1.0)
        if x[j] < low - width or x[j] > high + width:
            return True
    return False


def far_points(answer):
    return [flag.points.tolist() for flag in answer.flags if flag.kind == FAR]


def linear(k, d=3):
    return lambda X: np.asarray(X, float) @ (np.arange(1.0, d + 1) + k)


def some_agents(K=3, n=20, d=3, seed=0, **settings):
    rng, agents = np.random.default_rng(seed), []
    for k in range(K):
        X = rng.normal(3.0 * k, 1.0 + k, size=(n, d))
        agents.append(Agent(linear(k, d), X, X.sum(axis=1), f"agent {k}", **settings))
    return agents, rng.normal(0.0, 15.0, size=(60, d))


# -- ranges ------------------------------------------------------------------------------------------------------------

tables = st.tuples(st.integers(1, 8), st.integers(1, 4), st.integers(0)).map(
    lambda made: np.random.default_rng(made[2]).choice([-2.0, 0.0, 0.0, 0.5, 3.0], size=made[:2])
)


@settings(max_examples=60, deadline=None)
@given(tables, st.integers(0))
def test_a_point_is_outside_by_the_definition(rows, seed):
    points = np.random.default_rng(seed).choice([-9.0, -2.0, -1.0, 0.0, 1.0, 3.0, 8.0, 20.0], size=(12, rows.shape[1]))
    expected = [is_outside(rows, x) for x in points]
    for held in (rows, csr_array(rows), csr_matrix(rows)):
        for asked in (points, points.astype(np.float32), csr_array(points)):
            assert RowRange.of(held).excludes(asked).tolist() == expected


def test_stored_zeros_and_entries_in_parts_count_once():
    rows = np.array([[5.0, 0.0], [6.0, 1.0]])  # 0 is far outside the first feature
    stored = csr_array((np.array([3.0, 2.5, 0.0, 0.0]), np.array([0, 0, 1, 0]), np.array([0, 3, 4, 4])), shape=(3, 2))
    assert not stored.has_canonical_format
    assert RowRange.of(rows).excludes(stored).tolist() == [False, True, True]
    assert RowRange.of(rows).excludes(stored.toarray()).tolist() == [False, True, True]
    assert stored.nnz == 4  # as it came


def test_gaps_say_nothing():
    rows = np.array([[0.0, np.nan], [1.0, 7.0], [np.nan, 9.0]])
    points = np.array([[np.nan, 8.0], [2.5, np.nan], [np.nan, np.nan]])
    assert RowRange.of(rows).excludes(points).tolist() == [False, True, False]


def test_ranges_that_have_no_finite_width_hold_everything():
    rows = np.array([[-1.7e308], [1.7e308]])
    assert RowRange.of(rows).excludes(rows).tolist() == [False, False]


@pytest.mark.parametrize("path", ["all", "sample", "known"])
def test_large_sets_are_not_read(path, monkeypatch):
    scorer = Collective(some_agents()[0]).scorers[0]
    expected = RowRange.of(scorer.rows)
    if path == "sample":
        monkeypatch.setattr(extent, "LARGE", 0)
        monkeypatch.setattr(extent, "MOST", 10)
        found = find_range(scorer)
        assert (found.low >= expected.low).all()
        assert (found.high <= expected.high).all()
        inside = [(found.low <= x).all() and (x <= found.high).all() for x in scorer.rows]
        assert 10 <= sum(inside) < len(inside)
        return
    if path == "known":
        scorer.kept["extremes"] = np.stack([expected.low, expected.high])
        monkeypatch.setattr(RowRange, "of", None)
    assert_array_equal(find_range(scorer).bounds, expected.bounds)


# -- points far outside the rows of all --------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["degroot", "stacking", "average"])
@pytest.mark.parametrize("asker", [None, "agent 1"])
def test_far_points_are_far_outside_for_every_agent(rule, asker):
    agents, X = some_agents()
    expected = [i for i, x in enumerate(X) if all(is_outside(agent.X, x) for agent in agents)]
    assert 0 < len(expected) < len(X)
    for order in (agents, agents[::-1]):
        assert far_points(Collective(order, rule=rule).consult(X, asker=asker)) == [expected]
        assert far_points(Collective(order, rule=rule).consult(X, "value", asker=asker)) == [expected]


def test_no_agent_calls_its_own_rows_far():
    agents, _ = some_agents(5)
    for agent in agents:
        assert Collective(agents).consult(agent.X).flags == ()


def test_rows_are_compared_where_distances_are_taken():
    agents, X = some_agents(3, space=StandardScaler())
    spaces = [StandardScaler().fit(agent.X) for agent in agents]
    expected = [
        i
        for i, x in enumerate(X)
        if all(is_outside(s.transform(a.X), s.transform([x])[0]) for a, s in zip(agents, spaces, strict=True))
    ]
    assert far_points(Collective(agents).consult(X)) == [expected]
    plain, _ = some_agents(3)
    for space in (lambda X: np.asarray(X)[:, :1], np.abs):  # one for all
        located = [i for i, x in enumerate(X) if all(is_outside(space(agent.X), space(x[None])[0]) for agent in agents)]
        for rule in ("degroot", "average"):
            assert far_points(Collective(plain, space=space, rule=rule).consult(X, "value")) == [located]


def test_frames_and_sparse_points_are_those_of_arrays():
    agents, X = some_agents()
    names = ["a", "b", "c"]
    framed = [Agent(a.model, pd.DataFrame(a.X, columns=names), a.y, a.name) for a in agents]
    sparse = [Agent(lambda X, k=k: X.sum(axis=1) + k, csr_array(a.X), a.y, a.name) for k, a in enumerate(agents)]
    expected = far_points(Collective(agents).consult(X))
    assert far_points(Collective(framed).consult(pd.DataFrame(X, columns=names))) == expected
    assert far_points(Collective(sparse).consult(csr_array(X))) == expected


def test_gaps_that_a_space_fills_are_located_and_others_are_not_called_far():
    def model(X):
        return np.nan_to_num(np.asarray(X)).sum(axis=1)

    rows = np.linspace(0.0, 1.0, 20).reshape(10, 2)
    filled = [Agent(model, rows, model(rows), f"{k}", space=np.nan_to_num) for k in range(2)]
    X = np.array([[np.nan, 0.5], [np.nan, 99.0]])
    assert far_points(Collective(filled).consult(X)) == [[1]]
    lost = [Agent(model, rows, model(rows), f"{k}", space=lambda X: X + 0.0) for k in range(2)]
    assert far_points(Collective(lost, rule="average").consult(X, "value")) == []
    assert_allclose(Collective(lost, rule="average").consult(X, "value").value, [0.5, 99.0])


def test_a_space_that_an_average_does_not_need_is_not_missed():
    rows = np.linspace(0.0, 1.0, 10)[:, None]
    agents = [Agent(lambda X: X[:, 0], rows, rows[:, 0], f"{k}", space=lambda X: X[:, 5]) for k in range(2)]
    assert Collective(agents, rule="average").consult([[9.0]], "value").flags == ()


def test_predictions_do_not_pay_for_flags(monkeypatch):
    agents, X = some_agents()
    collective = Collective(agents)
    expected = [collective.consult(X, asker=asker).value for asker in (None, "agent 1")]
    monkeypatch.setattr(Extents, "find_far", None)
    for value, asker in zip(expected, (None, "agent 1"), strict=True):
        assert_array_equal(collective.predict(X, asker=asker), value)


def test_an_average_asks_no_model_about_rows_for_a_flag():
    asked = []

    def model(X):
        asked.append(len(X))
        return X[:, 0]

    rows = np.linspace(0.0, 1.0, 10)[:, None]
    collective = Collective([Agent(model, rows, rows[:, 0], f"{k}") for k in range(2)], rule="average")
    assert far_points(collective.consult([[0.5], [9.0]], "value")) == [[1]]
    assert asked == [2, 2]


def test_ranges_are_those_of_the_agents_as_they_are():
    agents, X = some_agents(2)
    wide = Agent(agents[1].model, 100.0 * np.vstack([agents[1].X, -agents[1].X]), np.ones(40), "agent 2")
    collective = Collective(agents)
    assert far_points(collective.consult(X))
    assert far_points(collective.join(wide).consult(X)) == []
    assert far_points(collective.leave("agent 2").consult(X))


class Elsewhere:
    """An engine of agents that answer somewhere else."""

    def start(self, agents, scorers, panel, n_jobs=None):
        for scorer in scorers:
            scorer.ready(panel.settings.reach)
        self.engine = LocalEngine(agents, scorers, panel.n_scored, True, n_jobs)
        return self

    def collect(self, X, question, conclude):
        self.engine.collect(X, question, conclude)

    def close(self):
        pass


@pytest.mark.parametrize("asker", [None, "agent 1"])
def test_wherever_agents_answer_the_same_points_are_far(asker):
    agents, X = some_agents()
    here, there = (Collective(agents, engine=engine).consult(X, asker=asker) for engine in ("local", Elsewhere()))
    assert far_points(here) == far_points(there) != []


def test_an_agent_may_have_the_name_of_all():
    agents, X = some_agents(2)
    named = [Agent(agents[0].model, agents[0].X, agents[0].y, ALL_AGENTS), agents[1]]
    answer = Collective(named).consult(X)
    (points,) = far_points(answer)
    told = answer.explain(points[0])
    assert told.facts["agents"][0]["flags"] == []
    assert "The point is far outside the rows of all agents" in told.text
    assert repr(answer)


# -- intervals ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return DeGrootRegressor(Ridge(), n_agents=4, random_state=0).fit(X, y).collective_.calibrate(), X, y


@pytest.mark.parametrize("asker", [None, "agent 2", "several"])
def test_intervals_far_outside_hold_all_labels_and_the_answer(diabetes, asker):
    collective, X, _ = diabetes
    names = [None, "agent 1", "agent 2", "agent 3", "agent 4"] * 4
    asked = names if asker == "several" else asker
    askers = names if asker == "several" else [asker] * 20
    near, far = (collective.consult(scale * X[:20], coverage=0.9, asker=asked) for scale in (1.0, 1000.0))
    assert far_points(near) == []
    assert far_points(far) == [list(range(20))]
    for i, name in enumerate(askers):
        labels = np.concatenate([agent.y for agent in collective.agents if name in (None, agent.name)])
        assert far.lower[i] <= min(labels.min(), far.value[i])
        assert far.upper[i] >= max(labels.max(), far.value[i])
        assert far.upper[i] - far.lower[i] >= np.ptp(labels)
        assert (
            f"the interval is widened to hold {'all labels' if name is None else 'its labels'}" in far.explain(i).text
        )
        assert "times in 100" not in far.explain(i).text


def test_intervals_elsewhere_do_not_change(diabetes):
    collective, X, _ = diabetes
    mixed = np.vstack([X[:5], 1000.0 * X[:5]])
    for asker in (None, "agent 2"):
        alone, both = (collective.consult(each, coverage=0.9, asker=asker) for each in (X[:5], mixed))
        assert_allclose(both.lower[:5], alone.lower, rtol=1e-9)
        assert_allclose(both.upper[:5], alone.upper, rtol=1e-9)


@pytest.mark.parametrize("asker", [None, "agent 2"])
def test_a_saved_collective_says_the_same(diabetes, asker, tmp_path):
    collective, X, _ = diabetes
    points = np.vstack([X[:5], 1000.0 * X[:5]])
    loaded = Collective.load(collective.save(tmp_path / "saved")).calibrate()
    expected, found = (each.consult(points, coverage=0.9, asker=asker) for each in (collective, loaded))
    assert far_points(found) == far_points(expected) == [[5, 6, 7, 8, 9]]
    assert_allclose(found.lower, expected.lower, rtol=1e-9)
    assert_allclose(found.upper, expected.upper, rtol=1e-9)


def test_outputs_are_widened_each_by_its_own_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    model = DeGrootRegressor(Ridge(), n_agents=3, random_state=0).fit(X, np.c_[X[:, 0], 100.0 * X[:, 1]])
    collective = model.collective_.calibrate()
    for asker in (None, "agent 1"):
        answer = collective.consult([[1e4, 1e4]], coverage=0.9, asker=asker)
        labels = np.vstack([agent.y for agent in collective.agents if asker in (None, agent.name)])
        low, high = labels.min(axis=0), labels.max(axis=0)
        if asker is not None:  # its own labels are told in round numbers
            ends = [round_outwards(*each) for each in zip(low, high, strict=True)]
            low, high = np.array(ends).T
        assert (answer.value[0] > high).all()  # so far to one side that the answer is beyond all labels
        assert_allclose(answer.lower[0], low, rtol=1e-12, atol=0.0)
        assert (answer.upper[0] >= answer.value[0]).all()
        here = collective.consult([[-1e4, -1e4]], coverage=0.9, asker=asker)
        assert (here.value[0] < low).all()
        assert_allclose(here.upper[0], high, rtol=1e-12, atol=0.0)
        assert (here.lower[0] <= here.value[0]).all()


def round_outwards(low, high):
    """A range in numbers of few digits, by hand: to the next multiples, outside, of the greatest power of ten that is
    at most a tenth of its width."""
    low, high = Decimal(float(low)), Decimal(float(high))
    step = Decimal(1).scaleb((high - low).adjusted() - 1)
    below, above = (low / step).to_integral_value(ROUND_FLOOR), (high / step).to_integral_value(ROUND_CEILING)
    return float(below * step), float(above * step)


def test_sets_far_outside_hold_all_classes():
    X, y = load_iris(return_X_y=True)
    model = DeGrootClassifier(n_agents=3, random_state=0).fit(X, np.array(["a", "b", "c"])[y])
    collective = model.collective_.calibrate()
    for asker in (None, "agent 1"):
        answer = collective.consult(np.vstack([X[:1], 1000.0 * X[:1]]), coverage=0.9, asker=asker)
        assert answer.sets.sum(axis=1).tolist() == [1, 3]
        assert "the set holds all classes" in answer.explain(1).text


def test_categories_have_no_range_and_numbers_of_a_schema_have_one():
    schema = Schema(
        (Column("age"), Column("town", "category", ("Bree", "Archet")), Column("sick", "boolean", ("no", "yes")))
    )
    ages = np.arange(20.0, 60.0)
    agents = [
        Agent(lambda X: X[:, 0], np.stack([ages, np.zeros(40), np.zeros(40)], axis=1), ages, name, schema=schema)
        for name in ("here", "there")
    ]
    points = np.array([[30.0, 0.0, 0.0], [30.0, 1.0, 1.0], [500.0, 0.0, 0.0]])
    assert far_points(Collective(agents).consult(points)) == [[2]]
