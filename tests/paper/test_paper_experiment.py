"""Experiments as tasks that make a table, and the look that all figures share."""

import json
import pickle
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba
from numpy.testing import assert_allclose
from pandas.testing import assert_frame_equal

from degroot import InvalidInput
from degroot.paper import drawing, experiment, schemes
from degroot.paper.data.datasets import Data, DataMissing
from degroot.paper.experiment import (
    ExperimentTask,
    Finding,
    at_hand,
    in_common,
    judge_finding,
    repeat_cases,
    run_here,
    select_rows,
)
from degroot.paper.statistics import above_zero, plus_minus, told, unsettled, with_error


@dataclass(frozen=True, kw_only=True)
class Settings(experiment.Settings):
    scale: float = 2.0


def trial(settings, random, size):
    for scheme in ("DeGroot", "M-avg"):
        yield {"scheme": scheme, "mse": settings.scale * random.random() * size}


def kinds_of_numbers(settings, random):
    yield {"float": np.float64(1.5), "integer": np.int32(3), "truth": np.bool_(True), "text": "abc", "plain": 2}


def count_rows(settings, random, data, share):
    yield {"rows": len(data.y), "used": round(share * len(data.y))}


SIZES = [{"size": 1}, {"size": 10}]


# -- tasks -------------------------------------------------------------------------------------------------------------


def test_rows_carry_case_and_repetition_in_front():
    rows = ExperimentTask(trial, Settings(), {"size": 10}, 4).rows()
    assert [list(row) for row in rows] == [["size", "repetition", "scheme", "mse"]] * 2
    assert {(row["size"], row["repetition"]) for row in rows} == {(10, 4)}


def test_every_case_is_repeated_as_often_as_the_settings_say():
    table = run_here(repeat_cases(trial, Settings(reps=3), SIZES))
    assert table.groupby(["size", "scheme"]).repetition.apply(list).tolist() == [[0, 1, 2]] * 4


def test_what_is_noisy_can_be_repeated_times_over():
    table = run_here(repeat_cases(trial, Settings(reps=2), SIZES, times=3))
    assert table.groupby(["size", "scheme"]).repetition.apply(list).tolist() == [[0, 1, 2, 3, 4, 5]] * 4


def test_what_repetitions_have_in_common_is_no_repetition_s():
    settings = Settings(seed=5)
    numbers = {np.random.default_rng([5, 1 + repetition]).random() for repetition in range(10)}
    assert in_common(settings).random() == in_common(settings).random()
    assert in_common(settings).random() not in numbers
    assert (
        2.0 * np.random.default_rng([5, 1]).random() == ExperimentTask(trial, settings, {"size": 1}, 0).rows()[0]["mse"]
    )


def test_a_repetition_has_the_same_numbers_whatever_their_number():
    few, many = (run_here(repeat_cases(trial, Settings(reps=reps), SIZES)) for reps in (2, 5))
    assert_frame_equal(few, many[many.repetition < 2].reset_index(drop=True))


def test_all_cases_of_a_repetition_draw_the_same_numbers():
    table = run_here(repeat_cases(trial, Settings(reps=4), SIZES)).pivot(index=["repetition", "scheme"], columns="size")
    assert_allclose(10 * table.mse[1], table.mse[10])


def test_repetitions_and_seeds_draw_other_numbers():
    tables = [run_here(repeat_cases(trial, Settings(reps=4, seed=seed), SIZES[:1])) for seed in (0, 1)]
    assert pd.concat(tables).mse.is_unique


def test_a_case_that_is_changed_afterwards_does_not_change_the_task():
    case = {"size": 1}
    (task,) = repeat_cases(trial, Settings(reps=1), [case])
    case["size"] = 7
    assert task.case == {"size": 1}


def test_numpy_scalars_become_plain_so_that_rows_can_be_kept_as_text():
    (row,) = ExperimentTask(kinds_of_numbers, Settings(), {}, 0).rows()
    assert {name: type(value) for name, value in row.items() if name != "repetition"} == {
        "float": float, "integer": int, "truth": bool, "text": str, "plain": int,
    }  # fmt: skip
    assert json.loads(json.dumps(row)) == row


