"""The experiments on the synthetic problem: printed numbers, shapes of figures, and laws that hold for all."""

from dataclasses import fields, replace
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from degroot import InvalidInput
from degroot.paper import figure1, figure2, figure4, figure5, figure6, figure7, figure8, logistic, synthetic

NAMES = ("synthetic", "figure1", "figure2", "figure4", "figure5", "figure6", "figure7", "figure8")
SMALL = {"rows": 40, "points": 20, "xi_steps": 21, "numbers": (2, 5, 40), "rounds": (0, 1, 5, 20)}


def small(module, **settings):
    known = {field.name for field in fields(module.Settings)}
    return replace(module.Settings(), **{name: SMALL[name] for name in SMALL if name in known}, **settings)


def tables(module, **settings):
    settings = module.Settings(**settings)
    return module.compute(settings), settings


def mean_errors(reading, reps):
    table, _ = tables(synthetic, reps=reps, readings=(reading,))
    return table.pivot(index="repetition", columns="scheme", values="mse")


# the numbers


def test_at_the_printed_noise_all_but_degroot_come_out_as_printed():
    mean = mean_errors("noise 0.1", reps=12).mean()
    assert mean["DeGroot"] == pytest.approx(3e-3, rel=0.4)
    assert mean["M-avg"] == pytest.approx(2.8e-2, rel=0.2)
    assert mean["tau-avg"] == pytest.approx(1.05e-2, rel=0.25)
    assert mean["MSE-avg"] == pytest.approx(1.35e-2, rel=0.25)
    assert mean["best single"] == pytest.approx(5e-2, rel=0.2)


@pytest.mark.parametrize("reading", ["noise 0.01", "noiseless validation"])
def test_the_other_readings_give_the_printed_error_of_degroot(reading):
    errors = mean_errors(reading, reps=30)
    assert 2.3e-4 < errors["DeGroot"].median() < 9.2e-4
    assert (errors["tau-avg"] / errors["DeGroot"]).median() > 15
    if reading == "noise 0.01":
        assert 2.3e-4 < errors["DeGroot"].mean() < 9.2e-4
        assert (errors["M-avg"] / errors["DeGroot"]).median() > 50


def test_findings_say_which_readings_give_the_printed_numbers():
    table, settings = tables(synthetic, reps=20, readings=("noise 0.1", "noise 0.01"))
    agrees = {finding.what: finding.agrees for finding in synthetic.findings(table, settings)}
    assert not agrees["MSE of DeGroot, noise 0.1"]
    assert not agrees["M-avg against DeGroot, noise 0.1"]
    assert agrees["MSE of DeGroot, noise 0.01"]
    for reading in settings.readings:
        for scheme in ("tau-avg", "MSE-avg", "best single"):
            assert agrees[f"MSE of {scheme}, {reading}"]


# the shapes


@pytest.mark.parametrize("module", [figure1, figure4, figure7])
def test_shapes_along_the_curve_are_as_in_the_paper(module):
    table, settings = tables(module, reps=40)
    shapes = [finding for finding in module.findings(table, settings) if finding.paper.startswith("shape")]
    assert len(shapes) >= 2
    assert all(finding.agrees for finding in shapes)


def test_degroot_is_nearer_to_the_truth_than_the_average_at_most_points():
    table, _ = tables(figure2, reps=5, noises=())
    points = table[table.panel == "a"]
    assert (points["DeGroot"] < points["M-avg"]).mean() > 0.75


def test_pooling_starts_at_the_agents_own_errors_and_ends_at_the_consensus():
    table, settings = tables(figure2, reps=3, noises=(0.1,))
    rounds = table[table.panel == "b"]
    first, last = (rounds[rounds["round"] == each] for each in (0, 1000))
    agents, X, y = logistic.pose(settings, np.random.default_rng([settings.seed, 0]))
    own = [((agent.predict(X) - y) ** 2).mean() for agent in agents]
    np.testing.assert_allclose(first[first.repetition == 0].mse, own)
    np.testing.assert_allclose(last.mse, last.consensus)
    assert last.apart.max() < 1e-9


