"""The guard against liars: each part against a literal version of it, and by what liars cannot do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array

from degroot import consensus, guard
from degroot.guard import bounds
from degroot.guard.checks import malformed, semidefinite
from degroot.guard.forecast import DEVIATIONS, ERRORS, AnswerForecaster
from degroot.neighbourhoods import Neighbourhoods
from degroot.rules.evidence import Evidence, with_errors
from degroot.trust import inverse_error_weights

sizes = st.integers(1, 12)
seeds = st.integers(0, 2**32 - 1)
anything = st.one_of(st.floats(0, 1e300), st.floats(1e-3, 1e3), st.just(0.0))


def some(seed, *shape):
    return np.random.default_rng(seed).exponential(size=shape)


def stretches(seed, M, K):
    random = np.random.default_rng(seed)
    return np.where(random.random((M, K)) < 0.6, 1.0, 1.0 + 3.0 * random.exponential(size=(M, K)))


# how many are withstood


@given(st.integers(1, 500))
def test_fewer_than_a_third_are_withstood_but_one_at_least(K):
    f = guard.tolerated_liars(K)
    assert f >= 1
    assert 3 * f < K or f == 1
    assert 3 * (f + 1) >= K


@given(st.integers(3, 500))
def test_honest_peers_outnumber_the_liars_around_any_agent(K):
    assert 2 * guard.tolerated_liars(K) <= K - 1


# stretch


@given(hnp.arrays(float, (3, 4), elements=anything), hnp.arrays(float, 4, elements=anything))
def test_stretch_is_1_just_where_points_are_as_near_as_the_agents_own_rows(spread, reach):
    found = guard.relative_distance(spread, reach)
    assert (found[spread <= reach] == 1.0).all()
    assert (found[spread > reach * (1 + 1e-15)] > 1.0).all()
    assert np.isfinite(found).all()
    assert (found >= 1.0).all()


def test_an_agent_without_rows_nearby_is_as_far_as_can_be():
    np.testing.assert_array_equal(guard.relative_distance([np.inf, 1.0], [1.0, 0.0]), guard.FARTHEST)


# consistency


def objecting(beliefs, expected, tolerance, m, k):
    return np.linalg.norm(np.atleast_1d(beliefs[m] - expected[k, m])) > tolerance[k, m]


@given(sizes, seeds, st.sampled_from([None, 1, 3]))
def test_answers_fall_just_when_more_peers_object_than_liars_are_withstood(K, seed, outputs):
    tail = () if outputs is None else (outputs,)
    random = np.random.default_rng(seed)
    beliefs, expected = random.normal(size=(4, K, *tail)), random.normal(size=(4, K, K, *tail))
    tolerance = 2.0 * random.exponential(size=(4, K, K))
    verdict = guard.consistent(guard.objections(beliefs, expected, tolerance))
    for p, m in np.ndindex(4, K):
        count = sum(objecting(beliefs[p], expected[p], tolerance[p], m, k) for k in range(K) if k != m)
        assert verdict[p, m] == (count <= guard.tolerated_liars(K))


@given(st.integers(3, 12), seeds, st.data())
def test_what_liars_say_neither_fells_an_answer_nor_saves_it_against_enough_honest_peers(K, seed, data):
    f, random = guard.tolerated_liars(K), np.random.default_rng(seed)
    places = random.permutation(K)
    liars, honest = places[:f], places[f:]
    beliefs = random.normal(size=(1, K))
    expected = np.broadcast_to(beliefs[:, None], (1, K, K)) + 0.1 * random.uniform(-1, 1, size=(1, K, K))
    tolerance = np.full((1, K, K), 0.1)
    expected[:, liars] = data.draw(st.floats(-1e6, 1e6))
    tolerance[:, liars] = data.draw(anything)
    assert guard.consistent(guard.objections(beliefs, expected, tolerance))[:, honest].all()
    beliefs[:, liars[0]] += 1.0
    assert not guard.consistent(guard.objections(beliefs, expected, tolerance))[0, liars[0]]


def test_agents_without_an_opinion_and_opinions_of_oneself_do_not_count():
    beliefs, expected = np.zeros((1, 4)), np.ones((1, 4, 4))
    assert guard.consistent(guard.objections(beliefs, expected, np.full((1, 4, 4), np.inf))).all()
    tolerance = np.where(np.eye(4, dtype=bool), 0.0, np.inf)[None]
    assert guard.consistent(guard.objections(beliefs, expected, tolerance)).all()


def test_two_agents_cannot_leave_each_other_out():
    assert guard.consistent(guard.objections(np.zeros((1, 2)), np.ones((1, 2, 2)), np.zeros((1, 2, 2)))).all()
    assert guard.plausible([[0.0, 9.0]], low=[0.0, 9.0], high=[0.0, 9.0]).all()


# plausibility


@given(st.integers(3, 12), seeds)
def test_the_plausible_range_is_what_more_agents_than_liars_have_seen_and_its_width_more(K, seed):
    random, f = np.random.default_rng(seed), guard.tolerated_liars(K)
    low = random.normal(size=K)
    high = low + random.exponential(size=K)
    first = min(x for x in low if (low <= x).sum() > f)
    last = max(x for x in high if (high >= x).sum() > f)
    beliefs = 3.0 * random.normal(size=(20, K))
    margin = guard.MARGIN * (last - first)
    expected = (beliefs >= first - margin) & (beliefs <= last + margin)
    np.testing.assert_array_equal(guard.plausible(beliefs, low, high), expected)


@given(st.integers(3, 12), seeds, st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_liars_cannot_widen_the_range_nor_leave_out_what_all_honest_agents_have_seen(K, seed, claim, other):
    random, f = np.random.default_rng(seed), guard.tolerated_liars(K)
    low, high = random.uniform(-2, -1, size=K), random.uniform(1, 2, size=K)
    low[:f], high[:f] = min(claim, other), max(claim, other)
    beliefs = np.array([[-1.0], [1.0], [2 + 4 * guard.MARGIN + 0.01], [-2 - 4 * guard.MARGIN - 0.01]]) * np.ones(K)
    verdict = guard.plausible(beliefs, low, high)
    assert verdict[:2].all()
    assert not verdict[2:].any()


def test_every_output_has_to_be_plausible():
    low, high = np.zeros((3, 2)), np.tile([1.0, 10.0], (3, 1))
    beliefs = np.array([[[0.5, 9.0], [9.0, 0.5], [1.2, 14.0]]])
    np.testing.assert_array_equal(guard.plausible(beliefs, low, high), [[True, False, True]])


def test_somebody_always_remains():
    kept = np.array([[False, False], [True, False], [True, True]])
    objections = np.array([[2, 2], [5, 0], [0, 0]])
    np.testing.assert_array_equal(guard.remaining(kept, objections), [[True, True], [True, False], [True, True]])
    np.testing.assert_array_equal(guard.remaining(kept[:1], np.array([[3, 2]])), [[False, True]])


# verification


@given(sizes, seeds)
def test_an_answer_is_verified_where_more_peers_are_near_than_liars_are_withstood(K, seed):
    stretch = stretches(seed, 5, K)
    kept = np.random.default_rng(seed).random((5, K)) < 0.8
    verdict = guard.verified(stretch, kept)
    for p, j in np.ndindex(5, K):
        near = sum(stretch[p, k] <= 1.0 and kept[p, k] for k in range(K) if k != j)
        assert verdict[p, j] == (near > guard.tolerated_liars(K))
    np.testing.assert_array_equal(guard.verified(stretch), guard.verified(stretch, np.ones((5, K), bool)))


# errors


def literal(errors, local, stretch, kept):
    """`tempered` for one point, word for word."""
    K, f = len(errors), guard.tolerated_liars(len(errors))
    ranked = sorted(stretch[k] for k in range(K) if kept[k])
    reach = max(1.0, ranked[min(max(f + 1, 2 * f), len(ranked) - 1)]) if ranked else 1.0
    low, high = np.zeros(K), np.full(K, np.inf)
    for j in range(K):
        peers = [k for k in range(K) if k != j and kept[k] and stretch[k] <= reach]
        rank = min(-(-len(peers) // 2), len(peers) - f)
        if rank >= 1:
            low[j] = sorted(local[k, j] / stretch[k] ** 2 for k in peers)[rank - 1]
        heard = [*peers, j] if len(peers) <= 2 * f and kept[j] and stretch[j] <= reach else peers
        rank = min(-(-len(heard) // 2), len(heard) - f)
        if rank >= 1:
            high[j] = sorted(local[k, j] * stretch[k] ** 2 for k in heard)[-rank]
    out = np.empty((K, K))
    for i in range(K):
        factors = [e / min(max(e, lo), hi) for e, lo, hi in zip(errors[i], low, high, strict=True) if hi < np.inf]
        level = np.median(factors) if factors else 1.0
        for j in range(K):
            floor = low[j] if i == j else low[j] / bounds.LEEWAY
            near = sorted(local[k, j] for k in range(K) if k != j and kept[k] and stretch[k] <= 1.0)
            if i == j and stretch[i] > 1.0 and near:
                floor = max(floor, near[max(0, min(-(-len(near) // 2), len(near) - f) - 1)])
            out[i, j] = min(max(errors[i, j] / level, floor), high[j] * bounds.LEEWAY)
    return out


@given(sizes, seeds)
def test_tempered_errors_are_those_of_the_literal_version(K, seed):
    errors, local, stretch = some(seed, 3, K, K), some(seed + 1, 3, K, K), stretches(seed, 3, K)
    kept = np.random.default_rng(seed).random((3, K)) < 0.8
    for mask in (kept, np.ones((3, K), bool)):
        expected = [literal(errors[p], local[p], stretch[p], mask[p]) for p in range(3)]
        np.testing.assert_allclose(bounds.clip_to_peer_bounds(errors, local, stretch, mask), expected, rtol=1e-12)
    np.testing.assert_allclose(bounds.clip_to_peer_bounds(errors, local, stretch), expected, rtol=1e-12)


@given(sizes, seeds)
def test_agents_that_agree_are_left_alone(K, seed):
    errors = np.repeat(some(seed, 4, 1, K), K, axis=1)
    np.testing.assert_allclose(bounds.clip_to_peer_bounds(errors, errors, stretches(seed, 4, K)), errors, rtol=1e-12)


@given(st.integers(4, 12), seeds, st.floats(1e-6, 1e6))
def test_an_honest_agent_in_a_noisier_place_counts_as_before(K, seed, noise):
    errors = np.repeat(some(seed, 4, 1, K), K, axis=1)
    louder = errors.copy()
    louder[:, 0] *= noise
    tempered = bounds.clip_to_peer_bounds(louder, louder, np.ones((4, K)))
    np.testing.assert_allclose(inverse_error_weights(tempered), inverse_error_weights(errors), rtol=1e-9)


@given(st.integers(2, 12), seeds, st.floats(1e-100, 1e100))
def test_tempered_errors_are_in_the_unit_of_the_errors(K, seed, unit):
    errors, local, stretch = some(seed, 2, K, K), some(seed + 1, 2, K, K), stretches(seed, 2, K)
    tempered = bounds.clip_to_peer_bounds(errors, local, stretch)
    np.testing.assert_allclose(
        bounds.clip_to_peer_bounds(errors * unit, local * unit, stretch), tempered * unit, rtol=1e-9
    )


@given(st.integers(2, 12), seeds)
def test_the_order_of_the_agents_does_not_matter(K, seed):
    errors, local, stretch, spread = (
        some(seed, 2, K, K),
        some(seed + 1, 2, K, K),
        stretches(seed, 2, K),
        some(seed, 2, K),
    )
    order = np.random.default_rng(seed).permutation(K)
    swapped = (errors[:, order][:, :, order], local[:, order][:, :, order], stretch[:, order])
    tempered = bounds.clip_to_peer_bounds(errors, local, stretch)[:, order][:, :, order]
    np.testing.assert_allclose(bounds.clip_to_peer_bounds(*swapped), tempered, rtol=1e-12)
    capped = bounds.capped(spread, stretch)[:, order]
    np.testing.assert_array_equal(bounds.capped(spread[:, order], stretch[:, order]), capped)


def attacked(K, seed, claims):
    """Honest agents that agree, and as many liars as are withstood, with any claims. Everybody is near."""
    f = guard.tolerated_liars(K)
    truth = some(seed, K) + 0.01
    errors = np.tile(truth, (K, 1))
    errors[:f] = claims
    return truth, errors[None], f


claims_of_liars = st.integers(4, 9).flatmap(
    lambda K: st.tuples(st.just(K), hnp.arrays(float, (guard.tolerated_liars(K), K), elements=anything))
)


@given(claims_of_liars, seeds)
def test_whatever_liars_say_their_claims_stay_within_the_leeway_of_what_honest_peers_measured(drawn, seed):
    K, claims = drawn
    truth, errors, f = attacked(K, seed, claims)
    tempered = bounds.clip_to_peer_bounds(errors, errors, np.ones((1, K)))[0]
    np.testing.assert_allclose(tempered[f:], np.tile(truth, (K - f, 1)), rtol=1e-12)
    assert (tempered[:f] <= bounds.LEEWAY * truth * (1 + 1e-12)).all()
    assert (tempered[:f] >= truth / bounds.LEEWAY * (1 - 1e-12)).all()
    assert (np.diag(tempered)[:f] >= truth[:f] * (1 - 1e-12)).all()


@given(claims_of_liars, seeds)
def test_whatever_liars_say_their_weight_is_bounded(drawn, seed):
    K, claims = drawn
    truth, errors, f = attacked(K, seed, claims)
    liars = np.arange(K) < f
    deserved = inverse_error_weights(truth[None])[0, liars].sum()
    best = np.where(liars, truth / bounds.LEEWAY, truth * bounds.LEEWAY)  # the most that they could say for each other
    most = max(inverse_error_weights(np.where(np.arange(K) == i, truth, best)[None])[0, liars].sum() for i in range(f))
    bound = deserved / (deserved + 1.0 - most)  # stationary: what comes in from the honest balances what leaves
    weights = consensus.solve(inverse_error_weights(bounds.clip_to_peer_bounds(errors, errors, np.ones((1, K)))))
    assert weights[0, liars].sum() <= bound * (1 + 1e-9)


@given(st.integers(3, 9), seeds)
def test_praise_of_itself_gains_a_liar_nothing(K, seed):
    truth = some(seed, K) + 0.01
    plain = np.tile(truth, (1, K, 1))
    stubborn = plain.copy()
    stubborn[0, 0, 0] = 0.0
    honest = consensus.solve(inverse_error_weights(plain))
    np.testing.assert_allclose(
        consensus.solve(inverse_error_weights(bounds.clip_to_peer_bounds(stubborn, stubborn, np.ones((1, K))))),
        honest,
        rtol=1e-9,
    )
    assert consensus.solve(inverse_error_weights(stubborn))[0, 0] > 0.99


def test_far_peers_bound_less():
    errors = np.ones((1, 4, 4))
    errors[0, 3, 3] = 0.0
    for s in (1.0, 2.0, 10.0):
        stretch = np.array([[s, s, s, 1.0]])
        assert bounds.clip_to_peer_bounds(errors, errors, stretch)[0, 3, 3] == pytest.approx(s**-2)


def test_those_left_out_are_not_asked():
    errors = np.ones((1, 5, 5))
    errors[0, :2] = 100.0
    kept = np.array([[False, False, True, True, True]])
    errors[0, 4, 4] = 0.0
    assert bounds.clip_to_peer_bounds(errors, errors, np.ones((1, 5)), kept)[0, 4, 4] == 1.0
    assert bounds.clip_to_peer_bounds(errors, errors, np.ones((1, 5)))[0, 4, 4] == 1.0
    assert bounds.clip_to_peer_bounds(errors, errors, np.ones((1, 5)), ~kept)[0, 4, 4] == 100.0


@given(st.integers(2, 6), seeds)
def test_tempered_moments_stay_positive_semidefinite(K, seed):
    residuals = np.random.default_rng(seed).normal(size=(2, K, K + 2, K))
    low = np.tril_indices(K)
    moments = np.einsum("minj,mink->mijk", residuals, residuals)[..., low[0], low[1]]
    evidence = Evidence(np.empty((0, K, K)), moments, np.ones((2, K)), np.full((2, K), 9.0)).complete()
    other = with_errors(evidence, bounds.clip_to_peer_bounds(evidence.errors, evidence.errors, np.ones((2, K))))
    assert semidefinite(np.asarray(other.moments)).all()


# coverage


@given(sizes, seeds)
def test_spreads_are_at_least_the_median_of_the_others_that_are_near(K, seed):
    spread, stretch = some(seed, 4, K), stretches(seed, 4, K)
    kept = np.random.default_rng(seed).random((4, K)) < 0.8
    capped = bounds.capped(spread, stretch, kept)
    for p, i in np.ndindex(4, K):
        near = sorted(spread[p, k] for k in range(K) if k != i and kept[p, k] and stretch[p, k] <= 1.0)
        assert capped[p, i] == max(spread[p, i], near[len(near) // 2] if near else 0.0)


@given(st.integers(3, 12), seeds)
def test_a_claim_to_be_infinitely_near_counts_for_no_more_than_half_of_the_honest_peers_nearby(K, seed):
    f, spread = guard.tolerated_liars(K), some(seed, 1, K)
    spread[0, :f] = 0.0
    capped = bounds.capped(spread, np.ones((1, K)))
    honest = np.sort(spread[0, f:])
    assert (capped[0, :f] >= honest[: (K - 1) // 2 - (f - 1) + 1].max()).all()


# expectations


def judged(n, d, seed, size=12, outputs=1, kind=np.float64):
    """Rows, answers of a linear model and of a step, and the expectations that follow from them."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(n, d)).astype(kind)
    slopes = random.normal(size=(d, outputs))
    answers = np.stack([rows @ slopes + 1.0, np.where(rows[:, :1] > 0, 1.0, 0.0) + np.zeros((1, outputs))], axis=-1)
    errors = (answers.astype(float) ** 2).sum(axis=1) * 0.01
    near = Neighbourhoods(rows, min(size, n), kernel="tricube")
    return rows, slopes, answers.astype(float), errors, AnswerForecaster(rows, answers.astype(float), errors, near)


