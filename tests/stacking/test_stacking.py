"""The oracles: trying every support in exact arithmetic, SciPy's least squares, and taking the agent out for good."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from degroot.exceptions import InvalidInput
from degroot.stacking.local import RIDGE, coverage, pool, values_without, weigh, weights
from degroot.stacking.simplex import solve

EPS = np.finfo(float).eps
SIZES = [1, 2, 3, 5, 8, 12, 17, 32, 64, 128]

few = settings(max_examples=40)
seeds = st.integers(0, 2**32 - 1)
shrinkages = st.sampled_from([0.0, 1e-12, 1e-6, 0.01, 0.3, 10.0])


def second_moments(residuals):
    return residuals.T @ residuals / len(residuals)


def kinds(K, seed=0):
    """Residuals of K models: as they come, and those that leave weights undetermined or hard to find."""
    rng = np.random.default_rng(seed)
    own, noise = rng.normal(size=(3 * K + 5, K)), rng.normal(size=(3 * K + 5, 1))
    units, half = 10.0 ** rng.uniform(-6, 6, K), K // 2
    copies = np.concatenate([own[:, : K - half], own[:, :half]], axis=1)
    yield "independent", own
    yield "they err together", noise + 0.3 * own
    yield "they nearly agree", noise + 1e-6 * own
    yield "they agree", np.repeat(noise, K, axis=1)
    yield "wildly scaled", own * units
    yield "wildly scaled, err together", (noise + 0.3 * own) * units
    yield "copies", copies
    yield "copies but for a little", copies + 1e-9 * own
    yield "copies but for rounding", copies * (1 + 1e-15 * own)
    yield "copies wildly scaled", copies * units
    yield "opposites", np.concatenate([own[:, : K - half], -own[:, :half]], axis=1)
    yield "fewer rows than models", rng.normal(size=(max(1, K // 3), K))
    yield "one row", rng.normal(size=(1, K))
    yield "one row, same side", np.abs(rng.normal(size=(1, K)))
    yield "small whole numbers", rng.integers(-2, 3, size=(half + 1, K)).astype(float)
    yield "a perfect model", own * (np.arange(K) != seed % K)
    yield "no errors", np.zeros((2, K))


@st.composite
def residuals(draw, at_least=2, at_most=9):
    """Residuals that determine the weights, also without shrinkage."""
    K = draw(st.integers(at_least, at_most))
    rng = np.random.default_rng(draw(seeds))
    together, scale = draw(st.sampled_from([0.0, 0.5, 2.0])), draw(st.sampled_from([0.0, 0.5]))
    own = rng.normal(size=(4 * K + 10, K)) * np.exp(scale * rng.normal(size=K))
    return own + together * rng.normal(size=(len(own), 1))


def with_ridge(gram, shrinkage):
    return gram + shrinkage * np.diag(gram).min() * np.eye(len(gram))


def violation(gram, shrinkage, found):
    """By how much the conditions of Karush, Kuhn and Tucker are not met, in units of rounding."""
    matrix = with_ridge(gram, shrinkage)
    slopes = matrix @ found
    short = found @ slopes - slopes  # of the common slope: 0 where there is a weight, not positive elsewhere
    missed = np.where(found > 0, np.abs(short), np.maximum(short, 0))
    root = np.sqrt(np.diag(matrix))
    rounding = EPS * len(gram) * (root + root @ found) * (root @ found)
    return np.max(missed / np.where(missed > 0, rounding, 1))


def linear_solution(matrix):
    """The z for which matrix z = 1, in rational arithmetic; None if there is none or several."""
    system = [[*row, Fraction(1)] for row in matrix]
    for c in range(len(system)):
        pivot = next((r for r in range(c, len(system)) if system[r][c]), None)
        if pivot is None:
            return None
        system[c], system[pivot] = system[pivot], system[c]
        system[c] = [x / system[c][c] for x in system[c]]
        for r in range(len(system)):
            if r != c and system[r][c]:
                system[r] = [x - system[r][c] * y for x, y in zip(system[r], system[c], strict=True)]
    return [row[-1] for row in system]


def by_trying_all(gram, shrinkage):
    """The best of all supports, without any rounding."""
    K = len(gram)
    matrix = [[Fraction(value) for value in row] for row in gram.tolist()]
    ridge = Fraction(shrinkage) * min(matrix[j][j] for j in range(K))
    for j in range(K):
        matrix[j][j] += ridge
    best, least = None, None
    for support in (set_ for size in range(1, K + 1) for set_ in combinations(range(K), size)):
        z = linear_solution([[matrix[j][k] for k in support] for j in support])
        if z is not None and min(z) > 0 and (least is None or 1 / sum(z) < least):
            least, best = 1 / sum(z), dict(zip(support, (value / sum(z) for value in z), strict=True))
    return np.array([float(best.get(j, 0)) for j in range(K)])


def by_least_squares(gram, shrinkage):
    """SciPy's least squares with coefficients that are not negative."""
    lower = np.linalg.cholesky(with_ridge(gram, shrinkage))
    z, _ = nnls(lower.T, solve_triangular(lower, np.ones(len(gram)), lower=True))
    return z / z.sum()


