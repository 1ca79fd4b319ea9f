"""Table 1, its readings, and the protocol behind them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from degroot import InvalidInput
from degroot.paper import models, printed, protocol
from degroot.paper.data.datasets import Data, load
from degroot.paper.experiment import ExperimentTask
from degroot.paper.extras import readings
from degroot.paper.figures import table1
from degroot.paper.protocol import Protocol
from degroot.paper.schemes import OF_TABLE_1, errors

COMPLETE = [row for row in printed.TABLE_1 if row[0] in ("boston", "abalone", "cpusmall")]


def rows_of(data: str, model: str, reps: int, **settings: object) -> pd.DataFrame:
    loaded, chosen = load(data), table1.Settings(reps=reps, **settings)
    tasks = [
        ExperimentTask(table1.trial, chosen, {"reading": "as printed", "data": data, "model": model}, r)
        for r in range(reps)
    ]
    return pd.DataFrame([row for task in tasks for row in task.rows(loaded)])


def as_printed(spread: float = 1.0) -> pd.DataFrame:
    """A table with exactly the printed gains, and `spread` times the printed standard deviations."""
    rows = []
    for data, model in COMPLETE:
        level = printed.error(data, model)
        for sign in (-1, 1):
            case = {"reading": "as printed", "data": data, "model": model, "repetition": (sign + 1) // 2}
            case |= {"complete": True, "hindsight": 0.0}
            rows.append({**case, "scheme": "DeGroot", "mse": level, "gain": 0.0})
            for scheme in printed.COMPARED:
                mean, deviation = printed.gain(data, model, scheme)
                gain = mean + sign * spread * deviation / np.sqrt(2)  # two values this far apart have that deviation
                rows.append({**case, "scheme": scheme, "mse": level * (1 - gain / 100), "gain": gain})
    return pd.DataFrame(rows)


@pytest.mark.parametrize("settings", [Protocol(), Protocol(agents=3, fraction=1.0), Protocol(n_test=50, fraction=0.0)])
def test_every_row_has_one_role_and_the_hold_out_is_as_large_as_a_part(settings):
    data = load("boston")
    rows = protocol.split(data, settings, np.random.default_rng(0))
    everyone = np.concatenate([rows.test, rows.held_out, *rows.parts])
    assert sorted(everyone) == list(range(506))
    assert len(rows.test) == protocol.n_test_rows(506, settings)
    assert all(abs(len(part) - len(rows.held_out)) <= 1 for part in rows.parts)


def test_sorted_rows_go_to_the_agents_in_the_order_of_the_label():
    data = load("abalone")
    rows = protocol.split(data, Protocol(fraction=1.0), np.random.default_rng(0))
    assert all(data.y[low].max() <= data.y[high].min() for low, high in zip(rows.parts, rows.parts[1:], strict=False))
    rows = protocol.split(data, Protocol(fraction=0.5), np.random.default_rng(0))
    means = [data.y[part].mean() for part in rows.parts]
    assert means == sorted(means)


@pytest.mark.parametrize(("n_rows", "expected"), [(4177, 627), (8192, 1229), (506, 76), (1000, 500), (999, 150)])
def test_the_paper_s_number_of_test_rows_where_it_leaves_rows_to_train_on(n_rows, expected):
    assert protocol.n_test_rows(n_rows, Protocol()) == expected


def test_one_split_for_all_repetitions_is_dealt_anew_in_each():
    data, random = load("boston"), np.random.default_rng
    first, second = (protocol.split(data, Protocol(), random(r), once=random(7)) for r in (0, 1))
    assert (first.test == second.test).all()
    assert (first.held_out == second.held_out).all()
    assert sorted(np.concatenate(first.parts)) == sorted(np.concatenate(second.parts))
    assert any(set(one) != set(other) for one, other in zip(first.parts, second.parts, strict=True))


def test_scaled_features_reach_from_minus_one_to_one():
    X = protocol.table(load("cpusmall"), Protocol(features="scaled"))
    assert X.min(axis=0) == pytest.approx(-np.ones(12))
    assert X.max(axis=0) == pytest.approx(np.ones(12))
    with pytest.raises(InvalidInput, match="'raw' or 'scaled'; got 'whitened'"):
        protocol.table(load("boston"), Protocol(features="whitened"))


def test_degroot_s_error_is_that_of_the_literal_algorithm():
    data, settings = load("boston"), Protocol()
    rows = protocol.split(data, settings, np.random.default_rng(1))
    parts = [(data.X[part], data.y[part]) for part in rows.parts]
    agents = protocol.train_agents(models.make("Ridge", 1e-5), data.X, data.y, rows.parts)
    found = errors(["DeGroot"], agents, data.X[rows.test], data.y[rows.test], settings.neighbours)["DeGroot"]
    trained = [Ridge(1e-5).fit(X, y) for X, y in parts]
    expected = oracle_predictions(trained, parts, data.X[rows.test], settings.neighbours)
    assert found == pytest.approx(((expected - data.y[rows.test]) ** 2).mean(), rel=1e-9)


def oracle_predictions(trained, parts, points, fraction):
    """The paper's algorithm, one point at a time; the consensus is an eigenvector from numpy."""
    predictions = []
    for point in points:
        trust = []
        for X, y in parts:
            near = np.argsort(((X - point) ** 2).sum(axis=1), kind="stable")[: max(2, int(fraction * len(X)))]
            inverse = np.array([1 / ((model.predict(X[near]) - y[near]) ** 2).mean() for model in trained])
            trust.append(inverse / inverse.sum())
        values, vectors = np.linalg.eig(np.array(trust).T)
        weights = np.real(vectors[:, np.argmin(abs(values - 1))])
        predictions.append(weights / weights.sum() @ [model.predict(point[None])[0] for model in trained])
    return np.array(predictions)


