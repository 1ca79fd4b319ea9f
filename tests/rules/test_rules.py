"""Stacking, honest self-scores and the choice of a rule, in whole collectives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_diabetes
from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeRegressor
from support import oracle

from degroot import Agent, AgentError, Collective, DeGrootRegressor, InvalidInput, stacking
from degroot.consultation.rule_selection import OPTIONS
from degroot.rules.evidence import Evidence, stack_evidence
from degroot.rules.rules import RULES


class Party:
    """An agent as the oracle sees it."""

    def __init__(self, agent):
        self.predict, self.X, self.y, self.own = agent.predict, agent.X, agent.y, agent.own_predictions


def problem(seed, K=4, n=40, d=2, honest=False):
    source = np.random.default_rng(seed)
    agents = []
    for k in range(K):
        X = source.normal(size=(n + k, d)) + source.normal(size=d)
        y = np.sin(X[:, 0]) + 0.3 * source.normal(size=len(X))
        slopes = source.normal(size=d)
        model = Ridge().fit(X, y + X @ slopes * 0.3)
        own = model.predict(X) + 0.2 * source.normal(size=len(X)) if honest else None
        agents.append(Agent(model, X, y, f"agent {k}", own_predictions=own))
    return agents, source.normal(size=(6, d))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("honest", [False, True])
def test_stacking_is_what_its_definition_says(seed, honest):
    agents, X = problem(seed, honest=honest)
    answer = Collective(agents, 12, "stacking").consult(X)
    parties = [Party(agent) for agent in agents]
    for m in range(len(X)):
        expected = oracle.stacked_weights(parties, X[m : m + 1], 12, ridge=1.0)
        assert_allclose(answer.weights[m], expected, atol=1e-9)
    assert_allclose(answer.value, (answer.weights * answer.beliefs).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("K", [2, 3, 6])
def test_leaving_an_agent_out_is_a_collective_without_it(rule, K):
    agents, X = problem(0, K)
    answer = Collective(agents, 9, rule).consult(X)
    others = np.column_stack(
        [Collective([other for other in agents if other is not agent], 9, rule).predict(X) for agent in agents]
    )
    assert_allclose(answer.influence, answer.value[:, None] - others, atol=1e-9)
    expected = np.sqrt((K - 1) / K * ((others - others.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))
    assert_allclose(answer.standard_error, expected, atol=1e-9)


def test_error_bars_call_no_model_again():
    agents, X = problem(1)
    calls = []
    counted = [
        Agent(
            lambda rows, agent=agent: calls.append(len(rows)) or agent.model.predict(rows), agent.X, agent.y, agent.name
        )
        for agent in agents
    ]
    collective = Collective(counted, rule="stacking")
    calls.clear()
    collective.consult(X)
    assert calls == [len(X)] * len(agents)


@pytest.mark.parametrize(
    ("rule", "n", "size"),
    [
        ("degroot", 1000, 10),
        ("degroot", 100, 6),
        ("stacking", 1000, 50),
        ("stacking", 20_000, 500),
        ("stacking", 30, 20),
        ("stacking", 8, 8),
    ],
)
def test_every_rule_has_its_own_neighbourhood_unless_one_is_given(rule, n, size):
    X = np.random.default_rng(0).normal(size=(n, 2))
    agents = [Agent(lambda X: X[:, 0], X, X[:, 1], name) for name in "ab"]
    assert Collective(agents, rule=rule).neighbourhoods[0].size == size
    assert Collective(agents, 0.01, rule).neighbourhoods[0].size == max(2, n // 100)
    assert Collective(agents, 5, rule).neighbourhoods[0].size == 5
    kernel = Collective(agents, rule=rule).neighbourhoods[0].kernel
    assert kernel == {"stacking": "tricube"}.get(rule, "uniform")


def test_a_useless_agent_does_no_harm_beyond_noise():
    harm = []
    for seed in range(10):
        agents, X = problem(seed, K=3, n=200)
        truth = np.sin(X[:, 0])
        noise = np.random.default_rng(seed)
        useless = Agent(lambda rows, noise=noise: 3 + noise.normal(size=len(rows)), agents[0].X, agents[0].y, "useless")
        before, after = (Collective(each, rule="stacking").predict(X) for each in (agents, [*agents, useless]))
        harm.append(((after - truth) ** 2).mean() - ((before - truth) ** 2).mean())
    spread = np.std(harm) / np.sqrt(len(harm))
    assert np.mean(harm) < 2 * spread + 0.01


def test_a_perfect_agent_gets_all_the_weight_as_the_ridge_goes_to_0():
    agents, X = problem(3)
    agents = [Agent(agent.model, agent.X, np.sin(agent.X[:, 0]), agent.name) for agent in agents]

    def weight(ridge, off):
        rows = agents[0].X + 1
        last = Agent(lambda X: np.sin(X[:, 0]) + off * np.cos(40 * X[:, 0]), rows, np.sin(rows[:, 0]), "last")
        return Collective([*agents, last], rule="stacking", ridge=ridge).consult(X).weights[:, -1]

    assert_allclose([weight(ridge, 0.0) for ridge in (10.0, 0.5, 0.0)], 1, atol=1e-9)
    nearly = [weight(ridge, 0.02) for ridge in (100.0, 0.5, 0.0)]
    assert (nearly[0] < nearly[2]).all()
    assert (nearly[2] > 0.95).all()


def test_large_ridges_average():
    agents, X = problem(4)
    assert_allclose(Collective(agents, rule="stacking", ridge=1e9).consult(X).weights, 1 / len(agents), atol=1e-6)


@pytest.mark.parametrize("ridge", [-1, np.nan, np.inf, "0.3", True, [1]])
def test_ridges_are_numbers(ridge):
    with pytest.raises(InvalidInput, match="`ridge` must be a finite number that is not negative; got "):
        Collective(problem(0)[0], rule="stacking", ridge=ridge)


# -- honest self-scoring -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["degroot", "stacking"])
def test_own_predictions_stand_for_the_own_model_on_its_own_rows_only(rule):
    agents, X = problem(5)
    plain = Collective(agents, 8, rule).consult(X)
    same = [Agent(a.model, a.X, a.y, a.name, own_predictions=a.model.predict(a.X)) for a in agents]
    assert_array_equal(Collective(same, 8, rule).consult(X).weights, plain.weights)
    worse = [
        Agent(agents[0].model, agents[0].X, agents[0].y, "agent 0", own_predictions=agents[0].y + 100),
        *agents[1:],
    ]
    answer = Collective(worse, 8, rule).consult(X)
    assert (answer.trust[:, 0, 0] < 0.01).all()
    assert_array_equal(answer.trust[:, 1:], plain.trust[:, 1:])
    assert_array_equal(answer.beliefs, plain.beliefs)


def test_peers_stand_in_for_an_agent_that_does_not_score_itself():
    agents, X = problem(6)
    aside = [Agent(agents[0].model, agents[0].X, agents[0].y, "agent 0", own_predictions="peers"), *agents[1:]]
    errors = np.empty((len(X), 4, 4))
    distance = np.empty((len(X), 4))
    for m, x in enumerate(X):
        for i, agent in enumerate(agents):
            gaps = ((agent.X - x) ** 2).sum(axis=1)
            near = np.argsort(gaps, kind="stable")[:8]
            distance[m, i] = gaps[near].mean()
            errors[m, i] = [((other.predict(agent.X[near]) - agent.y[near]) ** 2).mean() for other in agents]
    share = 1 / distance[:, 1:]
    errors[:, 0, 0] = (share * errors[:, 1:, 0]).sum(axis=1) / share.sum(axis=1)
    trust = 1 / errors
    trust /= trust.sum(axis=-1, keepdims=True)
    answer = Collective(aside, 8).consult(X)
    assert_allclose(answer.trust, trust, rtol=1e-9)
    assert_allclose(answer.weights, [oracle.stationary(each) for each in trust], rtol=1e-9)
    stacked = Collective(aside, 8, "stacking").consult(X)
    assert_allclose(stacked.weights.sum(axis=1), 1)


def test_somebody_has_to_score_a_model():
    agents, _ = problem(0, K=1)
    alone = Agent(agents[0].model, agents[0].X, agents[0].y, "alone", own_predictions="peers")
    with pytest.raises(AgentError, match="Agent 'alone': its model must be scored by somebody"):
        Collective([alone])
    pair = Collective([alone, *agents])
    with pytest.raises(AgentError, match="'alone'"):
        pair.leave("agent 0")
    assert pair.names == ("alone", "agent 0")


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ("train", "`own_predictions` must be numbers or 'peers'; got 'train'"),
        ([1.0, 2.0], "`own_predictions` must hold one number for each of 40 rows"),
        (np.full(40, np.nan), "`own_predictions` must be finite; row 0 is nan"),
        (np.zeros((40, 2)), "`own_predictions` must hold one number for each of 40 rows"),
    ],
)
def test_own_predictions_are_predictions(own, message):
    agent = problem(0)[0][0]
    with pytest.raises(AgentError, match=message.replace("(", r"\(")):
        Agent(agent.model, agent.X, agent.y, "north", own_predictions=own)


def test_cross_fitting_predicts_rows_that_the_model_has_not_seen():
    source = np.random.default_rng(0)
    X, y = source.normal(size=(90, 2)), source.normal(size=90)
    deep = DecisionTreeRegressor(random_state=0)
    train, cross, peers = (
        DeGrootRegressor(deep, n_agents=3, random_state=0, self_scoring=how).fit(X, y)
        for how in ("train", "cross", "peers")
    )
    for scorer in train.collective_.scorers:
        assert (scorer.errors == 0).any(axis=0).any()  # a tree knows its own rows by heart
    for k, scorer in enumerate(cross.collective_.scorers):
        assert scorer.errors[:, k].mean() > 1
    assert all(agent.scored_by_peers for agent in peers.agents_)
    again = DeGrootRegressor(deep, n_agents=3, random_state=0).fit(X, y)
    assert_array_equal(again.predict(X), cross.predict(X))
    with pytest.raises(InvalidInput, match="`self_scoring` must be one of 'cross', 'train', 'peers'; got 'test'"):
        DeGrootRegressor(self_scoring="test").fit(X, y)


def test_agents_with_one_row_are_scored_by_peers():
    X, y = np.arange(12.0)[:, None], np.arange(12.0)
    model = DeGrootRegressor(Ridge(), random_state=0).fit(X, y, groups=[0] * 6 + [1] * 5 + [2])
    assert [agent.scored_by_peers for agent in model.agents_] == [False, False, True]
    assert np.isfinite(model.predict(X)).all()
    alone = DeGrootRegressor(Ridge()).fit(X[:1], y[:1], groups=[0])
    assert alone.predict(X[:1]) == y[0]


def test_a_model_that_needs_all_rows_says_what_to_do():
    class Greedy(Ridge):
        def fit(self, X, y):
            if len(X) < 20:
                raise ValueError("too few rows")
            return super().fit(X, y)

    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.zeros(40)
    with pytest.raises(
        AgentError,
        match=r"'agent 1': to score itself its model must train on 16 of its 20 rows; .*few rows.*'train' or 'peers'",
    ):
        DeGrootRegressor(Greedy(), n_agents=2).fit(X, y)
    DeGrootRegressor(Greedy(), n_agents=2, self_scoring="train").fit(X, y)


@pytest.mark.parametrize(("partition", "fraction"), [("random", 1.0), ("label", 0.5)])
def test_with_honest_scores_trees_on_diabetes_are_no_worse_than_their_average(partition, fraction):
    X, y = load_diabetes(return_X_y=True)
    ratios = {"cross": [], "train": []}
    for seed in range(20):
        X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=seed)
        for how, found in ratios.items():
            tree = DecisionTreeRegressor(max_depth=4, random_state=0)
            model = DeGrootRegressor(tree, partition=partition, fraction=fraction, self_scoring=how, random_state=seed)
            model.fit(X_train, y_train)
            mean = np.mean([agent.predict(X_test) for agent in model.agents_], axis=0)
            found.append(((model.predict(X_test) - y_test) ** 2).mean() / ((mean - y_test) ** 2).mean())
    cross, train = np.array(ratios["cross"]), np.array(ratios["train"])
    assert train.mean() > 1.05
    assert cross.mean() < 1 + 2 * cross.std(ddof=1) / np.sqrt(len(cross))


# -- choosing a rule ---------------------------------------------------------------------------------------------------


def left_out_errors(agents, rule, neighbours, ridge=1.0):
    """Squared errors on all agents' own rows: for each row, a collective whose agent does not have that row."""
    squares = []
    for i, agent in enumerate(agents):
        own = agent.predict(agent.X) if agent.own_predictions is None else agent.own_predictions
        for r in range(agent.n_rows):
            rest = np.delete(np.arange(agent.n_rows), r)
            smaller = Agent(agent.model, agent.X[rest], agent.y[rest], agent.name, own_predictions=own[rest])
            settings = {"ridge": ridge} if rule == "stacking" else {}
            whole = Collective([*agents[:i], smaller, *agents[i + 1 :]], neighbours, rule, **settings)
            answer = whole.consult(agent.X[r : r + 1])
            beliefs = answer.beliefs[0].copy()
            beliefs[i] = own[r]
            squares.append((answer.weights[0] @ beliefs - agent.y[r]) ** 2)
    return np.array(squares)