@pytest.mark.parametrize("K", SIZES)
@pytest.mark.parametrize("shrinkage", [0.0, 1e-14, 1e-9, 0.01, 1.0, 100.0])
def test_the_solution_is_optimal(K, shrinkage):
    for seed in range(3):
        for name, table in kinds(K, seed):
            gram = second_moments(table)
            found = solve(gram, shrinkage)
            assert (found >= 0).all(), name
            assert abs(found.sum() - 1) < 1e-14 * K, name
            assert violation(gram, shrinkage, found) < 16, name


@pytest.mark.parametrize("shrinkage", [0.0, 0.01])
@pytest.mark.parametrize("K", [2, 3, 4, 5])
def test_no_support_is_better(K, shrinkage):
    determined = {"independent", "they err together", "wildly scaled", "wildly scaled, err together"}
    for name, table in kinds(K, seed=K):
        gram = second_moments(table)
        if name in determined or shrinkage * np.diag(gram).min() > 0:
            np.testing.assert_allclose(solve(gram, shrinkage), by_trying_all(gram, shrinkage), 1e-9, 1e-11, name)


@given(residuals(at_most=40), shrinkages)
def test_agrees_with_least_squares(table, shrinkage):
    gram = second_moments(table)
    np.testing.assert_allclose(solve(gram, shrinkage), by_least_squares(gram, shrinkage), rtol=1e-7, atol=1e-9)


def test_agrees_with_least_squares_among_many():
    rng = np.random.default_rng(0)
    for together in (0.0, 0.3, 1.0):
        gram = second_moments(rng.normal(size=(600, 128)) + together * rng.normal(size=(600, 1)))
        np.testing.assert_allclose(solve(gram, 0.01), by_least_squares(gram, 0.01), rtol=1e-7, atol=1e-9)


@given(hnp.arrays(float, st.integers(1, 20), elements=st.floats(1e-12, 1e12)))
def test_models_that_err_apart_are_weighed_by_inverse_error(errors):
    inverse = errors.min() / errors
    np.testing.assert_allclose(solve(np.diag(errors), 0.0), inverse / inverse.sum(), rtol=1e-12)


@given(residuals(), shrinkages, st.data())
def test_a_copy_changes_no_more_than_the_ridge_explains(table, shrinkage, data):
    """Ridges of a and b move the prediction by at most the roots of a and of b, as a mean square over the rows."""
    copied = np.column_stack([table, table[:, data.draw(st.integers(0, table.shape[1] - 1))]])
    gram, more = second_moments(table), second_moments(copied)
    change = np.square(table @ solve(gram, shrinkage) - copied @ solve(more, shrinkage)).mean()
    ridges = shrinkage * np.array([np.diag(gram).min(), np.diag(more).min()])
    assert np.sqrt(change) <= np.sqrt(ridges).sum() + 1e-12 * np.abs(table).max()


