"""The asker's guard: by its formula, point by point, and by what it promises whatever all others say."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from support import asker_oracle as oracle

from degroot import Agent, Collective
from degroot.asker import assign_folds, guard
from degroot.asker.guard import bound_beliefs
from degroot.consultation.asker import ViewQuestion
from degroot.consultation.kernel_ridge import PENALTIES, nystroem_basis
from degroot.consultation.peer_forecast import learn_peers

CONSTANTS = {"clip": guard.CLIP, "beyond": guard.BEYOND, "reach": guard.REACH}
seeds = st.integers(0, 2**32 - 1)
LIES = st.floats(-1e300, 1e300)  # also beyond what any agent may say

VALUE = ViewQuestion(frozenset(["value"]))


def expectations(seed, M, K, Q):
    """Expected differences (M, K, Q), spreads (K, Q) and errors (M,)."""
    source = np.random.default_rng(seed)
    return source.normal(size=(M, K, Q)), source.exponential(size=(K, Q)), source.exponential(size=M), source


# -- on arrays ---------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(seeds, st.sampled_from([1, 3]), st.integers(1, 5), st.sampled_from([0.1, 2.0, 10.0, 1e9]))
def test_beliefs_are_bounded_as_the_formula_says(seed, Q, K, scale):
    expected, spread, error, source = expectations(seed, 3, K, Q)
    own, beliefs = int(source.integers(K)), scale * source.normal(size=(3, K, Q))
    found = bound_beliefs(beliefs, expected, spread, error, own)
    for m in range(3):
        held = oracle.bound_beliefs(beliefs[m], expected[m], spread, error[m], own, **CONSTANTS)
        assert_allclose(found.beliefs[m], held.beliefs, rtol=1e-12, atol=1e-12 * scale)
        assert_array_equal(found.replaced[m], held.replaced)
        assert found.alone[m] == held.alone
        assert_allclose(found.reach[m], held.reach)


@settings(max_examples=60)
@given(hnp.arrays(float, (4, 3, 2), elements=LIES), seeds)
def test_whatever_is_said_what_passes_is_near_the_own_prediction(beliefs, seed):
    expected, spread, error, source = expectations(seed, 4, 3, 2)
    beliefs[:, 1] = source.normal(size=(4, 2))
    found = bound_beliefs(beliefs, expected, spread, error, own=1)
    assert_array_equal(found.beliefs[:, 1], beliefs[:, 1])
    others = [0, 2]
    off = (found.beliefs - beliefs[:, [1]] - expected)[:, others]
    assert (np.abs(off) <= guard.CLIP * spread[others] + 1e-12).all()
    held = found.hold(beliefs[:, 0], beliefs[:, 1])
    assert (np.abs(held - beliefs[:, 1]) <= found.reach[:, None] * (1 + 1e-12)).all()


def test_what_is_inside_the_bounds_passes_as_it_is():
    expected, spread, error, source = expectations(0, 20, 4, 1)
    beliefs = expected + guard.CLIP * spread * source.uniform(-1, 1, size=expected.shape)
    beliefs[:, 0] = 0.0
    found = bound_beliefs(beliefs, expected, spread, error, own=0)
    assert not found.replaced.any()
    assert not found.alone.any()
    assert_allclose(found.beliefs, beliefs, atol=1e-12)
    value = beliefs[:, 0] + 0.999 * found.reach[:, None]
    assert_array_equal(found.hold(value, beliefs[:, 0]), value)


def test_answers_of_probabilities_stay_probabilities():
    expected, spread, error, source = expectations(1, 9, 2, 4)
    found = bound_beliefs(expected * 0, expected * 0, spread, 0.1 * error, 0)
    own, value = source.dirichlet(np.ones(4), 9), source.dirichlet(np.full(4, 0.1), 9)
    held = found.hold(value, own)
    assert (np.abs(value - own).max(axis=1) > found.reach).any()
    assert_allclose(held.sum(axis=1), 1)
    assert (held >= 0).all()
    assert (np.abs(held - own) <= found.reach[:, None] * (1 + 1e-12)).all()


@pytest.mark.parametrize(("K", "liars", "alone"), [(2, 1, 1), (3, 1, 1), (4, 1, 0), (5, 2, 1), (5, 1, 0), (1, 0, 0)])
def test_the_own_model_answers_where_half_of_the_others_are_not_believed(K, liars, alone):
    beliefs = np.zeros((1, K, 1))
    beliefs[:, 1 : 1 + liars] = 1e3
    found = bound_beliefs(beliefs, 0 * beliefs, np.ones((K, 1)), np.ones(1), 0)
    assert found.replaced.sum() == liars
    assert found.alone.tolist() == [bool(alone)]
    held = found.hold(np.full((1, 1), 0.1), beliefs[:, 0])
    assert held[0, 0] == (0.0 if alone else pytest.approx(0.1))


@settings(max_examples=30)
@given(st.lists(st.booleans(), min_size=2, max_size=6), st.data())
def test_without_one_of_the_others_the_rest_are_counted_anew(liars, data):
    K = len(liars)
    beliefs = np.where(liars, 1e3, 0.0).reshape(1, K, 1)
    own = data.draw(st.integers(0, K - 1))
    beliefs[0, own] = 0.0
    nothing, ones = np.zeros((1, K, 1)), np.ones((K, 1))
    found = bound_beliefs(beliefs, nothing, ones, np.ones(1), own)
    alone = found.alone_without_each(own)
    assert alone[own].tolist() == found.alone.tolist()
    for j in range(K):
        if j != own:
            keep = np.delete(np.arange(K), j)
            fewer = bound_beliefs(beliefs[:, keep], nothing[:, keep], ones[keep], np.ones(1), int(own - (j < own)))
            assert alone[j].tolist() == fewer.alone.tolist()


def test_what_is_not_a_number_is_not_believed():
    beliefs = np.array([[[1.0], [np.nan], [1.1]]])
    found = bound_beliefs(beliefs, np.zeros((1, 3, 1)), np.ones((3, 1)), np.ones(1), 0)
    assert found.replaced.tolist() == [[False, True, False]]
    assert_array_equal(found.beliefs[0, :, 0], [1.0, 1.0, 1.1])


# -- what is expected --------------------------------------------------------------------------------------------------


def test_what_is_expected_of_peers_is_learned_from_the_rows():
    """A forecast is a ridge regression on kernel features, and its error that of folds left out one by one."""
    source = np.random.default_rng(3)
    rows, own = source.normal(size=(80, 2)), source.normal(size=(80, 1))
    differences = np.stack([0 * own, np.sin(2 * rows[:, :1]), own**2 + 1, source.normal(size=(80, 1))], axis=1)
    folds = assign_folds(np.arange(80))
    forecast = learn_peers(rows, own, differences, folds)
    assert_allclose(forecast.mean, differences.mean(axis=0))
    learned = forecast.regression.kernel
    kernel = learned.at(forecast.inputs.scale(rows, own)) @ nystroem_basis(learned)
    targets = (differences - differences.mean(axis=0)).reshape(80, 4)
    fits = [oracle.features_left_out(kernel, targets, folds, penalty) for penalty in PENALTIES]
    spreads = [np.sqrt(((left - targets) ** 2).mean(axis=0)) for left in fits]
    assert min(np.abs(spread - forecast.spread[:, 0]).max() for spread in spreads) < 1e-9
    assert forecast.spread[0] == 0
    assert forecast.spread[1, 0] < 0.3 * targets[:, 1].std()
    assert_allclose(forecast.at(rows, own)[:, 0], 0, atol=1e-12)
    fresh = source.normal(size=(200, 2))
    said = source.normal(size=(200, 1))
    off = forecast.at(fresh, said)[:, 1, 0] - np.sin(2 * fresh[:, 0])
    assert np.sqrt((off**2).mean()) < 3 * forecast.spread[1, 0]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_of_few_or_equal_rows_the_mean_is_expected(n):
    differences = np.random.default_rng(4).normal(size=(n, 3, 2))
    forecast = learn_peers(np.ones((n, 2)), np.ones((n, 2)), differences, assign_folds(np.arange(n)))
    assert_allclose(forecast.at(np.zeros((4, 2)), np.zeros((4, 2))), np.tile(differences.mean(axis=0), (4, 1, 1)))
    assert_allclose(forecast.spread, differences.std(axis=0))


# -- of whole collectives ----------------------------------------------------------------------------------------------


class Lying:
    """A model that says what it likes at points that are not the asker's rows."""

    def __init__(self, model, lie):
        self.model, self.lie = model, lie

    def __call__(self, X):
        return self.model(X) if len(X) == 70 else self.lie(X)


