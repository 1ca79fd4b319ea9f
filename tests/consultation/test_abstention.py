"""Models that lack an input abstain: who takes part, what stands in, and what an answer says of it."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from support import abstention_oracle as oracle
from support.refusals import complaint

from degroot import Agent, Collective
from degroot.agents.abstention import complete_predictions
from degroot.answers.answer import ASKER_FIELDS, FIELDS
from degroot.collective import AskedPoints
from degroot.consultation.abstention import NobodyAnswers, stand_in
from degroot.consultation.asker import ViewQuestion
from degroot.consultation.consult import Question, consult, give_whole_opinion
from degroot.consultation.guarding import examine
from degroot.rules.evidence import Evidence, fill_unscored
from degroot.rules.rules import RULES

D = 3  # columns
INVENTORY = np.array([False, False, True])  # the column that some sites do not have
RULE_NAMES = [*RULES, "auto"]
COMPARED = ("value", "weights", "standard_error", "influence")


class Linear:
    """A linear model of some columns, which counts the rows that it is asked about. NaN in, NaN out."""

    def __init__(self, slopes, takes=slice(None), fills=False):
        self.slopes, self.takes, self.fills, self.rows = slopes, takes, fills, 0

    def predict(self, X):
        self.rows += len(X)
        used = np.asarray(X, float)[:, self.takes]
        return (np.nan_to_num(used) if self.fills else used) @ self.slopes[self.takes]


def make_space():
    return make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())


def make_agents(lacking=(), seed=0, K=4, n=40, fills=(), gaps=0.0, own=None):
    """K agents; those in `lacking` have no inventory, and models in `fills` take gaps."""
    random, agents = np.random.default_rng(seed), []
    for k in range(K):
        X = random.normal(0.3 * k, 1.0, size=(n, D))
        y = np.sin(X[:, 0]) + X[:, 1] + 0.5 * X[:, 2] + 0.1 * random.normal(size=n)
        slopes, lacks = random.normal(1.0, 0.4, size=D), INVENTORY if k in lacking else None
        X[random.uniform(size=X.shape) < gaps] = np.nan
        takes = slice(None)
        if lacks is not None:
            X[:, lacks], takes = np.nan, ~lacks
        model = Linear(slopes, takes, k in fills)
        agent = Agent(model, X, y, f"agent {k}", space=make_space(), own_predictions=own)
        agent.lacks = lacks
        agents.append(agent)
    return agents


def make_points(M=7, seed=1, absent=None):
    X = np.random.default_rng(seed).normal(0.5, 1.0, size=(M, D))
    if absent is not None:
        X[:, absent] = np.nan
    return X


class Asked(Collective):
    """A collective whose points lack some columns."""

    absent = None

    def _check_points(self, X, lacking=()):
        points = super()._check_points(X, lacking)
        return AskedPoints(points.X, points.index, self.absent)


def make_collective(agents, absent=None, **settings):
    collective = Asked(agents, **settings)
    collective.absent = absent
    return collective


def widen(array, members, K, empty=0.0):
    """An array (M, k, ...) of members with a place for each of K agents."""
    wide = np.full((len(array), K, *array.shape[2:]), empty)
    wide[:, members] = array
    return wide


def flags_of(answer):
    return {(flag.agent, flag.reason): flag.points.tolist() for flag in answer.flags}


def kinds_of(answer):
    return {(flag.agent, flag.kind) for flag in answer.flags}


# ---- who abstains --------------------------------------------------------------------------------------------------


def test_a_model_abstains_where_it_lacks_an_input():
    takes_all, without, fills = make_agents([1], K=3, fills=[2])
    X = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, np.nan], [np.nan, 1.0, 1.0]])
    assert_array_equal(takes_all.find_abstentions(X), [False, True, True])
    assert_array_equal(without.find_abstentions(X), [False, False, True])
    assert fills.takes_gaps
    assert fills.find_abstentions(X) is None
    assert_array_equal(takes_all.find_abstentions(X, INVENTORY), [True, True, True])
    assert_array_equal(fills.find_abstentions(X, INVENTORY), [True, True, True])
    assert_array_equal(without.find_abstentions(X, INVENTORY), [False, False, True])


@pytest.mark.parametrize("X", [np.ones((2, D)), np.ones((2, D), int), csr_array(np.ones((2, D)))])
def test_nobody_abstains_at_points_without_gaps(X):
    assert make_agents(K=1)[0].find_abstentions(X) is None


def test_whatever_a_model_makes_of_gaps_it_is_tried_out_once():
    calls = []

    def refuse(X):
        calls.append(len(X))
        raise RuntimeError("no gaps")

    agent = Agent(refuse, np.ones((3, D)), np.zeros(3), "agent")
    assert not agent.takes_gaps
    assert not agent.takes_gaps
    assert calls == [1]


def test_models_are_not_called_for_rows_at_which_they_abstain():
    agents = make_agents(K=2)
    collective = Collective(agents, rule="average")
    X = make_points()
    X[1:4, 0] = np.nan
    agents[1].model.fills = True
    asked = [agent.takes_gaps for agent in agents]
    before = [agent.model.rows for agent in agents]
    collective.predict(X)
    assert asked == [False, True]
    assert [agent.model.rows - rows for agent, rows in zip(agents, before, strict=True)] == [4, 7]


# ---- scores --------------------------------------------------------------------------------------------------------


def test_a_model_that_takes_a_column_which_rows_lack_is_not_scored_on_them():
    agents = make_agents([0, 2])
    scorers = Collective(agents).scorers
    assert_array_equal(scorers[0].unscored, [False, True, False, True])
    assert_array_equal(scorers[2].unscored, [False, True, False, True])
    assert scorers[1].unscored is None
    assert_array_equal(scorers[0].residuals[..., 1], scorers[0].residuals[..., 0])
    assert np.isfinite(scorers[0].residuals).all()


def test_on_rows_with_gaps_the_own_prediction_stands_in_and_then_the_mean_label():
    first, second = make_agents(K=2, gaps=0.1, fills=[0])
    residuals = Collective([first, second]).scorers[0].residuals[:, 0]
    gaps = np.isnan(first.X).any(axis=1)
    assert 0 < gaps.sum() < len(gaps)
    assert_array_equal(residuals[gaps, 1], residuals[gaps, 0])
    assert_allclose(residuals[~gaps, 1], second.predict(first.X[~gaps]) - first.y[~gaps])
    of_second = Collective([first, second]).scorers[1].residuals[:, 0]
    gaps = np.isnan(second.X).any(axis=1)
    assert_allclose(of_second[gaps, 1], second.y.mean() - second.y[gaps])


def test_predictions_are_complete():
    said, own = np.array([[np.nan], [np.nan], [3.0]]), np.array([[1.0], [np.nan], [1.0]])
    assert complete_predictions(said, own, np.array([[0.0], [2.0], [4.0]])).ravel().tolist() == [1.0, 2.0, 3.0]


def test_who_joins_leaves_or_is_replaced_is_scored_as_from_the_start():
    agents = make_agents([0, 2])
    fresh = Collective(agents)
    changed = [
        Collective(agents[:3]).join(agents[3]),
        Collective([*agents[:2], make_agents([0], seed=9)[2], agents[3]]).replace(agents[2]),
    ]
    for collective in changed:
        for one, other in zip(collective.scorers, fresh.scorers, strict=True):
            assert_array_equal(one.residuals, other.residuals)
            assert_array_equal(one.unscored, other.unscored)
    left, fewer = Collective(agents).leave("agent 1"), Collective([agents[0], *agents[2:]])
    for one, other in zip(left.scorers, fewer.scorers, strict=True):
        assert_array_equal(one.unscored, other.unscored)


@settings(max_examples=60)
@given(data=st.data(), K=st.integers(1, 5), seed=st.integers(0, 1000))
def test_gaps_in_the_evidence_are_filled_as_by_plain_loops(data, K, seed):
    random, M = np.random.default_rng(seed), 3
    places = st.tuples(st.integers(0, K - 1), st.integers(0, K - 1))
    pairs = data.draw(st.sets(places))
    errors, spread = random.uniform(0.1, 2.0, size=(M, K, K)), random.uniform(0.1, 2.0, size=(M, K))
    present = random.uniform(size=(M, K)) < 0.7
    filled = fill_unscored(Evidence(errors, spread=spread), pairs, present)
    assert_allclose(filled.errors, oracle.fill_unscored(errors, spread, pairs, present))


# ---- the neutral consensus -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_who_abstains_everywhere_might_as_well_not_be_there(rule):
    agents, members = make_agents([0, 1, 2]), [0, 1, 2]
    X = make_points(absent=INVENTORY)
    others = Collective(agents[:3], rule=rule).consult(X)
    collective = make_collective(agents, INVENTORY, rule=Collective(agents[:3], rule=rule).choice or rule)
    answer = collective.consult(X)
    for name in COMPARED:
        expected = getattr(others, name)
        expected = widen(expected, members, 4) if name in ("weights", "influence") else expected
        assert_allclose(getattr(answer, name), expected, atol=1e-9, err_msg=name)
    assert np.isnan(answer.beliefs[:, 3]).all()
    assert_allclose(collective.predict(X), answer.value)


@pytest.mark.parametrize("rule", RULES)
def test_each_point_is_answered_by_those_who_answer_it(rule):
    agents = make_agents(fills=[2, 3], n=30)
    X = make_points(M=6)
    X[[1, 4], 0] = np.nan
    answer = Collective(agents, rule=rule).consult(X)
    everybody, some = np.array([0, 2, 3, 5]), np.array([1, 4])
    complete = Collective(agents, rule=rule).consult(X[everybody])
    rest = Collective(agents[2:], rule=rule).consult(X[some])
    for name in COMPARED:
        wide = name in ("weights", "influence")
        assert_allclose(getattr(answer, name)[everybody], getattr(complete, name), atol=1e-9)
        expected = getattr(rest, name)
        assert_allclose(getattr(answer, name)[some], widen(expected, [2, 3], 4) if wide else expected, atol=1e-9)
    assert flags_of(answer) == {
        (name, "abstains: its model takes no gaps, and there are some in column 0"): [1, 4]
        for name in ("agent 0", "agent 1")
    }


def test_a_model_that_only_its_owner_can_score_is_known_by_what_the_owner_measured():
    agents, X = make_agents([0, 1, 2]), make_points()
    collective = Collective(agents)
    answer = collective.consult(X)
    errors, spread = np.empty((len(X), 4, 4)), np.empty((len(X), 4))
    for k, (agent, scorer) in enumerate(zip(collective.agents, collective.scorers, strict=True)):
        said = give_whole_opinion(agent, scorer, X, Question(collective.option.reach, distances=True))
        errors[:, k], spread[:, k] = said.measured.errors[:, 0], said.measured.spread[:, 0]
    pairs = {(0, 3), (1, 3), (2, 3)}
    assert set(collective.panel.unscored) == pairs
    filled = oracle.fill_unscored(errors, spread, pairs, np.ones((len(X), 4), bool))
    assert_array_equal(filled[:, :, 3], np.repeat(errors[:, 3:, 3], 4, axis=1))
    weights, values = oracle.consult_without_absent(filled, answer.beliefs)
    assert_allclose(answer.weights, weights, rtol=1e-9)
    assert_allclose(answer.value, values, rtol=1e-9)
    reason = "unscored: its model takes column 2, which the rows of agent 0, agent 1 and agent 2 do not have"
    assert flags_of(answer) == {("agent 3", reason): list(range(7))}


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_other_places_change_nothing(rule, guard):
    agents, X = make_agents([1], fills=[0, 3]), make_points()
    X[2:4, 1] = np.nan
    order = [2, 0, 3, 1]
    one = Collective(agents, rule=rule, guard=guard).consult(X)
    other = Collective([agents[k] for k in order], rule=rule, guard=guard).consult(X)
    assert_allclose(one.value, other.value, rtol=1e-8)
    assert_allclose(one.weights[:, order], other.weights, atol=1e-9)
    assert_allclose(one.standard_error, other.standard_error, rtol=1e-6, atol=1e-9)
    assert flags_of(one) == flags_of(other)


class Sent:
    """An engine whose agents answer as actors do, through a pickle."""

    def __init__(self, collective):
        self.pairs = list(zip(collective.agents, collective.scorers, strict=True))

    def collect(self, X, question, conclude):
        question = pickle.loads(pickle.dumps(question))
        opinions = [give_whole_opinion(agent, scorer, X, question) for agent, scorer in self.pairs]
        conclude(slice(0, len(X)), [pickle.loads(pickle.dumps(opinion)) for opinion in opinions])


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_actors_answer_as_agents_in_process_do(rule, guard):
    agents, X = make_agents([0, 1, 2], fills=[0]), make_points(absent=INVENTORY)
    X[2, 0] = np.nan
    collective = make_collective(agents, INVENTORY, rule=rule, guard=guard)
    answer = collective.consult(X)
    sent = consult(Sent(collective), collective.panel, X, FIELDS, absent=INVENTORY)
    assert {(flag.agent, flag.reason): flag.points.tolist() for flag in sent.pop("flags")} == flags_of(answer)
    for name in FIELDS:
        assert_allclose(sent[name], getattr(answer, name), atol=1e-12, err_msg=name)


def test_a_row_that_no_model_can_answer_is_refused_with_what_it_lacks():
    X = make_points()
    X[3, [0, 1]] = np.nan
    expected = "Each row must have what at least one model takes; row 3: it lacks column 0 and column 1."
    for asker in (None, "agent 1"):
        assert complaint(lambda asker=asker: Collective(make_agents()).predict(X, asker)) == expected
    collective = make_collective(make_agents(), INVENTORY)
    assert complaint(lambda: collective.consult(make_points(absent=INVENTORY))).endswith("row 0: it lacks column 2.")


def test_a_collective_takes_gaps_if_some_model_does():
    assert Collective(make_agents(fills=[1])).takes_gaps
    assert not Collective(make_agents()).takes_gaps


def test_a_model_that_nobody_can_score_is_refused():
    agents = make_agents([0, 1], K=2)
    alone = Agent(Linear(np.ones(D)), make_points(), np.zeros(7), "alone", space=make_space(), own_predictions="peers")
    collective = Collective([*agents, alone])
    assert complaint(lambda: collective.predict(make_points())) == (
        "Agent 'alone': its model must be scored by somebody: no other agent has the columns that it takes, so that it "
        "needs `own_predictions`, or rows without gaps."
    )


def test_a_degree_takes_all_columns_and_all_answers():
    assert complaint(lambda: Collective(make_agents([1]), degree=3)) == (
        "Agent 'agent 1': with a `degree` it must have all columns; its rows lack some."
    )
    X = make_points()
    X[0, 0] = np.nan
    collective = Collective(make_agents(fills=[1]), degree=3)
    assert complaint(lambda: collective.predict(X)) == (
        "With a `degree` every model must answer at every point; that of 'agent 0' abstains."
    )


# ---- the guard -----------------------------------------------------------------------------------------------------


def test_the_guard_does_not_object_to_models_that_were_not_scored():
    agents = make_agents([0, 1, 2], K=5, n=80)
    answer = Collective(agents, guard=True).consult(make_points(seed=5) * 0.3)
    assert not {kind for _, kind in kinds_of(answer)} & {"inconsistent", "malformed"}
    assert np.isfinite(answer.value).all()


@settings(max_examples=20)
@given(seed=st.integers(0, 1000))
def test_what_an_agent_has_not_scored_says_nothing_to_the_guard(seed):
    random, collective = np.random.default_rng(seed), Collective(make_agents([0]), guard=True)
    X = make_points(seed=seed)
    question = collective.panel.make_question(["value"])
    said = [give_whole_opinion(*pair, X, question) for pair in zip(collective.agents, collective.scorers, strict=True)]
    beliefs = np.stack([each.beliefs for each in said], axis=1)

    def judge(first):
        forecasts = [first, *(each.forecast for each in said[1:])]
        return examine(forecasts, [each.standards for each in said], beliefs, unscored=collective.panel.unscored)

    errors, answers = said[0].forecast.errors.copy(), said[0].forecast.answers.copy()
    errors[:, 1:], answers[:, 1:] = random.uniform(0.0, 9.0, size=(7, 3)), random.normal(size=(7, 3, 1))
    one, other = judge(said[0].forecast), judge(replace(said[0].forecast, errors=errors, answers=answers))
    assert_array_equal(one.kept, other.kept)
    assert_array_equal(one.codes, other.codes)
    for name in ("low", "high", "own"):
        assert_array_equal(getattr(one.bounds, name), getattr(other.bounds, name))


def test_the_guard_leaves_out_a_liar_where_others_abstain():
    agents = make_agents([0, 1, 2, 3], K=6, n=80)
    X = make_points(absent=INVENTORY)
    honest = make_collective(agents, INVENTORY, guard=True)
    before = honest.consult(X)
    liar = agents[3]
    scorers = honest.scorers
    liar.model.slopes = liar.model.slopes + 1000.0
    honest._roster.scorers = scorers
    after = honest.consult(X)
    assert ("agent 3", "inconsistent") in kinds_of(after)
    assert {("agent 4", "abstains"), ("agent 5", "abstains")} <= kinds_of(after) & kinds_of(before)
    assert not after.weights[:, 4:].any()


# ---- an asker's view -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("rule", ["degroot", "stacking", "average"])
def test_an_asker_is_answered_from_the_models_that_it_can_score(rule, guard):
    agents, members = make_agents([0, 2], n=60), [0, 2]
    X = make_points(absent=INVENTORY)
    restricted = Collective([agents[k] for k in members], rule=rule, guard=guard)
    collective = Collective(agents, rule=rule, guard=guard)
    for asked in ({}, {"coverage": 0.8}, {"correct": True}):
        answer, expected = (each.consult(X, asker="agent 0", **asked) for each in (collective, restricted))
        for name in (*ASKER_FIELDS, "lower", "upper"):
            known, wanted = getattr(answer, name), getattr(expected, name)
            if wanted is None:
                assert known is None
                continue
            empty = np.nan if name == "beliefs" else 0.0
            wanted = widen(wanted, members, 4, empty) if name in ("weights", "influence", "beliefs") else wanted
            assert_allclose(known, wanted, atol=1e-9, err_msg=name)
    reason = "unscored: its model takes column 2, which the rows of agent 0 do not have"
    assert {flag: points for flag, points in flags_of(answer).items() if "unscored" in flag[1]} == {
        ("agent 1", reason): list(range(7)),
        ("agent 3", reason): list(range(7)),
    }
    assert not {flag for flag in kinds_of(answer) if flag[1] == "abstains"}


def test_the_gain_of_an_asker_is_that_from_models_that_it_can_score():
    agents = make_agents([0, 2], n=60)
    gains, restricted = (Collective(some).gains(shapley=True) for some in (agents, [agents[0], agents[2]]))
    for name in ("own", "control", "collective", "average", "difference"):
        assert_allclose(getattr(gains, name)[[0, 2]], getattr(restricted, name), atol=1e-9, err_msg=name)
    assert_allclose(gains.contributions[np.ix_([0, 2], [0, 2])], restricted.contributions, atol=1e-9)
    assert_allclose(gains.contributions[np.ix_([0, 2], [1, 3])], 0.0, atol=1e-12)


@pytest.mark.parametrize("guard", [False, True])
def test_where_a_model_abstains_the_own_prediction_stands_in(guard):
    agents = make_agents(fills=[0, 2], n=60)
    X = make_points()
    X[[2, 5], 1] = np.nan
    collective = Collective(agents, guard=guard)
    answer = collective.consult(X, asker="agent 0")
    view = collective.view_of("agent 0")
    own = agents[0].predict(X)
    assert np.isnan(answer.beliefs[[2, 5]][:, [1, 3]]).all()
    assert not answer.weights[[2, 5]][:, [1, 3]].any()
    assert not answer.influence[[2, 5]][:, [1, 3]].any()
    assert_allclose(answer.weights.sum(axis=1), 1.0)
    said = np.where(np.isnan(answer.beliefs), own[:, None], answer.beliefs)
    assert_allclose(answer.correction, answer.value - (answer.weights * np.nan_to_num(answer.beliefs)).sum(axis=1))
    if not guard:
        prepared = view.prepare(X, own[:, None], ViewQuestion(frozenset(["value"])))
        assert_allclose(answer.value, prepared.combined.take(0).apply(said[..., None])[:, 0])
    assert ("agent 1", "abstains") in kinds_of(answer)


def test_where_the_own_model_abstains_the_mean_of_those_that_answer_stands_in():
    agents = make_agents(fills=[1, 2], n=60)
    X = make_points()
    X[4, 0] = np.nan
    answer = Collective(agents).consult(X, asker="agent 0")
    assert_array_equal(np.isnan(answer.beliefs[4]), [True, False, False, True])
    assert answer.weights[4, [0, 3]].tolist() == [0.0, 0.0]
    assert_allclose(answer.weights[4].sum(), 1.0)
    assert np.isfinite(answer.value).all()
    reason = "abstains: its model takes no gaps, and there are some in column 0"
    assert flags_of(answer) == {
        ("agent 0", f"{reason}; the mean of those that answer stands in for it"): [4],
        ("agent 3", reason): [4],
    }
    assert "abstains" in answer.explain(4).text


@settings(max_examples=60)
@given(seed=st.integers(0, 10_000), K=st.integers(1, 5), Q=st.integers(1, 2))
def test_weights_move_with_what_stands_in(seed, K, Q):
    random, M = np.random.default_rng(seed), 4
    beliefs, weights = random.normal(size=(M, K, Q)), random.dirichlet(np.ones(K), size=M)
    beliefs[random.uniform(size=(M, K)) < 0.4] = np.nan
    own, unscored = int(random.integers(K)), random.uniform(size=K) < 0.3
    if np.isnan(beliefs[..., 0]).all(axis=1).any():
        with pytest.raises(NobodyAnswers):
            stand_in(beliefs, own, unscored)
        return
    found = stand_in(beliefs, own, unscored)
    moved = found.move_weights(weights)
    assert_allclose(moved.sum(axis=1), 1.0)
    assert not moved[np.isnan(beliefs[..., 0])].any()
    value = np.einsum("mk,mkq->mq", weights, found.beliefs)
    assert_allclose(np.einsum("mk,mkq->mq", moved, np.nan_to_num(beliefs)), value, atol=1e-12)


def test_classes_and_several_outputs_are_answered_by_those_who_can():
    for kind in ({"classes": ["low", "high"]}, {}):
        agents, members = [], [0, 2]
        for agent in make_agents([0, 2], n=50):
            say = as_classes(agent.model) if kind else as_outputs(agent.model)
            y = np.where(agent.y > 0.5, "high", "low") if kind else np.column_stack([agent.y, -agent.y])
            agents.append(Agent(say, agent.X, y, agent.name, space=make_space(), **kind))
            agents[-1].lacks = agent.lacks
        X = make_points(absent=INVENTORY)
        restricted, collective = Collective([agents[k] for k in members]), make_collective(agents, INVENTORY)
        for asker in (None, "agent 0"):
            answer, expected = (each.consult(X, asker=asker) for each in (collective, restricted))
            assert_allclose(answer.value, expected.value, atol=1e-9)
            assert_allclose(answer.weights, widen(expected.weights, members, 4), atol=1e-9)
            assert_allclose(answer.influence, widen(expected.influence, members, 4), atol=1e-9)


def as_classes(model):
    def predict(X):
        high = 1.0 / (1.0 + np.exp(-model.predict(X)))
        return np.column_stack([1.0 - high, high])

    return predict


def as_outputs(model):
    return lambda X: np.column_stack([model.predict(X), 0.5 - model.predict(X)])


def test_askers_of_single_rows_each_lack_their_own_columns():
    agents, X = make_agents([0, 2], n=60), make_points()
    collective = Collective(agents)
    together = collective.consult(X[:3], asker=["agent 0", "agent 1", None])
    for row, asker in enumerate(["agent 0", "agent 1", None]):
        alone = collective.consult(X[row : row + 1], asker=asker, fields=["value", "weights", "beliefs"])
        for name in ("value", "weights", "beliefs"):
            assert_allclose(getattr(together, name)[row], getattr(alone, name)[0])


# ---- everything else goes on ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["degroot", "stacking", "auto"])
def test_calibration_and_audit_go_on_with_gaps_in_the_evidence(rule):
    agents, X = make_agents([0, 1], gaps=0.05, fills=[1, 2], n=50), make_points()
    X[0, 0] = np.nan
    collective = Collective(agents, rule=rule).calibrate()
    answer = collective.consult(X, coverage=0.8)
    assert (answer.lower <= answer.upper).all()
    assert all(np.isfinite(squares).all() for squares in collective._calibration.squares)
    audit = collective.audit(X)
    assert np.isfinite(audit.weight).all()
    assert np.isfinite(audit.error)
    assert "abstains: its model takes no gaps" in answer.explain(0).text
    assert "could not be scored: its model takes column 2" in answer.explain(1).text


def test_rows_put_to_the_collective_are_answered_by_those_who_can():
    agents = make_agents([0, 1], n=30)
    everybody, two = Collective(agents).calibrate(), Collective(agents[:2]).calibrate()
    for place in (0, 1):  # where two models abstain
        assert_allclose(everybody._calibration.squares[place], two._calibration.squares[place], atol=1e-9)