@given(residuals(), st.integers(1, 3), st.data())
def test_without_ridge_copies_change_nothing(table, copies, data):
    place = data.draw(st.integers(0, table.shape[1] - 1))
    copied = np.column_stack([table, *[table[:, place]] * copies])
    alone, together = solve(second_moments(table), 0.0), solve(second_moments(copied), 0.0)
    together[place] += together[table.shape[1] :].sum()
    np.testing.assert_allclose(together[: table.shape[1]], alone, rtol=1e-9, atol=1e-10)


@given(residuals(), seeds)
def test_another_model_never_makes_the_local_error_larger(table, seed):
    more = np.column_stack([table, 3 * np.random.default_rng(seed).normal(size=len(table))])
    without, everyone = second_moments(table), second_moments(more)
    w, v = solve(without, 0.0), solve(everyone, 0.0)
    assert v @ everyone @ v <= w @ without @ w * (1 + 1e-12)


@pytest.mark.parametrize("ridge", [0.0, RIDGE])
def test_a_useless_agent_does_no_harm_beyond_noise(ridge):
    """Each of K - 1 free weights that are estimated from n rows costs about 1/n of the error."""
    rng, n, K, repeats = np.random.default_rng(0), 100, 5, 300
    truth = 0.5 + np.diag(np.linspace(0.5, 1.5, K))
    truth[-1], truth[:, -1] = 0.0, 0.0
    truth[-1, -1] = 20.0  # the useless one
    drawn = rng.multivariate_normal(np.zeros(K), truth, size=(repeats, n))
    gram = np.einsum("mnj,mnk->mjk", drawn, drawn) / n

    def risk(found):
        k = found.shape[-1]
        return np.einsum("mj,jk,mk->m", found, truth[:k, :k], found).mean()

    best = solve(truth[:-1, :-1], 0.0)
    least = best @ truth[:-1, :-1] @ best
    for some in (K - 1, K):
        assert risk(solve(gram[:, :some, :some], ridge * some / n)) <= least * (1 + some / n)


@given(residuals(), st.sampled_from([0.0, 1e-12, 1e-8, 1e-4, 1e-2]), st.data())
def test_a_perfect_model_gets_all_the_weight_as_the_ridge_goes_to_zero(table, shrinkage, data):
    """The others' weight t costs at least t^2 times the least they can err, and saves at most the ridge."""
    K, place = table.shape[1], data.draw(st.integers(0, table.shape[1] - 1))
    nearly = table * np.where(np.arange(K) != place, 1.0, data.draw(st.sampled_from([0.0, 1e-6])))
    gram = second_moments(nearly)
    others = np.delete(np.delete(gram, place, 0), place, 1)
    best = solve(others, 0.0)
    least = best @ others @ best
    own = gram[place, place]
    limit = np.sqrt(shrinkage * own / least) + 2 * np.sqrt(own / least)
    assert 1 - solve(gram, shrinkage)[place] <= limit + 1e-13


@given(residuals(), st.floats(1e3, 1e12))
def test_much_shrinkage_makes_weights_equal(table, shrinkage):
    K, gram = table.shape[1], second_moments(table)
    unequal = np.diag(gram).max() / np.diag(gram).min()
    np.testing.assert_allclose(solve(gram, shrinkage), 1 / K, atol=2 * K * unequal / shrinkage)
    np.testing.assert_array_equal(solve(second_moments(table), np.inf), 1 / K)


@given(residuals(at_most=20), shrinkages, seeds)
def test_relabelling_the_models_relabels_the_weights(table, shrinkage, seed):
    order, gram = np.random.default_rng(seed).permutation(table.shape[1]), second_moments(table)
    relabelled = solve(gram[np.ix_(order, order)], shrinkage)
    np.testing.assert_allclose(relabelled, solve(gram, shrinkage)[order], rtol=1e-9, atol=1e-12)