def agents_with(lies, seed=0, own_predictions=False):
    source, made = np.random.default_rng(seed), []
    for k in range(4):
        X = source.normal(size=(70, 2))
        y = X[:, 0] + 0.3 * np.sin(3 * X[:, 1]) + 0.1 * source.normal(size=70)

        def model(X, k=k):
            return X[:, 0] * (1 + 0.05 * k) + 0.1 * k

        own = model(X) + 0.1 * source.normal(size=70) if own_predictions else None
        lie = lies.get(k)
        made.append(Agent(Lying(model, lie) if lie else model, X, y, f"agent {k}", own_predictions=own))
    return made


def local_error(agent, point):
    """The own model's root mean squared error on the asker's rows near a point."""
    said = agent.predict(agent.X) if agent.own_predictions is None else agent.own_predictions
    return np.sqrt(oracle.look(agent.X, (said - agent.y)[:, None, None], point, 20).gram[0, 0])


SAID = {}  # by each of the others, wherever it is asked


@cache
def collective_of_liars(own_predictions):
    lies = {k: (lambda X, k=k: np.full(len(X), SAID[k])) for k in (1, 2, 3)}
    return Collective(agents_with(lies, own_predictions=own_predictions), guard=True)


@settings(max_examples=30)
@given(st.lists(st.floats(-1e140, 1e140), min_size=3, max_size=3), st.booleans())
def test_whatever_all_others_say_the_answer_stays_within_the_own_local_error(said, own_predictions):
    SAID.update(enumerate(said, 1))
    points = np.array([[0.0, 0.0], [1.0, -1.0], [30.0, 30.0]])
    collective = collective_of_liars(own_predictions)
    own = collective.agents[0]
    reach = [guard.REACH * local_error(own, point) for point in points]
    for correct in (False, True):
        answer = collective.consult(points, ["value", "weights"], asker="agent 0", correct=correct)
        assert (np.abs(answer.value - own.predict(points)) <= np.array(reach) * (1 + 1e-9)).all()
        assert_allclose(answer.weights.sum(axis=1), 1)