@pytest.mark.parametrize("honest", [False, True])
def test_the_evidence_of_a_choice_is_the_error_on_rows_left_out(honest):
    agents, _ = problem(7, K=3, n=14, honest=honest)
    choice = Collective(agents, 5, "auto").choice
    assert choice.rows == sum(agent.n_rows for agent in agents)
    for option, error in zip(choice.options, choice.errors, strict=True):
        expected = left_out_errors(agents, option.rule, 5, option.ridge)
        kernel = {"stacking": "tricube"}.get(option.rule, "uniform")
        assert option.reach.kernel == kernel
        assert_allclose(error, expected.mean(), rtol=1e-8)


def test_auto_answers_as_the_rule_it_chose():
    agents, X = problem(8, n=120)
    whole = Collective(agents, rule="auto")
    answer, chosen = whole.consult(X), whole.choice.option
    settings = {"ridge": chosen.ridge} if chosen.rule == "stacking" else {}
    alone = Collective(agents, rule=chosen.rule, **settings)
    assert answer.choice is whole.choice
    assert whole.choice.rule == chosen.rule
    if alone.neighbourhoods[0].size == whole.neighbourhoods[0].size:
        assert_array_equal(answer.weights, alone.consult(X).weights)
    assert "<- chosen" in str(answer.choice)
    assert Collective(agents).consult(X).choice is None


