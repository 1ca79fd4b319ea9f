"""The experiments on the synthetic problem: printed numbers, shapes of figures, and laws that hold for all."""

from dataclasses import fields, replace
from functools import cache
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from support.seed import SEED

from degroot import InvalidInput
from degroot.paper.figures import figure1, figure2, figure4, figure5, figure6, figure7, figure8, synthetic
from degroot.paper.problems import logistic

NAMES = ("synthetic", "figure1", "figure2", "figure4", "figure5", "figure6", "figure7", "figure8")
SMALL = {"rows": 40, "points": 20, "xi_steps": 21, "numbers": (2, 5, 40), "rounds": (0, 1, 5, 20)}


def small(module, **settings):
    known = {field.name for field in fields(module.Settings)}
    return replace(module.Settings(seed=SEED), **{name: SMALL[name] for name in SMALL if name in known}, **settings)


@cache
def small_table(module, **settings):
    """What several tests look at, and none changes."""
    return module.compute(small(module, **settings))


def tables(module, **settings):
    settings = module.Settings(seed=SEED, **settings)
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
    found = {(finding.what, finding.reading): finding for finding in synthetic.findings(table, settings)}
    assert not found["MSE of DeGroot", ""].agrees
    assert not found["M-avg against DeGroot", ""].agrees
    assert found["MSE of DeGroot", "noise 0.01"].agrees
    for reading in ("", "noise 0.01"):
        for scheme in ("tau-avg", "MSE-avg", "best single"):
            assert found[f"MSE of {scheme}", reading].agrees


def synthetic_errors(reading, **errors):
    rows = [{"reading": reading, "repetition": 0, "scheme": scheme, "mse": mse} for scheme, mse in errors.items()]
    return pd.DataFrame(rows)


def test_explanations_are_given_only_where_they_are_true():
    reached = dict.fromkeys(("M-avg", "tau-avg", "MSE-avg", "best single"), 1e-2)
    tables = [
        synthetic_errors("noise 0.1", DeGroot=3e-3, **reached),
        synthetic_errors("noise 0.01", DeGroot=1e-5, **dict.fromkeys(reached, 1.0)),
        synthetic_errors("noiseless validation", DeGroot=5e-4, **reached),
    ]
    printed, less, noiseless = (
        finding.note for finding in synthetic.findings(pd.concat(tables)) if finding.what == "MSE of DeGroot"
    )
    assert "gives 3.0e-03, above the print" in printed
    assert "1.0e-02, is part of every error" in printed
    assert "tau-avg, MSE-avg are reached" in printed
    assert "noiseless validation (5.0e-04)" in printed
    assert "noise 0.01 (" not in printed
    assert "above the print" not in less
    assert "1.0e-04, is part of every error" in less
    assert "are reached" not in less
    assert noiseless == ""


def test_other_readings_than_the_printed_one_are_marked():
    for module in (synthetic, figure2, figure5, figure7):
        settings = small(module, reps=1)
        readings = [finding.reading for finding in module.findings(module.compute(settings), settings)]
        assert "" in readings
        assert any(readings)


# the shapes


@pytest.mark.parametrize("module", [figure1, figure4, pytest.param(figure7, marks=pytest.mark.slow)])
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
    agents, X, y = logistic.pose(settings, np.random.default_rng([settings.seed, 1]))
    own = [((agent.predict(X) - y) ** 2).mean() for agent in agents]
    np.testing.assert_allclose(first[first.repetition == 0].mse, own)
    np.testing.assert_allclose(last.mse, last.consensus)
    assert last.apart.max() < 1e-9


def test_twenty_rounds_are_enough_at_the_printed_noise_but_not_with_less():
    table, settings = tables(figure2, reps=12, xi_steps=2)
    printed, less = (finding for finding in figure2.findings(table, settings) if "Rounds" in finding.what)
    assert printed.agrees
    assert not less.agrees
    assert (printed.reading, less.reading) == ("", "noise 0.01")


@pytest.mark.parametrize("noises", [(), (0.1,), (0.1, 0.01, 0.001)])
def test_pooling_can_be_shown_for_any_number_of_noises(noises):
    settings = small(figure2, reps=1, noises=noises)
    figure = figure2.draw(figure2.compute(settings), settings)
    assert len(figure.axes) == 2 + len(noises)


NUMBERS = (2, 3, 4, 5, 7, 10, 14, 20)


@pytest.mark.slow
def test_the_best_number_of_neighbours_grows_with_the_noise():
    table, settings = tables(figure5, readings=("as printed",), numbers=NUMBERS, noises=(0.1, 1.0), reps=8)
    grows, good = figure5.findings(table, settings)
    assert grows.agrees
    assert good.agrees


@pytest.mark.slow
def test_the_best_number_of_neighbours_grows_from_the_one_printed_noise_to_the_other():
    table, settings = tables(figure5, readings=("as printed",))
    grows, good = figure5.findings(table, settings)
    assert grows.agrees
    assert good.agrees


def best_numbers(low, high):
    """A table in which these numbers are best, one for each repetition."""
    return pd.DataFrame(
        [
            {"reading": "as printed", "level": level, "noise": noise, "repetition": repetition, "neighbours": number,
             "mse": float(number != best)}
            for level, noise, numbers in (("low", 0.1, low), ("high", 0.3, high))
            for repetition, best in enumerate(numbers)
            for number in NUMBERS
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "agrees"),
    [
        ((4, 5, 4, 5), (7, 10, 10, 7), True),
        ((7, 10, 10, 7), (4, 5, 4, 5), False),
        ((4, 5, 10, 7), (7, 4, 5, 10), None),
        ((4,), (7,), None),
    ],
)
def test_the_growth_of_the_best_number_is_judged_by_repetitions_in_pairs(low, high, agrees):
    table, settings = best_numbers(low, high), figure5.Settings(readings=("as printed",))
    finding, _ = figure5.findings(table, settings)
    assert finding.agrees is agrees
    assert ("Not settled by" in finding.note) == (agrees is None)
    np.testing.assert_allclose(figure5.growth(table), np.log(high) - np.log(low))