def test_twenty_rounds_are_enough_at_the_printed_noise_but_not_with_less():
    table, settings = tables(figure2, reps=12, xi_steps=2)
    printed, less = (finding for finding in figure2.findings(table, settings) if "Rounds" in finding.what)
    assert printed.agrees
    assert not less.agrees


def test_the_best_number_of_neighbours_grows_with_the_noise():
    few, many = best_numbers(noises=(0.1, 1.0), reps=25)
    assert few < many


@pytest.mark.slow
def test_the_best_number_of_neighbours_grows_from_the_one_printed_noise_to_the_other():
    few, many = best_numbers(noises=(0.1, 0.3), reps=120)
    assert few < many


def best_numbers(**settings):
    numbers = (2, 3, 4, 5, 7, 10, 14, 20)
    table, settings = tables(figure5, readings=("as printed",), numbers=numbers, **settings)
    *_, good = figure5.findings(table, settings)
    assert good.agrees
    return [figure5.typical_best(table[table.level == level]) for level in ("low", "high")]


def test_the_gain_shrinks_as_the_covariance_grows():
    table, settings = tables(figure6, reps=6, covariances=(1.0, 2.0, 4.0, 6.0, 10.0))
    [finding] = figure6.findings(table, settings)
    assert finding.agrees
    gain = figure6.gains(table).groupby("covariance").gain.mean()
    assert gain[1.0] > gain[4.0] > gain[6.0] > gain[10.0] > 0


def test_bars_are_wide_at_the_edges_and_much_smaller_where_rows_overlap():
    table, settings = tables(figure8, reps=10)
    assert all(finding.agrees for finding in figure8.findings(table, settings))
    bars = figure8.bars(table, settings).groupby("covariance").mean()
    assert bars.edges[1.0] > 2 * bars.middle[1.0]
    assert bars.edges[5.0] < 0.5 * bars.edges[1.0]


# the laws


@pytest.mark.parametrize("name", NAMES)
def test_a_repetition_is_the_same_whatever_the_number_of_repetitions(name):
    module = import_module(f"degroot.paper.{name}")
    one, two = (module.compute(small(module, reps=reps)) for reps in (1, 2))
    pd.testing.assert_frame_equal(two[two.repetition == 0].reset_index(drop=True), one)


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides(name):
    module = import_module(f"degroot.paper.{name}")
    first, again, other = (module.compute(small(module, reps=1, seed=seed)) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first, again)
    assert not first.equals(other)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reps", [1, 2])
def test_every_figure_has_named_axes_and_every_finding_a_rule(name, reps):
    module = import_module(f"degroot.paper.{name}")
    settings = small(module, reps=reps)
    table = module.compute(settings)
    figure = module.draw(table, settings)
    assert isinstance(figure, Figure)
    assert all(axes.get_xlabel() for axes in figure.axes)
    assert figure.axes[0].get_ylabel() or name == "synthetic"  # where the rows are named instead
    assert any(axes.get_legend() for axes in figure.axes)
    for finding in module.findings(table, settings):
        assert finding.what
        assert finding.paper
        assert finding.ours
        assert finding.rule
        assert finding.agrees in (True, False, None)
    assert module.TITLE
    assert module.ABOUT


# the problem


def test_points_on_the_line_are_where_they_should_be():
    xi = np.array([-3.0, 0.0, 2.5])
    np.testing.assert_allclose(logistic.on_the_line(xi) @ logistic.DIRECTION, xi)


def test_noiseless_validation_changes_the_labels_that_score_and_not_the_models():
    noisy, noiseless = (
        logistic.make_agents(logistic.Problem(rows=20, validation=validation), np.random.default_rng(0))
        for validation in ("noisy", "noiseless")
    )
    for one, other in zip(noisy, noiseless, strict=True):
        np.testing.assert_array_equal(one.X, other.X)
        np.testing.assert_array_equal(one.predict(one.X), other.predict(one.X))
        np.testing.assert_array_equal(other.y, logistic.curve(other.X))
        assert not np.array_equal(one.y, other.y)


def test_an_unknown_kind_of_validation_is_refused():
    with pytest.raises(InvalidInput, match="'noisy' or 'noiseless'; got 'none'"):
        logistic.make_agents(logistic.Problem(validation="none"), np.random.default_rng(0))
