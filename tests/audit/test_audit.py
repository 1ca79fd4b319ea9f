"""Influence reports: their figures are those of answers, of collectives that agents have left, and of the points."""

import doctest
import io
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from support.rules import CANDIDATES
from support.seed import SEED

from degroot import Agent, Collective, DeGrootClassifier, InvalidInput
from degroot.audit import Audit, audit, report
from degroot.audit.regions import NEARLY_ALL, find_regions
from degroot.consultation.leave_one_out import PARTS, sums_over_parts, total_standard_error
from degroot.rules.rules import RULES

OPTIONS = {"neighbours": 6}


class Linear:
    """A model with one slope, or one column of slopes for each output."""

    def __init__(self, slopes):
        self.slopes = np.asarray(slopes)

    def predict(self, X):
        return np.einsum("md,d...->m...", np.asarray(X, float), self.slopes)


def some_agents(K=4, n=25, Q=None, seed=SEED, **options):
    rng = np.random.default_rng([seed, K])
    shape = (3,) if Q is None else (3, Q)
    truth, agents = rng.normal(size=shape), []
    for k in range(K):
        X = rng.normal(size=(n + k, 3)) + rng.normal(size=3)
        y = X @ truth + 0.3 * rng.normal(size=(n + k, *shape[1:]))
        agents.append(Agent(Linear(truth + 0.5 * rng.normal(size=shape)), X, y, f"agent {k}", **options))
    return agents


def points(M, d=3, seed=SEED):
    return 1.5 * np.random.default_rng([seed, M]).normal(size=(M, d))


def specialists(seed=SEED, elsewhere=0.2, n=200):
    """Two agents whose models know the young, and one whose model alone knows the old; all hold some rows of both."""
    rng = np.random.default_rng(seed)

    def table(old):
        age = np.where(old, rng.uniform(61, 100, len(old)), rng.uniform(0, 60, len(old)))
        return pd.DataFrame({"age": age, "bmi": rng.normal(size=len(old))})

    agents = []
    for name, level in (("east", 0.0), ("south", 0.1), ("west", 10.0)):
        X = table((rng.random(n) < elsewhere) != (name == "west"))
        y = np.where(X["age"] > 60.5, 10.0, 0.0) + X["bmi"] + 0.1 * rng.normal(size=n)
        agents.append(Agent(lambda X, level=level: level + np.asarray(X)[:, 1], X, y, name))
    return agents, table(rng.random(600) < 0.4)


# ------------------------------------------------------------------------------------------------ answers


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("Q", [None, 1, 2])
def test_an_audit_of_one_point_is_its_answer(rule, Q):
    collective, X = Collective(some_agents(Q=Q), **OPTIONS, rule=rule), points(1)
    found, answer = audit(collective, X), collective.consult(X)
    sizes = np.linalg.norm(answer.influence[0].reshape(4, -1), axis=1)
    assert found.names == answer.names
    assert found.points == 1
    assert_allclose(found.weight, answer.weights[0], rtol=1e-14)
    assert_allclose(found.trust, answer.trust[0], rtol=1e-14)
    assert_allclose(found.influence, sizes, rtol=1e-13)
    assert_allclose(found.stability, np.linalg.norm(answer.standard_error[0]), rtol=1e-13)
    assert_allclose(found.carriers, 1 / (answer.weights[0] ** 2).sum(), rtol=1e-13)
    assert found.spread == 0.0
    assert np.isnan(found.relative_influence).all()
    assert_array_equal(found.alone, answer.weights[0] >= 0.9)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("Q", [None, 2])
