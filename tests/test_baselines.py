import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.linear_model import Ridge
from sklearn.preprocessing import OneHotEncoder

from degroot import Agent, Collective, Consensus, InvalidInput
from degroot.baselines import (
    FIELDS,
    HeldOut,
    average,
    best_single,
    cv_adaptive,
    cv_static,
    error_average,
    trust_average,
)

NEIGHBOURS = 7


def labels(X, source):
    return np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * source.normal(size=len(X))


def problem(K=4, seed=0):
    """Agents around places of their own, held-out rows and points to ask."""
    source = np.random.default_rng(seed)
    agents = []
    for k in range(K):
        X = source.normal(size=(30 + k, 2)) + source.normal(size=2)
        y = labels(X, source)
        agents.append(Agent(Ridge(0.1).fit(X, y), X, y, f"agent {k}"))
    held_out = source.normal(size=(50, 2))
    return agents, (held_out, labels(held_out, source)), source.normal(size=(20, 2))


# -- the same, as loops over points, agents and rows -------------------------------------------------------------------


def inverse(errors):
    """Weights in inverse proportion to `errors`."""
    return [(1 / error) / sum(1 / other for other in errors) for error in errors]


def local_error(agent, rows, y, x, neighbours):
    """Mean squared error of the agent's model on the rows nearest to x."""
    distances = [sum((row - x) ** 2) for row in rows]
    nearest = sorted(range(len(rows)), key=lambda i: distances[i])[:neighbours]
    predictions = agent.model.predict(rows)
    return sum((predictions[i] - y[i]) ** 2 for i in nearest) / len(nearest)


def errors_at(agents, x):
    return [[local_error(model, scorer.X, scorer.y, x, NEIGHBOURS) for model in agents] for scorer in agents]


def literal_average(agents, _held_out, _x):
    return [1 / len(agents)] * len(agents)


def literal_trust_average(agents, _held_out, x):
    trust = [inverse(row) for row in errors_at(agents, x)]
    return [sum(row[j] for row in trust) / len(agents) for j in range(len(agents))]


def literal_error_average(agents, _held_out, x):
    errors = errors_at(agents, x)
    return inverse([sum(row[j] for row in errors) / len(agents) for j in range(len(agents))])


def literal_cv_static(agents, held_out, x):
    return inverse([local_error(agent, *held_out, x, len(held_out[0])) for agent in agents])


def literal_cv_adaptive(agents, held_out, x):
    return inverse([local_error(agent, *held_out, x, NEIGHBOURS) for agent in agents])


def literal_best_single(agents, held_out, x):
    errors = [local_error(agent, *held_out, x, len(held_out[0])) for agent in agents]
    return [float(j == errors.index(min(errors))) for j in range(len(agents))]


SCHEMES = {
    "M-avg": (lambda agents, _held_out: average(agents), literal_average),
    "tau-avg": (lambda agents, _held_out: trust_average(agents, NEIGHBOURS), literal_trust_average),
    "MSE-avg": (lambda agents, _held_out: error_average(agents, NEIGHBOURS), literal_error_average),
    "CV-static": (lambda agents, held_out: cv_static(agents, *held_out), literal_cv_static),
    "CV-adaptive": (lambda agents, held_out: cv_adaptive(agents, *held_out, NEIGHBOURS), literal_cv_adaptive),
    "best single": (lambda agents, held_out: best_single(agents, *held_out), literal_best_single),
}
HELD_OUT = ["CV-static", "CV-adaptive", "best single"]


@pytest.fixture(params=SCHEMES)
def scheme(request):
    return SCHEMES[request.param]


def literal_weights(literal, agents, held_out, asked):
    return np.array([literal(agents, held_out, x) for x in asked])


@pytest.mark.parametrize("K", [1, 2, 4])
def test_weights_are_those_of_the_loop(scheme, K):
    make, literal = scheme
    agents, held_out, asked = problem(K, seed=K)
    answer = make(agents, held_out).consult(asked)
    weights = literal_weights(literal, agents, held_out, asked)
    beliefs = np.column_stack([agent.model.predict(asked) for agent in agents])
    assert_allclose(answer.weights, weights, rtol=1e-9)
    assert_allclose(answer.weights.sum(axis=1), 1, rtol=1e-12)
    assert_array_equal(answer.beliefs, beliefs)
    assert_allclose(answer.value, (weights * beliefs).sum(axis=1), rtol=1e-9)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_the_jackknife_is_the_scheme_without_the_agent(scheme, K):
    make, literal = scheme
    agents, held_out, asked = problem(K, seed=K)
    answer = make(agents, held_out).consult(asked)
    without = np.empty((len(asked), K))
    for i in range(K):
        others = agents[:i] + agents[i + 1 :]
        beliefs = np.column_stack([agent.model.predict(asked) for agent in others])
        without[:, i] = (literal_weights(literal, others, held_out, asked) * beliefs).sum(axis=1)
        assert_allclose(make(others, held_out).predict(asked), without[:, i], rtol=1e-9)
    mean = without.sum(axis=1) / K
    error = np.sqrt((K - 1) / K * sum((without[:, i] - mean) ** 2 for i in range(K)))
    assert_allclose(answer.standard_error, error, rtol=1e-7, atol=1e-12)
    assert_allclose(answer.influence, answer.value[:, None] - without, rtol=1e-7, atol=1e-12)