def test_the_gain_is_the_difference_from_degroot_in_percent_of_its_error():
    table = rows_of("boston", "Ridge", reps=2)
    for _, part in table.groupby("repetition"):
        error = part.set_index("scheme")["mse"]
        gain = part.set_index("scheme")["gain"]
        assert set(OF_TABLE_1) == set(error.index)
        for scheme in OF_TABLE_1:
            assert gain[scheme] == pytest.approx(100 * (error["DeGroot"] - error[scheme]) / error["DeGroot"])


def test_no_scheme_of_linear_models_beats_a_linear_fit_in_hindsight_by_much_on_abalone():
    table = rows_of("abalone", "Ridge", reps=3)
    floor = table["hindsight"].min()
    assert floor > printed.error("abalone", "Ridge")
    assert table.loc[table["scheme"] == "DeGroot", "mse"].min() > 0.97 * floor


@pytest.mark.parametrize("seed", [0, 1])
def test_on_cpusmall_ridge_the_average_is_far_worse_than_degroot_and_the_adaptive_scheme_alike(seed):
    table = rows_of("cpusmall", "Ridge", reps=3, seed=seed)
    gain = table.groupby("scheme")["gain"].mean()
    assert gain["M-avg"] < -30
    assert gain["CV-static"] < -30
    assert abs(gain["CV-adaptive"]) < 20


def test_trees_on_scaled_features_are_the_same_trees():
    data = load("cpusmall")
    rows = protocol.split(data, Protocol(), np.random.default_rng(0))
    make = models.make("DTR", 7)
    raw, scaled = (
        protocol.train_agents(make, X, data.y, rows.parts)[0].predict(X[rows.test])
        for X in (data.X, protocol.table(data, Protocol(features="scaled")))
    )
    assert np.mean(np.isclose(raw, scaled)) > 0.99


def test_the_printed_values_agree_with_themselves():
    found = table1.findings(as_printed())
    judged = [finding for finding in found if finding.agrees is not None]
    assert len(judged) == 2 + 4 * len(COMPLETE)
    assert all(finding.agrees for finding in judged)
    assert {finding.ours for finding in found if finding.agrees is None} == {"left out"}