def test_an_audit_of_many_points_is_the_mean_of_their_answers(rule, Q, monkeypatch):
    collective, X = Collective(some_agents(Q=Q), **OPTIONS, rule=rule), points(300)
    answer, whole = collective.consult(X), audit(collective, X)
    monkeypatch.setattr(report, "TRUST_BYTES", 8 * 4 * 4 * 7)  # seven points at once
    for found in (whole, audit(collective, X)):
        assert_allclose(found.weight, answer.weights.mean(axis=0), rtol=1e-12)
        assert_allclose(found.trust, answer.trust.mean(axis=0), rtol=1e-12)
        sizes = np.linalg.norm(answer.influence.reshape(300, 4, -1), axis=2)
        assert_allclose(found.influence, sizes.mean(axis=0), rtol=1e-12)
        values = answer.value.reshape(300, -1)
        assert_allclose(found.spread, np.sqrt(((values - values.mean(axis=0)) ** 2).sum(axis=1).mean()), rtol=1e-12)
        assert_allclose(found.relative_influence, found.influence / found.spread)
        assert_array_equal(found.alone, (answer.weights >= 0.9).sum(axis=0))
        if rule != "average":  # where nobody leads
            assert_allclose(found.leads, np.bincount(answer.weights.argmax(axis=1), minlength=4) / 300, rtol=1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("K", [1, 2, 3, 6])
def test_shares_sum_to_one(rule, K):
    found = audit(Collective(some_agents(K), **OPTIONS, rule=rule), points(100))
    assert_allclose(found.weight.sum(), 1.0, rtol=1e-12)
    assert_allclose(found.leads.sum(), 1.0, rtol=1e-12)
    assert_allclose(found.trust.sum(axis=1), 1.0, rtol=1e-12)
    assert 1.0 - 1e-12 <= found.carriers <= K + 1e-9
    assert found.rehearsed == sum(25 + k for k in range(K))


def test_agents_that_count_alike_lead_alike():
    found = audit(Collective(some_agents(5), **OPTIONS, rule="average"), points(50))
    assert_allclose(found.leads, 0.2, rtol=1e-12)
    assert_allclose(found.carriers, 5.0, rtol=1e-12)


def test_others_trust_is_apart_from_trust_in_oneself():
    found = audit(Collective(some_agents(4), **OPTIONS), points(50))
    expected = [np.delete(found.trust[:, k], k).mean() for k in range(4)]
    assert_allclose(found.trusted, expected, rtol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_relabelling_agents_relabels_the_audit(rule):
    agents, X, order = some_agents(5), points(200), [3, 0, 4, 1, 2]
    one, other = (audit(Collective(each, **OPTIONS, rule=rule), X) for each in (agents, [agents[k] for k in order]))
    close = {"rtol": 1e-8, "atol": 1e-10}
    assert other.names == tuple(one.names[k] for k in order)
    for name in ("weight", "leads", "influence", "trusted", "loss", "loss_error", "alone"):
        assert_allclose(getattr(other, name), getattr(one, name)[order], **close, err_msg=name)
    assert_allclose(other.trust, one.trust[order][:, order], **close)
    for name in ("carriers", "stability", "spread", "error", "rehearsed"):
        assert_allclose(getattr(other, name), getattr(one, name), **close, err_msg=name)
    assert {(each.where, each.agent) for each in one.regions} == {(each.where, each.agent) for each in other.regions}


# ------------------------------------------------------------------------------------------------ losses


def without_row(agents, i, row):
    """The agents, of whom agent i does not hold one of its rows."""
    keep = np.arange(agents[i].n_rows) != row
    fewer = Agent(agents[i].model, agents[i].X[keep], agents[i].y[keep], agents[i].name)
    return [*agents[:i], fewer, *agents[i + 1 :]]


def errors_on_own_rows(agents, rule, honest=None):
    """Squared errors, (rows, 1 + K), with everybody and without each, by collectives made for every row and each."""
    squares = []
    for i, agent in enumerate(agents):
        for row in range(agent.n_rows):
            x, members, errors = agent.X[row : row + 1], without_row(agents, i, row), []
            for left in [members, *(members[:k] + members[k + 1 :] for k in range(len(members)))]:
                weights = Collective(left, **OPTIONS, rule=rule).consult(x, "weights").weights[0]
                beliefs = [
                    honest[i][row] if honest is not None and each.name == agent.name else each.predict(x)[0]
                    for each in left
                ]
                errors.append(((weights @ np.reshape(beliefs, (len(left), -1)) - agent.y[row]) ** 2).sum())
            squares.append(errors)
    return np.array(squares)


@pytest.mark.parametrize("rule", CANDIDATES)
@pytest.mark.parametrize("Q", [None, 2])
def test_losses_are_those_of_collectives_that_never_saw_the_row(rule, Q):
    agents = some_agents(3, 12, Q)
    squares = errors_on_own_rows(agents, rule)
    found = audit(Collective(agents, **OPTIONS, rule=rule), points(5))
    assert_allclose(found.error, squares[:, 0].mean(), rtol=1e-8)
    assert_allclose(found.loss, (squares[:, 1:] - squares[:, :1]).mean(axis=0), rtol=1e-6, atol=1e-9)
    parts = np.concatenate([10 * i + np.sort(np.arange(12 + i) % 10) for i in range(3)])  # which row is in which part
    sums = np.array([(squares[:, 1:] - squares[:, :1])[parts == part].sum(axis=0) for part in range(30)])
    assert_allclose(found.loss_error, np.sqrt(30) * sums.std(axis=0, ddof=1) / len(parts), rtol=1e-6, atol=1e-9)


def test_honest_predictions_of_own_rows_are_what_own_models_err_by():
    rng, agents = np.random.default_rng(SEED), some_agents(3, 12)
    honest = [agent.y + rng.normal(size=agent.n_rows) for agent in agents]
    told = [
        Agent(each.model, each.X, each.y, each.name, own_predictions=own)
        for each, own in zip(agents, honest, strict=True)
    ]
    squares = errors_on_own_rows(agents, "average", honest)
    found = audit(Collective(told, **OPTIONS, rule="average"), points(5))
    assert_allclose(found.error, squares[:, 0].mean(), rtol=1e-8)
    assert_allclose(found.loss, (squares[:, 1:] - squares[:, :1]).mean(axis=0), rtol=1e-6, atol=1e-9)


def test_rows_on_which_an_agent_does_not_take_part_say_nothing_of_it():
    agents = some_agents(3, 12, own_predictions="peers")
    found = audit(Collective(agents, **OPTIONS, rule="average"), points(5))
    for k in range(3):
        costs = []
        for i in {0, 1, 2} - {k}:  # on rows of agent i its own model is not asked
            others = [j for j in range(3) if j != i]
            errors = {j: agents[j].predict(agents[i].X) - agents[i].y for j in others}
            everybody = np.mean([errors[j] for j in others], axis=0)
            costs.append(np.mean([errors[j] for j in others if j != k], axis=0) ** 2 - everybody**2)
        assert_allclose(found.loss[k], np.concatenate(costs).mean(), rtol=1e-9)


def test_what_nobody_could_measure_is_not_known():
    found = audit(Collective(some_agents(2, own_predictions="peers"), **OPTIONS), points(5))
    assert np.isnan(found.loss).all()
    assert not found.droppable.any()


@pytest.mark.parametrize("rule", CANDIDATES)
@pytest.mark.parametrize("seed", [SEED + k for k in range(5)])
def test_nothing_is_lost_without_an_agent_whose_model_is_noise(rule, seed):
    rng = np.random.default_rng(seed)
    truth, agents = rng.normal(size=3), []
    for name in ("a", "b", "c", "noise"):
        X = rng.normal(size=(150, 3))
        model = Linear(truth + 0.3 * rng.normal(size=3)) if name != "noise" else lambda X: 50 * np.sin(1e4 * X[:, 0])
        agents.append(Agent(model, X, X @ truth + 0.3 * rng.normal(size=150), name))
    found = audit(Collective(agents, **OPTIONS, rule=rule), points(50))
    assert found.loss[3] < 0.01 * found.error
    if rule != "average":
        assert found.weight.argmin() == 3
    else:
        assert found.droppable[3]


@pytest.mark.parametrize("rule", ["degroot", "stacking"])
@pytest.mark.parametrize("seed", [SEED + k for k in range(5)])
def test_an_agent_that_alone_knows_a_region_costs_and_the_region_is_told(rule, seed):
    agents, X = specialists(seed)
    collective = Collective(agents, 0.05, rule)
    found, weights, west = audit(collective, X), collective.consult(X, "weights").weights, 2
    assert found.loss[west] > 3 * found.loss_error[west] > 0
    assert found.loss.argmax() == west
    assert not found.droppable[west]
    told, old = np.zeros(len(X), bool), X["age"].to_numpy() > 60.5
    for region in found.regions:
        inside = X.eval(region.where).to_numpy()
        assert region.points == inside.sum()
        assert_allclose(region.weight, weights[inside, found.names.index(region.agent)].mean(), rtol=1e-12)
        told |= inside & (region.agent == "west")
    assert (told != old).mean() < 0.05
    assert found.alone[west] > 0.8 * old.sum()


def test_the_only_agent_with_rows_in_a_region_costs():
    agents, X = specialists(elsewhere=0.0)
    found = audit(Collective(agents, 0.05, "stacking"), X)
    assert found.loss[2] > 3 * found.loss_error[2] > 0
    assert not found.droppable[2]


def test_many_agents_rehearse_with_fewer_rows_each(monkeypatch):
    monkeypatch.setattr("degroot.audit.losses.WORK", 20 * 4**2)
    monkeypatch.setattr("degroot.audit.losses.FEWEST", 5)
    assert audit(Collective(some_agents(4), **OPTIONS), points(5)).rehearsed == 4 * 20
    assert audit(Collective(some_agents(8), **OPTIONS), points(5)).rehearsed == 8 * 5


def test_nobody_can_be_dropped_from_one():
    collective = Collective(some_agents(1), **OPTIONS)
    found = audit(collective, points(30))
    assert_array_equal(found.weight, [1.0])
    assert_array_equal(found.alone, [30])
    assert [each.where for each in found.regions] == ["everywhere"]
    assert np.isnan([found.loss[0], found.loss_error[0], found.influence[0], found.trusted[0], found.stability]).all()
    assert not found.droppable.any()
    assert "agent 0" in str(found)


def test_an_average_is_audited_though_it_scores_nobody():
    found = audit(Collective(some_agents(3), rule="average"), points(20))
    assert_allclose(found.weight, 1 / 3)
    assert found.error > 0


def test_for_classes_errors_are_brier_scores():
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(120, 2))
    y = np.array(["ash", "elm", "oak"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)]
    found = audit(DeGrootClassifier(n_agents=3, random_state=0).fit(X, y).collective_, X)
    assert 0.0 < found.error < 2.0
    assert_allclose(found.weight.sum(), 1.0)


# ------------------------------------------------------------------------------------------------ for an asker


def clustered(values, units):
    """The standard error of a mean, by sums over units."""
    sums = np.array([(values - values.mean())[units == unit].sum() for unit in np.unique(units)])
    return np.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum()) / len(values)


