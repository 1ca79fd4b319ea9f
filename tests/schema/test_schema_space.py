"""The space of mixed tables: laws of the distances between rows by a schema."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import cdist

from degroot.exceptions import InvalidInput
from degroot.schema import Column, Schema, SchemaSpace

SCHEMA = Schema(
    (
        Column("number"),
        Column("category", "category", ("a", "b", "c")),
        Column("ordered", "ordered", ("low", "middle", "high")),
        Column("boolean", "boolean", ("no", "yes")),
        Column("date", "date"),
        Column("season", "date", cycle="year"),
    )
)
HIGHEST = np.array([1e6, 2, 2, 1, 4e4, 4e4])


@st.composite
def rows(draw, least=2):
    """Rows by the schema, with gaps."""
    shares = draw(arrays(float, (draw(st.integers(least, 12)), 6), elements=st.floats(0, 1)))
    numbers = shares * HIGHEST
    numbers[:, 1:4] = np.rint(numbers[:, 1:4])
    numbers[draw(arrays(bool, numbers.shape))] = np.nan
    return numbers


def embed(numbers, points=None):
    return SchemaSpace.of(SCHEMA).fit(numbers).transform(numbers if points is None else points)


@given(rows())
def test_vectors_are_finite_and_their_mean_is_where_a_gap_lies(numbers):
    vectors = embed(numbers)
    assert np.isfinite(vectors).all()
    gap = embed(numbers, np.full((1, 6), np.nan))[0]
    known = ~np.isnan(numbers)
    widths = SchemaSpace.of(SCHEMA).widths
    for place, start in enumerate(np.cumsum([0, *widths[:-1]])):
        part = vectors[known[:, place], start : start + widths[place]]
        if len(part):
            np.testing.assert_allclose(gap[start : start + widths[place]], part.mean(axis=0), atol=1e-9)


@given(rows(), st.randoms())
def test_the_order_of_the_rows_does_not_matter(numbers, random):
    order = list(range(len(numbers)))
    random.shuffle(order)
    np.testing.assert_allclose(embed(numbers)[order], embed(numbers[order]), atol=1e-9)


def test_all_categories_are_equally_far_apart():
    points = np.tile([1.0, 0, 1, 0, 5, 5], (3, 1))
    points[:, 1] = [0, 1, 2]
    distances = cdist(embed(points), embed(points))
    off = distances[~np.eye(3, dtype=bool)]
    assert np.ptp(off) < 1e-12
    assert off[0] > 0


@given(st.floats(1e-3, 1e3), st.floats(-1e3, 1e3), st.integers(0, 99))
def test_units_of_numbers_do_not_matter(factor, offset, seed):
    numbers = np.random.default_rng(seed).normal(size=(30, 6)) ** 2
    numbers[:, 1:4] = np.minimum(np.rint(numbers[:, 1:4]), 1)
    other = numbers.copy()
    other[:, 0] = other[:, 0] * factor + offset
    np.testing.assert_allclose(embed(numbers), embed(other), atol=1e-6)


def test_outliers_hardly_move_the_others():
    random = np.random.default_rng(0)
    numbers = np.column_stack([random.normal(size=500), *np.zeros((5, 500))])
    outlying = numbers.copy()
    outlying[:5, 0] *= 1e6
    inner, moved = embed(numbers)[5:], embed(outlying)[5:]
    assert np.abs(cdist(inner, inner) - cdist(moved, moved)).max() < 0.1 * cdist(inner, inner).max()
    assert np.abs(embed(outlying)).max() < 30


@pytest.mark.parametrize("zeros", [9, 90, 900])
def test_numbers_that_are_mostly_zero_keep_a_scale(zeros):
    numbers = np.zeros((zeros + 10, 6))
    numbers[:10, 0] = np.arange(1.0, 11.0)
    vectors = embed(numbers)[:, 0]
    assert (np.diff(vectors[:10]) >= 0).all()
    assert vectors[9] > vectors[0] > vectors[10]
    assert np.abs(vectors).max() < 60


def test_the_turn_of_the_year_is_no_border():
    days = np.zeros((3, 6))
    days[:, 5] = [19722.0, 19723.0, 19723.0 + 182]  # 31 December, 1 January, July
    distances = cdist(embed(days), embed(days))
    assert distances[0, 1] < 0.1 * distances[0, 2]


def test_constant_and_empty_columns_make_no_distance():
    numbers = np.array([[3.0, 1, 0, 1, 10, 10], [3.0, 1, 0, 1, 10, 10], [3.0, 1, 0, np.nan, 10, 10]])
    numbers[:, 2] = np.nan
    assert np.allclose(cdist(embed(numbers), embed(numbers)), 0.0)


def test_rows_of_another_width_are_refused():
    with pytest.raises(InvalidInput, match="Rows must have 6 columns"):
        SchemaSpace.of(SCHEMA).fit(np.zeros((2, 5)))
    with pytest.raises(InvalidInput, match="must be fitted"):
        SchemaSpace.of(SCHEMA).transform(np.zeros((2, 6)))