def test_another_sign_or_a_gain_too_far_is_told_with_a_reason():
    table = as_printed()
    flipped = (table["data"] == "cpusmall") & (table["model"] == "DTR") & (table["scheme"] == "M-avg")
    table.loc[flipped, "gain"] *= -1
    table = pd.concat([table, as_printed(0.1).assign(reading="scaled features")])
    differing = [finding for finding in table1.findings(table) if finding.agrees is False]
    assert [finding.what for finding in differing] == [
        "Signs of the gains that are printed beyond one standard deviation, complete data",
        "cpusmall, DTR: gain of M-avg (%)",
    ]
    assert "On scaled features it is -4.05" in differing[1].note
    table = as_printed()
    table.loc[(table["data"] == "abalone") & (table["scheme"] == "M-avg"), "gain"] -= 20
    assert sum(finding.agrees is False for finding in table1.findings(table)) == 3


def test_a_subset_is_marked_and_not_judged():
    table = as_printed()
    table["complete"] = table["data"] != "boston"
    found = [finding for finding in table1.findings(table) if finding.what.startswith("Boston")]
    assert len(found) == 3
    assert all(finding.agrees is None and "subset" in finding.note for finding in found)
    labels = [label.get_text() for label in table1.draw(table).axes[0].get_yticklabels()]
    assert "Boston Ridge (subset)" in labels
    assert "E2006 NN (left out)" in labels
    assert "Abalone DTR" in labels
    assert not any("Boston" in finding.note for finding in readings.findings(table))


def test_one_repetition_judges_no_gain_that_needs_a_spread():
    found = table1.findings(as_printed().query("repetition == 0"))
    assert all(finding.agrees is None for finding in found if "gain of" in finding.what)


@pytest.mark.parametrize("spread", [0.5, 1.0, 3.0])
def test_a_reading_is_measured_by_its_distance_and_its_spread(spread):
    table = as_printed(spread)
    table.loc[table["scheme"] != "DeGroot", "gain"] += 2
    distance, ratio = readings.measure(table)
    assert distance == pytest.approx(2)
    assert ratio == pytest.approx(spread)


def test_every_reading_changes_a_setting_that_there_is():
    for name, (rows, changes) in readings.READINGS.items():
        assert rows, name
        assert set(rows) <= set(printed.TABLE_1)
        assert replace(table1.Settings(), **changes) != table1.Settings()


def test_a_reading_is_table_1_under_its_settings():
    data, random = load("boston"), np.random.default_rng
    ours = list(readings.trial(readings.Settings(), random(3), "Boston: 50 test rows", data, "Ridge"))
    assert ours == list(table1.measured(table1.Settings(n_test=50), random(3), data, "Ridge"))


def test_what_table_1_has_computed_is_not_computed_again_for_the_readings():
    settings = {"reps": 2, "seed": 5}
    shared = set(table1.tasks(table1.Settings(**settings))) & set(readings.tasks(readings.Settings(**settings)))
    assert {task.case["reading"] for task in shared} == {"as printed", "scaled features"}
    assert len(shared) == 2 * 9 * 2


@pytest.mark.parametrize("kind", ["Ridge", "Lasso", "DTR", "NN"])
def test_models_are_made_anew_for_each_agent_and_the_same_chance_makes_the_same_model(kind):
    data = Data("toy", "Toy", *toy(), complete=True, source="", fingerprint="")
    setting = {"Ridge": 1.0, "Lasso": 1e-3, "DTR": 3, "NN": models.Network((4,), 20, batch=8, normalise="all")}[kind]
    one, other = (models.make(kind, setting, np.random.default_rng(5)) for _ in range(2))
    assert one(0) is not one(0)
    parts = [np.arange(0, 20), np.arange(20, 40)]
    for first, second in zip(*(protocol.train_agents(m, data.X, data.y, parts) for m in (one, other)), strict=True):
        assert (first.predict(data.X) == second.predict(data.X)).all()


def toy():
    X = np.random.default_rng(0).normal(size=(40, 3))
    return X, X @ [1.0, 2.0, 3.0]


def test_words_that_are_not_known_are_refused():
    with pytest.raises(InvalidInput, match="'Forest'"):
        models.make("Forest", 3)
    with pytest.raises(InvalidInput, match="'labels'"):
        models.make("NN", models.Network((4,), 20, normalise="labels"))(0)
