"""Our study of many agents: what it measures, on collectives small enough to check."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from degroot import Agent, Collective, InvalidInput
from degroot.paper.data.datasets import OURS, Data, DataMissing, load
from degroot.paper.extras import degrees

SMALL = degrees.Settings(reps=1, numbers=(6, 12), degrees=(3, 5), most_dense=6, points=20, timed=1, rows=30)


def air(rows=400, gaps=True):
    """Made up, in the order of station and hour."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 15)) * 3 + 7
    y = X[:, 0] + 2 * np.sin(np.arange(rows) / 40) * X[:, 1]
    if gaps:
        X[rng.random(X.shape) < 0.05] = np.nan
    return Data("beijing_air", "Beijing air quality", X, y, True, "made up", "0")


def rows_of(settings=SMALL, data=None):
    found = [row for task in degrees.tasks(settings) for row in task.rows(data if task.data_name else None)]
    return pd.DataFrame(found)


@pytest.fixture(scope="module")
def table():
    return rows_of(data=air())


def test_every_degree_below_the_number_of_agents_is_measured_and_everybody_where_there_are_few(table):
    for problem in (degrees.BEIJING, degrees.SYNTHETIC):
        for number, expected in ((6, [0, 3, 5]), (12, [3, 5])):
            some = table[(table["problem"] == problem) & (table["agents"] == number)]
            assert sorted(some["degree"]) == expected
    assert (table[["mse", "average"]] > 0).all(axis=None)
    assert {"models", "search", "weights", "jackknife"} <= set(table.columns)  # seconds: of them, nothing is certain
    np.testing.assert_allclose(table["gain"], 100 * (1 - table["mse"] / table["average"]))


def test_what_is_measured_is_what_a_collective_answers():
    rng = np.random.default_rng(1)
    slopes = rng.normal(size=7)
    agents = [Agent(lambda X, b=b: b * X[:, 0], rng.normal(size=(30, 1)) + k, rng.normal(size=30), f"{k}")
              for k, b in enumerate(slopes)]  # fmt: skip
    X, y = rng.normal(size=(20, 1)), rng.normal(size=20)
    rows = {row["degree"]: row for row in degrees.measured("made up", agents, X, y, SMALL)}
    assert set(rows) == {3, 5}
    for degree, row in rows.items():
        expected = Collective(agents, SMALL.neighbours, degree=degree).predict(X)
        assert row["mse"] == pytest.approx(np.mean((expected - y) ** 2))
    assert rows[3]["average"] == pytest.approx(np.mean((X[:, 0] * slopes.mean() - y) ** 2))


def test_test_rows_say_nothing_about_gaps_and_scales():
    data = air()
    training = np.arange(0, 300)
    changed = data.X.copy()
    changed[300:] = 1e6
    known = degrees._filled(data.X, training)[:300]
    np.testing.assert_array_equal(known, degrees._filled(changed, training)[:300])
    assert np.isfinite(known).all()
    np.testing.assert_allclose(known.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(known.std(axis=0), 1)


def test_agents_are_slices_of_the_order(monkeypatch):
    seen = {}
    monkeypatch.setattr(degrees, "_slices", lambda X, y, parts, penalty: seen.setdefault("parts", parts) and [])
    monkeypatch.setattr(degrees, "measured", lambda *_: iter(()))
    list(degrees.in_beijing(SMALL, np.random.default_rng(0), air(), agents=7))
    ends = [(part.min(), part.max()) for part in seen["parts"]]
    assert ends == sorted(ends)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(ends))
    assert {len(part) for part in seen["parts"]} == {30}


def test_it_is_drawn_and_told_with_and_without_the_air(table):
    for some in (table, table[table["problem"] == degrees.SYNTHETIC], table[table["agents"] == 6]):
        assert len(degrees.draw(some, SMALL).axes) == 3
        told = degrees.findings(some, SMALL)
        assert all(finding.agrees is None and finding.ours for finding in told)
        assert len(told) == len(some.groupby(["problem", "agents"])) + len(set(some["problem"]))
    costs = degrees.findings(table, SMALL)[-1]
    assert "12 agents" in costs.what
    assert "degree 5" in costs.what


def test_a_look_leaves_out_the_largest():
    few = {task.case["agents"] for task in degrees.tasks(degrees.Settings(reps=degrees.THOROUGH - 1))}
    all_ = {task.case["agents"] for task in degrees.tasks(degrees.Settings())}
    assert all_ == {16, 64, 256, 1024, 4096}
    assert few == {16, 64, 256}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(OURS, "beijing_air", OURS["beijing_air"].__class__("Air", 40, 3, "beijing_air.npz",
                                                                           ("beijing_air",), gaps=True))  # fmt: skip


def keep(folder: Path, X, y):
    np.savez(folder / "beijing_air.npz", X=X, y=y, group=np.zeros(len(y)))


def test_the_air_may_have_gaps_and_nothing_infinite(small, tmp_path):
    X, y = np.ones((40, 3), np.float32), np.arange(40.0)
    X[3, 1] = np.nan
    keep(tmp_path, X, y)
    data = load("beijing_air", tmp_path)
    assert data.complete
    np.testing.assert_array_equal(data.X, X)
    X[4, 2] = np.inf
    keep(tmp_path, X, y)
    with pytest.raises(InvalidInput, match="1 of its features are nan or infinite"):
        load("beijing_air", tmp_path)
    keep(tmp_path, np.ones((40, 3)), np.where(y == 3, np.nan, y))
    with pytest.raises(InvalidInput, match="1 of its targets"):
        load("beijing_air", tmp_path)
    keep(tmp_path, np.ones((39, 3)), y[:39])
    with pytest.raises(InvalidInput, match="must hold 40 x 3"):
        load("beijing_air", tmp_path)


def test_the_air_is_not_at_hand_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    for folder in (None, tmp_path):
        with pytest.raises(DataMissing, match=r"download it from https://.*\.zip, or put .*--data DIR"):
            load("beijing_air", folder)
