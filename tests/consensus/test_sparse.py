"""Where agents score a sample of the models: the same answers as from the whole matrix with zeros in it."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from support import oracle

from degroot import consensus, jackknife
from degroot.consensus.sparse.sample_peers import sample_peers
from degroot.consensus.sparse.weights import solve
from degroot.exceptions import InvalidInput
from degroot.jackknife.sparse import solve_without

SIZES = [(5, 3), (12, 4), (40, 8), (64, 9), (65, 5), (90, 3), (100, 12), (100, 100), (150, 16)]


def whole(trust, peers):
    """The matrix with zeros."""
    K = len(peers)
    matrix = np.zeros((K, K))
    for i in range(K):
        matrix[i, peers[i]] = trust[i]
    return matrix


stationary = partial(oracle.stationary, kind=float)  # of many matrices, fast


def by_deletion(trust, beliefs):
    """Values without each agent, as the paper says: delete row and column, let rows sum to 1 again, solve."""
    K = len(trust)
    others = np.array([np.delete(np.arange(K), i) for i in range(K)])
    rest = trust[others[:, :, None], others[:, None]]
    weights = stationary(rest / rest.sum(axis=2, keepdims=True))
    return np.stack([weight @ beliefs[left] for weight, left in zip(weights, others, strict=True)])


def residual(weights, trust, peers):
    """|wT - w|, the sum over all agents."""
    return np.abs(np.bincount(peers.ravel(), (weights[:, None] * trust).ravel(), len(peers)) - weights).sum()


def kinds(peers, seed=0):
    """Trust as errors over few and many rows give it, and the hard cases."""
    rng, (K, q) = np.random.default_rng(seed), peers.shape
    own, agent = peers == np.arange(K)[:, None], np.arange(K)
    trust = {
        "seven rows": 1 / rng.chisquare(7, size=(K, q)),
        "two rows": 1 / rng.exponential(size=(K, q)),
        "one row": 1 / rng.chisquare(1, size=(K, q)),
        "good and bad models": np.exp(rng.normal(size=K))[peers] / rng.chisquare(7, size=(K, q)),
        "lognormal": np.exp(3 * rng.normal(size=(K, q))),
        "trusts itself": (1 + 1e12 * own) / rng.chisquare(2, size=(K, q)),
        "some trust themselves": (1 + 1e12 * (own & (rng.random((K, 1)) < 0.1))) / rng.chisquare(2, size=(K, q)),
        "fourteen decades": 10.0 ** (-14 * rng.random((K, q))),
        "next on a ring": np.where(peers == (agent[:, None] + 1) % K, 1, 1e-14) * (1 + rng.random((K, q))),
        "on a line": 1 / (1e-6 + (agent[peers] - agent[:, None]) ** 2 / K**2),
        "four groups": np.where(peers * 4 // K == agent[:, None] * 4 // K, 1, 1e-8) / rng.chisquare(7, size=(K, q)),
    }
    trust["one is trusted by all"] = trust["seven rows"] * np.where(peers == 0, 20 * K, 1)
    floor = 2e-16 * (1 + rng.random((K, q)))
    floor[agent, rng.integers(q, size=K)] = 1
    trust["zero errors"] = floor
    return {kind: each / each.sum(1, keepdims=True) for kind, each in trust.items()}


KINDS = list(kinds(sample_peers(8, 4)))


@given(st.integers(3, 60), st.data())
@settings(max_examples=60, deadline=None)
def test_acquaintances_are_regular_and_hold_together(K, data):
    degree, seed = data.draw(st.integers(3, K)), data.draw(st.integers(0, 2**32))
    peers = sample_peers(K, degree, seed)
    assert peers.shape == (K, degree)
    assert (np.diff(peers, axis=1) > 0).all()
    assert (peers == np.arange(K)[:, None]).any(axis=1).all()
    assert (np.bincount(peers.ravel(), minlength=K) == degree).all()
    np.testing.assert_array_equal(peers, sample_peers(K, degree, seed))
    linked = whole(np.ones(peers.shape), peers)
    for gone in range(K):
        others = np.delete(np.arange(K), gone)
        parts, _ = connected_components(csr_array(linked[np.ix_(others, others)]), connection="strong")
        assert parts == 1


def test_acquaintances_are_other_ones_with_another_seed():
    assert (sample_peers(50, 5, 0) != sample_peers(50, 5, 1)).any()


def test_two_know_each_other_no_more_often_than_chance():
    """Whom one agent scores says nothing about whom the next one does: pairs share about q^2 / K acquaintances."""
    K, q = 512, 16
    linked = whole(np.ones((K, q)), sample_peers(K, q))
    shared = (linked @ linked.T)[np.triu_indices(K, 1)]
    assert shared.mean() == pytest.approx(q * (q - 1) / (K - 1), rel=1e-9)
    assert shared.max() <= 8
    assert shared.var() < 2 * shared.mean()


@pytest.mark.parametrize(("K", "degree"), [(10, 2), (10, 11), (10, 0), (2, 1), (1, 2), (2, 3)])
def test_an_impossible_degree_is_refused(K, degree):
    with pytest.raises(InvalidInput, match="`degree` must be"):
        sample_peers(K, degree)


@pytest.mark.parametrize("K", [1, 2, 3])
def test_few_agents_score_everybody(K):
    np.testing.assert_array_equal(sample_peers(K, K), np.tile(np.arange(K), (K, 1)))


@pytest.mark.parametrize(("K", "q"), SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_those_of_the_whole_matrix(K, q, kind):
    peers = sample_peers(K, q)
    trust = kinds(peers)[kind]
    weights = solve(trust[None], peers)[0]
    np.testing.assert_allclose(weights, stationary(whole(trust, peers)), rtol=0, atol=1e-12)
    assert residual(weights, trust, peers) < 1e-12


@pytest.mark.parametrize(
    ("K", "q"), [(5, 3), (12, 4), (40, 8), (65, 5), (90, 3), pytest.param(100, 12, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_values_without_each_agent_are_those_of_the_whole_matrix(K, q, kind):
    peers = sample_peers(K, q)
    trust, beliefs = kinds(peers)[kind], np.random.default_rng(1).normal(size=(K, 2))
    expected = by_deletion(whole(trust, peers), beliefs)
    np.testing.assert_allclose(solve_without(trust[None], peers, beliefs[None])[0], expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        solve_without(trust[None], peers, beliefs[None, :, 1])[0], expected[:, 1], rtol=0, atol=1e-9
    )


@given(st.integers(0, 2**32), st.integers(3, 100), st.floats(0, 8), st.floats(0, 30))
@settings(max_examples=40, deadline=None)
def test_any_trust_is_solved(seed, K, heaviness, stubbornness):
    rng = np.random.default_rng(seed)
    peers = sample_peers(K, int(rng.integers(3, K + 1)), seed)
    trust = np.exp(heaviness * rng.normal(size=peers.shape) + stubbornness * (peers == np.arange(K)[:, None]))
    trust /= trust.sum(1, keepdims=True)
    beliefs, matrix = rng.normal(size=K), whole(trust, peers)
    np.testing.assert_allclose(solve(trust[None], peers)[0], stationary(matrix), rtol=0, atol=1e-11)
    np.testing.assert_allclose(
        solve_without(trust[None], peers, beliefs[None])[0], by_deletion(matrix, beliefs), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("K", [5, 30, 70, 130])
def test_everybody_scored_is_the_dense_answer(K):
    rng = np.random.default_rng(K)
    trust, beliefs = 1 / rng.chisquare(3, size=(6, K, K)), rng.normal(size=(6, K))
    trust /= trust.sum(-1, keepdims=True)
    peers = sample_peers(K, K)
    np.testing.assert_allclose(solve(trust, peers), consensus.solve(trust), rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        solve_without(trust, peers, beliefs), jackknife.solve_without(trust, beliefs), rtol=0, atol=1e-9
    )


def test_nobody_is_left_without_the_only_agent():
    peers = sample_peers(1, 1)
    assert solve(np.ones((2, 1, 1)), peers).tolist() == [[1.0], [1.0]]
    assert np.isnan(solve_without(np.ones((2, 1, 1)), peers, np.ones((2, 1)))).all()


def test_many_points_are_answered_as_one_by_one():
    peers = sample_peers(80, 6)
    trust = np.stack(list(kinds(peers).values()) * 3)
    beliefs = np.random.default_rng(0).normal(size=trust.shape[:2])
    weights, without = solve(trust, peers), solve_without(trust, peers, beliefs)
    for m in range(len(trust)):
        np.testing.assert_array_equal(weights[m], solve(trust[m : m + 1], peers)[0])
        np.testing.assert_array_equal(without[m], solve_without(trust[m : m + 1], peers, beliefs[m : m + 1])[0])


def test_who_believe_alike_lose_nothing_without_one():
    peers = sample_peers(100, 7)
    for trust in kinds(peers).values():
        np.testing.assert_allclose(solve_without(trust[None], peers, np.full((1, 100), 3.0)), 3.0, rtol=1e-12)


def test_other_names_are_other_places_only():
    peers = sample_peers(100, 7)
    trust, order = kinds(peers)["two rows"], np.random.default_rng(0).permutation(100)
    beliefs, place = np.arange(100.0), np.argsort(order)
    renamed = place[peers[order]]
    columns = np.argsort(renamed, axis=1)
    moved, there = np.take_along_axis(trust[order], columns, 1), np.take_along_axis(renamed, columns, 1)
    np.testing.assert_allclose(solve(moved[None], there)[0], solve(trust[None], peers)[0][order], atol=1e-13)
    np.testing.assert_allclose(
        solve_without(moved[None], there, beliefs[None, order])[0],
        solve_without(trust[None], peers, beliefs[None])[0][order],
        atol=1e-9,
    )


def test_nobody_who_is_not_heard_is_listened_to():
    """Agents in two groups that never listen to each other do not come to agree."""
    peers = np.concatenate([sample_peers(40, 5), 40 + sample_peers(40, 5)])
    trust = np.full((1, 80, 5), 0.2)
    with pytest.raises(InvalidInput, match="must lead to one consensus"):
        solve(trust, peers)


@pytest.mark.parametrize("kind", ["seven rows", "two rows", "lognormal", "trusts itself", "fourteen decades"])
def test_thousands_of_agents_balance(kind):
    peers = sample_peers(4096, 32)
    trust = kinds(peers)[kind]
    solve(trust[None], peers)
    tracemalloc.start()
    weights = solve(trust[None], peers)[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert residual(weights, trust, peers) < 1e-12
    assert peak < 8 * trust.nbytes < 4096**2


def test_without_some_of_thousands():
    """Against the power method on the matrix without them."""
    K, peers = 2048, sample_peers(2048, 24)
    trust, beliefs = kinds(peers)["two rows"], np.random.default_rng(0).normal(size=2048)
    values = solve_without(trust[None], peers, beliefs[None])[0]
    weights = solve(trust[None], peers)[0]
    matrix = csr_array((trust.ravel(), peers.ravel(), np.arange(0, K * 24 + 1, 24)), shape=(K, K))
    for i in [*np.argsort(-weights)[:3], 0, 1000]:
        others = np.delete(np.arange(K), i)
        rest = matrix[others][:, others]
        rest = csr_array(rest.multiply(1 / rest.sum(axis=1)[:, None]))
        v = np.full(K - 1, 1 / (K - 1))
        for _ in range(3000):
            v = v @ rest
        assert values[i] == pytest.approx(v @ beliefs[others], abs=1e-9)