@pytest.mark.parametrize("rule", CANDIDATES)
@pytest.mark.parametrize("Q", [None, 2])
def test_an_askers_audit_is_the_mean_of_its_answers(rule, Q):
    collective, X = Collective(some_agents(Q=Q), **OPTIONS, rule=rule), points(200)
    found, answer = collective.audit(X, asker="agent 2"), collective.consult(X, asker="agent 2")
    assert (found.asker, found.trust) == ("agent 2", None)
    assert np.isnan(found.trusted).all()
    assert_allclose(found.weight, answer.weights.mean(axis=0), rtol=1e-12)
    assert_allclose(found.weight.sum(), 1.0, rtol=1e-12)
    assert_allclose(found.influence, np.linalg.norm(answer.influence.reshape(200, 4, -1), axis=2).mean(axis=0))
    assert_allclose(found.stability, np.linalg.norm(answer.standard_error.reshape(200, -1), axis=1).mean())
    assert_array_equal(found.alone, (answer.weights >= 0.9).sum(axis=0))


@pytest.mark.parametrize("rule", ["degroot", "stacking"])
@pytest.mark.parametrize("n", [30, 80])
def test_what_an_asker_loses_is_measured_in_collectives_without_each(rule, n):
    units = np.random.default_rng(SEED).integers(0, 15, size=n + 1)  # of agent 1
    agents = some_agents(4, n)
    agents[1] = Agent(agents[1].model, agents[1].X, agents[1].y, "agent 1", units=units)
    found = Collective(agents, **OPTIONS, rule=rule).audit(points(5), asker="agent 1")
    everybody = Collective(agents, **OPTIONS, rule=rule).view_of("agent 1").left_out[:, 0] ** 2
    assert found.rehearsed == n + 1
    assert_allclose(found.error, everybody.mean(), rtol=1e-12)
    assert_allclose(found.own_error, ((agents[1].predict(agents[1].X) - agents[1].y) ** 2).mean(), rtol=1e-12)
    for k in (0, 2, 3):
        rest = Collective([*agents[:k], *agents[k + 1 :]], **OPTIONS, rule=rule)
        added = rest.view_of("agent 1").left_out[:, 0] ** 2 - everybody
        assert_allclose(found.loss[k], added.mean(), rtol=1e-6, atol=1e-9)
        assert_allclose(found.loss_error[k], clustered(added, units), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("correct", [False, True])
def test_what_an_asker_loses_is_measured_on_its_own_rows_alone(correct):
    """Whatever the others hold, as long as their models are the same."""
    agents, rng = some_agents(3, 60), np.random.default_rng(SEED)
    others = [agents[0], *(Agent(a.model, rng.normal(size=(9, 3)), np.zeros(9), a.name) for a in agents[1:])]
    one, other = (Collective(each, **OPTIONS, correct=correct).audit(points(5), "agent 0") for each in (agents, others))
    for name in ("error", "own_error", "loss", "loss_error", "weight", "rehearsed"):
        assert_allclose(getattr(other, name), getattr(one, name), rtol=1e-9, err_msg=name)


def test_an_askers_audit_without_a_useless_and_a_needed_model():
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(200, 3))
    y = X.sum(axis=1) + 0.1 * rng.normal(size=200)
    models = {"asker": Linear(np.zeros(3)), "good": Linear(np.ones(3)), "noise": lambda X: 50 * np.sin(1e4 * X[:, 0])}
    collective = Collective([Agent(model, X, y, name) for name, model in models.items()], **OPTIONS)
    found = collective.audit(X, asker="asker")
    assert found.droppable.tolist() == [True, False, True]
    assert found.loss[1] > 10 * found.error
    assert found.error < 0.1 * found.own_error
    text = str(found)
    assert text.startswith("3 agents, 200 points, asked by asker. ")
    assert f"on 200 rows of asker, left out in folds of whole units: {found.error:.4g}; of its own model " in text
    assert "trusted" not in text
    assert "trusted" in str(collective.audit(X))
    titles = [axes.get_title() for axes in found.draw().axes]
    assert "How far the answer would move without each" in titles
    assert len(titles) == 4
    assert "asked by asker" in found._repr_html_()
    assert {row["agent"] for row in found.rows()} == set(models)


