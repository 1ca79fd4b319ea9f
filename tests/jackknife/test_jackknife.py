"""The oracle is the paper's own sentence: delete row and column i, let rows sum to 1 again, solve for the weights."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import oracle

from degroot.exceptions import InvalidInput
from degroot.jackknife.delete_one import influence, standard_error, values_without, weights_without

SIZES = [2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 40, 47, 48]
LARGE = [49, 64, 101, pytest.param(128, marks=pytest.mark.slow)]


def rows_to_one(a):
    return a / a.sum(-1, keepdims=True)


stationary = partial(oracle.stationary, kind=float)  # of many matrices, fast


def by_deletion(trust, solve=stationary):
    """Row i: the weights that `solve` gives for the trust matrix without agent i."""
    K = len(trust)
    others = np.array([np.delete(np.arange(K), i) for i in range(K)])
    out = np.zeros((K, K))
    np.put_along_axis(out, others, solve(rows_to_one(trust[others[:, :, None], others[:, None]])), axis=1)
    return out


def exactly(trusts):
    return np.array([solve_exactly(trust) for trust in trusts])


def solve_exactly(trust):
    """Weights that solve w T = w in rational arithmetic: no rounding at all."""
    K = len(trust)
    a = [[Fraction(t) for t in row] for row in trust.tolist()]
    for row in a:
        total = sum(row)
        row[:] = [t / total for t in row]
    system = [[a[j][k] - (j == k) for j in range(K)] + [Fraction(0)] for k in range(K - 1)]
    system.append([Fraction(1)] * (K + 1))
    for c in range(K):
        pivot = next(r for r in range(c, K) if system[r][c])
        system[c], system[pivot] = system[pivot], system[c]
        system[c] = [x / system[c][c] for x in system[c]]
        for r in range(K):
            if r != c:
                system[r] = [x - system[r][c] * y for x, y in zip(system[r], system[c], strict=True)]
    return [float(row[K]) for row in system]


def kinds(K, seed=0):
    """Trust as errors over few and many rows give it, and the hard cases."""
    rng = np.random.default_rng(seed)
    yield "two rows", 1 / rng.exponential(size=(K, K))
    yield "seven rows", 1 / rng.chisquare(7, size=(K, K))
    yield "one row", 1 / rng.chisquare(1, size=(K, K))
    noise, bias = rng.normal(size=(K, 2, 1)), rng.normal(size=K) / 2
    yield "correlated", 1 / ((noise + bias + 0.3 * rng.normal(size=(K, 2, K))) ** 2).mean(1)
    yield "lognormal", np.exp(3 * rng.normal(size=(K, K)))
    yield "trusts itself", 1 / rng.chisquare(2, size=(K, K)) * (1 + 50 * np.eye(K))
    dominant = 1 / rng.chisquare(7, size=(K, K))
    dominant[:, 0] *= 20 * K
    yield "one is trusted by all", dominant
    alone = np.full((K, K), 2e-16)
    alone[:, K - 1] = 1
    yield "one has all the trust", alone
    floor = np.full((K, K), 2e-16)
    floor[np.arange(K), rng.permutation(K)] = 1
    yield "zero errors", floor + 2e-16 * rng.random((K, K))
    yield "nearly the identity", np.eye(K) + 1e-15 * rng.random((K, K)) + 1e-16
    halves = np.arange(K) % 2
    yield "two parties", np.where(halves[:, None] == halves, 1, 1e-12) * rng.exponential(size=(K, K))
    yield "next in the ring", np.roll(np.eye(K), 1, 1) + 1e-9
    for loose in (1e-3, 1e-7, 1e-14):
        joined = np.where(halves[:, None] == halves, 1, loose) * rng.exponential(size=(K, K))
        joined[:, 0] = joined[0] = K / 20
        yield f"two parties that one agent joins, else {loose}", joined
    pairs = np.arange(K) // 2
    close = np.where(pairs[:, None] == pairs, 1, 1e-13) + 1e-14 * rng.random((K, K))
    close[:, 0] = close[0] = 1
    yield "pairs that one agent joins", close
    yield "ranks far apart", 10.0 ** -np.linspace(0, 15, K) * (1 + rng.random((K, K)))
    yield "everyone alike", np.ones((K, K))


def worst(found, expected):
    return (np.abs(found - expected) / np.where(expected > 0, expected, 1)).max()


def check_all_kinds(K, within):
    names, matrices = zip(*kinds(K), strict=True)
    trust = rows_to_one(np.stack(matrices))
    for name, matrix, found in zip(names, trust, weights_without(trust), strict=True):
        assert worst(found, by_deletion(matrix)) < within, name


@pytest.mark.parametrize("K", SIZES)
def test_is_the_literal_deletion(K):
    check_all_kinds(K, 1e-12)


@pytest.mark.parametrize("K", LARGE)
def test_is_the_literal_deletion_among_many(K):
    check_all_kinds(K, 1e-11)


@pytest.mark.parametrize("K", [2, 3, 4, 6, 9])
def test_agrees_with_exact_arithmetic(K):
    for name, matrix in kinds(K, seed=1):
        trust = rows_to_one(matrix)
        assert worst(weights_without(trust), by_deletion(trust, exactly)) < 1e-13, name


def test_nobody_is_left_of_one():
    assert np.isnan(weights_without([[1.0]])).all()
    assert weights_without(np.ones((3, 1, 1))).shape == (3, 1, 1)


def test_the_other_of_two_gets_everything():
    np.testing.assert_array_equal(weights_without([[0.9, 0.1], [1e-16, 1]]), [[0, 1], [1, 0]])


def test_trust_that_an_agent_leaves_behind_may_be_tiny():
    trust = rows_to_one(np.array([[1, 2e-16, 1e-16], [1, 1e-16, 3e-16], [1, 1, 1]]))
    assert worst(weights_without(trust), by_deletion(trust, exactly)) < 1e-13


@st.composite
def trusts(draw, at_least=2, at_most=20):
    K = draw(st.integers(at_least, at_most))
    spread = draw(st.sampled_from([0.1, 1.0, 3.0, 8.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rows_to_one(np.maximum(np.exp(spread * rng.normal(size=(K, K))), 1e-15))


few = settings(max_examples=40, deadline=None)


@few
@given(trusts())
def test_rows_are_weights_of_the_others(trust):
    weights = weights_without(trust)
    assert (weights >= 0).all()
    assert (np.diag(weights) == 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-14)


@few
@given(trusts())
def test_deleting_is_computing_without(trust):
    assert worst(weights_without(trust), by_deletion(trust)) < 1e-12


@few
@given(trusts(), st.randoms(use_true_random=False))
def test_relabelling_the_agents_relabels_the_weights(trust, random):
    order = list(range(len(trust)))
    random.shuffle(order)
    relabelled = weights_without(trust[np.ix_(order, order)])
    assert worst(relabelled, weights_without(trust)[np.ix_(order, order)]) < 1e-12


@few
@given(trusts(), st.floats(-1e6, 1e6))
def test_equal_beliefs_leave_no_doubt(trust, belief):
    values = values_without(trust, np.full(len(trust), belief))
    np.testing.assert_allclose(values, belief, rtol=1e-14, atol=1e-300)
    assert standard_error(values) <= 1e-14 * abs(belief) + 1e-300
    assert np.abs(influence(belief, values)).max() <= 1e-14 * abs(belief) + 1e-300


@few
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30))
def test_standard_error_is_the_formula(values):
    K, total = len(values), 0.0
    mean = sum(values) / K
    for value in values:
        total += (value - mean) ** 2
    np.testing.assert_allclose(standard_error(values), ((K - 1) / K * total) ** 0.5, rtol=1e-9, atol=1e-9)


def test_one_agent_has_no_standard_error():
    values = values_without(np.ones((4, 1, 1)), np.ones((4, 1)))
    assert values.shape == (4, 1)
    assert np.isnan(standard_error(values)).all()
    assert np.isnan(influence(np.ones(4), values)).all()
    assert np.isnan(standard_error([3.0]))


def test_one_belief_serves_many_points():
    trust = rows_to_one(np.random.default_rng(0).exponential(size=(5, 3, 3)))
    beliefs = np.array([1.0, 2.0, 4.0])
    values = values_without(trust, beliefs)
    assert values.shape == (5, 3)
    np.testing.assert_allclose(values, weights_without(trust) @ beliefs, rtol=1e-13)
    np.testing.assert_allclose(values_without(trust[0], np.stack([beliefs, 2 * beliefs]))[1], 2 * values[0], rtol=1e-13)


@pytest.mark.parametrize("deleted", [weights_without, lambda trust: values_without(trust, [1.0, 2.0])])
def test_trust_that_is_none_is_refused(deleted):
    for trust in ([[0.5, 0.5]], [[2.0, 3.0], [0.5, 0.5]], [[np.nan, 0.5], [0.5, 0.5]], [[1.5, -0.5], [0.5, 0.5]]):
        with pytest.raises(InvalidInput, match="`trust` must"):
            deleted(trust)
    with pytest.raises(InvalidInput, match="`beliefs` must have one belief for each of 2 agents"):
        values_without([[0.5, 0.5], [0.5, 0.5]], [1.0, 2.0, 3.0])


def test_influence_is_with_minus_without():
    np.testing.assert_array_equal(influence([3.0, 1.0], [[1.0, 4.0], [1.0, 0.0]]), [[2, -1], [0, 1]])


@pytest.mark.parametrize("K", [4, 10, 70])
@pytest.mark.parametrize("leading", [(), (1,), (3,), (2, 3), (0,), (2, 0)])
def test_leading_axes_broadcast(K, leading):
    rng = np.random.default_rng(K)
    trust = rows_to_one(rng.exponential(size=(*leading, K, K)))
    beliefs = rng.normal(size=(*leading, K))
    weights = weights_without(trust)
    values = values_without(trust, beliefs)
    assert weights.shape == trust.shape
    assert values.shape == beliefs.shape
    assert standard_error(values).shape == leading
    assert influence(np.zeros(leading), values).shape == beliefs.shape
    for place in np.ndindex(*leading):
        assert worst(weights[place], by_deletion(trust[place])) < 1e-11
        np.testing.assert_allclose(values[place], weights[place] @ beliefs[place], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("K", [5, 20, 66])
def test_takes_any_array_and_leaves_it_alone(K):
    trust = rows_to_one(np.random.default_rng(0).exponential(size=(3, K, K)))
    expected = weights_without(trust)
    frozen = trust.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(weights_without(frozen), expected)
    np.testing.assert_array_equal(weights_without(np.asfortranarray(trust)), expected)
    np.testing.assert_array_equal(weights_without(np.repeat(trust, 2, 0)[::2]), expected)
    np.testing.assert_array_equal(weights_without(trust.tolist()), expected)
    np.testing.assert_array_equal(frozen, trust)
    single = trust.astype(np.float32)
    assert weights_without(single).dtype == np.float64
    np.testing.assert_array_equal(weights_without(single), weights_without(single.astype(float)))


def test_points_do_not_disturb_each_other():
    trust = rows_to_one(np.random.default_rng(0).exponential(size=(2000, 9, 9)))
    np.testing.assert_array_equal(weights_without(trust)[1234], weights_without(trust[1234]))


def test_hundreds_of_agents():
    K = 520
    trust = rows_to_one(1 / np.random.default_rng(0).chisquare(7, size=(K, K)))
    weights = weights_without(trust)
    for i in (0, 7, K - 1):
        others = np.delete(np.arange(K), i)
        assert worst(weights[i, others], stationary(rows_to_one(trust[np.ix_(others, others)]))) < 1e-11


def test_trust_without_which_nobody_agrees_is_refused():
    trust = np.array([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])  # without agent 0 nobody listens to anybody
    with pytest.raises(InvalidInput, match="the others do not come to agree"):
        weights_without(trust)
