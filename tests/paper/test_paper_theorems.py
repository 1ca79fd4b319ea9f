"""The two theorems: their shapes on quick runs, and the laws that the problems behind them rest on."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal
from support.seed import SEED

from degroot.paper.figures import theorem1, theorem2
from degroot.paper.problems import square, waves

FEW_1 = theorem1.Settings(seed=SEED, reps=8, rows=(100, 400, 1600, 6400, 25600))
FEW_2 = theorem2.Settings(seed=SEED, reps=3, rows=(100, 800, 6400), correlations=(0.3, 0.6, 0.9), directions=3)
TINY_1 = theorem1.Settings(seed=SEED, reps=2, rows=(50, 100, 200), side=2)
TINY_2 = theorem2.Settings(
    seed=SEED, reps=2, rows=(50, 200), correlations=(0.5,), directions=2, shifts=(-1.0, 1.0), points=50
)
TINY = [(theorem1, TINY_1), (theorem2, TINY_2)]


@pytest.fixture(scope="module")
def growing_rows():
    return theorem1.compute(FEW_1)


@pytest.fixture(scope="module")
def known_errors():
    return theorem2.compute(FEW_2)


def excess_of(table, scheme, **where):
    """DeGroot's, say, mean excess over the optimal weights, in percent."""
    every = theorem2.excess(table)
    chosen = every[(every.scheme == scheme) & np.all([every[name] == value for name, value in where.items()], axis=0)]
    return chosen.excess.mean()


# -- theorem 1 ---------------------------------------------------------------------------------------------------------


def test_the_weights_approach_their_limit_where_neighbourhoods_grow(growing_rows):
    slopes = theorem1.slopes(growing_rows, "growing")
    assert (slopes < 0).all()
    assert slopes.mean() == pytest.approx(FEW_1.slope, abs=0.1)


def test_the_weights_do_not_settle_with_five_neighbours(growing_rows):
    mean = {
        kind: theorem1.differences(growing_rows, kind).groupby("rows")["mean"].mean() for kind in ("growing", "fixed")
    }
    assert mean["fixed"][25600] > 2 * mean["growing"][25600]
    assert mean["fixed"][25600] > 0.6 * mean["fixed"][1600]
    assert mean["growing"][25600] < 0.6 * mean["growing"][1600]


def test_the_weights_at_the_drawn_point_end_nearer_to_their_limits(growing_rows):
    growing = growing_rows[growing_rows.neighbourhood == "growing"]
    off = (growing.weight - growing.limit).abs().groupby(growing.rows).mean()
    assert off[25600] < off[100] / 2


def test_weights_and_limits_sum_to_one(growing_rows):
    sums = growing_rows.groupby(["rows", "neighbourhood", "repetition"])[["weight", "limit"]].sum()
    assert_allclose(sums, 1.0)


def test_the_share_of_rows_in_a_growing_neighbourhood_shrinks(growing_rows):
    growing = growing_rows[growing_rows.neighbourhood == "growing"].drop_duplicates("rows")
    assert growing.neighbours.is_monotonic_increasing
    assert (growing.neighbours / growing.rows).is_monotonic_decreasing


def test_the_limits_are_in_inverse_proportion_to_the_errors_on_labels():
    X = square.make_points(20, np.random.default_rng([0, SEED]))
    products = square.inverse_weights(X, noise=0.3) * (square.misses(X) ** 2 + 0.09)
    assert_allclose(products, products[:, :1] * np.ones(5))


def test_each_model_is_best_at_its_home():
    assert (square.misses(square.HOMES).argmin(axis=1) == np.arange(5)).all()


def test_slopes_are_those_of_powers():
    rows = np.repeat([100, 200, 800], 2)
    known = pd.DataFrame(
        {"rows": rows, "repetition": [0, 1] * 3, "neighbourhood": "growing", "largest": 1.0,
         "mean": 3.0 * rows ** np.array([-0.5, 0.25] * 3)}
    )  # fmt: skip
    assert_allclose(theorem1.slopes(known, "growing"), [-0.5, 0.25])


def test_one_repetition_settles_no_slope(growing_rows):
    one = growing_rows[growing_rows.repetition == 0]
    falling, ending, staying = theorem1.findings(one, FEW_1)
    assert falling.agrees is staying.agrees is None
    assert ending.agrees is not None


# -- theorem 2 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_waves_are_unbiased_with_the_covariance_that_is_claimed(correlation):
    random = np.random.default_rng([1, SEED])
    X = square.make_points(100_000, random)
    standard = waves.Waves.drawn(1000.0, correlation, random).errors(X) / square.misses(X)
    assert_allclose(standard.mean(axis=0), 0.0, atol=0.02)
    assert_allclose(standard.T @ standard / len(X), correlation + (1 - correlation) * np.eye(5), atol=0.02)


def test_for_independent_errors_the_inverse_weights_are_optimal():
    random = np.random.default_rng([2, SEED])
    X = square.make_points(50, random)
    covariance = waves.Waves.drawn(1000.0, 0.0, random).covariance(X)
    inverse = square.inverse_weights(X, noise=0.0)
    assert_allclose(waves.optimal(covariance), inverse)
    assert_allclose(waves.optimal_on_simplex(covariance), inverse)
    assert_allclose(waves.expected_error(inverse, covariance), 1 / (1 / square.misses(X) ** 2).sum(axis=1))