def test_tasks_travel_to_other_processes():
    task = ExperimentTask(trial, Settings(scale=3.0), {"size": 2}, 1)
    assert pickle.loads(pickle.dumps(task)).rows() == task.rows()


def test_settings_are_frozen_and_have_defaults():
    with pytest.raises(AttributeError):
        Settings().reps = 1  # type: ignore[misc]
    assert replace(Settings(), reps=2) == Settings(reps=2)


# -- data --------------------------------------------------------------------------------------------------------------


def some_data(name):
    return Data(name, "Title", X=np.zeros((8, 1)), y=np.zeros(8), complete=True, source="made up", fingerprint="0")


def test_a_trial_gets_the_data_and_the_table_their_name(monkeypatch):
    monkeypatch.setattr(experiment, "at_hand", partial(at_hand, load=some_data))
    table = run_here(repeat_cases(count_rows, Settings(reps=1), [{"data": "abalone", "share": 0.5}]))
    assert table.to_dict("records") == [
        {"data": "abalone", "share": 0.5, "repetition": 0, "complete": True, "rows": 8, "used": 4}
    ]


def test_data_sets_that_are_not_at_hand_are_left_out_with_a_warning(monkeypatch):
    def load(name):
        if name == "e2006":
            raise DataMissing("e2006 is far away")
        return some_data(name)

    monkeypatch.setattr(experiment, "at_hand", partial(at_hand, load=load))
    cases = [{"data": name, "share": 1.0} for name in ("e2006", "abalone")]
    with pytest.warns(UserWarning, match="e2006 is far away"):
        table = run_here(repeat_cases(count_rows, Settings(reps=2), cases))
    assert table.data.tolist() == ["abalone", "abalone"]


FINDING = Finding("what", "paper", "ours", "rule", True, "note")


def test_a_finding_is_judged_on_complete_data_only():
    rows = pd.DataFrame({"mse": [1.0, 2.0], "complete": [True, True]})
    assert judge_finding(FINDING, rows) == judge_finding(FINDING, rows[["mse"]]) == FINDING
    subset, missing = judge_finding(FINDING, rows.assign(complete=False)), judge_finding(FINDING, rows[:0])
    assert subset.agrees is missing.agrees is None
    assert subset.ours == FINDING.ours
    assert "subset" in subset.note
    assert missing.ours == "left out"


def test_rows_are_chosen_by_their_values_and_none_where_the_column_is_not_there():
    table = pd.DataFrame({"data": ["abalone", "boston"], "mse": [1.0, 2.0]})
    assert select_rows(table, data="boston").mse.tolist() == [2.0]
    assert select_rows(table, data="boston", mse=1.0).empty
    assert select_rows(table, penalty=1.0).empty


# -- margins -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "verdict"),
    [
        ([[1.0, 1.1, 0.9]], True),
        ([[-1.0, -1.1, -0.9]], False),
        ([[1.0, -1.0, 0.5]], None),
        ([[1.0]], None),  # has no spread
        ([], None),
        ([[1.0, 1.1], [2.0, 2.1]], True),
        ([[1.0, 1.1], [1.0, -1.0]], None),
        ([[1.0, 1.1], [1.0, -1.0], [-1.0, -1.1]], False),
    ],
)
def test_a_mean_is_above_zero_by_two_standard_errors_or_not_settled(samples, verdict):
    assert above_zero(*map(pd.Series, samples)) is verdict


def test_two_standard_errors_are_where_a_mean_becomes_settled():
    values = pd.Series([-1.0, 1.0, -1.0, 1.0])  # with a standard error of 1 / sqrt(3)
    assert above_zero(values + 2.01 / np.sqrt(3)) is True
    assert above_zero(values + 1.99 / np.sqrt(3)) is None
    assert above_zero(values - 2.01 / np.sqrt(3)) is False


