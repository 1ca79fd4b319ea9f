"""`degroot train --unit`: rows of one unit are held out together and cross-fitted together."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.refusals import complaint

from degroot import Collective
from degroot.files import load
from degroot.node import config
from degroot.training import comparison, organisations, train

NAMES = ("north", "south")


def frame(name, units=15):
    """Farms of 1 to 6 fields, in no order; a farm's yields have something in common."""
    random = np.random.default_rng(NAMES.index(name))
    farm = random.permutation(np.repeat(np.arange(units), random.integers(1, 7, units)))
    table = pd.DataFrame(random.normal(size=(len(farm), 2)), columns=["rain", "sun"])
    table["yield"] = table["rain"] - table["sun"] + random.normal(size=units)[farm]
    return table.assign(farm=[f"{name[0]}{number}" for number in farm])


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder with a file for each organisation."""
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        frame(name).to_csv(f"{name}.csv", index=False)
    return tmp_path


def trained(place, out="out", **settings):
    files = [place / f"{name}.csv" for name in NAMES]
    return train(files, "yield", place / out, **{"model": "linear", "unit": "farm"} | settings)


def gathered(place, files=NAMES, **settings):
    return organisations.gather([place / f"{name}.csv" for name in files], "yield", **{"unit": "farm"} | settings)


# -- what is trained and written ---------------------------------------------------------------------------------------


def test_the_command_from_files_to_a_collective_with_units(degroot, place):
    command = ("train", "north.csv", "south.csv", "--target", "yield", "--unit", "farm", "--model", "linear")
    code, out, err = degroot(*command)
    assert (code, err) == (0, "")
    assert " rows of " in out
    assert " units held out of all training" in out
    loaded = Collective.load("collective")
    assert loaded.feature_names == ["rain", "sun"]
    for name, agent in zip(NAMES, loaded.agents, strict=True):
        assert agent.units.tolist() == frame(name)["farm"].tolist()
        assert_array_equal(agent.X, frame(name)[["rain", "sun"]])
    text = (place / "collective" / "collective.toml").read_text()
    assert text.count('\nunits = "farm"\n') == 2
    again = Collective.load(loaded.save(place / "saved"))
    assert again.agents[1].units.tolist() == loaded.agents[1].units.tolist()
    frame("north").to_csv("new.csv", index=False)  # with the column of units, which is no feature
    assert degroot("predict", "--collective", "collective", "--input", "new.csv", "--output", "a.csv")[0] == 0
    assert_allclose(pd.read_csv("a.csv")["value"], loaded.predict(frame("north")[["rain", "sun"]]), rtol=1e-9)


def test_own_predictions_are_of_models_that_have_not_seen_the_unit(place):
    trained(place)
    before = Collective.load(place / "out").agents[0].own_predictions
    changed = frame("north")
    mine = (changed["farm"] == "n3").to_numpy()
    changed.loc[mine, "yield"] += 1000.0
    changed.to_csv("north.csv", index=False)
    trained(place, out="again")
    after = Collective.load(place / "again").agents[0].own_predictions
    assert mine.sum() > 1
    assert_allclose(after[mine], before[mine], rtol=1e-9)
    assert (np.abs(after - before)[~mine] > 1e-3).mean() > 0.6


@pytest.mark.parametrize("seed", range(5))
def test_whole_units_are_held_out(place, seed):
    for each in gathered(place).organisations:
        rest, held = comparison.split(each, np.random.default_rng(seed))
        assert not set(rest.units) & set(held.units)
        assert sorted([*rest.y, *held.y]) == sorted(each.y)
        assert 0.1 * len(each.y) <= len(held.y) <= max(1, round(0.2 * len(each.y)))
        assert rest.n_units >= 2


@pytest.mark.parametrize(("sizes", "held"), [((50, 5, 6), 5), ((30, 30, 31), 30), ((90, 1, 1, 1), None)])
def test_two_units_at_least_are_left_to_train_on(sizes, held):
    units = np.repeat([f"u{k}" for k in range(len(sizes))], sizes)
    given = organisations.Organisation("north", np.zeros((len(units), 1)), np.arange(float(len(units))), units)
    for seed in range(5):
        rest, out = comparison.split(given, np.random.default_rng(seed))
        assert rest.n_units >= 2
        assert len(out.y) in ((5, 6) if held == 5 else (held,) if held else (1, 2))


def test_units_of_one_row_each_are_as_none(place):
    for name in NAMES:
        frame(name).assign(farm=[f"{name}{k}" for k in range(len(frame(name)))]).to_csv(f"{name}.csv", index=False)
    one, two = trained(place), trained(place, out="plain", unit=None, ignore=["farm"])
    for name in ("own", "control", "collective", "pooled", "difference", "standard_error", "units"):
        assert_allclose(getattr(one.gains, name), getattr(two.gains, name), rtol=1e-7)
    for mine, theirs in zip(*(Collective.load(place / out).agents for out in ("out", "plain")), strict=True):
        assert_array_equal(mine.own_predictions, theirs.own_predictions)


def test_gains_count_whole_units_as_evidence(place):
    told = trained(place).gains
    random = np.random.default_rng(0)
    for k, each in enumerate(gathered(place).organisations):
        _, held = comparison.split(each, random)
        assert (told.rows[k], told.units[k]) == (len(held.y), held.n_units)
        assert held.n_units < len(held.y)


def test_classes_are_cross_fitted_in_whole_units_too(place):
    for name in NAMES:
        table = frame(name)
        table.assign(**{"yield": np.where(table["yield"] > 0, "high", "low")}).to_csv(f"{name}.csv", index=False)
    trained(place)
    loaded = Collective.load(place / "out")
    assert loaded.agents[0].units.tolist() == frame("north")["farm"].tolist()
    assert loaded.agents[0].own_predictions.shape[1] == 2


def test_a_node_begins_with_the_units_that_were_trained(degroot, place):
    trained(place)
    assert degroot("node", "init", "south", "--trained", "out")[0] == 0
    told = config.read(place / "out/south/south.toml").data
    assert told.units == "farm"
    assert load(told).names == ("rain", "sun")
    assert load(told).units.tolist() == frame("south")["farm"].tolist()


# -- labels as files have them -----------------------------------------------------------------------------------------


def test_labels_stay_text_whatever_they_look_like(place):
    for k, name in enumerate(NAMES):
        numbers = pd.factorize(frame(name)["farm"])[0]
        large = [f"{2**60 + 1000 * k + number}" for number in numbers]
        frame(name).assign(farm=large).to_csv(f"{name}.csv", index=False)
        whole = pd.array([None, *map(int, large[1:])], dtype="Int64")
        frame(name).assign(farm=whole).to_parquet(f"{name}.parquet")
    found = gathered(place).organisations
    again = organisations.gather([place / f"{name}.parquet" for name in NAMES], "yield", unit="farm").organisations
    for name, mine, theirs in zip(NAMES, found, again, strict=True):
        assert mine.n_units == 15
        assert mine.units[0].startswith(str(2**60)[:15])
        assert theirs.units.tolist() == mine.units[1:].tolist(), name


def test_rows_without_a_unit_are_left_out_and_told(place):
    table = frame("south")
    table.loc[[3, 7], "farm"] = [None, "NA"]
    table.loc[[4, 7], "yield"] = np.nan
    table.to_csv("south.csv", index=False)
    found = gathered(place)
    assert found.notes == ["rows without a target, left out: 2 of south", "rows without a unit, left out: 2 of south"]
    assert_array_equal(found.organisations[1].X, table.drop(index=[3, 4, 7])[["rain", "sun"]])
    assert found.organisations[1].units.tolist() == table["farm"].drop(index=[3, 4, 7]).tolist()


# -- mistakes ----------------------------------------------------------------------------------------------------------


def test_a_unit_in_two_organisations_is_refused_by_name(degroot, place):
    table = frame("south")
    table.loc[5, "farm"] = "n3"
    table.to_csv("south.csv", index=False)
    code, out, err = degroot("train", "north.csv", "south.csv", "--target", "yield", "--unit", "farm")
    assert (code, out) == (2, "")
    told = "Units must not span organisations; unit 'n3' is in 'north' and in 'south'. If these are different units"
    assert told in err
    assert err.count("\n") == 1


def test_too_few_units_of_a_file_are_refused(place):
    frame("south").assign(farm="s1").to_csv("south.csv", index=False)
    message = complaint(lambda: trained(place))
    assert "south.csv must have at least 10 rows with a target, of 3 units; it has " in message
    assert message.endswith(f" {len(frame('south'))}, of 1 unit.")
    assert not (place / "out").exists()


def test_too_few_units_of_a_group_are_left_out_and_told(place):
    parts = [frame("north").assign(land="north"), frame("south").assign(land="south")]
    small = frame("south").assign(land="west", farm=lambda table: np.where(table["sun"] > 0, "w1", "w2"))
    pd.concat([*parts, small]).to_csv("all.csv", index=False)
    found = gathered(place, ["all"], group="land")
    assert [each.name for each in found.organisations] == ["north", "south"]
    assert found.notes == ["left out, with fewer than 3 units: west (2)"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"unit": "farms"}, "must have the column 'farms'; it has none: did you mean 'farm'?"),
        ({"unit": "yield"}, "--unit must be another column than the target; got 'yield'."),
        ({"group": "farm", "files": ["north"]}, "--unit must be another column than --group; got 'farm'."),
    ],
)
def test_a_column_that_cannot_be_the_unit_is_refused(place, settings, told):
    assert told in complaint(lambda: gathered(place, **settings))
