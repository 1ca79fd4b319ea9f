"""The mixture: folds of whole units, standard errors by units, and shares by the formula, one row after the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from support import asker_oracle as oracle

from degroot.asker import assign_folds, clustered_standard_error, mix_candidates
from degroot.asker.mixture import FEW_UNITS, FOLDS, LEAST_SHARE

codes = st.lists(st.integers(0, 40), min_size=1, max_size=90).map(
    lambda labels: np.unique(labels, return_inverse=True)[1].astype(np.intp)
)


# -- folds -------------------------------------------------------------------------------------------------------------


@given(codes)
def test_folds_are_of_whole_units(units):
    folds, U = assign_folds(units), len(np.unique(units))
    assert folds.shape == units.shape
    by_unit = {unit: set(folds[units == unit].tolist()) for unit in np.unique(units)}
    assert all(len(found) == 1 for found in by_unit.values())
    sizes = np.unique([fold for (fold,) in by_unit.values()], return_counts=True)[1]
    if U <= FEW_UNITS:
        assert len(sizes) == U
    else:
        assert len(sizes) == FOLDS
        assert sizes.max() - sizes.min() <= 1  # as many units in each


def test_each_of_few_units_is_a_fold_and_more_are_ten():
    assert FEW_UNITS == 25
    assert FOLDS == 10
    for U, count in [(1, 1), (2, 2), (25, 25), (26, 10), (1000, 10)]:
        assert len(np.unique(assign_folds(np.arange(U)))) == count
        assert len(np.unique(assign_folds(np.repeat(np.arange(U), 3)))) == count


def test_folds_are_the_same_every_time_and_do_not_follow_the_order_of_rows():
    units = np.arange(200)
    assert_array_equal(assign_folds(units), assign_folds(units))
    assert not (np.diff(assign_folds(units)) == 1).mean() > 0.5
    assert (assign_folds(units, seed=1) != assign_folds(units)).any()


# -- standard errors ---------------------------------------------------------------------------------------------------


@given(codes, st.integers(0, 2**32 - 1), st.sampled_from([1.0, 1e-100, 1e150, 1e280]))
def test_standard_errors_are_those_of_a_loop_over_units(units, seed, scale):
    source = np.random.default_rng(seed)
    values = source.normal(size=(len(units), 3)) + source.normal(size=(units.max() + 1, 3))[units]
    found = clustered_standard_error(scale * values, units)
    assert_allclose(found / scale, [oracle.standard_error(column, units) for column in values.T], rtol=1e-10)


def test_units_of_one_row_give_the_usual_standard_error():
    values = np.random.default_rng(0).normal(size=40)
    assert_allclose(clustered_standard_error(values, np.arange(40)), values.std(ddof=1) / np.sqrt(40))


def test_copies_of_rows_in_their_units_add_nothing():
    values = np.random.default_rng(1).normal(size=30)
    once = clustered_standard_error(values, np.arange(30))
    assert_allclose(clustered_standard_error(np.repeat(values, 4), np.repeat(np.arange(30), 4)), once)
    assert clustered_standard_error(np.repeat(values, 4), np.arange(120)) < 0.6 * once


def test_standard_errors_are_right_on_average():
    """Of means of rows whose units have errors in common; a plain standard error would be less than half of it."""
    source, units = np.random.default_rng(2), np.repeat(np.arange(20), 10)
    draws = source.normal(size=(200, 3000)) + source.normal(size=(20, 3000))[units]
    estimated = clustered_standard_error(draws, units)
    assert abs(np.sqrt((estimated**2).mean()) / draws.mean(axis=0).std() - 1) < 0.05
    assert (draws.std(axis=0) / np.sqrt(200)).mean() < 0.5 * estimated.mean()


# -- shares ------------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(codes, st.integers(1, 5), st.integers(0, 2**32 - 1), st.sampled_from([1e-200, 1.0, 1e200]))
def test_shares_are_those_of_the_formula(units, C, seed, scale):
    source = np.random.default_rng(seed)
    losses = (source.normal(size=(len(units), C)) + source.normal(size=C)) ** 2
    expected = oracle.mix({c: losses[:, c] for c in range(C)}, units)
    shares = mix_candidates(scale * losses, units)
    assert_allclose(shares, [expected[c] for c in range(C)], atol=1e-9)
    assert_allclose(shares.sum(), 1)
    assert not ((shares > 0) & (shares < LEAST_SHARE)).any()


def test_the_best_has_the_largest_share_and_nobody_behind_by_chance_has_none():
    source = np.random.default_rng(3)
    common = source.exponential(size=200)
    losses = common[:, None] + np.array([0.0, 0.05, 1.0]) + 0.5 * source.normal(size=(200, 3))
    shares = mix_candidates(losses, np.arange(200))
    assert np.argmax(shares) == np.argmin(losses.mean(axis=0))
    assert shares[1] > 0.05
    assert shares[2] == 0


def test_candidates_that_do_alike_share_alike():
    losses = np.random.default_rng(4).exponential(size=(50, 1))
    assert_allclose(mix_candidates(np.tile(losses, 4), np.arange(50)), 0.25)
    assert_allclose(mix_candidates(np.zeros((50, 2)), np.arange(50)), 0.5)
    rounded = losses * (1 + 1e-15 * np.random.default_rng(5).normal(size=(50, 4)))
    assert_allclose(mix_candidates(rounded, np.arange(50)), 0.25)  # not one takes all by rounding
    assert_array_equal(mix_candidates(np.column_stack([losses, losses + 1]), np.arange(50)), [1, 0])


def test_one_unit_tells_nothing_and_all_share_alike():
    losses = np.random.default_rng(5).exponential(size=(50, 3))
    assert_allclose(mix_candidates(losses, np.zeros(50, int)), 1 / 3)


def test_relabelling_candidates_units_and_rows_changes_nothing():
    source = np.random.default_rng(6)
    losses, units = source.exponential(size=(60, 4)) + np.array([0, 0.1, 0.2, 2]), source.integers(0, 15, 60)
    shares = mix_candidates(losses, units)
    order, rows, labels = source.permutation(4), source.permutation(60), source.permutation(15)
    assert_allclose(mix_candidates(losses[:, order], units), shares[order])
    assert_allclose(mix_candidates(losses[rows], labels[units][rows]), shares)


@pytest.mark.parametrize("huge", [1e20, 1e150, 1e280])
def test_a_candidate_with_a_huge_error_on_every_row_gets_nothing(huge):
    """Also where the square of its losses would overflow."""
    losses = np.random.default_rng(7).exponential(size=(60, 3))
    losses[:, 1] = huge * (1 + 0.1 * losses[:, 1])
    assert mix_candidates(losses, np.arange(60))[1] == 0