@pytest.mark.parametrize("everywhere", [1e3, 1e20, 1e80, 1e139])
def test_nor_does_it_help_to_lie_about_the_rows_too(everywhere):
    agents = agents_with({})
    for k in (1, 2, 3):
        agents[k] = Agent(lambda X, k=k: np.full(len(X), everywhere * k), agents[k].X, agents[k].y, f"agent {k}")
    points = agents[1].X[:20]
    answer = Collective(agents, guard=True).consult(points, asker="agent 0", coverage=0.9, correct=True)
    own = agents[0].predict(points)
    reach = np.array([local_error(agents[0], point) for point in points])
    assert (np.abs(answer.value - own) <= guard.REACH * reach * (1 + 1e-9)).all()
    assert np.isfinite([answer.lower, answer.upper, answer.standard_error]).all()


def test_honest_peers_are_clipped_and_no_more():
    """The answer with the guard is that without it for what the guard lets pass, held to the reach."""
    agents = agents_with({}, seed=1)
    points = np.random.default_rng(2).normal(size=(40, 2))
    plain, guarded = Collective(agents), Collective(agents, guard=True)
    said = np.stack([agent.predict(points) for agent in agents], axis=1)[..., None]
    view, errors = plain.view_of("agent 0"), np.array([local_error(agents[0], point) for point in points])
    bounded = bound_beliefs(said, view.peers.at(points, said[:, 0]), view.peers.spread, errors, 0)
    expected = bounded.hold(view.answer(points, bounded.beliefs, VALUE)["value"], said[:, 0])
    answer = guarded.consult(points, asker="agent 0")
    assert_allclose(answer.value, expected[:, 0], rtol=1e-9)
    assert_array_equal(answer.beliefs, said[..., 0])
    unmoved = (np.abs(bounded.beliefs - said) < 1e-12).all(axis=(1, 2)) & ~bounded.alone
    free = plain.consult(points, asker="agent 0")
    within = unmoved & (np.abs(free.value - said[:, 0, 0]) < bounded.reach)
    assert within.sum() > 20
    assert_allclose(answer.value[within], free.value[within], rtol=1e-12)
    assert_allclose(answer.weights[within], free.weights[within], rtol=1e-12)