def literally_expected(rows, answers, errors, size, x):
    """(answers, tolerance) of each model at one point, word for word: one output, loops over rows."""
    n, K = answers.shape
    weigh = lambda gaps: (1 - np.minimum(gaps / np.sort(gaps)[size - 1], 1) ** 3) ** 3  # noqa: E731

    def near(point, exclude_row=None):
        gaps = np.linalg.norm(rows - point, axis=1)
        if exclude_row is not None:
            gaps[exclude_row] = np.inf
        weights = np.where(np.argsort(np.argsort(gaps, kind="stable")) < size, weigh(gaps), 0.0)
        finite = np.where(weights > 0, gaps, 0.0)
        return weights / weights.sum(), (weights * finite**2).sum() / weights.sum()

    design = np.column_stack([np.ones(n), rows])
    slopes = np.linalg.lstsq(design, answers, rcond=None)[0]
    hat = np.einsum("ni,ij,nj->n", design, np.linalg.inv(design.T @ design), design)
    left = answers - design @ slopes
    plain, trend = np.empty((n, K)), np.empty((n, K))
    spreads = []
    for i in range(n):
        weights, spread = near(rows[i], i)
        plain[i] = answers[i] - weights @ answers
        trend[i] = left[i] / (1 - hat[i]) - weights @ left
        spreads.append(spread)
    weights, spread = near(x)
    shrunk = lambda miss: (size * weights @ miss**2 + 5 * (miss**2).mean(axis=0)) / (size + 5)  # noqa: E731
    point = np.concatenate([[1.0], x])
    said, told = weights @ answers, point @ slopes + weights @ left
    leverage = (x - rows.mean(axis=0)) @ np.linalg.inv(n * np.cov(rows.T, bias=True)) @ (x - rows.mean(axis=0))
    squares = DEVIATIONS**2 * np.stack([shrunk(plain), shrunk(trend) * (1 + leverage)])
    squares[0] += (said - told) ** 2
    growth = max(1.0, spread / np.quantile(spreads, 0.99))
    better = squares[1] < squares[0]
    return np.where(better, told, said), np.sqrt(growth * (squares.min(axis=0) + ERRORS**2 * weights @ errors))