def test_all_have_the_same_face(scheme):
    make, _ = scheme
    agents, held_out, asked = problem()
    whole = make(iter(agents), held_out)
    assert whole.agents == tuple(agents)
    assert whole.names == tuple(agent.name for agent in agents)
    answer = whole.consult(asked)
    assert isinstance(answer, Consensus)
    assert answer.names == whole.names
    assert whole.predict(asked).shape == answer.value.shape == answer.standard_error.shape == (20,)
    assert answer.weights.shape == answer.beliefs.shape == answer.influence.shape == (20, 4)
    assert_array_equal(whole.predict(asked), answer.value)
    assert_array_equal(whole.predict(asked.tolist()), answer.value)
    assert_allclose(whole.predict(asked[3:4]), answer.value[3:4], rtol=1e-12)


def test_only_what_is_asked_for_is_given(scheme):
    make, _ = scheme
    agents, held_out, asked = problem()
    whole = make(agents, held_out)
    everything = whole.consult(asked)
    for field in FIELDS:
        answer = whole.consult(asked, fields=[field])
        assert_array_equal(getattr(answer, field), getattr(everything, field))
        assert all(getattr(answer, other) is None for other in FIELDS if other != field)


def test_one_field_can_be_asked_for_by_its_name_alone(scheme):
    make, _ = scheme
    agents, held_out, asked = problem()
    whole = make(agents, held_out)
    assert_array_equal(whole.consult(asked, fields="value").value, whole.predict(asked))


def test_an_unknown_field_is_refused(scheme):
    make, _ = scheme
    agents, held_out, asked = problem()
    with pytest.raises(InvalidInput, match=r"`fields` must be among 'value', .*; got 'opinion'\.$"):
        make(agents, held_out).consult(asked, fields=["value", "opinion"])


@pytest.mark.parametrize("name", HELD_OUT)
def test_there_is_no_trust_where_nobody_judges(name):
    agents, held_out, asked = problem()
    with pytest.raises(InvalidInput, match=r"`fields` must be among 'value', .*; got 'trust'\.$"):
        SCHEMES[name][0](agents, held_out).consult(asked, fields=["trust"])
    assert SCHEMES[name][0](agents, held_out).consult(asked).trust is None


def test_with_one_agent_there_is_nobody_to_leave_out(scheme):
    make, _ = scheme
    agents, held_out, asked = problem(K=1)
    answer = make(agents, held_out).consult(asked)
    assert_array_equal(answer.value, agents[0].predict(asked))
    assert_array_equal(answer.weights, np.ones((20, 1)))
    assert np.isnan(answer.standard_error).all()
    assert np.isnan(answer.influence).all()


def test_equal_models_have_no_error(scheme):
    make, _ = scheme
    agents, held_out, asked = problem()
    same = [Agent(agents[0].model, agent.X, agent.y, agent.name) for agent in agents]
    answer = make(same, held_out).consult(asked)
    assert_allclose(answer.value, agents[0].predict(asked), rtol=1e-12)
    assert_allclose(answer.standard_error, 0, atol=1e-12)


def test_the_order_of_the_agents_does_not_matter(scheme):
    make, _ = scheme
    agents, held_out, asked = problem()
    one, other = make(agents, held_out).consult(asked), make(agents[::-1], held_out).consult(asked)
    assert_allclose(one.value, other.value, rtol=1e-12)
    assert_allclose(one.weights, other.weights[:, ::-1], rtol=1e-9)
    assert_allclose(one.standard_error, other.standard_error, rtol=1e-9, atol=1e-12)


def test_no_points_have_no_answer(scheme):
    make, _ = scheme
    agents, held_out, asked = problem()
    assert make(agents, held_out).predict(asked[:0]).shape == (0,)
    assert make(agents, held_out).consult(asked[:0]).weights.shape == (0, 4)


# -- each on its own ---------------------------------------------------------------------------------------------------


def test_the_rules_are_those_of_collective():
    agents, _, asked = problem()
    for whole, rule in (
        (average(agents), "average"),
        (trust_average(agents, NEIGHBOURS, metric="manhattan"), "trust-average"),
        (error_average(agents, NEIGHBOURS, kernel="tricube"), "error-average"),
    ):
        assert isinstance(whole, Collective)
        assert whole.rule == rule
        same = Collective(agents, whole.neighbours, rule, metric=whole.metric, kernel=whole.kernel)
        assert_array_equal(whole.predict(asked), same.predict(asked))


