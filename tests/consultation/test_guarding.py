"""Collectives with a guard: liars are left out or bounded, and flags say so."""

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor
from support.rules import CANDIDATES

from degroot import Agent, AgentError, Collective, InvalidInput
from degroot.agents.agent import Scorer


class Liar(Agent):
    """An agent whose opinion is bent, and whose model lies once it has been scored."""

    def __init__(self, agent, bend=None, lie=None):
        super().__init__(agent.model, agent.X, agent.y, agent.name)
        self.bend, self.lie, self.scored = bend, lie, False

    def predict(self, X):
        answer = super().predict(X)
        return answer if self.lie is None or not self.scored else answer + self.lie

    def score_models(self, predictors, metric, space):
        scorer = super().score_models(predictors, metric, space)
        self.scored = True
        return Bent(
            **{field.name: getattr(scorer, field.name) for field in fields(Scorer)},
            bend=self.bend,
            own=predictors.index(self),
        )


@dataclass(frozen=True)
class Bent(Scorer):
    bend: object = None
    own: int = 0

    def measure(self, into, place, transformed, reach, exclude_row=None):
        super().measure(into, place, transformed, reach, exclude_row)
        if self.bend is not None:
            self.bend(into, place, self.own)


def problem(seed=0, K=5, n=120, model=Ridge):
    source = np.random.default_rng(seed)
    agents = []
    for k in range(K):
        X = source.uniform(-2, 2, size=(n, 2))
        y = np.sin(X[:, 0]) + 0.1 * source.normal(size=n)
        agents.append(Agent(model().fit(X, y), X, y, f"agent {k}"))
    X = source.uniform(-1.8, 1.8, size=(200, 2))
    return agents, X, np.sin(X[:, 0])


def with_liar(agents, **lies):
    """The last agent lies, and was scored by all others before that."""
    return [*agents[:-1], Liar(agents[-1], **lies)]


def error(collective, X, y):
    return ((collective.predict(X) - y) ** 2).mean()