def test_the_printed_noises_are_repeated_more_often():
    tasks = figure5.tasks(figure5.Settings(reps=3))
    counts = pd.Series([task.case["reading"] for task in tasks]).value_counts()
    assert counts.to_dict() == {"as printed": 24, "noise squared": 6, "noiseless validation": 6}


def test_the_gain_shrinks_as_the_covariance_grows():
    table, settings = tables(figure6, reps=6, covariances=(1.0, 2.0, 4.0, 6.0, 10.0))
    [finding] = figure6.findings(table, settings)
    assert finding.agrees
    gain = figure6.gains(table).groupby("covariance").gain.mean()
    assert gain[1.0] > gain[4.0] > gain[6.0] > gain[10.0] > 0


def test_losses_are_not_hidden():
    settings = figure6.Settings(covariances=(1.0, 2.0))
    errors = {(1.0, "DeGroot"): 1.0, (1.0, "M-avg"): 2.0, (2.0, "DeGroot"): 3.0, (2.0, "M-avg"): 2.0}
    rows = [{"covariance": c, "scheme": scheme, "repetition": 0, "mse": mse} for (c, scheme), mse in errors.items()]
    _, gain = figure6.draw(pd.DataFrame(rows), settings).axes
    assert gain.get_ylim()[0] < -50 < 100 == gain.get_ylim()[1]


def test_bars_are_wide_at_the_edges_and_much_smaller_where_rows_overlap():
    table, settings = tables(figure8, reps=10)
    assert all(finding.agrees for finding in figure8.findings(table, settings))
    bars = figure8.bars(table, settings).groupby("covariance").mean()
    assert bars.edges[1.0] > 2 * bars.middle[1.0]
    assert bars.edges[5.0] < 0.5 * bars.edges[1.0]


# the laws


@pytest.mark.parametrize("name", NAMES)
def test_a_repetition_is_the_same_whatever_the_number_of_repetitions(name):
    module = import_module(f"degroot.paper.figures.{name}")
    tables = [small_table(module, reps=reps) for reps in (1, 2)]
    one, two = (table[table.repetition == 0].reset_index(drop=True) for table in tables)
    pd.testing.assert_frame_equal(one, two)


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides(name):
    module = import_module(f"degroot.paper.figures.{name}")
    first, other = small_table(module, reps=1), module.compute(small(module, reps=1, seed=SEED + 1))
    again = module.compute(small(module, reps=1))
    pd.testing.assert_frame_equal(first, again)
    assert not first.equals(other)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reps", [1, 2])
def test_every_figure_has_named_axes_and_every_finding_a_rule(name, reps):
    module = import_module(f"degroot.paper.figures.{name}")
    table, settings = small_table(module, reps=reps).copy(), small(module, reps=reps)
    figure = module.draw(table, settings)
    assert isinstance(figure, Figure)
    assert all(axes.get_xlabel() for axes in figure.axes)
    assert figure.axes[0].get_ylabel() or name == "synthetic"  # where the rows are named instead
    assert any(axes.get_legend() for axes in figure.axes)
    for finding in module.findings(table, settings):
        assert finding.what
        assert finding.paper
        assert finding.ours
        assert finding.rule.endswith(".")
        assert "our notes" not in finding.paper + finding.note
        assert finding.agrees in (True, False, None)
    assert module.TITLE
    assert module.ABOUT


UNUSED = {
    "synthetic": {"noise", "validation"},
    "figure1": {"points"},
    "figure4": {"neighbours", "points"},
    "figure5": {"noise", "validation", "neighbours"},
    "figure6": {"covariance"},
    "figure7": {"noise"},
    "figure8": {"covariance", "points"},
}


@pytest.mark.parametrize("name", UNUSED)
def test_there_are_no_settings_that_do_nothing(name):
    module = import_module(f"degroot.paper.figures.{name}")
    assert not UNUSED[name] & {field.name for field in fields(module.Settings)}


# the problem


def test_points_on_the_line_are_where_they_should_be():
    xi = np.array([-3.0, 0.0, 2.5])
    np.testing.assert_allclose(logistic.on_the_line(xi) @ logistic.DIRECTION, xi)


def test_noiseless_validation_changes_the_labels_that_score_and_not_the_models():
    noisy, noiseless = (
        logistic.make_agents(logistic.Sample(rows=20, validation=validation), np.random.default_rng(SEED))
        for validation in ("noisy", "noiseless")
    )
    for one, other in zip(noisy, noiseless, strict=True):
        np.testing.assert_array_equal(one.X, other.X)
        np.testing.assert_array_equal(one.predict(one.X), other.predict(one.X))
        np.testing.assert_array_equal(other.y, logistic.curve(other.X))
        assert not np.array_equal(one.y, other.y)


def test_an_unknown_kind_of_validation_is_refused():
    with pytest.raises(InvalidInput, match="'noisy' or 'noiseless'; got 'none'"):
        logistic.make_agents(logistic.Sample(validation="none"), np.random.default_rng(SEED))