@pytest.mark.parametrize("case", ["one agent", "one unit"])
def test_where_nothing_can_be_tried_an_askers_losses_are_not_known(case):
    X = points(20)
    agents = [Agent(Linear([1.0, k, 0.0]), X, X[:, 0], f"{k}", units=[f"{k}"] * 20) for k in range(2)]
    found = Collective(agents if case == "one unit" else agents[:1]).audit(X, asker="0")
    assert np.isnan(found.loss).all()
    assert not found.droppable.any()
    assert found.error == found.own_error
    assert str(found)


def test_for_classes_an_askers_errors_are_brier_scores():
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(120, 2))
    y = np.array(["ash", "elm", "oak"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)]
    collective = DeGrootClassifier(n_agents=3, random_state=0).fit(X, y).collective_
    found, view = collective.audit(X, "agent 1"), collective.view_of("agent 1")
    assert_allclose(found.error, (view.left_out**2).sum(axis=1).mean())
    assert 0.0 < found.error < 2.0


@pytest.mark.parametrize(
    ("asker", "message"),
    [
        (["agent 0"] * 5, "`asker` of an audit must be the name of one agent; got 5 names"),
        (3, "`asker` of an audit must be the name of one agent; got 3"),
        ("north", "`asker` must be one of 'agent 0', 'agent 1'; got 'north'"),
    ],
)
def test_an_audit_is_for_one_asker(asker, message):
    with pytest.raises(InvalidInput, match=message):
        Collective(some_agents(2), **OPTIONS).audit(points(5), asker)
    with pytest.raises(InvalidInput, match=r"An asker must have scored every model .* degree=3"):
        Collective(some_agents(4), degree=3).audit(points(5), "agent 0")