def test_auto_averages_where_models_differ_by_noise_alone():
    source = np.random.default_rng(0)
    agents = []
    for k in range(5):
        X = source.normal(size=(60, 2))
        agents.append(Agent(lambda rows, k=k: np.random.default_rng(k).normal(size=len(rows)), X, 0 * X[:, 0], f"{k}"))
    choice = Collective(agents, rule="auto").choice
    best = choice.errors.min()
    mean = choice.errors[[option.rule for option in choice.options].index("average")]
    assert choice.errors[choice.options.index(choice.option)] <= max(best * 1.05, mean)


def test_auto_tries_every_option_and_keeps_to_the_settings():
    agents, _ = problem(9, n=60)
    assert {option.rule for option in Collective(agents, rule="auto").choice.options} == {
        "average",
        "degroot",
        "stacking",
    }
    assert Collective(agents, rule="auto").choice.options == OPTIONS
    fixed = Collective(agents, 7, "auto", ridge=1.0, kernel="gaussian").choice.options
    assert {(option.reach.neighbours, option.reach.kernel) for option in fixed} == {(7, "gaussian")}
    assert {option.ridge for option in fixed if option.rule == "stacking"} == {1.0}


def test_auto_chooses_anew_when_agents_change():
    agents, X = problem(10, n=60)
    whole = Collective(agents[:3], rule="auto")
    whole.join(agents[3])
    fresh = Collective(agents, rule="auto")
    assert_allclose(whole.choice.errors, fresh.choice.errors, rtol=1e-12)
    assert_allclose(whole.predict(X), fresh.predict(X), rtol=1e-12)