def test_static_weights_are_the_same_everywhere():
    agents, held_out, asked = problem()
    for make in (cv_static, best_single):
        weights = make(agents, *held_out).consult(asked).weights
        assert_array_equal(weights, np.broadcast_to(weights[0], weights.shape))
    weights = cv_adaptive(agents, *held_out, NEIGHBOURS).consult(asked).weights
    assert (np.ptp(weights, axis=0) > 0.1).any()


def test_adaptive_with_all_rows_is_static():
    agents, held_out, asked = problem()
    one = cv_static(agents, *held_out).consult(asked)
    for neighbours in (1.0, len(held_out[0])):
        other = cv_adaptive(agents, *held_out, neighbours).consult(asked)
        for field in FIELDS:
            assert_allclose(getattr(one, field), getattr(other, field), rtol=1e-9, atol=1e-12)


def test_the_best_single_model_is_one_model():
    agents, held_out, asked = problem()
    errors = [np.mean((agent.predict(held_out[0]) - held_out[1]) ** 2) for agent in agents]
    best = agents[int(np.argmin(errors))]
    assert_array_equal(best_single(agents, *held_out).predict(asked), best.predict(asked))


def test_a_fraction_is_one_of_the_held_out_rows():
    agents, held_out, asked = problem()
    one = cv_adaptive(agents, *held_out, 0.2).predict(asked)
    assert_array_equal(one, cv_adaptive(agents, *held_out, 10).predict(asked))
    least = cv_adaptive(agents, *held_out).predict(asked)  # 1 % of 50 rows: at least two
    assert_array_equal(least, cv_adaptive(agents, *held_out, 2).predict(asked))


@pytest.mark.parametrize("settings", [{"metric": "cosine"}, {"metric": "manhattan"}, {"kernel": "gaussian"}])
def test_the_settings_say_which_held_out_rows_are_near(settings):
    agents, held_out, asked = problem()
    answer = cv_adaptive(agents, *held_out, NEIGHBOURS, **settings).consult(asked)
    scorer = Agent(lambda X: X[:, 0], *held_out, "hold-out")
    trust = Collective([scorer, *agents], NEIGHBOURS, **settings).consult(asked).trust[:, 0, 1:]
    assert_allclose(answer.weights, trust / trust.sum(axis=1, keepdims=True), rtol=1e-9)


def test_a_space_is_where_held_out_rows_are_near():
    agents, held_out, asked = problem()
    stretch = np.array([1.0, 100.0])
    one = cv_adaptive(agents, *held_out, NEIGHBOURS, space=lambda X: X * stretch).consult(asked).weights
    inner = [Agent(lambda X, a=a: a.model.predict(X / stretch), a.X * stretch, a.y, a.name) for a in agents]
    other = cv_adaptive(inner, held_out[0] * stretch, held_out[1], NEIGHBOURS).consult(asked * stretch).weights
    assert_allclose(one, other, rtol=1e-9)


def test_the_rule_can_be_ones_own():
    agents, held_out, asked = problem()
    first = HeldOut(agents, *held_out, rule=lambda errors: np.eye(errors.shape[-1])[[0]].repeat(len(errors), axis=0))
    assert_array_equal(first.predict(asked), agents[0].predict(asked))


@pytest.mark.parametrize("name", HELD_OUT)
def test_tables_of_all_kinds_give_the_same(name):
    agents, held_out, asked = problem()
    make = SCHEMES[name][0]
    expected = make(agents, held_out).predict(asked)
    for table in (list, csr_array, pd.DataFrame, pl.DataFrame):
        models = [Agent(lambda X, a=a: a.model.predict(dense(X)), table(a.X), a.y, a.name) for a in agents]
        got = make(models, (table(held_out[0]), held_out[1])).predict(table(asked))
        assert_allclose(got, expected, rtol=1e-9)


def dense(X):
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize(
    "make",
    [
        lambda agents, table, y: cv_adaptive(agents, table, y, 3, space=OneHotEncoder(sparse_output=False)),
        cv_static,  # looks at all rows, wherever they are
        best_single,
    ],
    ids=["CV-adaptive", "CV-static", "best single"],
)
def test_words_are_fine_where_models_and_space_understand_them(kind, make):
    table, y = kind({"ward": np.array(["heart", "lung"])[np.arange(20) % 2]}), np.arange(20) % 2
    agents = [
        Agent(lambda X, b=b: (np.asarray(X["ward"]) == "lung") + b, table, y, str(b), space=OneHotEncoder())
        for b in (0.0, 0.5, 1.0)
    ]
    assert_array_equal(average(agents).predict(table), y + 0.5)
    assert_allclose(make(agents, table, y).predict(table), y, atol=1e-9)