# ------------------------------------------------------------------------------------------------ parts


@pytest.mark.parametrize("n", [1, 2, 9, 10, 11, 57])
def test_parts_are_of_nearly_the_same_size_and_hold_every_row_once(n):
    values = np.random.default_rng(SEED).normal(size=(n, 2))
    sums, counts = sums_over_parts(values)
    assert counts.sum() == n
    assert counts.max() - counts.min() <= 1
    assert len(sums) == min(n, PARTS)
    ends = np.cumsum(counts)
    for part, end in enumerate(ends):
        assert_allclose(sums[part], values[end - counts[part] : end].sum(axis=0))


def test_chance_is_the_standard_error_of_a_total():
    values = np.random.default_rng(SEED).normal(5.0, 2.0, size=(4000, 100))
    squares = np.array([total_standard_error(sums_over_parts(each)[0]) for each in values]) ** 2
    assert_allclose(squares.mean(), 100 * 2.0**2, rtol=5 * np.sqrt(2 / 9 / 4000))
    assert np.isnan(total_standard_error(np.array([3.0])))


# ------------------------------------------------------------------------------------------------ regions


@st.composite
def carried(draw):
    """Points, and weights in which agents carry all in parts of the space."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    M, d, K = draw(st.integers(1, 300)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    X = rng.normal(size=(M, d))
    if draw(st.booleans()):
        X = X.round(draw(st.integers(0, 1)))
    X = X * draw(st.sampled_from([1.0, 1e-12, 1e-200, 1e30, 1e200])) + draw(st.sampled_from([0.0, 1e9]))
    ranks = np.argsort(np.argsort(X, axis=0), axis=0) / M
    place = (ranks @ rng.integers(0, 3, size=d)).astype(int) % (K + 1)  # the last: nobody
    weights = np.where(np.arange(K) == place[:, None], 0.97, 0.03 / max(1, K - 1))
    weights[place == K] = 1 / K
    noisy = rng.random(M) < draw(st.sampled_from([0.0, 0.1]))
    weights[noisy] = rng.dirichlet(np.ones(K), size=noisy.sum())
    return pd.DataFrame(X, columns=list("abcd")[:d]), weights / weights.sum(axis=1, keepdims=True)


def meets(X, where):
    """Which points meet conditions such as ``1 < a <= 2 and b > 3``."""
    columns = {name: X[name].to_numpy() for name in X.columns}
    inside = np.ones(len(X), bool)
    for condition in [] if where == "everywhere" else where.split(" and "):
        words = condition.split()
        if len(words) == 5:
            inside &= (columns[words[2]] > float(words[0])) & (columns[words[2]] <= float(words[4]))
        else:
            assert words[1] in (">", "<=")
            above = columns[words[0]] > float(words[2])
            inside &= above if words[1] == ">" else ~above
    return inside


@settings(max_examples=150, deadline=None)
@given(carried())
def test_what_is_told_of_a_region_holds(case):
    X, weights = case
    names = [f"agent {k}" for k in range(weights.shape[1])]
    found = find_regions(X, weights, names, list(X.columns))
    seen = np.zeros(len(X), int)
    for region in found:
        inside = meets(X, region.where)
        assert inside.sum() == region.points
        assert_allclose(weights[inside, names.index(region.agent)].mean(), region.weight, rtol=1e-12)
        assert region.weight >= NEARLY_ALL
        assert region.points >= min(5, len(X))
        assert region.points >= 0.01 * len(X)
        assert region.where.count(" and ") <= 2
        seen += inside
    assert seen.max(initial=0) <= 1
    assert [region.points for region in found] == sorted((region.points for region in found), reverse=True)
    if (weights.max(axis=1) < NEARLY_ALL).all():
        assert found == ()


@pytest.mark.parametrize("scale", [1e-290, 1e-12, 1.0, 1e12, 1e290])
@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_units_do_not_matter(scale, offset):
    X = np.random.default_rng(SEED).permutation(200).reshape(100, 2)
    high = X[:, 1] > np.quantile(X[:, 1], 0.7)
    weights = np.where(high[:, None], [0.02, 0.98], [0.5, 0.5])
    (region,) = find_regions((X + offset) * scale, weights, ["east", "west"], None)
    assert region.agent == "west"
    assert region.where.startswith("feature 1 > ")
    assert region.points == high.sum()


def test_neighbouring_regions_of_one_agent_are_one():
    X = np.column_stack([np.arange(400) % 20, np.arange(400) // 20]).astype(float)
    corner = (X[:, 0] < 10) & (X[:, 1] < 10)
    weights = np.where(corner[:, None], [0.5, 0.5], [0.0, 1.0])
    weights[0] = [1.0, 0.0]
    found = find_regions(X, weights, ["east", "west"], ["a", "b"])
    assert [each.agent for each in found] == ["west", "west"]  # what is not the corner takes two descriptions
    assert sum(each.points for each in found) == 300


def test_thresholds_are_told_in_few_digits():
    X = np.array([17.123, 18.2, 19.9, 40.001, 41.7, 55.5, 62.3, 65.91, 70.4, 88.8])[:, None]
    weights = np.where(X > 50, [0.0, 1.0], [0.5, 0.5])
    (region,) = find_regions(X, weights, ["east", "west"], ["age"])
    assert region.where == "age > 50"


def test_large_tables_are_described_by_a_sample(monkeypatch):
    monkeypatch.setattr("degroot.audit.regions.CELLS", 3000)
    rng = np.random.default_rng(SEED)
    X = rng.uniform(size=(5000, 3))
    weights = np.where(X[:, [2]] <= 0.25, [0.95, 0.05], [0.4, 0.6])
    (region,) = find_regions(X, weights, ["east", "west"], ["a", "b", "c"])
    inside = meets(pd.DataFrame(X, columns=list("abc")), region.where)
    assert region.points == inside.sum()
    assert (inside != (X[:, 2] <= 0.25)).mean() < 0.01


def test_sparse_points_have_the_regions_of_dense_ones():
    X = np.random.default_rng(SEED).poisson(1.0, size=(300, 5)).astype(float)
    weights = np.where(X[:, [3]] > 1, [0.95, 0.05], [0.4, 0.6])
    dense, sparse = (find_regions(each, weights, ["east", "west"], None) for each in (X, csr_array(X)))
    assert dense == sparse
    assert [each.where for each in dense] == ["feature 3 > 1.5"] or dense[0].where == "feature 3 > 1"


def test_points_that_are_not_numbers_are_counted_only():
    agents, X = specialists()

    def worded(frame):
        return frame.assign(bmi=frame["bmi"].map(str))

    def numbers(frame):
        return frame.astype(float).to_numpy()

    as_words = [
        Agent(lambda X, model=each.model: model(numbers(X)), worded(each.X), each.y, each.name, space=numbers)
        for each in agents
    ]
    expected, found = audit(Collective(agents, 0.05), X), audit(Collective(as_words, 0.05), worded(X))
    assert_array_equal(found.alone, expected.alone)
    assert found.alone.sum() > 0
    assert found.regions == ()
    assert "no short description" in str(found)


# ------------------------------------------------------------------------------------------------ reading it


def test_a_table_has_a_row_for_each_agent():
    found = audit(Collective(some_agents(4), **OPTIONS), points(40))
    frame = pd.DataFrame(found.rows())
    assert list(frame["agent"]) == list(found.names)
    for name in frame.columns[1:]:
        assert_array_equal(frame[name], getattr(found, name))
    lines = str(found).splitlines()
    table = [line for line in lines if line.startswith("agent")]
    assert len(table) == 5
    assert len({len(line) for line in table}) == 1


def test_losses_beside_no_error_at_all_are_told_as_they_are():
    rows = np.arange(20.0)[:, None]
    good, bad = (Agent(lambda X, k=k: X[:, 0] + k, rows, rows[:, 0], f"off by {k}") for k in (0, 3))
    lines = str(audit(Collective([good, bad], **OPTIONS), rows)).splitlines()
    assert "9 ± 0" in next(line for line in lines if line.startswith("off by 0"))
    assert "%  " not in next(line for line in lines if line.startswith("off by 3")).split("±")[1]


def made_up(K, alone=True):
    """An audit without a collective, with a name that is hard to draw."""
    rng = np.random.default_rng(SEED)
    weight, trust = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), size=K)
    loss, noise = (np.full(1, np.nan),) * 2 if K == 1 else rng.normal(0.001, 0.001, size=(2, K))
    names = ["a very long name: $x^$ & \n <b>North-Eastern</b>", *(f"hospital no. {k}" for k in range(1, K))]
    return Audit(
        tuple(names), 700, weight, weight, loss, 1.0, trust, 2.0, 0.1, 1000, 0.0123, loss, np.abs(noise),
        (700 * alone * weight).astype(int), (),
    )  # fmt: skip


def apart(labels):
    boxes = [label.get_window_extent() for label in labels]
    return not any(one.overlaps(other) for one, other in pairwise(boxes))


@pytest.mark.parametrize(
    ("K", "alone"),
    [(1, True), (3, False), (8, True), pytest.param(32, True, marks=pytest.mark.slow), (128, True)],
)
def test_a_picture_can_be_saved_and_nothing_in_it_overlaps(K, alone):
    figure, file = made_up(K, alone).draw(), io.BytesIO()
    figure.savefig(file, dpi=60)
    assert file.getvalue().startswith(b"\x89PNG")
    figure.draw_without_rendering()  # at its own resolution, for the places below
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert len(panels) == 4
    for axes in panels:
        assert apart(axes.get_yticklabels())
        assert apart(axes.get_xticklabels())
        for text in (axes.title, axes.xaxis.label):
            box = text.get_window_extent()
            assert box.x0 >= 0 <= box.y0
            assert box.x1 <= figure.bbox.width
            assert box.y1 <= figure.bbox.height
    titles = [axes.title for axes in panels]
    assert apart(titles[:2])
    assert apart(titles[2:])


def test_what_was_found_can_be_drawn():
    figure, file = audit(Collective(some_agents(3), **OPTIONS), points(60)).draw(), io.BytesIO()
    figure.savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["agent 0", "agent 1", "agent 2"]


def test_a_picture_needs_matplotlib(monkeypatch):
    found = audit(Collective(some_agents(2), **OPTIONS), points(5))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(InvalidInput, match=r"The picture needs matplotlib: pip install 'degroot\[plot\]'"):
        found.draw()


def test_the_page_about_audits_holds():
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    example, runner = doctest.DocTestParser().get_doctest(page, {}, "audit.md", None, 0), doctest.DocTestRunner()
    assert any(each.source == "print(audit)\n" and each.want for each in example.examples)
    assert runner.run(example).failed == 0


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.empty((0, 3)), "`X` must hold at least one point; it holds none"),
        (np.ones((4, 2)), "`X` must have 3 features, as the agents' rows do; got 2"),
        (np.ones(3), r"`X` must be 2-dimensional, .*; its shape is \(3,\)"),
        ([[1.0, np.nan, 2.0]], "`X` must be finite; row 0, column 1 is nan"),
        ([["a", "b", "c"]], "`X` must hold numbers"),
    ],
)
def test_what_cannot_be_audited_is_refused_in_one_line(X, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        audit(Collective(some_agents(3), **OPTIONS), X)
    assert "\n" not in str(caught.value)