@pytest.mark.parametrize("seed", range(3))
def test_expectations_are_those_of_the_literal_version(seed):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(60, 3))
    answers = np.column_stack([np.sin(2 * rows[:, 0]), rows @ [1.0, 2.0, 3.0] + 0.1 * rows[:, 0] ** 2, rows[:, 1] > 0])
    errors = random.exponential(size=(60, 3))
    expectations = AnswerForecaster(rows, answers[:, None], errors, Neighbourhoods(rows, 15, kernel="tricube"))
    points = np.vstack([random.normal(size=(6, 3)), 5.0 * random.normal(size=(4, 3))])
    found = expectations.forecast(points)
    for x, said, tolerance in zip(points, found.answers[..., 0], found.tolerance, strict=True):
        expected = literally_expected(rows, answers, errors, 15, x)
        np.testing.assert_allclose(said, expected[0], rtol=1e-4, atol=1e-4)  # but for the ridge
        np.testing.assert_allclose(tolerance, expected[1], rtol=1e-4)


@given(seeds, st.integers(1, 3))
def test_answers_of_linear_models_are_foretold_anywhere(seed, outputs):
    _rows, slopes, _answers, errors, expectations = judged(60, 3, seed, outputs=outputs)
    points = 3.0 * np.random.default_rng(seed + 1).normal(size=(10, 3))
    found = expectations.forecast(points)
    np.testing.assert_allclose(found.answers[:, 0], points @ slopes + 1.0, rtol=1e-4, atol=1e-3)
    growth = np.sqrt(guard.relative_distance(found.spread, expectations.usual_distance))
    allowed = ERRORS * np.sqrt(found.errors[:, 0]) * growth
    np.testing.assert_allclose(found.tolerance[:, 0], allowed, rtol=1e-2, atol=1e-2)
    assert errors.shape == (60, 2)