@pytest.mark.parametrize("correlation", [0.2, 0.9])
def test_optimal_weights_have_the_slopes_of_an_optimum(correlation):
    """At the optimum no weight can be exchanged for another at a gain: Cw is the same for all weights in use."""
    random = np.random.default_rng([3, SEED])
    covariance = waves.Waves.drawn(1000.0, correlation, random).covariance(square.make_points(50, random))
    for weights, has_corners in ((waves.optimal(covariance), False), (waves.optimal_on_simplex(covariance), True)):
        assert_allclose(weights.sum(axis=1), 1.0)
        slopes = np.einsum("mij,mj->mi", covariance, weights) / waves.expected_error(weights, covariance)[:, None]
        used = weights > 0 if has_corners else np.ones_like(weights, dtype=bool)
        assert_allclose(slopes[used], 1.0, rtol=1e-6)
        assert (slopes[~used] > 1.0 - 1e-6).all()
        assert has_corners == (weights >= 0).all()


def test_degroot_approaches_the_least_error_with_more_rows(known_errors):
    above = [excess_of(known_errors, "DeGroot", rows=n, correlation=0.0) for n in FEW_2.rows]
    assert above[0] > above[1] > above[2]
    assert -1.0 < above[2] < 5.0


@pytest.mark.parametrize("scheme", ["M-avg", "best single"])
def test_other_weights_are_far_above_the_least_error(known_errors, scheme):
    assert excess_of(known_errors, scheme, rows=6400, correlation=0.0) > 100.0


def test_every_move_away_from_the_optimal_weights_costs_what_theory_says(known_errors):
    moved = theorem2.excess(known_errors).query("scheme == @theorem2.MOVED")
    assert len(moved) == FEW_2.reps * FEW_2.directions * len(FEW_2.shifts)
    assert (moved.excess > 0).all()
    assert moved.excess.mean() == pytest.approx(moved.expected.mean(), rel=0.1)
    assert_allclose(moved.expected[moved["shift"] == 1.0], 4 * moved.expected[moved["shift"] == -0.5])


@pytest.mark.parametrize("over", [theorem2.OPTIMAL, theorem2.ON_SIMPLEX])
def test_the_excess_grows_with_the_correlation_of_errors(known_errors, over):
    every = theorem2.excess(known_errors, over)
    degroot = every[(every.scheme == "DeGroot") & (every.rows == 6400)].groupby("correlation").excess.mean()
    assert list(degroot.index) == [0.0, 0.3, 0.6, 0.9]
    assert (degroot.diff().dropna() > 10.0).all()


def test_noise_on_labels_flattens_the_weights_and_costs():
    quiet = replace(FEW_2, reps=1, rows=(3200,), correlations=())
    quiet_table, noisy_table = theorem2.compute(quiet), theorem2.compute(replace(quiet, noise=0.5))
    where = {"rows": 3200, "correlation": 0.0}
    assert excess_of(noisy_table, "DeGroot", **where) > excess_of(quiet_table, "DeGroot", **where) + 10.0
    theory = noisy_table[(noisy_table.rows == 3200)].set_index("scheme").theory
    assert theory["M-avg"] > theory["DeGroot"] > theory[theorem2.OPTIMAL]


# -- both --------------------------------------------------------------------------------------------------------------


def test_all_findings_agree_on_a_quick_run(growing_rows, known_errors):
    found = theorem1.findings(growing_rows, FEW_1) + theorem2.findings(known_errors, FEW_2)
    assert [finding.what for finding in found if not finding.agrees] == []


@pytest.mark.parametrize(("experiment", "settings"), TINY)
def test_the_same_seed_gives_the_same_table_and_another_seed_another(experiment, settings):
    table = experiment.compute(settings)
    assert_frame_equal(table, experiment.compute(settings))
    assert not table.equals(experiment.compute(replace(settings, seed=SEED + 1)))


@pytest.mark.parametrize(("experiment", "settings"), TINY)
def test_a_repetition_does_not_depend_on_how_many_there_are(experiment, settings):
    first = experiment.compute(settings).query("repetition == 0").reset_index(drop=True)
    assert_frame_equal(first, experiment.compute(replace(settings, reps=1)))


@pytest.mark.parametrize(("experiment", "settings"), TINY)
def test_figures_have_named_axes_and_legends_with_any_number_of_repetitions(experiment, settings):
    for some in (settings, replace(settings, reps=1)):
        table = experiment.compute(some)
        figure = experiment.draw(table, some)
        assert isinstance(figure, Figure)
        figure.draw_without_rendering()
        assert all(axes.get_xlabel() and axes.get_ylabel() and axes.get_legend() for axes in figure.axes)
        for finding in experiment.findings(table, some):
            assert isinstance(finding.agrees, bool) or "Not settled by" in finding.note
            assert finding.rule.endswith(".")
