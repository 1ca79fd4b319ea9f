"""The oracle is the definition: the ceil((n + 1) c)-th smallest of all scores; and each of n + 1 as the new one."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import brentq
from support.seed import SEED

from degroot.exceptions import InvalidInput
from degroot.intervals import (
    POINTS,
    Summary,
    class_scores,
    half_width,
    local_error,
    prediction_sets,
    rows_needed,
    score,
    summary,
    threshold,
)

percent = st.integers(1, 99)
scores = st.lists(st.integers(0, 30), min_size=1, max_size=60).map(lambda values: np.array(values, float))
amounts = st.floats(1e-6, 1e6)


@st.composite
def dealt(draw):
    """Scores, and how they are dealt to agents."""
    values = draw(scores)
    owners = np.array(draw(st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values))))
    return [values[owners == k] for k in range(4) if (owners == k).any()]


def rank(n, percent):
    """ceil((n + 1) c) in whole numbers."""
    return -(-(n + 1) * percent // 100)


def exact(values, percent):
    return np.sort(values)[rank(len(values), percent) - 1]


def pooled(parts, percent, points=POINTS):
    return float(threshold([summary(part, points) for part in parts], percent / 100))


# the threshold


@given(dealt(), percent)
def test_with_every_score_told_the_threshold_is_the_definition(parts, c):
    values = np.concatenate(parts)
    assume(rank(len(values), c) <= len(values))
    assert pooled(parts, c) == exact(values, c)


@given(dealt(), percent, st.integers(1, 12))
def test_otherwise_it_is_never_below_and_no_further_above_than_scores_were_left_untold(parts, c, points):
    values = np.concatenate(parts)
    n, k = len(values), rank(len(values), c)
    assume(k <= n)
    untold = sum(int(np.diff(summary(part, points).ranks, prepend=0).max()) - 1 for part in parts)
    got = pooled(parts, c, points)
    assert got >= exact(values, c)
    assert got <= np.sort(values)[min(k + untold, n) - 1]


@pytest.mark.parametrize("n", [POINTS + 1, 1000, 12345, 100000])
def test_a_summary_is_short_and_leaves_out_few_in_a_row(n):
    told = summary(np.arange(n))
    gaps = np.diff(told.ranks, prepend=0)
    assert len(told.ranks) <= POINTS
    assert told.ranks[-1] == n
    assert (told.scores == told.ranks - 1).all()
    assert gaps.max() - 1 < n / 256
    assert gaps[told.ranks > 0.9 * n].max() - 1 < n / 700  # closer where thresholds are sought


@given(dealt(), percent, percent, st.integers(1, 12))
def test_more_coverage_takes_no_lower_threshold(parts, c, d, points):
    low, high = sorted((c, d))
    n = sum(map(len, parts))
    assume(rank(n, high) <= n)
    assert pooled(parts, low, points) <= pooled(parts, high, points)


@given(dealt(), percent, st.integers(1, 12), st.randoms())
def test_the_order_of_agents_and_of_their_rows_does_not_matter(parts, c, points, random):
    n = sum(map(len, parts))
    assume(rank(n, c) <= n)
    others = [np.array(random.sample(part.tolist(), len(part))) for part in parts]
    random.shuffle(others)
    assert pooled(others, c, points) == pooled(parts, c, points)


@given(dealt(), percent, st.integers(1, 12), st.integers(-20, 20))
def test_scores_in_other_units_give_the_threshold_in_these_units(parts, c, points, power):
    n = sum(map(len, parts))
    assume(rank(n, c) <= n)
    assert pooled([part * 2.0**power for part in parts], c, points) == pooled(parts, c, points) * 2.0**power


def test_outputs_have_thresholds_of_their_own():
    random = np.random.default_rng(SEED)
    parts = [random.exponential(size=(n, 3)) * [1, 10, 100] for n in (30, 300, 700)]
    together = threshold([summary(part) for part in parts], 0.9)
    assert together.shape == (3,)
    for q in range(3):
        assert together[q] == threshold([summary(part[:, q]) for part in parts], 0.9)


# what it promises


@given(st.integers(2, 40), percent, st.randoms())
def test_of_exchangeable_scores_the_promised_part_is_at_or_below(n, c, random):
    """Whichever of n + 1 distinct scores is the new one, as likely as any other, k of n + 1 are at or below."""
    k = rank(n, c)
    assume(k <= n)
    everyone = np.array(random.sample(range(1000), n + 1), float)
    cut = random.randint(1, n - 1)
    hits = 0
    for new in range(n + 1):
        rest = np.delete(everyone, new)
        hits += everyone[new] <= pooled([rest[:cut], rest[cut:]], c)
    assert hits == k
    assert Fraction(c, 100) <= Fraction(hits, n + 1) < Fraction(c, 100) + Fraction(1, n + 1)


def test_intervals_hold_the_promised_part_of_outcomes_and_widen_with_the_noise():
    """Rows of unlike noise, and a local error that follows it roughly."""
    random, M = np.random.default_rng(SEED), 40000
    noise = random.uniform(0.2, 3.0, size=M)
    residuals, local = noise * random.standard_t(4, size=M), noise**2 * random.uniform(0.5, 2.0, size=M)
    overall = np.mean(residuals[: M // 2] ** 2)
    calibration, new = slice(0, M // 2), slice(M // 2, M)
    told = [summary(part) for part in np.array_split(score(residuals[calibration], local[calibration], overall), 5)]
    quiet = noise[new] < 1.0
    for c in (0.5, 0.9, 0.99):
        width = half_width(threshold(told, c), local[new], overall)
        held = np.abs(residuals[new]) <= width
        chance = 5 * math.sqrt(c * (1 - c) / (M // 4))  # of calibration and of new outcomes
        assert c - chance < held.mean() < c + chance + 1 / 256
        assert width[quiet].mean() < width[~quiet].mean()
    held_by_one_width = np.abs(residuals[new]) <= np.quantile(np.abs(residuals[calibration]), 0.99)
    assert held_by_one_width[~quiet].mean() < held[~quiet].mean()  # where it is hard, one width for all is too short


# the width of an interval


@given(amounts, amounts, amounts)
def test_the_score_of_a_residual_is_the_threshold_whose_interval_just_reaches_it(size, local, overall):
    t = score(size, local, overall)
    assert half_width(t, local, overall) == pytest.approx(size, rel=1e-9)
    assert score(-size, local, overall) == t
    root = brentq(lambda t: half_width(t, local, overall) - size, 0.0, 2 * float(t), xtol=1e-300, rtol=1e-12)
    assert t == pytest.approx(root, rel=1e-6)


@given(st.floats(0, 100), st.floats(0, 100), amounts, amounts, amounts)
def test_intervals_are_nested_and_widen_with_the_local_error(t, s, local, other, overall):
    (t, s), (local, other) = sorted((t, s)), sorted((local, other))
    slack = 1 + 1e-12
    assert half_width(t, local, overall) <= half_width(s, local, overall) * slack
    assert half_width(t, local, overall) <= half_width(t, other, overall) * slack


@given(st.floats(0, 100), amounts, amounts, st.floats(1e-3, 1e3))
def test_labels_in_other_units_give_widths_in_these_units(t, local, overall, unit):
    wide = half_width(t, local * unit**2, overall * unit**2)
    assert wide == pytest.approx(unit * half_width(t, local, overall), rel=1e-9)
    assert score(unit * wide, local * unit**2, overall * unit**2) == pytest.approx(
        score(wide, local, overall), rel=1e-6
    )


@given(st.floats(0, 100), amounts)
def test_where_the_local_error_is_the_overall_one_the_width_counts_its_root(t, overall):
    assert half_width(t, overall, overall) == pytest.approx(t * math.sqrt(overall), rel=1e-12)


@given(amounts, amounts)
def test_low_coverage_goes_by_the_overall_error_and_high_coverage_by_the_local_one(local, overall):
    assert half_width(1e-9, local, overall) / 1e-9 == pytest.approx(math.sqrt(overall), rel=1e-3)
    assert half_width(1e9, local, overall) / 1e9 == pytest.approx(math.sqrt(local), rel=1e-3)


def test_without_any_error_an_interval_is_a_point():
    assert score([0.0, 1.0], 0.0, 0.0).tolist() == [0.0, np.inf]
    assert half_width(threshold([summary(score(np.zeros(20), 0.0, 0.0))], 0.9), 0.0, 0.0) == 0.0


# the local error


def by_hand(near, spread, effective, overall):
    share = 1 / spread / (1 / spread).sum()
    n = 1 / (share**2 / effective).sum()
    return (n * (share * near).sum() + 2 * overall) / (n + 2)


@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_the_local_error_pools_agents_by_coverage_and_leans_on_the_overall_one(K, seed):
    random = np.random.default_rng(seed)
    near, spread, effective = random.exponential(size=(3, 7, K, 2)) + 0.01
    spread, effective, overall = spread[..., 0], 1 + 20 * effective[..., 0], random.exponential(size=2) + 0.01
    local = local_error(near, spread, effective, overall)
    assert local.shape == (7, 2)
    for q in range(2):
        one = local_error(near[..., q], spread, effective, overall[q])
        np.testing.assert_array_equal(one, local[:, q])
        expected = [by_hand(near[m, :, q], spread[m], effective[m], overall[q]) for m in range(7)]
        np.testing.assert_allclose(one, expected, rtol=1e-12)


def test_an_agent_without_rows_has_no_say():
    near, spread, effective = np.array([[2.0, np.nan]]), np.array([[1.0, np.inf]]), np.array([[8.0, 0.0]])
    assert local_error(near, spread, effective, 1.0) == local_error(near[:, :1], spread[:, :1], effective[:, :1], 1.0)


# how many rows it takes


@given(percent)
def test_rows_needed_is_the_least_number_for_which_there_is_such_a_score(c):
    enough = rows_needed(c / 100)
    assert rank(enough, c) <= enough
    assert enough == 1 or rank(enough - 1, c) > enough - 1


def test_too_few_rows_are_told_with_how_many_it_takes():
    told = [summary(np.arange(40.0)), summary(np.arange(58.0))]
    assert threshold([*told, summary([7.0])], 0.99) == 57.0
    with pytest.raises(InvalidInput, match=r"coverage of 0\.99 must be calibrated on at least 99 rows; there are 98"):
        threshold(told, 0.99)


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 90, math.nan, "0.9", None, True])
def test_coverage_lies_between_0_and_1(coverage):
    with pytest.raises(InvalidInput, match="`coverage` must lie between 0 and 1; got"):
        threshold([summary([1.0])], coverage)


@pytest.mark.parametrize(
    ("values", "message"),
    [([], "one or more"), (1.0, "one or more"), (np.ones((2, 2, 2)), "one or more"), ([1.0, math.nan], "finite")],
)
def test_bad_scores_are_refused(values, message):
    with pytest.raises(InvalidInput, match=message):
        summary(values)


@pytest.mark.parametrize(
    ("ranks", "values", "message"),
    [
        ([0, 1], [1.0, 2.0], "number 1 do not"),
        ([2, 2], [1.0, 2.0], "number 1 do not"),
        ([], [], "number 1 do not"),
        ([1, 2], [2.0, 1.0], "number 1 are not"),
        ([1, 2], [1.0, math.inf], "number 1 are not"),
        ([1, 2], [1.0], r"number 1's is \(1,\)"),
        ([1, 2], [[1.0], [2.0]], r"number 1's is \(2, 1\)"),
    ],
)
def test_what_is_no_summary_is_refused(ranks, values, message):
    with pytest.raises(InvalidInput, match=message):
        threshold([summary([1.0]), Summary(np.array(ranks, int), np.array(values))], 0.5)


def test_there_must_be_a_summary_and_points_in_it():
    with pytest.raises(InvalidInput, match="at least one summary"):
        threshold([], 0.5)
    with pytest.raises(InvalidInput, match="`points` must be at least 1; got 0"):
        summary([1.0], points=0)


# sets of classes


@st.composite
def forecasts(draw):
    """Probabilities, and what came out."""
    rows, classes = draw(st.integers(3, 25)), draw(st.integers(2, 5))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    probabilities = random.dirichlet(np.ones(classes), size=rows)
    return probabilities, np.eye(classes)[random.integers(classes, size=rows)]


@given(forecasts(), percent)
def test_of_exchangeable_rows_sets_hold_at_least_the_promised_part_of_outcomes(drawn, c):
    probabilities, outcomes = drawn
    n = len(probabilities) - 1
    assume(rank(n, c) <= n)
    off = class_scores(probabilities, outcomes)
    hits = 0
    for new in range(n + 1):
        sets = prediction_sets(probabilities[new : new + 1], pooled([np.delete(off, new)], c))
        hits += bool((sets * outcomes[new]).any())
    assert Fraction(hits, n + 1) >= Fraction(c, 100)


@given(forecasts(), st.floats(0, 1), st.floats(0, 1))
def test_sets_are_never_empty_grow_with_the_threshold_and_hold_the_likelier_classes_first(drawn, t, s):
    probabilities, _ = drawn
    low, high = sorted((t, s))
    small, large = prediction_sets(probabilities, low), prediction_sets(probabilities, high)
    assert small.any(axis=1).all()
    assert (large | ~small).all()
    inside = np.where(small, probabilities, 1.0).min(axis=1)
    assert (small | (probabilities < inside[:, None])).all()
    assert prediction_sets(probabilities, 1.0).all()
    several = small.sum(axis=1) > 1
    assert (1.0 - inside[several] <= low).all()