def test_one_agent_is_all_there_is_to_choose():
    agents, X = problem(11, K=1)
    assert_array_equal(Collective(agents, rule="auto").predict(X), agents[0].predict(X))


@pytest.mark.parametrize("K", [1, 2, 5, 40])
def test_predictions_that_keep_no_moments_are_the_same(K):
    agents, X = problem(12, K=K, n=25)
    collective = Collective(agents, rule="stacking")
    assert_allclose(collective.predict(X), collective.consult(X).value, rtol=1e-9)
    assert_allclose(collective.consult(X, fields="weights").weights, collective.consult(X).weights, atol=1e-9)


def test_pooling_one_after_the_other_is_pooling():
    source = np.random.default_rng(0)
    table = source.normal(size=(9, 6, 20, 4))
    row, column = np.tril_indices(4)
    moments = np.ascontiguousarray(np.einsum("minj,mink->mijk", table, table)[..., row, column])
    spread, effective = 10.0 ** source.uniform(-200, 200, size=(9, 6)), source.uniform(1, 20, size=(9, 6))
    spread[0], spread[1, 2], spread[2, 3] = 1.0, 0.0, np.inf
    one_by_one = stacking.Pool(9, 4)
    for i in range(6):
        one_by_one.add(moments[:, i].copy(), spread[:, i].copy(), effective[:, i].copy())
    for found, expected in zip(one_by_one.pooled(), stacking.pool(moments, spread, effective), strict=True):
        assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("moments", [False, True])
def test_evidence_that_lies_side_by_side_is_stacked_as_it_is(moments):
    whole, rng = Evidence.blank(5, 3, 3, moments=moments, spread=True), np.random.default_rng(0)
    for array in (whole.errors, whole.moments, whole.spread, whole.effective):
        if array is not None:
            array[:] = rng.random(array.shape)
    slots = [whole.slot(k) for k in range(3)]
    together, apart = stack_evidence(slots), stack_evidence([slot.part(slice(0, 5)) for slot in slots])
    assert together.spread is whole.spread
    for name in ("errors", "moments", "spread", "effective"):
        if getattr(apart, name) is not None:
            assert_array_equal(getattr(together, name), getattr(apart, name))
    assert_array_equal(stack_evidence(slots[::-1]).spread, whole.spread[:, ::-1])