@given(residuals(), shrinkages, st.floats(1e-100, 1e100), st.integers(-300, 300))
def test_the_unit_of_the_residuals_changes_nothing(table, shrinkage, unit, power):
    gram = second_moments(table)
    expected = solve(gram, shrinkage)
    np.testing.assert_allclose(solve(gram * unit, shrinkage), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(solve(np.ldexp(gram, power), shrinkage), expected)


@pytest.mark.parametrize("K", [1, 2, 7])
def test_models_that_cannot_be_told_apart_count_alike(K):
    for shrinkage in (0.0, 0.3):
        np.testing.assert_array_equal(solve(np.zeros((K, K)), shrinkage), 1 / K)
    np.testing.assert_allclose(solve(np.ones((K, K)), 1e-3), 1 / K, rtol=1e-9)
    np.testing.assert_allclose(solve(np.diag([0.0, 0.0, *[1.0] * K]), 0.0), [0.5, 0.5, *[0.0] * K], atol=1e-15)


@few
@given(st.integers(1, 12), seeds, st.sampled_from([0.0, 0.1]))
def test_the_search_ends_for_any_numbers(K, seed, shrinkage):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(K, K))  # not even symmetric
    assert solve(matrix, shrinkage).shape == (K,)
    matrix[rng.random((K, K)) < 0.2] = np.nan
    assert solve(matrix + 3 * np.eye(K), shrinkage).shape == (K,)
    matrix[rng.random((K, K)) < 0.2] = np.inf
    assert solve(matrix + 3 * np.eye(K), shrinkage).shape == (K,)


@pytest.mark.parametrize("leading", [(), (1,), (3,), (2, 3), (0,), (2, 0)])
def test_leading_axes_broadcast(leading):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(*leading, 9, 4))
    gram, amounts = np.swapaxes(table, -1, -2) @ table, rng.random(leading)
    found = solve(gram, amounts)
    assert found.shape == (*leading, 4)
    for place in np.ndindex(*leading):
        np.testing.assert_array_equal(found[place], solve(gram[place], amounts[place]))
    np.testing.assert_array_equal(solve(gram, 0.3), solve(gram, np.full(leading, 0.3)))


# coverage and pooling


def evidence(seed, M=4, J=None, K=5):
    """Moments, spreads, numbers of rows and beliefs, as agents with 30 rows each would send them."""
    rng, J = np.random.default_rng(seed), K if J is None else J
    table = rng.normal(size=(M, J, 30, K)) * np.exp(0.3 * rng.normal(size=K)) + rng.normal(size=(M, J, 30, 1))
    gram = np.einsum("minj,mink->mijk", table, table) / 30
    spread, effective = rng.exponential(size=(M, J)), rng.uniform(10, 30, size=(M, J))
    return packed(gram), spread, effective, rng.normal(size=(M, K))


def packed(gram):
    return gram[(..., *np.tril_indices(gram.shape[-1]))]


def unpacked(moments, K):
    gram = np.empty((*moments.shape[:-1], K, K))
    for at, (j, k) in enumerate(zip(*np.tril_indices(K), strict=True)):
        gram[..., j, k] = gram[..., k, j] = moments[..., at]
    return gram


some_spreads = hnp.arrays(
    float,
    hnp.array_shapes(min_dims=1, max_dims=3, max_side=6),
    elements=st.one_of(st.sampled_from([0.0, np.inf]), st.floats(1e-100, 1e100)),
)


@given(some_spreads)
def test_coverage_is_shared_out(spread):
    shares = coverage(spread)
    assert shares.shape == spread.shape
    np.testing.assert_allclose(shares.sum(axis=-1), 1, rtol=1e-14)
    lost = np.isinf(spread)
    assert (shares[lost & ~lost.all(axis=-1, keepdims=True)] == 0).all()
    assert (shares[~lost] > 0).all()
    np.testing.assert_allclose(shares[lost.all(axis=-1)], 1 / spread.shape[-1], rtol=1e-15)