def test_standard_errors_are_told_where_there_are_any():
    assert with_error(pd.Series([1.0, 1.2, 1.4])) == "1.20 ± 0.12"
    assert with_error(pd.Series([1.234])) == "1.23"
    assert told(pd.Series([1.0, 1.2, 1.4])) == "1.20 ± 0.12 (mean and standard error over 3 repetitions)"
    assert told(pd.Series([1.234])) == "1.23 (a single repetition)"
    assert unsettled(1) == "Not settled by a single repetition."
    assert unsettled(20) == "Not settled by 20 repetitions."


# -- numbers as text ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([24.0, 26.0], "25.0 ± 1.4"),
        ([0.9, 1.1], "1.00 ± 0.14"),
        ([1.0, 1.001], "1.00050 ± 0.00071"),
        ([-12.0, -8.0], "-10.0 ± 2.8"),
        ([100.0, 300.0], "200 ± 141"),
        ([0.003, 0.005], "4.00e-03 ± 1.4e-03"),
    ],
)
def test_a_mean_has_the_digits_that_its_spread_deserves(values, text):
    assert plus_minus(values) == text
    assert plus_minus(pd.Series(values)) == text


@pytest.mark.parametrize(("values", "text"), [([0.123456], "0.1235"), ([2.5, 2.5, 2.5], "2.5"), ([3], "3")])
def test_without_spread_only_the_mean_is_told(values, text):
    assert plus_minus(values) == text


# -- schemes -----------------------------------------------------------------------------------------------------------


def test_a_scheme_that_there_is_not_is_refused():
    with pytest.raises(InvalidInput, match="no scheme 'median'"):
        schemes.pooled("median", [], neighbours=5)


# -- the look ----------------------------------------------------------------------------------------------------------


def test_every_method_has_a_colour_and_a_marker_of_its_own():
    methods = {*schemes.WITHOUT_HOLD_OUT, *schemes.OF_TABLE_1}
    assert methods <= set(drawing.COLOURS) == set(drawing.MARKERS)
    assert len({to_rgba(colour) for colour in drawing.COLOURS.values()}) == len(drawing.COLOURS)
    assert len(set(drawing.MARKERS.values())) == len(drawing.MARKERS)


def test_agents_do_not_look_like_methods():
    assert len(set(drawing.AGENTS)) == 5
    assert not set(drawing.AGENTS) & set(drawing.COLOURS.values())


def test_bands_are_medians_with_the_middle_half_shaded():
    table = pd.DataFrame({"n": np.repeat([1, 2], 5), "mse": [1.0, 2.0, 3.0, 4.0, 100.0, 0.0, 0.0, 5.0, 6.0, 7.0]})
    _, (axes,) = drawing.panels()
    drawing.band(axes, table, "n", "mse", "DeGroot")
    (line,), (shade,) = axes.lines, axes.collections
    assert_allclose(line.get_xydata(), [[1, 3], [2, 5]])
    assert {tuple(corner) for corner in shade.get_paths()[0].vertices} == {(1, 2), (1, 4), (2, 0), (2, 6)}
    assert line.get_label() == "DeGroot"
    assert to_rgba(line.get_color()) == to_rgba(drawing.COLOURS["DeGroot"])
    assert line.get_marker() == drawing.MARKERS["DeGroot"]


def test_bands_can_have_names_of_their_own_and_one_repetition():
    _, (axes,) = drawing.panels()
    drawing.band(axes, pd.DataFrame({"n": [1, 2], "mse": [3.0, 4.0]}), "n", "mse", "M-avg", label="average")
    assert axes.lines[0].get_label() == "average"
    assert_allclose(axes.lines[0].get_ydata(), [3.0, 4.0])


@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_figures_are_as_wide_as_the_report_and_have_all_their_axes(columns, rows):
    figure, axes = drawing.panels(columns, rows, height=2.0)
    assert len(axes) == columns * rows
    assert_allclose(figure.get_size_inches(), (8.4, 2.0 * rows))


def test_every_axes_gets_its_legend():
    _, axes = drawing.panels(2)
    for each in axes:
        each.plot([0, 1], label="line")
    drawing.legend(axes, loc="upper left")
    assert all(not each.get_legend().get_frame_on() for each in axes)
