import threading
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, csr_matrix, issparse
from sklearn.preprocessing import StandardScaler
from support import oracle
from support.rules import ROUNDING

from degroot import Agent, Collective
from degroot.answers.answer import FIELDS
from degroot.compute.compiled import block_size
from degroot.exceptions import AgentError, InvalidInput
from degroot.neighbourhoods import KERNELS, METRICS
from degroot.rules.rules import RULES


@dataclass
class Linear:
    """A model of which one row's prediction never depends, even in its last bit, on the other rows."""

    slopes: np.ndarray
    bias: float = 0.0
    calls: int = 0
    rows: int = 0

    def predict(self, X):
        self.calls += 1
        self.rows += X.shape[0]
        columns = numbers(X).T
        return sum((slope * column for slope, column in zip(self.slopes, columns, strict=True)), np.float64(self.bias))


@dataclass
class Stretched:
    """A space: some features, in other units."""

    units: np.ndarray

    def __call__(self, X):
        return numbers(X)[:, : len(self.units)] * self.units


class Refusing:
    def predict(self, X):
        raise RuntimeError("out of\norder")


def numbers(X):
    return np.asarray(X.toarray() if issparse(X) else X, float)


def parties(agents, space=None):
    """The agents, as the oracle sees them."""
    return [
        oracle.Party(agent.model.predict, agent.X, agent.y, agent.space if agent.space is not None else space)
        for agent in agents
    ]


def assert_equals_oracle(collective, X, space=None):
    answer = collective.consult(X)
    expected = oracle.consult(
        parties(collective.agents, space), X, collective.neighbours, collective.metric, collective.kernel or "uniform"
    )
    unit = 1e-9 * np.abs(expected.beliefs).max(initial=0.0)
    np.testing.assert_array_equal(answer.beliefs, expected.beliefs)
    np.testing.assert_allclose(answer.trust, expected.trust, rtol=1e-9)
    np.testing.assert_allclose(answer.weights, expected.weights, rtol=1e-9)
    np.testing.assert_allclose(answer.value, expected.value, rtol=1e-9, atol=unit)
    np.testing.assert_allclose(answer.standard_error, expected.standard_error, rtol=1e-9, atol=unit)
    np.testing.assert_allclose(answer.influence, expected.influence, rtol=1e-9, atol=unit)


def assert_same(answer, other, **tolerance):
    assert answer.names == other.names
    for name in FIELDS:
        one, two = getattr(answer, name), getattr(other, name)
        if tolerance:
            np.testing.assert_allclose(one, two, err_msg=name, **tolerance)
        else:
            np.testing.assert_array_equal(one, two, err_msg=name)