@given(hnp.arrays(float, hnp.array_shapes(min_dims=1, max_dims=3, max_side=6), elements=st.floats(1e-6, 1e6)))
def test_coverage_is_in_inverse_proportion_to_the_spread(spread):
    np.testing.assert_allclose(coverage(spread), 1 / spread / (1 / spread).sum(axis=-1, keepdims=True), rtol=1e-13)
    np.testing.assert_array_equal(coverage(np.ldexp(spread, 100)), coverage(spread))


@given(hnp.arrays(float, st.integers(1, 9), elements=st.floats(1e-6, 1e6)), st.integers(1, 3))
def test_who_is_at_the_point_shares_all_of_the_coverage(spread, at_the_point):
    shares = coverage(np.concatenate([np.zeros(at_the_point), spread]))
    np.testing.assert_allclose(shares[:at_the_point], 1 / at_the_point, rtol=1e-14)


@given(hnp.arrays(float, st.integers(2, 9), elements=st.floats(1e-6, 1e6)), st.floats(0, 1e140))
def test_nobody_changes_how_the_others_compare(spread, claim):
    others = coverage(np.append(spread, claim))[:-1]
    np.testing.assert_allclose(others / others.sum(), coverage(spread), rtol=1e-12)


@pytest.mark.parametrize(("J", "K"), [(1, 1), (1, 4), (5, 5), (3, 7), (40, 12)])
def test_pooling_is_the_weighted_sum(J, K):
    moments, spread, effective, _ = evidence(0, J=J, K=K)
    gram, n = pool(moments, spread, effective)
    shares = coverage(spread)
    np.testing.assert_allclose(gram, np.einsum("mi,mijk->mjk", shares, unpacked(moments, K)), rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(gram, np.swapaxes(gram, 1, 2))
    np.testing.assert_allclose(n, 1 / (shares**2 / effective).sum(axis=1), rtol=1e-13)


@given(seeds, st.integers(1, 6))
def test_pooling_counts_at_most_all_rows(seed, J):
    moments, spread, effective, _ = evidence(seed, M=2, J=J, K=2)
    assert (pool(moments, spread, effective)[1] <= effective.sum(axis=1) * (1 + 1e-13)).all()
    np.testing.assert_allclose(pool(moments, 1 / effective, effective)[1], effective.sum(axis=1), rtol=1e-12)


def test_agents_without_rows_are_not_asked():
    moments, spread, effective, beliefs = evidence(1)
    spread[:, 2], moments[:, 2], effective[:, 2] = np.inf, np.nan, 0.0
    present = [0, 1, 3, 4]
    expected = pool(moments[:, present], spread[:, present], effective[:, present])
    for found, value in zip(pool(moments, spread, effective), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-13)
    assert np.isfinite(values_without(moments, spread, effective, beliefs)).all()


def test_where_nobody_has_rows_models_count_alike():
    moments, spread, effective = np.zeros((2, 3, 6)), np.full((2, 3), np.inf), np.zeros((2, 3))
    for ridge in (0.0, RIDGE):
        np.testing.assert_array_equal(weigh(moments, spread, effective, ridge), 1 / 3)
        beliefs = np.array([[0.0, 1.0, 2.0], [3.0, 3.0, 3.0]])
        expected = [[1.5, 1.0, 0.5], [3.0, 3.0, 3.0]]
        np.testing.assert_allclose(values_without(moments, spread, effective, beliefs, ridge), expected, rtol=1e-15)


# the rule


@pytest.mark.parametrize("ridge", [0.0, 0.02, RIDGE, 5.0])
def test_the_rule_is_pooling_then_solving(ridge):
    moments, spread, effective, _ = evidence(2, M=7)
    gram, n = pool(moments, spread, effective)
    expected = [by_trying_all(matrix, ridge * 5 / count) for matrix, count in zip(gram, n, strict=True)]
    np.testing.assert_allclose(weigh(moments, spread, effective, ridge), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(weigh(moments, spread, effective), weigh(moments, spread, effective, RIDGE))


@given(seeds, st.floats(1e6, 1e12))
def test_an_agent_far_away_changes_nothing(seed, far):
    moments, spread, effective, _ = evidence(seed, J=4)
    distant = np.concatenate([spread, np.full((4, 1), far)], axis=1)
    more = np.concatenate([moments, moments[:, :1] * 3], axis=1), distant, np.concatenate([effective] * 2, 1)[:, :5]
    np.testing.assert_allclose(weigh(*more), weigh(moments, spread, effective), atol=1e3 / far)


@given(seeds)
def test_relabelling_the_agents_relabels_everything(seed):
    moments, spread, effective, beliefs = evidence(seed)
    order = np.random.default_rng(seed).permutation(5)
    relabelled = packed(unpacked(moments, 5)[:, order][:, :, order][..., order]), spread[:, order], effective[:, order]
    found = weigh(*relabelled)
    np.testing.assert_allclose(found, weigh(moments, spread, effective)[:, order], rtol=1e-9, atol=1e-12)
    without = values_without(moments, spread, effective, beliefs)
    np.testing.assert_allclose(values_without(*relabelled, beliefs[:, order]), without[:, order], rtol=1e-9, atol=1e-12)


def rebuilt_without(moments, spread, effective, beliefs, ridge):
    """Take each agent out for good, and start anew."""
    K, values = beliefs.shape[1], np.empty_like(beliefs)
    gram = unpacked(moments, K)
    for i in range(K):
        others = np.delete(np.arange(K), i)
        left = packed(gram[:, others][:, :, others][..., others])
        found = weigh(left, spread[:, others], effective[:, others], ridge)
        values[:, i] = (found * beliefs[:, others]).sum(axis=1)
    return values


@pytest.mark.parametrize("ridge", [0.0, RIDGE])
@pytest.mark.parametrize("K", [2, 3, 5, 12, 31, 70])
def test_leaving_out_is_building_anew(K, ridge):
    sent = evidence(K, M=3, K=K)
    np.testing.assert_allclose(values_without(*sent, ridge), rebuilt_without(*sent, ridge), rtol=1e-9, atol=1e-10)


@few
@given(seeds, st.integers(2, 7), st.sampled_from([0.0, 0.01, RIDGE]), st.data())
def test_leaving_out_is_building_anew_wherever_rows_lie(seed, K, ridge, data):
    moments, _, effective, beliefs = evidence(seed, M=2, K=K)
    places = st.one_of(st.sampled_from([0.0, np.inf, 1e-30, 1.0, 1e30]), st.floats(0.01, 100))
    spread = data.draw(hnp.arrays(float, (2, K), elements=places))
    sent = moments, spread, effective, beliefs
    np.testing.assert_allclose(values_without(*sent, ridge), rebuilt_without(*sent, ridge), rtol=1e-8, atol=1e-8)


def test_a_dominant_agent_leaves_no_trace():
    """What it measured is larger by 24 digits than all the others' moments, which a difference would lose."""
    moments, spread, effective, beliefs = evidence(3)
    moments[:, 1] *= 1e24
    sent = moments, spread, effective, beliefs
    np.testing.assert_allclose(values_without(*sent)[:, 1], rebuilt_without(*sent, RIDGE)[:, 1], rtol=1e-9, atol=1e-12)


def test_the_other_of_two_decides_and_nobody_is_left_of_one():
    moments, spread, effective, beliefs = evidence(4, K=2)
    np.testing.assert_array_equal(values_without(moments, spread, effective, beliefs), beliefs[:, ::-1])
    alone = values_without(np.ones((3, 1, 1)), np.ones((3, 1)), np.ones((3, 1)), np.ones((3, 1)))
    assert alone.shape == (3, 1)
    assert np.isnan(alone).all()


@given(seeds, st.floats(-1e6, 1e6))
def test_equal_beliefs_leave_no_doubt(seed, belief):
    moments, spread, effective, beliefs = evidence(seed, M=2)
    values = values_without(moments, spread, effective, np.full_like(beliefs, belief))
    np.testing.assert_allclose(values, belief, rtol=1e-13, atol=1e-300)


def test_many_points_give_what_each_gives():
    moments, spread, effective, beliefs = evidence(5, M=3000)
    found, without = weigh(moments, spread, effective), values_without(moments, spread, effective, beliefs)
    one = slice(1234, 1235)
    np.testing.assert_array_equal(found[one], weigh(moments[one], spread[one], effective[one]))
    np.testing.assert_array_equal(without[one], values_without(moments[one], spread[one], effective[one], beliefs[one]))
    none = slice(0, 0)
    assert weigh(moments[none], spread[none], effective[none]).shape == (0, 5)
    assert values_without(moments[none], spread[none], effective[none], beliefs[none]).shape == (0, 5)


def test_any_memory_layout_gives_the_same_and_is_left_alone():
    sent = evidence(6, M=6)
    expected, before = values_without(*sent), [array.copy() for array in sent]
    frozen = [array.copy() for array in sent]
    for array in frozen:
        array.flags.writeable = False
    np.testing.assert_array_equal(values_without(*frozen), expected)
    np.testing.assert_array_equal(values_without(*map(np.asfortranarray, sent)), expected)
    np.testing.assert_array_equal(values_without(*(np.repeat(array, 2, axis=1)[:, ::2] for array in sent)), expected)
    np.testing.assert_array_equal(weigh(*frozen[:3]), weigh(*map(np.asfortranarray, sent[:3])))
    for array, kept in zip(sent, before, strict=True):
        np.testing.assert_array_equal(array, kept)


# what users may call with anything


@given(residuals(), shrinkages)
def test_second_moments_are_taken(table, shrinkage):
    gram = second_moments(table)
    np.testing.assert_array_equal(weights(gram.tolist(), shrinkage), solve(gram, shrinkage))


@pytest.mark.parametrize("K", [1, 3, 20])
def test_second_moments_of_every_kind_are_taken(K):
    for name, table in kinds(K):
        assert weights(second_moments(table)).shape == (K,), name


@given(residuals(), st.floats(1e-6, 1.0))
def test_matrices_that_no_residuals_have_are_refused(table, amount):
    gram = second_moments(table)
    scaled = gram / np.sqrt(np.outer(np.diag(gram), np.diag(gram)))
    least = np.linalg.eigvalsh(scaled)[0]
    impossible = scaled - (least + amount) * np.eye(len(gram))
    assume(np.diag(impossible).min() > 0.1)
    with pytest.raises(InvalidInput, match="`gram` must be positive semi-definite"):
        weights(impossible)


@pytest.mark.parametrize(
    ("gram", "ridge", "message"),
    [
        ([1.0, 2.0], 0.0, r"`gram` must be square, \(..., K, K\) with K at least 1; its shape is \(2,\)"),
        ([[1.0, 2.0]], 0.0, r"`gram` must be square, .* its shape is \(1, 2\)"),
        (np.empty((3, 0, 0)), 0.0, r"with K at least 1; its shape is \(3, 0, 0\)"),
        ([[np.nan]], 0.0, "`gram` must be finite"),
        ([[np.inf]], 0.0, "`gram` must be finite"),
        ([[1.0, 0.0], [0.0, -2.0]], 0.0, "diagonal of `gram` must not be negative; its least entry is -2"),
        ([[[1.0, 0.5], [0.4, 1.0]]], 0.0, r"symmetric; entry \(0, 0, 1\) is 0.5 and \(0, 1, 0\) is 0.4"),
        ([[0.0, 0.5], [0.5, 1.0]], 0.0, "`gram` must be positive semi-definite"),
        ([[1.0, 2.0], [2.0, 1.0]], 0.0, "with a diagonal of 1 its least eigenvalue is -1"),
        ([[1.0]], -0.1, "`ridge` must be finite and not negative; got -0.1"),
        ([[1.0]], np.nan, "`ridge` must be finite and not negative; got nan"),
        (np.ones((4, 1, 1)), [0.1, 0.2], r"one for each matrix; its shape is \(2,\)"),
    ],
)
def test_what_cannot_be_is_refused(gram, ridge, message):
    with pytest.raises(InvalidInput, match=message):
        weights(gram, ridge)
