"""`degroot train`: what the files say is what is trained on, and what is printed is what can be computed from it."""

import csv
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from degroot import Agent, Collective, InvalidInput, models
from degroot.estimators.self_scoring import CROSS, train_with_own_predictions
from degroot.files import load
from degroot.files.csv_rows import check_header
from degroot.node import config
from degroot.node.config.names import check_name, suggest_name
from degroot.schema import Column, Schema
from degroot.training import comparison, folder, organisations, train

NAMES = ("north", "south", "west")
PLAIN = Schema((Column("size"), Column("age"), Column("rooms")), Column("price"))


def frame(name, n=60, gaps=0.0):
    random = np.random.default_rng(NAMES.index(name))
    table = pd.DataFrame(random.normal(NAMES.index(name), 1.0, size=(n, 3)), columns=["size", "age", "rooms"])
    table["price"] = 3 * table["size"] - table["age"] + 0.1 * random.normal(size=n)
    return table.mask(random.random(table.shape) < gaps).assign(price=table["price"])


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder with a file for each organisation."""
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        frame(name).to_csv(f"{name}.csv", index=False)
    return tmp_path


@pytest.fixture
def degroot(degroot, place):
    """The command line, in that folder."""
    return degroot


def trained(place, files=(), out="out", target="price", **settings):
    files = files or [f"{name}.csv" for name in NAMES]
    return train([place / file for file in files], target, place / out, **{"model": "linear"} | settings)


def gathered(place, files=(), target="price", **settings):
    """What would be trained on."""
    return organisations.gather(
        [place / file for file in files or [f"{name}.csv" for name in NAMES]], target, **settings
    )


def same(one, other):
    assert (one.features, one.target, one.classes) == (other.features, other.target, other.classes)
    for mine, theirs in zip(one.organisations, other.organisations, strict=True):
        assert mine.name == theirs.name
        assert_array_equal(mine.X, theirs.X)
        assert_array_equal(mine.y, theirs.y)


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# -- what is written ---------------------------------------------------------------------------------------------------


def test_the_rows_are_those_of_the_files_and_the_models_are_trained_on_all_of_them(place):
    trained(place)
    collective = Collective.load(place / "out")
    assert collective.names == NAMES
    assert collective.feature_names == ["size", "age", "rooms"]
    for agent in collective.agents:
        given = frame(agent.name)
        assert_array_equal(agent.X, given[["size", "age", "rooms"]])
        assert_array_equal(agent.y, given["price"])
        assert agent.model[-1].alpha_ > 0
        again = type(agent.model)(agent.model.steps).fit(agent.X, agent.y)
        assert_allclose(agent.predict(agent.X), again.predict(agent.X), rtol=1e-12)


def test_own_predictions_are_of_models_that_have_not_seen_the_row(place):
    trained(place)
    before = {agent.name: agent.own_predictions for agent in Collective.load(place / "out").agents}
    changed = frame("north")
    order = np.argsort(changed["price"].to_numpy())
    top = order[-1]  # the largest label: it can grow without a change of the folds, which go by the order of labels
    changed.loc[top, "price"] += 1000.0
    changed.to_csv("north.csv", index=False)
    trained(place, out="again")
    after = {agent.name: agent.own_predictions for agent in Collective.load(place / "again").agents}
    assert_array_equal(after["south"], before["south"])
    assert_allclose(after["north"][top], before["north"][top], rtol=1e-9)
    assert (np.abs(np.delete(after["north"] - before["north"], top)) > 1e-6).sum() > 30  # others have seen it


def test_the_order_of_columns_does_not_matter(place):
    expected = gathered(place)
    frame("south")[["price", "rooms", "size", "age"]].to_csv("south.csv", index=False)
    same(gathered(place), expected)


def test_a_column_deals_one_file_as_files_would(place):
    shuffled = pd.concat([frame(name).assign(where=name) for name in NAMES])
    shuffled = shuffled.iloc[np.argsort(np.random.default_rng(5).permutation(len(shuffled)) % 60, kind="stable")]
    shuffled.to_csv("all.csv", index=False)
    for name in NAMES:
        shuffled[shuffled["where"] == name].drop(columns="where").to_csv(f"{name}.csv", index=False)
    same(gathered(place, ["all.csv"], group="where"), gathered(place))


@pytest.mark.slow
def test_the_seed_decides_all_that_is_random(place):
    first, again, other = (trained(place, out=f"out{k}", seed=seed) for k, seed in enumerate((0, 0, 1)))
    assert contents(first.folder) == contents(again.folder)
    assert_array_equal(first.gains.collective, again.gains.collective)
    assert (first.gains.collective != other.gains.collective).all()


def test_nothing_is_overwritten_and_nothing_is_left_of_what_fails(place):
    (place / "out").mkdir()
    trained(place)  # an empty folder will do
    before = contents(place)
    with pytest.raises(InvalidInput, match="must go to a new folder; there is something at"):
        trained(place)
    with pytest.raises(InvalidInput, match="'prize'"):
        trained(place, target="prize", out="other")
    assert contents(place) == before
    assert not (place / "other").exists()


def test_a_folder_can_be_moved(place):
    trained(place)
    expected = Collective.load(place / "out").predict(frame("south")[["size", "age", "rooms"]])
    shutil.move(place / "out", place / "elsewhere")
    assert_array_equal(Collective.load(place / "elsewhere").predict(frame("south")[["size", "age", "rooms"]]), expected)


# -- what is compared --------------------------------------------------------------------------------------------------


def given_parts():
    """What is trained on and what is held out, of every organisation."""
    random = np.random.default_rng(0)
    for name in NAMES:
        table = frame(name)
        given = organisations.Organisation(name, table[["size", "age", "rooms"]].to_numpy(), table["price"].to_numpy())
        yield comparison.split(given, random)


def test_gains_are_of_rows_that_were_not_trained_on(place):
    done = trained(place)
    found, parts = done.gains, list(given_parts())
    assert found.rows.tolist() == [len(held.y) for _, held in parts] == [12, 12, 12]
    pipeline = Collective.load(done.folder).agents[0].model

    def fitted(X, y):
        return clone(pipeline).fit(X, y)

    def squares(model, held):
        return (model.predict(held.X) - held.y) ** 2

    models = [fitted(rest.X, rest.y) for rest, _ in parts]
    marked = [np.column_stack([rest.X, np.full(len(rest.y), k)]) for k, (rest, _) in enumerate(parts)]
    owners = ColumnTransformer([("numbers", StandardScaler(), [0, 1, 2]), ("owner", OneHotEncoder(), [3])])
    everybody = make_pipeline(owners, RidgeCV(np.logspace(-3, 3, 13)))  # told whose rows
    everybody.fit(np.concatenate(marked), np.concatenate([rest.y for rest, _ in parts]))
    for k, (_, held) in enumerate(parts):
        assert_allclose(found.own[k], squares(models[k], held).mean(), rtol=1e-9)
        told = np.column_stack([held.X, np.full(len(held.y), k)])
        assert_allclose(found.pooled[k], np.mean((everybody.predict(told) - held.y) ** 2), rtol=1e-9)
        average = np.mean([model.predict(held.X) for model in models], axis=0)
        assert_allclose(found.average[k], np.mean((average - held.y) ** 2), rtol=1e-9)
    assert_allclose(found.difference, found.collective - found.own)
    assert found.held_out
    assert found.models == done.kinds == ("linear",) * 3


def test_the_collective_and_the_consensus_are_those_of_the_rows_that_were_trained_on(place):
    parts, agents = list(given_parts()), []
    done = trained(place)
    for agent, (rest, _) in zip(Collective.load(done.folder).agents, parts, strict=True):
        own = train_with_own_predictions(clone(agent.model), rest.X, rest.y, rest.name, None, CROSS, 0, None)
        agents.append(Agent(own.model, rest.X, rest.y, rest.name, own_predictions=own.own, schema=PLAIN))
    collective = Collective(agents, rule="stacking")
    for k, (_, held) in enumerate(parts):
        for field, said in (
            ("collective", collective.predict(held.X, asker=NAMES[k])),
            ("neutral", collective.predict(held.X)),
        ):
            assert_allclose(getattr(done.gains, field)[k], np.mean((said - held.y) ** 2), rtol=1e-6)
    assert_allclose(done.left_out.collective, collective.gains().collective, rtol=1e-6)


def test_all_organisations_and_who_contributes_to_whom_are_in_files(place):
    done = trained(place, shapley=True)
    told = pd.read_csv(done.folder / "gains.csv")
    assert told["organisation"].tolist() == list(NAMES)
    for name in ("own", "control", "collective", "neutral", "pooled", "average"):
        assert_allclose(told[f"{name}_mse"], getattr(done.gains, name))
    pairs = pd.read_csv(done.folder / "contributions.csv")
    sums = pairs.groupby("asker")["contribution"].sum()[list(NAMES)]
    assert_allclose(sums, done.left_out.own - done.left_out.collective, atol=1e-9)
    assert (done.folder / "gains.png").read_bytes().startswith(b"\x89PNG")
    assert Collective.load(done.folder).names == NAMES


def test_without_matplotlib_there_is_no_picture_and_without_shapley_no_contributions(place, monkeypatch):
    monkeypatch.setattr(folder, "find_spec", lambda name: None)
    trained(place)
    assert sorted(path.name for path in (place / "out").iterdir()) == [
        "collective.toml", "gains.csv", "north", "schema.toml", "south", "west",
    ]  # fmt: skip


def test_an_organisation_may_be_called_as_a_file_of_the_folder(place):
    pd.concat([frame(name).assign(where=f"{name}.csv" if name != "west" else "gains.csv") for name in NAMES]).to_csv(
        "all.csv", index=False
    )
    trained(place, ["all.csv"], group="where")
    assert Collective.load(place / "out").names == ("gains.csv", "north.csv", "south.csv")
    assert pd.read_csv(place / "out" / "gains.csv")["organisation"].tolist() == ["gains.csv", "north.csv", "south.csv"]


@pytest.mark.slow  # it grows forests
def test_each_organisation_takes_the_model_that_suits_it(place):
    random = np.random.default_rng(0)
    bent = pd.DataFrame(random.uniform(-3, 3, size=(300, 3)), columns=["size", "age", "rooms"])
    bent.assign(price=np.sign(bent["size"]) * np.sign(bent["age"])).to_csv("west.csv", index=False)
    assert trained(place, model="best").kinds == ("linear", "linear", "forest")


# -- gaps and classes --------------------------------------------------------------------------------------------------


def test_gaps_stay_gaps_and_questions_may_have_them(place):
    for name in NAMES:
        frame(name, gaps=0.2).to_csv(f"{name}.csv", index=False)
    trained(place)
    collective = Collective.load(place / "out")
    assert collective.takes_gaps
    given = frame("south", gaps=0.2)[["size", "age", "rooms"]].to_numpy()
    assert_array_equal(collective.agents[1].X, given)
    asked = np.array([[np.nan, 1.0, 2.0], [np.nan, np.nan, np.nan]])
    assert np.isfinite(collective.predict(asked)).all()


@pytest.mark.parametrize("model", ["linear", "boosting", pytest.param("forest", marks=pytest.mark.slow)])
def test_a_feature_may_be_unknown_to_one_organisation(place, model):
    frame("south").assign(age=np.nan).to_csv("south.csv", index=False)
    done = trained(place, model=model)
    assert done.gathered.notes == [
        "empty, treated as absent: 'age' at south",
        "south can score no model of others, which take 'age', and so gains nothing from them. To let it "
        "gain, leave these columns out: --ignore age",
    ]
    collective = Collective.load(place / "out")
    assert collective.agents[1].lacks.tolist() == [False, True, False]
    assert 'absent = ["age"]' in (place / "out/collective.toml").read_text()
    assert np.isfinite(collective.predict(np.ones((1, 3)))).all()


def test_rows_without_a_target_are_left_out_and_told(place):
    table = frame("south")
    table.loc[[3, 7], "price"] = np.nan
    table.to_csv("south.csv", index=False)
    found = gathered(place)
    assert found.notes == ["rows without a target, left out: 2 of south"]
    assert_array_equal(found.organisations[1].X, table.drop(index=[3, 7])[["size", "age", "rooms"]])


def test_text_is_classes(place):
    for name in NAMES:
        table = frame(name)
        table.assign(price=np.where(table["price"] > 2, "high", "low, really")).to_csv(f"{name}.csv", index=False)
    done = trained(place)
    collective = Collective.load(place / "out")
    assert done.gathered.classes == ("high", "low, really")
    assert collective.classes == ("'high'", "'low, really'")
    points = pd.concat([frame(name) for name in NAMES])
    likely = collective.predict(points[["size", "age", "rooms"]])
    assert_allclose(likely.sum(axis=1), 1.0)
    assert np.mean((likely[:, 0] > 0.5) == (points["price"] > 2)) > 0.9
    assert done.gains.measure == "Brier score"
    assert 0 <= done.gains.total("collective") < 0.3
    assert "own_brier" in pd.read_csv(place / "out" / "gains.csv")


def test_numbers_are_classes_when_asked_for(place):
    for name in NAMES:
        table = frame(name)
        table.assign(price=np.where(table["price"] > 2, 10, 9)).to_csv(f"{name}.csv", index=False)
    assert gathered(place).notes == ["'price' is 9 or 10, taken as a number; --classes takes it as two classes"]
    assert gathered(place, classes=True).classes == ("9", "10")


# -- mistakes ----------------------------------------------------------------------------------------------------------

MISTAKES = {
    "one file": (lambda t: t, {"files": ["north.csv"]}, "two organisations or more.*got 1 file"),
    "no target": (lambda t: t, {"target": "prices"}, "north.csv must have the column 'prices'; .*did you mean 'price'"),
    "a word": (lambda t: t.astype(object).replace({"age": {t["age"][4]: "old"}}), {},
               "south.csv: row 5: column 'age' must hold numbers; got 'old'. .*--ignore age"),
    "true": (lambda t: t.assign(rooms=t["rooms"] > 0), {},
             "'rooms' must be of one kind; .*north.csv has numbers such as .*, .*south.csv texts such as 'false'"),
    "another name": (lambda t: t.rename(columns={"age": "Age_years"}), {},
                     "south.csv has no 'age', as .*north.csv, .*west.csv have, but 'Age_years'. .*south.site.toml"),
    "few rows": (lambda t: t.head(9), {}, "south.csv must have at least 10 rows with a target; it has 9"),
    "infinite": (lambda t: t.replace({"age": {t["age"][4]: np.inf}}), {}, "row 5: column 'age' must hold finite"),
    "mixed target": (lambda t: t.astype({"price": object}).replace({"price": {t["price"][4]: "n/k"}}), {},
                     "south.csv: row 5: the target 'price' must hold numbers, or labels with --classes; got 'n/k'"),
    "unknown column": (lambda t: t, {"ignore": ["sise"]}, "--ignore must name columns; there is no 'sise'"),
    "only a target": (lambda t: t, {"ignore": ["size,age", "rooms"]}, "must have features beside the target"),
    "group of files": (lambda t: t, {"group": "age"}, "--group must come with one file, which it deals; got 3"),
    "model": (lambda t: t, {"model": "oracle"}, "--model must be one of linear, forest, boosting, best; got 'oracle'"),
    "rule": (lambda t: t, {"rule": "force"}, "`rule` must be one of"),
    "same names": (lambda t: t, {"files": ["north.csv", "./north.csv"]}, "Every file must have a name of its own"),
    "no such file": (lambda t: t, {"files": ["north.csv", "east.csv"]}, "east.csv: No such file"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_that_says_what_to_do(mistake, place):
    change, settings, told = MISTAKES[mistake]
    change(frame("south")).to_csv("south.csv", index=False)
    with pytest.raises(InvalidInput, match=told) as error:
        trained(place, **settings)
    assert "\n" not in str(error.value)
    assert not (place / "out").exists()


def test_a_column_that_some_files_lack_is_absent_there(place):
    frame("south").assign(floor=np.arange(60) % 7).to_csv("south.csv", index=False)
    frame("west").drop(columns="age").assign(floor=np.arange(60) % 5).to_csv("west.csv", index=False)
    done = trained(place)
    assert [re.sub("[^ ]*/", "", note) for note in done.gathered.notes] == [
        "'age': not in west.csv, absent there",
        "'floor': not in north.csv, absent there",
        "north can score no model of others, which take 'floor', and so gains nothing from them. To let it "
        "gain, leave these columns out: --ignore floor",
        "west can score no model of others, which take 'age', and so gains nothing from them. To let it "
        "gain, leave these columns out: --ignore age",
    ]
    lacks = [agent.lacks for agent in Collective.load(place / "out").agents]
    assert [None if each is None else each.tolist() for each in lacks] == [
        [False, False, False, True], None, [False, True, False, False],
    ]  # fmt: skip


def test_labels_that_are_no_classes_are_refused(place):
    for name in NAMES:
        frame(name).assign(price=[f"about {k}" for k in range(60)]).to_csv(f"{name}.csv", index=False)
    with pytest.raises(InvalidInput, match="must have 2 to 50 labels; 'price' has 60 labels, such as 'about 0'"):
        trained(place)


def test_groups_that_are_too_small_are_left_out_and_told(place):
    pd.concat([frame(name, n).assign(where=name) for name, n in zip(NAMES, (20, 9, 30), strict=True)]).to_csv(
        "all.csv", index=False
    )
    found = gathered(place, ["all.csv"], group="where")
    assert [each.name for each in found.organisations] == ["north", "west"]
    assert found.notes == ["left out, with fewer than 10 rows: south (9)"]


# -- the command -------------------------------------------------------------------------------------------------------


def test_from_files_to_answers_by_the_commands_that_are_printed(degroot, place):
    frame("west").drop(columns="price").to_csv("new.csv", index=False)
    code, out, err = degroot("train", *(f"{name}.csv" for name in NAMES), "--target", "price", "--model", "linear")
    assert (code, err) == (0, "")
    done = train([place / f"{name}.csv" for name in NAMES], "price", place / "again", model="linear")
    inferred, out = out.split("\n", 1)
    assert inferred == "Inferred: 3 features: 3 numbers."
    assert out.startswith(f"{done.gains}\n")
    assert out.startswith(f"{done.gains.sentence}.\nRoot mean squared error on 36 rows held out of all training;")
    assert f"left out in folds: {done.left_out.sentence}." in out
    for name in done.gains.without_gain:
        assert name in out.partition("\nWithout a gain: ")[2].splitlines()[0]
    for told in ("The neutral consensus", "If the rows could be pooled", "Models of the organisations: linear 3;"):
        assert f"\n{told}" in out
    (line,) = [line.strip() for line in out.splitlines() if line.startswith("  degroot predict")]
    code, _, err = degroot(*line.split()[1:])
    assert (code, err) == (0, "")
    collective, X = Collective.load("collective"), frame("west").iloc[:, :3]
    answers, expected = pd.read_csv("answers.csv"), collective.consult(X, asker=line.split()[-1])
    assert_allclose(answers["value"], expected.value, rtol=1e-9)
    assert_allclose(answers[[f"weight_{name}" for name in NAMES]], expected.weights, atol=1e-9)
    code, out, err = degroot("explain", "--collective", "collective", "--input", "new.csv", "--row", "3")
    assert (code, err) == (0, "")
    told = collective.consult(X).explain(2, target=collective.schema.target).text
    assert out == told.replace("point 2", "row 3") + "\n"


def test_a_name_is_shown_as_it_is(degroot):
    pd.concat([frame(name).assign(where=f"[red]{name}/1") for name in NAMES]).to_csv("all.csv", index=False)
    code, out, err = degroot("train", "all.csv", "--group", "where", "--target", "price", "--model", "linear")
    assert (code, err) == (0, "")
    assert "[red]north/1" in out
    assert Collective.load("collective").names == tuple(f"[red]{name}/1" for name in NAMES)


def test_a_row_that_is_not_there_cannot_be_explained(degroot, place):
    trained(place)
    frame("west").to_csv("new.csv", index=False)
    asked = ("explain", "--input", "new.csv")
    assert (
        "--row must be one of the 60 rows of new.csv; got 61"
        in degroot(*asked, "--collective", "out", "--row", "61")[2]
    )
    assert "Either --collective or --node must say who is asked; got neither" in degroot(*asked)[2]


# -- nodes -------------------------------------------------------------------------------------------------------------


def test_a_node_begins_with_what_was_trained(degroot, place):
    trained(place, rule="stacking")
    code, out, err = degroot("node", "init", "south", "--trained", "out", "--listen", "127.0.0.1:7442")
    assert (code, err) == (0, "")
    assert out.startswith("out/south/south.toml: its keys go beside it")
    told = config.read(place / "out/south/south.toml")
    assert (told.name, told.collective.rule, told.data.schema.name) == ("south", "stacking", "schema.toml")
    rows, agent = load(told.data), Collective.load("out").agents[1]
    assert_array_equal(rows.X, agent.X)
    assert_array_equal(rows.y, agent.y)
    assert_array_equal(rows.own, agent.own_predictions)
    model, _ = models.load(told.model)
    assert_array_equal(model.predict(rows.X), agent.predict(agent.X))
    assert "must be one of north, south, west; got 'east'" in degroot("node", "init", "east", "--trained", "out")[2]


def test_a_node_of_classes_knows_them_all(degroot, place):
    for name in NAMES:
        table = frame(name)
        table.assign(price=np.where(table["price"] > 2, "high", "low")).to_csv(f"{name}.csv", index=False)
    trained(place)
    assert degroot("node", "init", "west", "--trained", "out")[0] == 0
    told = config.read(place / "out/west/west.toml")
    assert load(told.data).schema.classes == ("high", "low")
    assert set(load(told.data).y.tolist()) <= {"high", "low"}


def test_a_node_takes_gaps(degroot, place):
    for name in NAMES:
        frame(name, gaps=0.2).to_csv(f"{name}.csv", index=False)
    trained(place)
    assert degroot("node", "init", "west", "--trained", "out")[0] == 0
    rows = load(config.read(place / "out/west/west.toml").data)
    assert_array_equal(rows.X, frame("west", gaps=0.2)[["size", "age", "rooms"]])


# -- files as people have them -----------------------------------------------------------------------------------------


def test_files_of_a_spreadsheet_are_read(place):
    expected = gathered(place)
    for name in NAMES:
        text = frame(name).to_csv(index=False, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
        (place / f"{name}.csv").write_bytes(text.encode("utf-8-sig"))
    same(gathered(place), expected)


def test_a_column_without_a_name_is_no_feature(place):
    expected = gathered(place)
    for name in NAMES:
        frame(name).to_csv(f"{name}.csv")  # with the index that pandas writes
    same(gathered(place), expected)
    assert gathered(place).inferred == "3 features: 3 numbers; left out: '' (a column without a name)"


def test_a_column_that_numbers_the_rows_is_left_out_and_told(place):
    expected = gathered(place)
    for name in NAMES:
        frame(name).assign(rownames=range(1, 61)).to_csv(f"{name}.csv", index=False)
    same(gathered(place), expected)
    assert gathered(place).inferred == "3 features: 3 numbers; left out: 'rownames' (numbers the rows)"


def test_other_marks_between_fields_are_refused_in_plain_words(degroot, place):
    trained(place)
    for mark, told in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        frame("west").to_csv("west.csv", index=False, sep=mark, decimal="," if mark == ";" else ".")
        for command in (
            ("train", "north.csv", "west.csv", "--target", "price", "--out", "again"),
            ("predict", "--collective", "out", "--input", "west.csv", "--output", "answers.csv"),
            ("explain", "--collective", "out", "--input", "west.csv"),
        ):
            code, _, err = degroot(*command)
            assert code == 2
            assert f"west.csv must have commas between its fields; its first line has {told}." in err


@pytest.mark.parametrize("header", ["size;rooms, in all;price", '"size";"rooms";"price"'])
def test_semicolons_are_seen_beside_commas_and_quotes(degroot, place, header):
    (place / "west.csv").write_text(f"{header}\n45,0;2,5;7,25\n46,5;3,0;8\n")
    code, _, err = degroot("train", "north.csv", "west.csv", "--target", "price")
    assert code == 2
    assert "west.csv must have commas between its fields; its first line has semicolons." in err


@pytest.mark.parametrize(
    "text", ['"a;b;c",d\n1,2\n', "a;b;c,d\n1,2\n", "a,b;c\r1,2\r", f"a,b;c;d\n1,{'x' * 200_000}\n"]
)
def test_semicolons_may_be_in_names_and_text(place, text):
    (place / "west.csv").write_text(text)
    check_header(place / "west.csv")


def test_text_that_is_not_utf_8_is_refused_in_plain_words(degroot, place):
    (place / "west.csv").write_bytes(
        frame("west").rename(columns={"size": "größe"}).to_csv(index=False).encode("latin-1")
    )
    code, _, err = degroot("train", "north.csv", "west.csv", "--target", "price")
    assert code == 2
    assert "west.csv must be UTF-8 text; its first line is not. Save it anew as CSV, UTF-8." in err


def test_a_node_finds_the_organisation_that_its_name_is_made_of(place, degroot):
    names = {"CA": "node-ca", "North Ames": "north-ames", "9E": "node-9e"}
    for own, name in zip(names, ("north", "south", "west"), strict=True):
        frame(name).to_csv(f"{own}.csv", index=False)
    train([place / f"{own}.csv" for own in names], "price", place / "out", model="linear")
    for own, node in names.items():
        assert f"Such as: {node}." in degroot("node", "init", own, "--trained", "out")[2]
        code, out, _ = degroot("node", "init", node, "--trained", "out")
        assert code == 0
        assert Path(out.partition(": ")[0]).parent == Path("out") / own.replace(" ", "-")
    assert degroot("node", "init", "mine", "--trained", "out", "--organisation", "9E", "--out", "mine.toml")[0] == 0
    assert (
        "must be one of CA, North Ames, 9E; got '8E'"
        in degroot("node", "init", "mine", "--trained", "out", "--organisation", "8E")[2]
    )
    assert "--organisation must stand with --trained" in degroot("node", "init", "x", "--organisation", "9E")[2]


@given(st.text(min_size=1, max_size=80))
def test_any_organisation_has_a_name_for_its_node(organisation):
    assert check_name(suggest_name(organisation)) == suggest_name(suggest_name(organisation))