def test_nearly_all_of_the_agents_own_rows_are_near():
    rows, *_, expectations = judged(300, 3, 0)
    near = expectations.forecast(rows).spread <= expectations.usual_distance
    assert near.mean() >= 0.99
    assert not (expectations.forecast(rows + 30.0).spread <= expectations.usual_distance).any()


def test_honest_answers_are_within_tolerance_and_large_lies_are_not():
    random = np.random.default_rng(0)
    rows, points = random.normal(size=(400, 2)), random.normal(size=(200, 2))

    def answer(X):
        return np.column_stack([np.sin(X[:, 0]) * X[:, 1], np.floor(2 * X[:, 0])])

    errors = 0.04 * np.ones((400, 2))
    expectations = AnswerForecaster(rows, answer(rows)[:, None], errors, Neighbourhoods(rows, 20, kernel="tricube"))
    found = expectations.forecast(points)
    apart = np.abs(answer(points) - found.answers[..., 0])
    assert (apart <= found.tolerance).mean() >= 0.99
    near = found.spread <= expectations.usual_distance
    assert (np.abs(answer(points) + 10.0 - found.answers[..., 0]) > found.tolerance)[near].all()


def test_tolerance_grows_with_the_distance():
    _rows, *_, expectations = judged(200, 2, 3)
    direction = np.array([[1.0, 0.5]])
    tolerance = np.array([expectations.forecast(s * direction).tolerance[0] for s in (10.0, 20.0, 40.0, 80.0)])
    assert (np.diff(tolerance, axis=0) > 0).all()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows_have_no_trend_and_a_single_one_no_opinion(n):
    rows, _slopes, answers, _errors, expectations = judged(n, 4, 0)
    found = expectations.forecast(rows)
    assert expectations.trend is None
    assert np.isfinite(found.answers).all()
    if n == 1:
        assert (found.tolerance == np.inf).all()
        assert expectations.usual_distance == 0.0
        np.testing.assert_array_equal(found.answers[..., 0], answers[:, 0])
    else:
        assert np.isfinite(found.tolerance).all()