def test_flags_name_who_was_not_believed_and_where():
    lies = {2: lambda X: np.where(X[:, 1] > 0, 1e6, X[:, 0])}
    collective = Collective(agents_with(lies), guard=True)
    points = np.array([[0.1, 0.5], [0.2, -0.5], [0.3, 0.7]])
    flags = collective.consult(points, "value", asker="agent 0").flags
    assert [(flag.agent, flag.kind, flag.points.tolist()) for flag in flags] == [("agent 2", "inconsistent", [0, 2])]


def test_flags_say_where_the_own_model_answers_alone():
    lies = {k: (lambda X: np.where(X[:, 1] > 0, 1e6, X[:, 0])) for k in (1, 2)}
    collective = Collective(agents_with(lies), guard=True)
    points = np.array([[0.1, 0.5], [0.2, -0.5], [0.3, 0.7]])
    answer = collective.consult(points, asker="agent 0")
    kinds = {(flag.agent, flag.kind): flag.points.tolist() for flag in answer.flags}
    assert kinds == {
        ("agent 0", "alone"): [0, 2], ("agent 1", "inconsistent"): [0, 2], ("agent 2", "inconsistent"): [0, 2]
    }  # fmt: skip
    assert_array_equal(answer.value[[0, 2]], [0.1, 0.3])
    assert_array_equal(answer.weights[[0, 2]], [[1, 0, 0, 0]] * 2)
    assert not Collective(agents_with({}), guard=True).consult(points, "value", asker="agent 0").flags


def test_flags_of_several_askers_name_the_rows_that_were_asked():
    lies = {2: lambda X: np.full(len(X), 1e6)}
    collective = Collective(agents_with(lies), guard=True)
    points = np.zeros((4, 2))
    flags = collective.consult(points, "value", asker=["agent 0", "agent 1", "agent 0", "agent 1"]).flags
    found = [(flag.agent, flag.kind, flag.points.tolist()) for flag in flags if flag.kind == "inconsistent"]
    assert found == [("agent 2", "inconsistent", [0, 2]), ("agent 2", "inconsistent", [1, 3])]


def test_the_guard_counts_anew_when_an_agent_is_left_out():
    """With two others, one liar silences both; without the liar the other one is heard."""
    lies = {1: lambda X: np.full(len(X), 1e6)}
    agents = agents_with(lies)[:3]
    points = np.array([[0.2, 0.3], [-0.5, 0.1]])
    answer = Collective(agents, guard=True).consult(points, asker="agent 0")
    assert_array_equal(answer.value, points[:, 0])
    without = Collective([agents[0], agents[2]], guard=True).predict(points, asker="agent 0")
    assert (without != points[:, 0]).all()
    assert_allclose(answer.value - answer.influence[:, 1], without, rtol=1e-9)