def stubborn(evidence, place, own):
    """No error of its own, a thousand of others'."""
    if evidence.moments is not None:
        row, column = np.tril_indices(evidence.errors.shape[-1])
        evidence.moments[:, place] = np.where(row == column, 1000.0, 0.0)
        evidence.moments[:, place, own * (own + 3) // 2] = 1e-12
    else:
        evidence.errors[:, place] = 1000.0
        evidence.errors[:, place, own] = 1e-12
    if evidence.spread is not None:
        evidence.spread[:, place] = 0.0


@pytest.mark.parametrize("rule", CANDIDATES)
@pytest.mark.parametrize("model", [Ridge, lambda: DecisionTreeRegressor(max_depth=4)])
def test_honest_agents_lose_next_to_nothing(rule, model):
    agents, X, y = problem(model=model)
    plain, guarded = (Collective(agents, rule=rule, guard=guard) for guard in (False, True))
    assert error(guarded, X, y) < 1.1 * error(plain, X, y)
    answer = guarded.consult(X)
    assert_allclose(answer.weights.sum(axis=1), 1)
    left_out = [flag for flag in answer.flags if not flag.reason.startswith("unverified")]
    assert sum(len(flag.points) for flag in left_out) < 0.01 * answer.weights.size
    assert plain.consult(X).flags == ()


@pytest.mark.parametrize("rule", ["degroot", "stacking"])
def test_praise_of_itself_gains_an_agent_little(rule):
    agents, X, y = problem()
    bad = Agent(lambda rows: np.sin(rows[:, 0]) + 3, agents[-1].X, agents[-1].y, "agent 4")
    liars = with_liar([*agents[:-1], bad], bend=stubborn)
    assert error(Collective(liars, rule=rule), X, y) > 1
    guarded = Collective(liars, rule=rule, guard=True)
    honest = error(Collective(agents[:-1]), X, y)
    assert error(guarded, X, y) < 3 * honest


@pytest.mark.parametrize("rule", CANDIDATES)
@pytest.mark.parametrize("lie", [5.0, -50.0, 1e6])
def test_lies_at_the_point_are_left_out(rule, lie):
    agents, X, y = problem()
    guarded = Collective(with_liar(agents, lie=lie), rule=rule, guard=True)
    answer = guarded.consult(X)
    assert_array_equal(answer.weights[:, -1], 0)
    assert_array_equal(answer.influence[:, -1], 0)
    assert {flag.agent for flag in answer.flags if "left out" in flag.reason} == {"agent 4"}
    assert sum(len(flag.points) for flag in answer.flags if flag.reason.startswith("inconsistent")) == len(X)
    assert_allclose(answer.value, (answer.weights * answer.beliefs).sum(axis=1))
    assert error(guarded, X, y) < 3 * error(Collective(agents[:-1]), X, y)


def test_where_nobody_is_left_out_agents_are_weighed_as_if_alone():
    agents, X, _ = problem()
    answer = Collective(with_liar(agents, lie=100.0), guard=True).consult(X)
    alone = Collective(agents[:-1], guard=True).consult(X)
    assert_allclose(answer.weights[:, :-1].sum(axis=1), 1)
    assert np.abs(answer.value - alone.value).max() < 0.1


@pytest.mark.parametrize("rule", ["degroot", "stacking"])
@pytest.mark.parametrize("wrong", [np.nan, -1.0, np.inf])
def test_opinions_that_are_none_are_refused(rule, wrong):
    agents, X, _y = problem()

    def bend(evidence, place, own):
        (evidence.errors if evidence.moments is None else evidence.moments)[3:5, place] = wrong

    liars = with_liar(agents, bend=bend)
    with pytest.raises(AgentError, match="Agent 'agent 4': its reported errors must be finite, not negative"):
        Collective(liars, rule=rule).predict(X)
    answer = Collective(liars, rule=rule, guard=True).consult(X)
    refused = [flag for flag in answer.flags if flag.reason.startswith("malformed")]
    assert {flag.agent for flag in refused} == {"agent 4"}
    assert {3, 4} <= set(refused[0].points.tolist())
    assert_array_equal(answer.weights[refused[0].points, -1], 0)
    assert np.isfinite(answer.value).all()


def test_impossible_moments_are_refused():
    agents, X, _ = problem()

    def bend(evidence, place, own):
        evidence.moments[:, place, 1] = 1e9

    answer = Collective(with_liar(agents, bend=bend), rule="stacking", guard=True).consult(X)
    assert {flag.agent for flag in answer.flags if flag.reason.startswith("malformed")} == {"agent 4"}


def test_claims_of_being_near_do_not_take_over():
    agents, X, _y = problem()

    liars = with_liar(agents, bend=stubborn)
    guarded = Collective(liars, rule="stacking", guard=True).consult(X)
    assert guarded.weights[:, -1].mean() < 0.6
    assert Collective(liars, rule="stacking").consult(X).weights[:, -1].mean() > 0.99


def test_answers_far_from_everybody_are_unverified():
    agents, X, _ = problem()
    answer = Collective(agents, guard=True).consult(np.vstack([X, [[50.0, 50.0]]]))
    unverified = {flag.agent: flag.points for flag in answer.flags if flag.reason.startswith("unverified")}
    assert set(unverified) == {agent.name for agent in agents}
    assert all(len(X) in points for points in unverified.values())


def test_the_guard_is_on_when_agents_are_remote():
    agents, X, _ = problem()
    liars = with_liar(agents, lie=100.0)
    assert Collective(liars).consult(X).flags == ()
    liars[0].remote = True
    assert Collective(liars).consult(X).flags
    assert Collective(liars, guard=False).consult(X).flags == ()
    with pytest.raises(InvalidInput, match="`guard` must be True, False or None; got 'yes'"):
        Collective(agents, guard="yes")


@pytest.mark.parametrize("rule", CANDIDATES)
def test_blocks_and_fields_change_nothing(rule):
    agents, X, _ = problem()
    guarded = Collective(with_liar(agents, lie=30.0), rule=rule, guard=True)
    whole = guarded.consult(X)
    assert_allclose(guarded.predict(X), whole.value)
    assert_allclose([guarded.predict(x[None])[0] for x in X[:5]], whole.value[:5])
    assert_allclose(guarded.consult(X, fields="standard_error").standard_error, whole.standard_error)
    answer = guarded.calibrate().consult(X, coverage=0.9)
    assert (answer.lower <= answer.value).all()
    assert answer.flags


def test_a_guard_takes_one_agent_several_outputs_and_classes():
    agents, X, _ = problem()
    assert_array_equal(Collective(agents[:1], guard=True).predict(X), agents[0].predict(X))
    two = [
        Agent(lambda rows, a=a: np.column_stack([a.predict(rows)] * 2), a.X, np.column_stack([a.y] * 2), a.name)
        for a in agents
    ]
    assert_allclose(
        Collective(two, guard=True).predict(X)[:, 0], Collective(agents, guard=True).predict(X), rtol=0.05, atol=0.05
    )
    labels = [
        Agent(lambda rows: np.eye(2)[1 * (rows[:, 0] > 0)], a.X, 1 * (a.X[:, 0] > 0), a.name, classes=[0, 1])
        for a in agents
    ]
    assert_array_equal(Collective(labels, guard=True).predict(X).argmax(axis=1), X[:, 0] > 0)


def test_a_bent_judge_stays_bent_when_agents_change():
    agents, _X, _ = problem()
    scorer = Collective(with_liar(agents, bend=stubborn)).scorers[-1]
    assert isinstance(replace(scorer), Bent)
    assert isinstance(scorer.without_model(0), Bent)


def test_where_everybody_fails_those_with_the_fewest_objections_are_kept_as_suspects():
    agents, X, _ = problem(K=3)
    wild = [Liar(agent, lie=1e3 * (k + 1)) for k, agent in enumerate(agents)]
    answer = Collective(wild[::-1], guard=True).consult(X)  # the last to be made a scorer has had all models scored
    assert {flag.agent for flag in answer.flags if flag.reason.startswith("suspect")}
    assert_allclose(answer.weights.sum(axis=1), 1)
    kept = answer.weights > 0
    for flag in answer.flags:
        place = answer.names.index(flag.agent)
        if "left out" in flag.reason:
            assert not kept[flag.points, place].any()