def test_sparse_rows_single_precision_and_other_units_give_the_same():
    rows, _slopes, answers, errors, expectations = judged(80, 3, 5)
    expected = expectations.forecast(rows[:9] + 0.1)
    wide = np.hstack([rows, np.zeros((80, 20))])
    sparse = AnswerForecaster(csr_array(wide), answers, errors, Neighbourhoods(csr_array(wide), 12, kernel="tricube"))
    found = sparse.forecast(csr_array(np.hstack([rows[:9] + 0.1, np.zeros((9, 20))])))
    np.testing.assert_allclose(found.answers, expected.answers, rtol=1e-4, atol=1e-4)
    for unit in (1e-150, 1e150):
        near = Neighbourhoods(rows * unit, 12, kernel="tricube")
        found = AnswerForecaster(rows * unit, answers, errors, near).forecast((rows[:9] + 0.1) * unit)
        np.testing.assert_allclose(found.answers, expected.answers, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(found.tolerance, expected.tolerance, rtol=1e-4)
    single = judged(80, 3, 5, kind=np.float32)[-1].forecast(rows[:9].astype(np.float32) + np.float32(0.1))
    np.testing.assert_allclose(single.answers, expected.answers, rtol=1e-3, atol=1e-3)


def test_features_that_never_change_do_no_harm():
    rows, _slopes, answers, errors, expectations = judged(80, 3, 6)
    constant = np.hstack([rows, np.full((80, 1), 1e6)])
    near = Neighbourhoods(constant, 12, kernel="tricube")
    found = AnswerForecaster(constant, answers, errors, near).forecast(constant[:9])
    np.testing.assert_allclose(found.answers, expectations.forecast(rows[:9]).answers, rtol=1e-5, atol=1e-5)


# what cannot be


def sound(M=3, K=3):
    residuals = np.random.default_rng(0).normal(size=(M, K, 4, K))
    low = np.tril_indices(K)
    moments = np.einsum("minj,mink->mijk", residuals, residuals)[..., low[0], low[1]]
    packed = np.ascontiguousarray(moments)
    return Evidence(np.empty((0, K, K)), packed, np.ones((M, K)), np.full((M, K), 5.0)).complete()


def test_sound_opinions_are_not_complained_of():
    assert not malformed(sound()).any()
    alone = sound()
    alone.spread[1, 2], alone.effective[1, 2] = np.inf, 0.0
    assert not malformed(alone).any()


@pytest.mark.parametrize("part", ["errors", "moments", "spread", "effective"])
@pytest.mark.parametrize("value", [np.nan, -5.0])
def test_who_says_what_cannot_be_is_found(part, value):
    opinions = sound()
    array = getattr(opinions, part)
    array[(2, 1) + (0,) * (array.ndim - 2)] = value
    expected = np.zeros((3, 3), bool)
    expected[2, 1] = True
    np.testing.assert_array_equal(malformed(opinions), expected)


@given(st.integers(1, 6), seeds, st.floats(-1, 1))
def test_semidefinite_is_what_eigenvalues_say(K, seed, shift):
    random = np.random.default_rng(seed)
    residuals = random.normal(size=(random.integers(1, K + 2), K))
    matrix = residuals.T @ residuals
    root = np.sqrt(np.diag(matrix))
    matrix = matrix / np.outer(root, root) + shift * (1 - np.eye(K))
    least = np.linalg.eigvalsh(matrix).min()
    if abs(least) > 1e-6 or shift == 0:
        low = np.tril_indices(K)
        packed = (matrix * np.outer(root, root))[low][None, None]
        assert semidefinite(packed)[0, 0] == (least > -1e-6)
