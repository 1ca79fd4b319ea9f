"""Units in files: of collectives that were saved, and of those that are listed by hand."""

import numpy as np
import pandas as pd
import pytest
import skops.io
from numpy.testing import assert_array_equal
from sklearn.linear_model import Ridge
from support.refusals import complaint

from degroot import Agent, Collective, saved
from degroot.files.toml import toml_text
from degroot.saved.agents import SavedAgent

KINDS = {
    "numbers": lambda k: np.arange(30) // 3 + 10 * k,
    "fractions": lambda k: np.arange(30) // 3 + 10.5 * k,
    "strings": lambda k: np.array([f"p{k} ü{row // 3}" for row in range(30)]),
    "objects": lambda k: np.array([f"p{k}-{row // 3}" for row in range(30)], dtype=object),
}
X = np.random.default_rng(1).normal(size=(5, 2))


def frames():
    source = np.random.default_rng(0)
    for k in range(3):
        frame = pd.DataFrame(source.normal(size=(30, 2)) + k / 2, columns=["age", "tax"])
        yield frame.assign(price=frame["age"] - frame["tax"], farm=[f"{100 * k + row // 3:03}" for row in range(30)])


def agents(units):
    several = [(frame[["age", "tax"]].to_numpy(), frame["price"].to_numpy()) for frame in frames()]
    return [Agent(Ridge().fit(X, y), X, y, f"agent {k}", units=units(k)) for k, (X, y) in enumerate(several)]


def listed(folder, suffix=".csv", **entries):
    """A file that lists three agents whose column `farm` says whose row it is."""
    text = 'target = "price"\n'
    for k, (frame, agent) in enumerate(zip(frames(), agents(lambda k: None), strict=True)):
        skops.io.dump(agent.model, folder / f"{k}.skops")
        frame.to_csv(folder / f"{k}.csv", index=False)
        frame.to_parquet(folder / f"{k}.parquet")
        told = {"name": f"agent {k}", "model": f"{k}.skops", "data": f"{k}{suffix}", "units": "farm"} | entries
        text += toml_text({"agents": [told]})
    (folder / "collective.toml").write_text(text)
    return folder / "collective.toml"


# -- saved -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_units_are_saved_and_loaded(tmp_path, kind):
    made = Collective([*agents(KINDS[kind])[:2], agents(lambda k: None)[2]], 4)
    loaded = Collective.load(made.save(tmp_path / "one"))
    for before, after in zip(made.agents, loaded.agents, strict=True):
        assert type(after) is SavedAgent
        assert (before.units is None) == (after.units is None)
        assert_array_equal(after.unit_codes, before.unit_codes)
        assert before.units is None or after.units.tolist() == before.units.tolist()
    assert_array_equal(loaded.predict(X), made.predict(X))
    saved.verify(tmp_path / "one")
    again = loaded.save(tmp_path / "two")
    for file in (tmp_path / "one").rglob("*.*"):
        assert (again / file.relative_to(tmp_path / "one")).read_bytes() == file.read_bytes(), file


def test_units_that_need_a_pickle_are_not_saved(tmp_path):
    days = np.array(pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(30) // 3, "D"))
    message = complaint(lambda: Collective(agents(lambda k: days)[:1], 4).save(tmp_path / "one"))
    assert message.startswith("Agent 'agent 0': its `units` must be numbers or strings, to be saved; the first is")
    assert not (tmp_path / "one").exists()


def test_units_of_another_length_are_refused(tmp_path):
    folder = Collective(agents(KINDS["numbers"]), 4).save(tmp_path / "one")
    np.save(folder / "agent-2" / "units.npy", np.arange(29))
    assert "agent-2/units.npy must hold 30 numbers; it holds 29" in complaint(lambda: Collective.load(folder))


# -- listed by hand ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_column_of_a_listed_file_says_whose_row_it_is(tmp_path, suffix):
    loaded = Collective.load(listed(tmp_path, suffix))
    assert loaded.feature_names == ["age", "tax"]
    for frame, agent in zip(frames(), loaded.agents, strict=True):
        assert agent.units.tolist() == frame["farm"].tolist()  # as text, whatever it looks like
    assert_array_equal(Collective.load(loaded.save(tmp_path / "saved")).agents[1].units, loaded.agents[1].units)
    assert saved.digest(tmp_path)


def test_arrays_have_their_units_in_an_array(tmp_path):
    file = listed(tmp_path)
    for k, frame in enumerate(frames()):
        np.save(tmp_path / f"{k}-rows.npy", np.ascontiguousarray(frame[["age", "tax"]]))
        np.save(tmp_path / f"{k}-labels.npy", frame["price"].to_numpy())
        np.save(tmp_path / f"{k}-units.npy", KINDS["strings"](k))
        told = {"rows": f"{k}-rows.npy", "labels": f"{k}-labels.npy", "units": f"{k}-units.npy"}
        text = file.read_text().replace(f'data = "{k}.csv"\nunits = "farm"\n', toml_text(told))
        file.write_text(text.replace('target = "price"\n', ""))
    loaded = Collective.load(file)
    assert loaded.agents[2].units.tolist() == KINDS["strings"](2).tolist()
    assert tmp_path / "2-units.npy" in saved.document.Document.read(file).files


@pytest.mark.parametrize(
    ("entries", "told"),
    [
        ({"units": "farms"}, "must have the column 'farms'; it has none: did you mean 'farm'?"),
        ({"units": "price"}, "`agents[1].units` must be another column than `agents[1].target`"),
        ({"units": 3}, "`agents[1].units` must be a string that is not empty; got 3."),
    ],
)
def test_a_column_that_cannot_be_the_unit_is_refused(tmp_path, entries, told):
    file = listed(tmp_path, **entries)
    assert told in complaint(lambda: Collective.load(file))


def test_a_unit_is_no_feature(tmp_path):
    file = listed(tmp_path)
    file.write_text('features = ["age", "farm"]\n' + file.read_text())
    assert "must be no feature; 'farm' is among the features." in complaint(lambda: Collective.load(file))


def test_rows_without_a_unit_and_units_of_two_agents_are_refused(tmp_path):
    file, frame = listed(tmp_path), next(frames())
    frame.assign(farm=frame["farm"].where(frame["farm"] != "003")).to_csv(tmp_path / "0.csv", index=False)
    assert "Column 'farm' of" in (message := complaint(lambda: Collective.load(file)))
    assert message.endswith("must have no gaps; row 10 is empty.")
    frame.to_csv(tmp_path / "1.csv", index=False)
    frame.to_csv(tmp_path / "0.csv", index=False)
    assert "unit '000' is in 'agent 0' and in 'agent 1'" in complaint(lambda: Collective.load(file))