def some_agents(seed, K=4, sizes=(60, 90, 75, 200), d=3, noise=0.3, **options):
    """Agents whose models know different parts of one linear truth."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=d)
    agents = []
    for k in range(K):
        X = rng.normal(size=(sizes[k % len(sizes)], d)) + rng.normal(size=d)
        y = X @ truth + np.sin(3 * X[:, 0]) + noise * rng.normal(size=len(X))
        agents.append(Agent(Linear(truth + 0.5 * rng.normal(size=d), rng.normal()), X, y, f"agent {k}", **options))
    return agents


def points(seed, M, d=3):
    return np.random.default_rng([seed, M]).normal(size=(M, d))


# ------------------------------------------------------------------------------------------------ against the oracle


@st.composite
def collectives(draw, max_agents=8):
    """A random collective, points to ask it about, and the space that it uses."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    K = draw(st.one_of(st.integers(1, 5), st.integers(1, max_agents)))
    sizes = [draw(st.one_of(st.integers(1, 30), st.integers(1, 400))) for _ in range(K)]
    metric, kernel = draw(st.sampled_from(list(METRICS))), draw(st.sampled_from(list(KERNELS)))
    form = draw(st.sampled_from(["float64", "float32", "sparse", "densified", "duplicated", "offset"]))
    zero_errors = draw(st.sampled_from(["none", "some", "all"]))
    neighbours = draw(
        st.one_of(st.integers(1, min(sizes)), st.floats(0.001, 1.0), st.just(1.0), st.just(min(sizes)), st.just(1))
    )
    d = 40 if form in {"sparse", "densified"} else draw(st.integers(1 if metric != "cosine" else 2, 6))
    if form == "offset" and metric == "cosine":
        form = "float64"  # seen from afar all directions are one

    def table(n):
        X = rng.normal(size=(n, d)) * (10.0 ** rng.uniform(-1, 1, size=d) if form != "offset" else 1.0)
        if form in {"sparse", "densified"}:  # two features in common: no two directions are equal or at a right angle
            X[:, 2:][rng.random((n, d - 2)) > (0.03 if form == "sparse" else 0.3)] = 0.0
            return csr_array(X)
        if form == "duplicated":
            X = X[rng.integers((n + 3) // 4, size=n)]
        if form == "offset":
            X += 1e6
        return X.astype(np.float32) if form == "float32" else X

    # slopes that are few bits wide give labels without rounding: a model that has them errs nowhere
    truth = Linear(rng.integers(-8, 9, size=d) / 8, 0.5)
    spaces = [None, None, Stretched(rng.uniform(0.5, 2, size=max(2, d - 1) if d > 1 else 1))]
    agents = []
    for k, n in enumerate(sizes):
        X = table(n)
        y = truth.predict(X)
        if zero_errors != "all":
            y = y + (rng.normal(size=n) if zero_errors == "none" else rng.normal(size=n) * (numbers(X)[:, 0] > 0))
        if form == "duplicated":  # the same features, the same label
            _, first, which = np.unique(numbers(X), axis=0, return_index=True, return_inverse=True)
            y = y[first][which.ravel()]
        knows = zero_errors != "none" and rng.random() < 0.4
        model = truth if knows else Linear(truth.slopes + 0.3 * rng.normal(size=d), rng.normal())
        space = spaces[rng.integers(3)] if form not in {"offset"} else None
        agents.append(Agent(model, X, y, f"agent {k}", space=space))
    shared = Stretched(rng.uniform(0.5, 2, size=d)) if draw(st.booleans()) and form != "offset" else None
    collective = Collective(agents, neighbours, metric=metric, kernel=kernel, space=shared)
    return collective, table(draw(st.integers(1, 5))), shared


@settings(max_examples=200)
@given(collectives())
def test_answers_are_those_of_the_paper(drawn):
    collective, X, space = drawn
    assert_equals_oracle(collective, X, space)


@settings(max_examples=8)
@given(collectives(max_agents=40))
def test_many_agents_answer_as_in_the_paper(drawn):
    collective, X, space = drawn
    assert_equals_oracle(collective, X[:2], space)


@pytest.mark.parametrize("K", [1, 2, 3, 17, 40])
def test_any_number_of_agents_answers_as_in_the_paper(K):
    assert_equals_oracle(Collective(some_agents(K, K, sizes=(30, 50)), neighbours=5), points(K, 3))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", [2, 12])
def test_agents_with_thousands_of_rows_answer_as_in_the_paper(metric, kernel, d):
    agents = some_agents(1, 4, sizes=(2047, 2049, 2600, 5000), d=d)
    for neighbours in (2, 0.01, 0.2):
        assert_equals_oracle(Collective(agents, neighbours, metric=metric, kernel=kernel), points(0, 9, d))


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
@pytest.mark.parametrize("away", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("n", [300, 2100, 2500, 5000])
def test_points_far_from_all_rows_are_answered_as_in_the_paper(metric, away, n):
    """Extrapolation: models are asked where nobody has rows."""
    agents = some_agents(2, 3, sizes=(n,), d=10)
    assert_equals_oracle(Collective(agents, neighbours=0.02, metric=metric), away * points(5, 6, 10))


def test_rows_on_a_grid_answer_as_in_the_paper():
    """Whole numbers: masses of equal distances, which are exact; among equals the earlier row is taken."""
    rng = np.random.default_rng(0)
    agents = [
        Agent(
            Linear(rng.integers(-2, 3, size=2), k), rng.integers(0, 4, size=(n, 2)), rng.integers(0, 5, size=n), f"{k}"
        )
        for k, n in enumerate([40, 500, 2500, 4000])
    ]
    X = np.array([[0, 0], [1, 2], [3, 3], [-2, 5]])
    for metric in ("euclidean", "manhattan"):
        for neighbours in (3, 0.1, 0.6):
            assert_equals_oracle(Collective(agents, neighbours, metric=metric), X)


def test_a_scaler_is_fitted_on_each_agents_own_rows():
    agents = some_agents(4)
    for agent in agents:
        agent.X[:, 0] *= 1000
    X = points(4, 6) * [1000, 1, 1]
    answer = Collective(agents, neighbours=8, space=StandardScaler()).consult(X)
    fitted = [
        oracle.Party(agent.model.predict, agent.X, agent.y, StandardScaler().fit(agent.X).transform) for agent in agents
    ]
    expected = oracle.consult(fitted, X, 8)
    np.testing.assert_allclose(answer.weights, expected.weights, rtol=1e-9)
    np.testing.assert_allclose(answer.standard_error, expected.standard_error, rtol=1e-9)


@pytest.mark.parametrize(("density", "path"), [(0.05, "sparse"), (0.5, "dense")])
@pytest.mark.parametrize("form", [csr_array, csr_matrix])
@pytest.mark.parametrize("metric", METRICS)
def test_sparse_rows_answer_as_in_the_paper(density, path, form, metric):
    rng = np.random.default_rng(0)
    agents = []
    for k, n in enumerate([50, 300, 120]):
        X = rng.normal(size=(n, 60)) * (rng.random((n, 60)) < density)
        X[:, :2] = rng.normal(size=(n, 2))
        agents.append(Agent(Linear(rng.normal(size=60)), form(X), rng.normal(size=n), f"{k}"))
    collective = Collective(agents, neighbours=7, metric=metric)
    assert {near.path for near in collective.neighbourhoods} <= {path, "tree"}
    X = rng.normal(size=(5, 60)) * (rng.random((5, 60)) < density)
    X[:, :2] = [1.0, -0.5]
    assert_equals_oracle(collective, form(X))


def test_the_only_perfect_agent_decides():
    rng = np.random.default_rng(0)
    truth, X = Linear(np.array([1.0, 2.0])), rng.normal(size=(50, 2))
    others = [Linear(rng.normal(size=2), 1.0) for _ in range(3)]
    agents = [Agent(model, X, truth.predict(X), f"{k}") for k, model in enumerate([*others, truth])]
    collective, asked = Collective(agents, neighbours=5), rng.normal(size=(20, 2))
    np.testing.assert_allclose(collective.consult(asked).weights[:, 3], 1.0, rtol=1e-10)
    np.testing.assert_allclose(collective.predict(asked), truth.predict(asked), rtol=1e-8)
    assert_equals_oracle(collective, asked)


# ----------------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("rule", RULES)
def test_only_what_was_asked_for_is_there_and_it_is_the_same(rule):
    collective, X = Collective(some_agents(0), neighbours=5, rule=rule), points(0, 70)
    everything = collective.consult(X)
    combinations = [(), *((name,) for name in FIELDS), ("value", "trust"), ("influence", "beliefs"), FIELDS[::-1]]
    for asked in combinations:
        answer = collective.consult(X, fields=asked)
        assert answer.names == collective.names
        for name in FIELDS:
            if name in asked:
                np.testing.assert_allclose(getattr(answer, name), getattr(everything, name), rtol=ROUNDING[rule])
            else:
                assert getattr(answer, name) is None
    weights = collective.consult(X, fields="weights").weights
    np.testing.assert_allclose(weights, everything.weights, rtol=ROUNDING[rule])
    np.testing.assert_allclose(collective.predict(X), everything.value, rtol=ROUNDING[rule])


def test_an_unknown_field_is_refused():
    with pytest.raises(InvalidInput, match=r"`fields` must be among 'value', .*; got 'price'"):
        Collective(some_agents(0), neighbours=5).consult(points(0, 2), fields=["value", "price"])


@pytest.mark.parametrize("asker", [None, "agent 1", "several"])
def test_an_explanation_is_that_of_the_answer(asker):
    collective, X = Collective(some_agents(0), neighbours=5).calibrate(), points(0, 4)
    asked = [None, "agent 0", "agent 1", None] if asker == "several" else asker
    for point, coverage in ((0, None), (-2, 0.5)):
        expected = collective.consult(X, asker=asked, coverage=coverage).explain(point)
        found = collective.explain(X, point, asker=asked, coverage=coverage)
        assert (found.text, found.facts) == (expected.text, expected.facts)
    assert collective.explain(X).facts["asker"] is None


def test_an_answer_is_frozen():
    answer = Collective(some_agents(0), neighbours=5).consult(points(0, 2))
    with pytest.raises(AttributeError):
        answer.value = None
    others = {"names", "lower", "upper", "sets", "flags", "choice", "peers", "rounds", "coverage", "classes", "index"}
    assert {field.name for field in fields(answer)} == {*FIELDS, *others, "asker", "correction"}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("K", [1, 2, 5])
def test_shapes_and_sums(rule, K):
    collective = Collective(some_agents(K, K), neighbours=5, rule=rule)
    for M in (0, 1, 9):
        answer = collective.consult(points(1, M))
        assert answer.value.shape == answer.standard_error.shape == (M,)
        assert answer.weights.shape == answer.beliefs.shape == answer.influence.shape == (M, K)
        assert answer.trust.shape == (M, K, K)
        assert (answer.weights >= 0.0).all()
        np.testing.assert_allclose(answer.weights.sum(axis=1), 1.0, rtol=1e-13)
        np.testing.assert_allclose(answer.trust.sum(axis=2), 1.0, rtol=1e-13)
        np.testing.assert_allclose(answer.value, (answer.weights * answer.beliefs).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_one_agent_is_the_collective_and_nobody_can_be_left_out(rule):
    agents = some_agents(0, 1)
    answer = Collective(agents, neighbours=5, rule=rule).consult(points(0, 10))
    np.testing.assert_array_equal(answer.weights, 1.0)
    np.testing.assert_array_equal(answer.trust, 1.0)
    np.testing.assert_array_equal(answer.value, agents[0].predict(points(0, 10)))
    assert np.isnan(answer.standard_error).all()
    assert np.isnan(answer.influence).all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("sizes", "d"), [((60, 90, 75, 200), 3), ((3000, 100), 2), ((2500,), 12)])
def test_points_are_answered_alike_whatever_they_are_asked_with(rule, sizes, d):
    collective, X = Collective(some_agents(0, sizes=sizes, d=d), neighbours=0.02, rule=rule), points(0, 5000, d)
    everything = collective.consult(X)
    for chosen in (slice(0, 0), slice(7, 8), slice(4999, 5000), slice(0, 63), slice(100, 164), slice(3, 68)):
        answer = collective.consult(X[chosen])
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(answer, name), getattr(everything, name)[chosen], err_msg=name)


@pytest.mark.parametrize("rule", RULES)
def test_the_same_question_has_the_same_answer(rule):
    X = points(0, 3000)
    first = Collective(some_agents(0, 6), neighbours=5, rule=rule)
    again = Collective(some_agents(0, 6), neighbours=5, rule=rule)
    answer, kept = first.consult(X), []
    assert_same(again.consult(X), answer)
    for k in range(10):
        kept.append(np.empty(1 + 997 * k))  # so that scratch memory is somewhere else each time
        assert_same(first.consult(X), answer)


@pytest.mark.parametrize("M", [3, 700, 5000])
def test_the_number_of_threads_does_not_matter(M):
    one, two, all_, many = (
        Collective(some_agents(0, sizes=(300, 2500)), neighbours=5, n_jobs=n_jobs).consult(points(0, M))
        for n_jobs in (1, 2, None, 16)
    )
    assert_same(one, two)
    assert_same(one, all_)
    assert_same(one, many)


def test_one_job_is_one_thread(monkeypatch):
    collective, started = Collective(some_agents(0, sizes=(3000,)), neighbours=5, n_jobs=1), []
    start = threading.Thread.start
    monkeypatch.setattr("degroot.compute.compiled.threads", lambda: 4)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: (started.append(thread.name), start(thread))[1])
    collective.consult(points(0, 5000))
    assert started == []


def test_threads_may_ask_at_once():
    collective, X = Collective(some_agents(0, sizes=(300, 2500)), neighbours=5), points(0, 2000)
    expected, answers = collective.predict(X), [None] * 4

    def ask(k):
        answers[k] = collective.predict(X)

    asking = [threading.Thread(target=ask, args=(k,)) for k in range(4)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    for answer in answers:
        np.testing.assert_array_equal(answer, expected)


@pytest.mark.parametrize("rule", RULES)
def test_points_may_come_in_any_form(rule):
    collective, X = Collective(some_agents(0), neighbours=5, rule=rule), points(0, 200)
    expected = collective.consult(X)
    frozen = X.copy()
    frozen.flags.writeable = False
    names = ["a", "b", "c"]
    forms = [
        np.asfortranarray(X),
        frozen,
        np.repeat(X, 2, axis=0)[::2],
        np.repeat(X, 2, axis=1)[:, ::2],
        X[::-1].copy()[::-1],
        X.tolist(),
        pd.DataFrame(X, columns=names),
        pd.DataFrame(X, columns=names, index=np.arange(200)[::-1]),
        pl.DataFrame(X, schema=names),
        csr_array(X),
        csr_matrix(X),
        X.astype(object),
    ]
    for form in forms:
        assert_same(collective.consult(form), expected)
    np.testing.assert_array_equal(frozen, X)


def test_rows_may_be_held_in_any_form():
    agents, X = some_agents(0), points(0, 100)
    expected = Collective(agents, neighbours=5).consult(X)
    names = ["a", "b", "c"]

    def frozen(rows):
        rows = rows.copy()
        rows.flags.writeable = False
        return rows

    forms = [
        np.asfortranarray,
        frozen,
        np.ndarray.tolist,
        lambda rows: pd.DataFrame(rows, columns=names, index=np.arange(len(rows))[::-1]),
        lambda rows: pl.DataFrame(rows, schema=names),
        csr_array,
    ]
    for form in forms:
        held = [Agent(agent.model, form(agent.X), agent.y, agent.name) for agent in agents]
        assert_same(Collective(held, neighbours=5).consult(X), expected)
    mixed = [
        Agent(agent.model, form(agent.X), agent.y, agent.name) for agent, form in zip(agents, forms[2:], strict=True)
    ]
    assert_same(Collective(mixed, neighbours=5).consult(pd.DataFrame(X, columns=names)), expected)


@pytest.mark.parametrize("rule", RULES)
def test_relabelling_agents_relabels_the_answer(rule):
    agents, X, order = some_agents(0, 6), points(0, 100), [3, 0, 5, 1, 4, 2]
    answer = Collective(agents, neighbours=5, rule=rule).consult(X)
    other = Collective([agents[k] for k in order], neighbours=5, rule=rule).consult(X)
    close = {"rtol": 1e-10, "atol": 1e-12}
    assert other.names == tuple(answer.names[k] for k in order)
    np.testing.assert_allclose(other.value, answer.value, **close)
    np.testing.assert_allclose(other.standard_error, answer.standard_error, **close)
    np.testing.assert_allclose(other.weights, answer.weights[:, order], **close)
    np.testing.assert_allclose(other.beliefs, answer.beliefs[:, order], **close)
    np.testing.assert_allclose(other.influence, answer.influence[:, order], **close)
    np.testing.assert_allclose(other.trust, answer.trust[:, order][:, :, order], **close)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("K", [2, 3, 6])
def test_influence_is_what_changes_when_an_agent_leaves(rule, K):
    X = points(0, 100)
    answer = Collective(some_agents(0, K), neighbours=5, rule=rule).consult(X)
    for k, name in enumerate(answer.names):
        without = Collective(some_agents(0, K), neighbours=5, rule=rule).leave(name)
        np.testing.assert_allclose(without.predict(X), answer.value - answer.influence[:, k], rtol=1e-9, atol=1e-11)
    leave_one_out = answer.value[:, None] - answer.influence
    spread = leave_one_out - leave_one_out.mean(axis=1, keepdims=True)
    expected = np.sqrt((K - 1) / K * (spread**2).sum(axis=1))
    np.testing.assert_allclose(answer.standard_error, expected, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------------------------------------ coming and going


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("asked_before", [False, True])
def test_replacing_joining_and_leaving_equal_a_fresh_collective(rule, asked_before):
    X, agents, new = points(0, 100), some_agents(0, 4), some_agents(1, 1, sizes=(33,))[0]
    renamed = Agent(new.model, new.X, new.y, "agent 2")

    def collective(members):
        made = Collective(members, neighbours=5, rule=rule)
        if asked_before:
            made.consult(X)
        return made

    new = Agent(new.model, new.X, new.y, "new")
    replaced = collective(agents).replace(renamed)
    assert_same(replaced.consult(X), collective([*agents[:2], renamed, *agents[3:]]).consult(X))
    joined = collective(agents).join(new)
    assert_same(joined.consult(X), collective([*agents, new]).consult(X))
    left = collective(agents).leave("agent 1")
    assert_same(left.consult(X), collective([agents[0], *agents[2:]]).consult(X))
    both = joined.leave("agent 0").replace(renamed)
    assert_same(both.consult(X), collective([agents[1], renamed, agents[3], new]).consult(X))


def counted(agents):
    return [(agent.model.calls, agent.model.rows) for agent in agents]


def calls_during(agents, act):
    before = counted(agents)
    act()
    return [
        (calls - earlier, rows - earlier_rows)
        for (calls, rows), (earlier, earlier_rows) in zip(counted(agents), before, strict=True)
    ]


def test_every_model_is_asked_once_about_every_agents_rows():
    agents = some_agents(0, 4, sizes=(10, 20, 30, 40))
    assert calls_during(agents, lambda: Collective(agents, neighbours=5)) == [(4, 100)] * 4
    collective = Collective(agents, neighbours=5)
    assert calls_during(agents, lambda: collective.consult(points(0, 7))) == [(1, 7)] * 4
    assert calls_during(agents, lambda: collective.predict(points(0, 7))) == [(1, 7)] * 4


def test_an_average_asks_no_model_before_it_has_to():
    agents = some_agents(0, 4, sizes=(10, 20, 30, 40))
    assert calls_during(agents, lambda: Collective(agents, neighbours=5, rule="average")) == [(0, 0)] * 4
    collective = Collective(agents, neighbours=5, rule="average")
    assert calls_during(agents, lambda: collective.consult(points(0, 7), ["value", "influence"])) == [(1, 7)] * 4


def test_only_what_changes_is_scored_again():
    agents, new = some_agents(0, 4, sizes=(10, 20, 30, 40)), some_agents(1, 1, sizes=(50,))[0]
    collective = Collective(agents, neighbours=5)
    third = Agent(new.model, new.X, new.y, "agent 2")
    everybody = [*agents, third]
    asked = calls_during(everybody, lambda: collective.replace(third))
    assert asked == [(1, 50), (1, 50), (0, 0), (1, 50), (4, 10 + 20 + 40 + 50)]
    fifth = Agent(Linear(np.ones(3)), points(2, 25), np.zeros(25), "agent 4")
    everybody.append(fifth)
    asked = calls_during(everybody, lambda: collective.join(fifth))
    assert asked == [(1, 25), (1, 25), (0, 0), (1, 25), (1, 25), (5, 10 + 20 + 50 + 40 + 25)]
    assert calls_during(everybody, lambda: collective.leave("agent 0")) == [(0, 0)] * 6


@pytest.mark.parametrize("how", ["replace", "join"])
@pytest.mark.parametrize("model", [Refusing(), lambda X: np.full(len(X), np.nan), lambda X: X])
def test_an_agent_whose_model_fails_changes_nothing(how, model):
    agents, X = some_agents(0), points(0, 50)
    collective = Collective(agents, neighbours=5)
    before, scorers = collective.consult(X), collective.scorers
    bad = Agent(model, points(1, 30), np.zeros(30), "agent 1" if how == "replace" else "new")
    with pytest.raises(AgentError, match=f"Agent {bad.name!r}: ") as caught:
        getattr(collective, how)(bad)
    assert "\n" not in str(caught.value)
    assert collective.agents == tuple(agents)
    assert collective.scorers is scorers
    assert_same(collective.consult(X), before)


def test_an_agent_whose_rows_other_models_refuse_changes_nothing():
    class OnlyPositive(Linear):
        def predict(self, X):
            if (X < -50).any():
                raise ValueError("never seen this")
            return super().predict(X)

    agents, X = some_agents(0), points(0, 50)
    agents[0] = Agent(OnlyPositive(np.ones(3)), agents[0].X, agents[0].y, "agent 0")
    collective = Collective(agents, neighbours=5)
    before = collective.consult(X)
    for how, name in (("replace", "agent 3"), ("join", "new")):
        with pytest.raises(AgentError, match="Agent 'agent 0': its model must predict; it raised ValueError"):
            getattr(collective, how)(Agent(Linear(np.ones(3)), np.full((9, 3), -99.0), np.zeros(9), name))
        assert_same(collective.consult(X), before)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda c: c.leave("nobody"), "An agent's name must be one of 'agent 0', .*; got 'nobody'"),
        (lambda c: c.replace(Agent(Linear(np.ones(3)), points(0, 9), np.ones(9), "new")), "one of .*; got 'new'"),
        (lambda c: c.join(c.agents[0]), "distinct names; two are called 'agent 0'"),
        (lambda c: c.join(Agent(Linear(np.ones(2)), points(0, 9, 2), np.ones(9), "new")), "must have 3 features"),
        (lambda c: c.join(Agent(Linear(np.ones(3)), points(0, 4), np.ones(4), "new")), "at most the number of rows, 4"),
        (lambda c: c.predict(points(0, 4, 2)), "`X` must have 3 features, as the agents' rows do; got 2"),
        (lambda c: c.predict([1.0, 2.0, 3.0]), r"`X` must be 2-dimensional, .*; its shape is \(3,\)"),
        (lambda c: c.predict([[1.0, np.nan, 3.0]]), "`X` must be finite; row 0, column 1 is nan"),
        (lambda c: c.predict([["a", "b", "c"]]), "`X` must hold numbers"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line_and_changes_nothing(act, message):
    collective, X = Collective(some_agents(0), neighbours=5), points(0, 20)
    before = collective.consult(X)
    with pytest.raises(InvalidInput, match=message) as caught:
        act(collective)
    assert "\n" not in str(caught.value)
    assert_same(collective.consult(X), before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"neighbours": 0}, "`neighbours` must be at least 1"),
        ({"neighbours": 0.0}, r"`neighbours` must lie in \(0, 1\]"),
        ({"neighbours": 1.5}, r"`neighbours` must lie in \(0, 1\] when it is a fraction; got 1.5"),
        ({"neighbours": np.nan}, r"`neighbours` must lie in \(0, 1\]"),
        ({"neighbours": True}, "`neighbours` must be a whole number or a fraction"),
        ({"neighbours": 61}, "Agent 'agent 0': `neighbours` must be at most the number of rows, 60; got 61"),
        ({"rule": "mean"}, "`rule` must be one of 'degroot', .*; got 'mean'"),
        ({"metric": "l2"}, "`metric` must be one of 'euclidean', .*; got 'l2'"),
        ({"kernel": "box"}, "`kernel` must be one of 'uniform', .*; got 'box'"),
        ({"space": 3}, "`space` must have transform"),
    ],
)
def test_bad_settings_are_refused_in_one_line(options, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        Collective(some_agents(0), **options)
    assert "\n" not in str(caught.value)


def test_agents_must_be_agents_and_some():
    with pytest.raises(InvalidInput, match="at least one agent; it has none"):
        Collective([])
    with pytest.raises(InvalidInput, match="made of agents; got Linear"):
        Collective([Linear(np.ones(2))])


def test_the_last_agent_cannot_leave():
    collective = Collective(some_agents(0, 1), neighbours=5)
    with pytest.raises(InvalidInput, match="at least one agent"):
        collective.leave("agent 0")
    assert collective.names == ("agent 0",)


@pytest.mark.parametrize(
    ("neighbours", "n", "size"), [(0.01, 50, 2), (0.01, 1, 1), (0.1, 70, 7), (0.29, 100, 29), (1.0, 9, 9), (3, 9, 3)]
)
def test_a_fraction_of_the_rows_is_rounded_down_and_at_least_two(neighbours, n, size):
    agent = Agent(Linear(np.ones(3)), points(0, n), np.ones(n), "one")
    assert Collective([agent], neighbours).neighbourhoods[0].size == size


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e9])
def test_what_all_labels_have_in_common_costs_error_bars_no_digits(offset):
    """Labels far from 0 (years, timestamps). All are multiples of 2^-10, so that only the pooling could lose digits."""

    def answer(shift):
        rng, agents = np.random.default_rng(0), []
        for k in range(6):
            X = rng.normal(size=(50, 2))
            y = np.round(1024 * np.sin(X[:, 0] + k / 4)) / 1024
            levels = np.round(1024 * rng.normal(size=2)) / 1024
            agents.append(Agent(lambda X, a=levels: np.where(X[:, 0] > 0, *a) + shift, X, y + shift, f"agent {k}"))
        return Collective(agents, neighbours=5).consult(rng.normal(size=(40, 2)), ["standard_error", "influence"])

    expected, found = answer(0.0), answer(offset)
    np.testing.assert_allclose(found.standard_error, expected.standard_error, rtol=1e-12)
    np.testing.assert_allclose(found.influence, expected.influence, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("n_jobs", [-1, -2, 1, 2, 7])
def test_the_number_of_threads_changes_nothing_and_blocks_stay_large(n_jobs):
    assert block_size(3000, 25, n_jobs) >= 100
    collective, X = Collective(some_agents(0), 5, n_jobs=n_jobs), points(0, 300)
    np.testing.assert_array_equal(collective.predict(X), Collective(some_agents(0), 5).predict(X))


def test_gaps_are_taken_where_every_space_and_model_takes_them():
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import Ridge
    from sklearn.preprocessing import StandardScaler

    rows = np.random.default_rng(0).normal(size=(60, 2))
    labels = rows.sum(axis=1)
    trees, ridge = HistGradientBoostingRegressor().fit(rows, labels), Ridge().fit(rows, labels)

    def takes(model, space, shared=None):
        agents = [Agent(model, rows, labels, name, space=space) for name in ("a", "b")]
        return Collective(agents, space=shared).takes_gaps

    assert takes(trees, SimpleImputer())
    assert takes(trees, None, shared=SimpleImputer())
    assert not takes(trees, None)
    assert not takes(trees, StandardScaler())  # it passes gaps on
    assert not takes(ridge, SimpleImputer())  # its model does not take them


SETTINGS = [{"neighbours": 20}, {"rule": "average"}, {"rule": "stacking"}, {"kernel": "tricube"}, {"guard": True}]


@pytest.mark.parametrize("changed", SETTINGS, ids=str)
def test_a_setting_that_is_changed_between_questions_holds_from_the_next_on(changed):
    random = np.random.default_rng(15)
    rows = random.normal(size=(3, 40, 2))
    agents = [Agent(lambda X, k=k: k * X[:, 0], X, X[:, 0] ** 2 + X[:, 1], f"times {k}") for k, X in enumerate(rows)]
    collective, points = Collective(agents, guard=False), random.normal(size=(5, 2))
    before = collective.predict(points)
    for name, value in changed.items():
        setattr(collective, name, value)
    after = collective.predict(points)
    np.testing.assert_array_equal(after, Collective(agents, **{"guard": False} | changed).predict(points))
    assert not np.array_equal(after, before)


class Slow(Collective):
    """Starts agents without scores only when another thread has started them with scores, and before that one asks."""

    def _start(self, panel, scored):
        started = super()._start(panel, scored)
        if not scored:
            assert self.turn.wait(60)
        return started

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "_started" and value is not None and value.scored:
            self.turn.set()
            self.other.join(60)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "average"])
def test_a_question_is_answered_with_scores_while_another_thread_asks_for_beliefs_only(rule):
    random = np.random.default_rng(15)
    rows = random.normal(size=(3, 40, 2))
    agents = [Agent(lambda X, k=k: k * X[:, 0], X, X[:, 0] ** 2 + X[:, 1], f"times {k}") for k, X in enumerate(rows)]
    points, collective = random.normal(size=(5, 2)), Slow(agents, rule=rule)
    collective.turn, looked = threading.Event(), threading.Event()
    start = collective._start
    object.__setattr__(collective, "_start", lambda panel, scored: (looked.set(), start(panel, scored))[1])
    collective.other = threading.Thread(target=collective.consult, args=(points, "beliefs"))
    collective.other.start()
    assert looked.wait(60)
    value = collective.predict(points)
    np.testing.assert_array_equal(value, Collective(agents, rule=rule).predict(points))
