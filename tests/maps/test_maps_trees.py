"""Cells of random trees: the oracle walks every tree node by node."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from degroot.exceptions import InvalidInput
from degroot.maps import MapSettings
from degroot.maps.settings import check_settings
from degroot.maps.trees import draw_trees

RANGES = ((0.0, 1.0), (-5.0, 10.0), (100.0, 101.0))
FEATURES, CUTS = (
    [1, 2, 2],
    [0.36260359499529593, 0.4000831424556127, 0.686776722698131],
)  # as first drawn: published maps depend on them


def make_settings(**changed):
    return MapSettings(**{
        "ranges": RANGES, "residual_bound": 1.0, "rows": 4000, "epsilon": 1.0, "trees": 3, "depth": 4
    } | changed)  # fmt: skip


def walk(trees, tree, point):
    """The cell of one point."""
    nodes, node = trees.features.shape[1], 0
    unit = [(value - low) / span for value, low, span in zip(point, trees.low, trees.span, strict=True)]
    while node < nodes:
        right = unit[trees.features[tree, node]] >= trees.cuts[tree, node]
        node = 2 * node + (2 if right else 1)
    return node - nodes


@settings(max_examples=20)
@given(st.integers(0, 2**63), st.integers(1, 6))
def test_cells_are_those_of_a_walk_down_each_tree(seed, depth):
    trees = draw_trees(make_settings(seed=seed, depth=depth))
    low, high = np.array(RANGES).T
    points = np.random.default_rng(seed).uniform(low, high, size=(20, 3))
    cells = trees.find_cells(points)
    assert cells.shape == (3, 20)
    assert cells.tolist() == [[walk(trees, tree, point) for point in points] for tree in range(3)]


def test_every_machine_draws_the_same_trees():
    trees = draw_trees(make_settings(seed=7, trees=1, depth=2))
    assert trees.features.tolist() == [FEATURES]
    np.testing.assert_allclose(trees.cuts[0], CUTS, rtol=0, atol=1e-15)


def test_every_cell_can_be_reached_and_cuts_are_in_the_middle_half():
    trees = draw_trees(make_settings(depth=5, trees=1))
    low, high = np.array(RANGES).T
    cells = trees.find_cells(np.random.default_rng(0).uniform(low, high, size=(200_000, 3)))
    assert set(cells[0]) == set(range(32))
    assert 0.25 <= trees.cuts[0, 0] <= 0.75


def test_points_beyond_the_ranges_are_at_their_ends():
    trees = draw_trees(make_settings())
    inside = np.array([[0.0, 10.0, 100.5], [0.0, -5.0, 101.0]])
    outside = np.array([[-9.0, np.inf, 100.5], [np.nan, -1e300, 1e300]])
    np.testing.assert_array_equal(trees.find_cells(outside), trees.find_cells(inside))


def test_points_of_another_width_are_refused():
    with pytest.raises(InvalidInput, match="must have 3 features"):
        draw_trees(make_settings()).find_cells(np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"ranges": ()}, "number of features"), ({"ranges": ((1.0, 1.0),)}, "least and the largest"),
        ({"ranges": ((0.0, np.nan),)}, "least and the largest"), ({"residual_bound": 0.0}, "`residual_bound`"),
        ({"epsilon": 0.0}, "`epsilon`"), ({"epsilon": np.nan}, "`epsilon`"), ({"epsilon": 1e6}, "`epsilon`"),
        ({"delta": 0.0}, "`delta`"), ({"delta": 0.001}, "`delta`"), ({"rows": 0}, "`rows`"), ({"rows": 3.5}, "`rows`"),
        ({"seed": -1}, "`seed`"), ({"trees": 0}, "`trees`"), ({"depth": 40}, "`depth`"), ({"depth": True}, "`depth`"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused_in_one_line(changed, why):
    with pytest.raises(InvalidInput, match=why) as refusal:
        check_settings(make_settings(**changed))
    assert "\n" not in str(refusal.value)


@given(st.integers(1, 10**7), st.floats(0.01, 100.0))
def test_the_depth_follows_from_public_values_and_grows_with_them(rows, epsilon):
    chosen = make_settings(rows=rows, epsilon=epsilon, depth=None, delta=1e-9)
    check_settings(chosen)
    assert 2 <= chosen.n_levels <= 8
    assert chosen.n_levels <= make_settings(rows=2 * rows, epsilon=epsilon, depth=None).n_levels
