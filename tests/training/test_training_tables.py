"""`degroot train` on tables as organisations have them: categories, dates, gaps, other names, units and words."""

import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from support.refusals import complaint

from degroot import Collective, InvalidInput
from degroot.batch import predict_files
from degroot.compute.progress import SlowWork
from degroot.schema import read_schema
from degroot.training import comparison, train
from degroot.training.models import fit_best, make_model
from degroot.training.organisations import gather

NAMES = ("north", "south", "west")
TOWNS = {"north": ["Bree", "Archet"], "south": ["Bree", "Staddle"], "west": ["Archet", "Staddle", "Combe"]}


def frame(name, n=60):
    random = np.random.default_rng(NAMES.index(name))
    town = random.choice(TOWNS[name], n)
    table = pd.DataFrame({"town": town, "garden": random.choice(["yes", "no", ""], n)})
    table["built"] = np.datetime64("2000-01-01") + random.integers(0, 5000, n).astype("timedelta64[D]")
    table["size"] = np.where(random.random(n) < 0.1, np.nan, random.uniform(40, 160, n).round(1))
    table["price"] = (table["size"].fillna(100) * 30 + 500 * (town == "Bree") + random.normal(0, 50, n) + 1000).round()
    return table


def write(change=None, name="south"):
    """All files, one of them changed."""
    for each in NAMES:
        table = frame(each)
        (table if change is None or each != name else change(table)).to_csv(f"{each}.csv", index=False)


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """An empty folder with a file for each organisation."""
    monkeypatch.chdir(tmp_path)
    write()
    return tmp_path


def gathered(place, files=NAMES, target="price", **settings):
    return gather([place / f"{name}.csv" for name in files], target, **settings)


def trained(place, out="out", **settings):
    files = [place / f"{name}.csv" for name in NAMES]
    return train(files, "price", place / out, **{"model": "linear"} | settings)


def same(one, other):
    assert one.schema == other.schema
    for mine, theirs in zip(one.organisations, other.organisations, strict=True):
        assert mine.name == theirs.name
        assert_array_equal(mine.X, theirs.X)
        assert_array_equal(mine.y, theirs.y)


# -- what is taken -----------------------------------------------------------------------------------------------------


def test_columns_are_taken_as_they_are_and_told(place):
    found = gathered(place)
    assert found.inferred == "4 features: 1 number, 1 category, 1 boolean, 1 date"
    assert found.schema.column("town").categories == ("Archet", "Bree", "Combe", "Staddle")
    for each in found.organisations:
        decoded, given = found.schema.decode(each.X), frame(each.name)
        assert decoded["town"].tolist() == given["town"].tolist()
        assert [{True: "yes", False: "no", None: ""}[value] for value in decoded["garden"]] == given["garden"].tolist()
        assert_array_equal(decoded["built"], given["built"].to_numpy())
        assert_array_equal(decoded["size"], given["size"])


@pytest.mark.parametrize("model", ["linear", "boosting", pytest.param("forest", marks=pytest.mark.slow)])
def test_a_folder_has_readable_rows_and_a_schema_and_says_the_same_when_opened(place, model):
    done = trained(place, model=model)
    assert read_schema(done.folder / "schema.toml") == done.gathered.schema
    rows = pd.read_parquet(done.folder / "south" / "rows.parquet")
    assert rows["town"].tolist() == frame("south")["town"].tolist()
    assert (rows["built"] == frame("south")["built"]).all()
    collective = Collective.load(done.folder)
    for agent, given in zip(collective.agents, done.gathered.organisations, strict=True):
        assert_array_equal(agent.X, given.X)
        fitted = make_model(model, given, done.gathered.schema, 0).fit(given.X, given.y)
        assert_array_equal(agent.predict(given.X), fitted.predict(given.X))
    asked = frame("west").drop(columns="price").assign(garden=lambda table: table["garden"].replace("", None))
    assert np.isfinite(collective.predict(asked, asker="north")).all()


def test_boosting_splits_on_sets_of_categories(place):
    found = gathered(place)
    model = make_model("boosting", found.organisations[0], found.schema, 0)
    assert model[-1].categorical_features == [found.schema.names.index("town")]


def test_one_file_is_dealt_as_files_would_be(place):
    expected = gathered(place)
    pd.concat([frame(name).assign(where=name) for name in NAMES]).to_csv("all.csv", index=False)
    same(gathered(place, ["all"], group="where"), expected)


def test_an_organisation_may_have_one_class_only(place):
    for name in NAMES:
        table = frame(name)
        sold = "no" if name == "south" else np.where(table["price"] > 4000, "yes", "no")
        table.assign(price=sold).to_csv(f"{name}.csv", index=False)
    done = trained(place)
    assert Collective.load(done.folder).predict(done.gathered.organisations[1].X).shape == (60, 2)


def test_rows_count_for_what_their_weight_says(place):
    def weigh(table):
        return table.assign(times=np.arange(len(table)) % 3)

    write(weigh)
    for name in ("north", "west"):
        weigh(frame(name)).to_csv(f"{name}.csv", index=False)
    found = gathered(place, weight="times")
    assert "times" not in found.schema.names
    south = found.organisations[1]
    assert_array_equal(south.weights, np.arange(60) % 3)
    rest, held = comparison.split(south, np.random.default_rng(0))
    assert len(rest.weights) + len(held.weights) == 60
    fitted = fit_best(south, found.schema, ["linear"], 0, SlowWork("Training", None)).model
    rows = fitted[0].transform(south.X)
    assert_allclose(fitted.predict(south.X), clone(fitted[-1]).fit(rows, south.y, south.weights).predict(rows))
    assert np.abs(fitted.predict(south.X) - clone(fitted[-1]).fit(rows, south.y).predict(rows)).max() > 1.0
    weigh(frame("south")).assign(times=-1).to_csv("south.csv", index=False)
    assert "Weights must be finite and not negative; 'times' of " in complaint(lambda: gathered(place, weight="times"))


# -- other names, units and words: as after repairing the files by hand ------------------------------------------------


@pytest.mark.parametrize(
    ("change", "site"),
    [
        (lambda t: t.rename(columns={"size": "area", "price": "Preis"}),
         '[columns.size]\nname = "area"\n[columns.price]\nname = "Preis"'),
        (lambda t: t.assign(price=t["price"] / 1000), "[columns.price]\nfactor = 1000.0"),
        (lambda t: t.assign(town=t["town"].str.upper()),
         '[columns.town]\nvalues = { "BREE" = "Bree", "STADDLE" = "Staddle" }'),
        (lambda t: t.assign(built=t["built"].dt.strftime("%d/%m/%y")), '[columns.built]\nformat = "%d/%m/%y"'),
        (lambda t: t.assign(garden=t["garden"].replace({"yes": "oui", "no": "non"})),
         '[columns.garden]\nvalues = { "oui" = "yes", "non" = "no" }'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("given", ["beside", "by name"])
def test_a_site_file_does_what_repairing_by_hand_would(place, change, site, given):
    expected = gathered(place)
    write(change)
    file = place / ("south.site.toml" if given == "beside" else "elsewhere.toml")
    file.write_text(site)
    found = gathered(place, sites=() if given == "beside" else [f"south={file}"])
    same(found, expected)
    assert f"columns are read as {file} says" in found.notes


def test_a_site_of_a_group_is_that_of_its_rows_alone(place):
    expected = gathered(place)
    write(lambda table: table.assign(price=table["price"] / 1000))
    parts = [pd.read_csv(f"{name}.csv").assign(where=name) for name in NAMES]
    pd.concat(parts).to_csv("all.csv", index=False)
    (place / "s.toml").write_text("[columns.price]\nfactor = 1000.0")
    message = complaint(lambda: gathered(place, ["all"], group="where"))
    assert "at 'south' it is " in message
    assert "--site south=south.site.toml: " in message
    assert_array_equal(
        gathered(place, ["all"], group="where", sites=["south=s.toml"]).organisations[1].y, expected.organisations[1].y
    )


def test_an_agreed_schema_says_what_columns_are(place, degroot):
    assert degroot("schema", "init", *(f"{name}.csv" for name in NAMES), "--target", "price")[0] == 0
    found, expected = gathered(place, target=None, schema_file=place / "schema.toml"), gathered(place)
    assert found.inferred is None
    assert found.schema == read_schema(place / "schema.toml")
    for mine, theirs in zip(found.organisations, expected.organisations, strict=True):
        assert_array_equal(mine.X, theirs.X)
    write(lambda table: table.replace({"town": {"Bree": "Bri"}}))
    row = frame("south")["town"].tolist().index("Bree") + 1
    message = complaint(lambda: gathered(place, schema_file=place / "schema.toml"))
    assert f"south.csv: row {row}: column 'town' must be one of " in message
    write(lambda table: table.rename(columns={"size": "area"}))
    message = complaint(lambda: gathered(place, schema_file=place / "schema.toml"))
    assert "south.csv must have the column 'size' of the schema; it has none: if it is 'area', write in " in message
    with pytest.raises(InvalidInput, match=r"--target must be 'price', the target of .*; got 'size'"):
        gathered(place, target="size", schema_file=place / "schema.toml")
    assert "--classes must agree with " in complaint(
        lambda: gathered(place, schema_file=place / "schema.toml", classes=True)
    )


def test_a_group_without_values_is_left_out_and_told(place):
    parts = [frame(name).assign(where=name) for name in NAMES]
    parts.append(parts[0].assign(where="east", town="", garden="", built="", size=""))
    pd.concat(parts).to_csv("all.csv", index=False)
    found = gathered(place, ["all"], group="where")
    assert [each.name for each in found.organisations] == list(NAMES)
    assert "left out, without any value that counts: east" in found.notes


# -- checks across organisations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1000.0, 0.001, 100.0])
def test_a_target_in_another_unit_is_refused_with_what_to_type(place, factor):
    write(lambda table: table.assign(price=table["price"] * factor))
    message = complaint(lambda: trained(place))
    assert message.startswith("The target 'price' must have one unit; at 'south' it is ")
    line = f"columns.price = {{ factor = {1 / factor:g} }}"
    assert f"write in {place / 'south.site.toml'}: {line}; " in message
    assert not (place / "out").exists()
    (place / "south.site.toml").write_text(line)
    assert_array_equal(gathered(place).organisations[1].y.round(6), frame("south")["price"])
    (place / "south.site.toml").write_text('[columns."price"]\nfactor = 1.0')  # it is the same unit after all
    assert_array_equal(gathered(place).organisations[1].y, frame("south")["price"] * factor)


@pytest.mark.parametrize(
    ("written", "site"),
    [
        (lambda table: table.assign(price="$" + (table["price"] * 1000).astype(str)), None),
        (lambda table: table.assign(price=(table["price"] * 1000 + 0.5).astype(str).str.replace(".", ",")), None),
        (lambda table: table.assign(cost=table["price"] * 1000).drop(columns="price"), 'columns.price.name = "cost"'),
    ],
)
def test_another_unit_is_found_behind_another_name_or_notation(place, written, site):
    write(written)
    if site is not None:
        (place / "south.site.toml").write_text(site)
    assert "The target 'price' must have one unit; at 'south' it is " in complaint(lambda: gathered(place))


def test_a_target_of_another_name_is_refused_with_what_to_type(place):
    expected = gathered(place)
    write(lambda table: table.rename(columns={"price": "cost"}))
    message = complaint(lambda: gathered(place))
    line = 'columns.price = { name = "cost" }'
    assert "south.csv must have the column 'price'; it has none, but 'cost', as no other file has. " in message
    assert message.endswith(f"south.site.toml: {line}.")
    (place / "south.site.toml").write_text(line)
    same(gathered(place), expected)


@pytest.mark.parametrize("ours", [("low", "high"), ("no", "yes")])
@pytest.mark.parametrize("group", [False, True])
def test_labels_in_other_words_are_refused_with_what_to_type(place, ours, group):
    theirs = {"low": "Low", "high": "HIGH", "no": "N", "yes": "Y"}

    def label(names, words):
        for name in names:
            table = frame(name)
            table.assign(price=np.array(words)[(table["price"] > 4000).astype(int)]).to_csv(f"{name}.csv", index=False)

    label(NAMES, ours)
    expected = gathered(place)
    label(["south"], [theirs[word] for word in ours])
    settings = {}
    if group:
        pd.concat([pd.read_csv(f"{name}.csv", keep_default_na=False).assign(where=name) for name in NAMES]).to_csv(
            "all.csv", index=False
        )
        settings = {"files": ["all"], "group": "where"}
    message = complaint(lambda: gathered(place, **settings))
    pairs = ", ".join(f'{theirs[word]} = "{word}"' for word in sorted(ours, key=lambda word: theirs[word]))
    line = f"columns.price = {{ values = {{ {pairs} }} }}"
    site = "south.site.toml" if group else place / "south.site.toml"
    assert f"is likely '{min(ours, key=lambda word: theirs[word])}'. If so, write in {site}" in message
    assert f": {line}; if not: columns.price = " in message
    if group:
        assert "for --site south=south.site.toml: " in message
        settings["sites"] = ["south=south.site.toml"]
    (place / "south.site.toml").write_text(line)
    found = gathered(place, **settings)
    assert found.classes == expected.classes
    for mine, hand in zip(found.organisations, expected.organisations, strict=True):
        assert mine.y.tolist() == hand.y.tolist()
    kept = message.rpartition("if not: ")[2].removesuffix(".")
    (place / "south.site.toml").write_text(kept)
    assert len(gathered(place, **settings).classes) == 4


@pytest.mark.parametrize(("words", "told"), [(("no", "yes"), ("no", "yes")), (("bad", "good"), ("LABEL", "LABEL"))])
def test_labels_as_numbers_among_words_are_refused_with_what_to_type(place, words, told):
    for name in NAMES:
        table = frame(name)
        sold = table["price"] > 4000
        table.assign(price=sold.astype(int) if name == "south" else np.where(sold, *words[::-1])).to_csv(
            f"{name}.csv", index=False
        )
    message = complaint(lambda: gathered(place))
    line = 'columns.price = {{ values = {{ 0 = "{}", 1 = "{}" }} }}'
    assert "south.csv: the target 'price' must hold labels as " in message
    assert message.endswith(f"south.site.toml which is which: {line.format(*told)}.")
    (place / "south.site.toml").write_text(line.format(*words))
    found = gathered(place)
    assert found.classes == words
    assert_array_equal(found.organisations[1].y == words[1], frame("south")["price"] > 4000)


def test_a_target_that_is_the_same_at_one_organisation_is_told(place):
    write(lambda table: table.assign(price=3000))
    assert any(note.startswith("the target 'price' is the same in all rows: south") for note in gathered(place).notes)


def test_a_feature_in_another_unit_is_told(place):
    write(lambda table: table.assign(size=table["size"] * 1000))
    (note,) = [note for note in gathered(place).notes if "unit" in note]
    assert note.startswith("'size' may have another unit at south: ")
    assert note.endswith("its site file says columns.size = { factor = 0.001 }")


def test_every_organisation_whose_target_has_another_unit_is_named(place):
    for name in ("south", "west"):
        frame(name).assign(price=lambda table: table["price"] / 1000).to_csv(f"{name}.csv", index=False)
    for name in ("east", "centre"):
        frame("north").to_csv(f"{name}.csv", index=False)
    message = complaint(lambda: gathered(place, ("north", "south", "west", "east", "centre")))
    assert "at 'south' it is" in message
    assert "(likewise at 'west')" in message


def test_categories_that_differ_in_case_only_are_told(place):
    write(lambda table: table.head(20))
    expected = gathered(place)
    write(lambda table: table.head(20).assign(town=table["town"].str.upper()))
    (note,) = [note for note in gathered(place).notes if "may be" in note]
    line = 'columns.town = { values = { BREE = "Bree", STADDLE = "Staddle" } }'
    assert note == f"'BREE' of 'town' at south may be 'Bree'. If so, its site file says {line}"
    (place / "south.site.toml").write_text(line)
    same(gathered(place), expected)


def test_a_target_without_a_difference_is_told(place, capsys):
    for name in NAMES:
        frame(name).assign(price=5).to_csv(f"{name}.csv", index=False)
    done = trained(place)
    assert "'price' is 5 in all rows: there is nothing to predict" in done.gathered.notes
    assert "nan" not in str(done.gains)
    assert "there is nothing to gain" in str(done.gains)


def test_the_folder_says_how_organisations_write_columns(place):
    plain = trained(place, "plain")
    assert plain.sites == {}
    write(lambda table: table.assign(built=table["built"].dt.strftime("%d.%m.%Y")))
    done = trained(place)
    assert done.sites == {"south": place / "out/south/site.toml"}
    frame("south").to_csv("agreed.csv", index=False)
    answers = [
        predict_files(
            place / "out", name, f"{name}.out.csv", asker="south", site=site, fields="value"
        ).output.read_text()
        for name, site in (("south.csv", done.sites["south"]), ("agreed.csv", None))
    ]
    assert answers[0] == answers[1]


def test_rows_that_two_organisations_have_are_told(place):
    write(lambda table: pd.concat([table, frame("north").head(30)]))
    (note,) = [note for note in gathered(place).notes if "common" in note]
    assert note.startswith("north and south have 30 rows in common, of 60: ")


def test_what_says_little_at_a_site_is_told_in_a_line_each(place):
    write(lambda table: table.assign(town="Frogmorton", size=np.nan))
    notes = gathered(place).notes
    assert "empty, treated as absent: 'size' at south" in notes
    assert "the same in all rows of some organisation: 'town'" in notes
    (note,) = [note for note in notes if "alone" in note]
    assert note.startswith("categories that one organisation alone has: 'Bree' of 'town' at north, and ")


def test_rows_without_a_group_are_left_out_and_told(place):
    table = pd.concat([frame(name).assign(where=name) for name in NAMES])
    expected = gathered(place)
    extra = frame("north").head(7).assign(where="")
    pd.concat([table.head(5), extra, table.tail(len(table) - 5)]).to_csv("all.csv", index=False)
    found = gathered(place, ["all"], group="where")
    same(found, expected)
    assert f"rows without 'where', left out: 7 of {len(table) + 7}" in found.notes


def test_a_schema_with_the_group_as_a_feature_trains_without_it(place, degroot):
    pd.concat([frame(name).assign(where=name) for name in NAMES]).to_csv("all.csv", index=False)
    assert degroot("schema", "init", "all.csv", "--target", "price")[0] == 0
    found = gathered(place, ["all"], group="where", schema_file=place / "schema.toml")
    assert "where" in read_schema(place / "schema.toml").names
    assert "where" not in found.schema.names
    assert "'where' says whose row it is, and is no feature" in found.notes


def test_the_target_under_another_name_is_the_likely_column_not_the_first(place):
    write(lambda table: table.rename(columns=str.upper))
    line = 'columns.price = { name = "PRICE" }'
    assert f"If 'PRICE' is it, write in {place / 'south.site.toml'}: {line}." in complaint(lambda: gathered(place))
    (place / "south.site.toml").write_text(line)
    message = complaint(lambda: gathered(place))  # all other columns at once
    names = {name: {"name": name.upper()} for name in ("town", "garden", "built", "size")}
    written = message.partition("site.toml: ")[2].partition("; if not")[0]
    assert tomllib.loads(written)["columns"] == names
    site = "\n".join(f'{name} = {{ name = "{name.upper()}" }}' for name in (*names, "price"))
    (place / "south.site.toml").write_text(f"[columns]\n{site}")
    found = gathered(place)
    write()
    (place / "south.site.toml").unlink()
    same(found, gathered(place))


def test_a_line_to_type_keeps_what_the_site_file_says_already(place):
    write(lambda table: table.assign(cost=table["price"] / 1000).drop(columns="price"))
    (place / "south.site.toml").write_text('columns.price = { name = "cost" }')
    line = 'columns.price = { name = "cost", factor = 1000 }'
    assert f"write in {place / 'south.site.toml'}: {line}; if not: " in complaint(lambda: gathered(place))
    (place / "south.site.toml").write_text(line)
    assert_allclose(gathered(place).organisations[1].y, frame("south")["price"])


def test_labels_that_the_schema_does_not_list_are_told(place, degroot):
    for name in NAMES:
        table = frame(name)
        labels = np.where(table["price"] > 4000, "high", "low").astype(object)
        labels[:2] = "odd"
        table.assign(price=labels).to_csv(f"{name}.csv", index=False)
    code, out, err = degroot("schema", "init", *(f"{name}.csv" for name in NAMES), "--target", "price")
    assert code == 0
    assert "training leaves their rows out: 'odd'" in out + err
    found = gathered(place, schema_file=place / "schema.toml")
    expected = "labels of 'price' that the schema does not list: 'odd'; their 6 rows count as rows without a target"
    assert expected in found.notes


@pytest.mark.parametrize(("theirs", "told"), [(("B", "S"), "likely"), (("one", "two"), "for example")])
def test_categories_in_other_words_at_one_organisation_are_told_with_a_line(place, theirs, told):
    for name in NAMES:
        words = theirs if name == "south" else ("Bree", "Staddle")
        table = frame(name)
        table.assign(town=np.where(np.arange(len(table)) % 2, *words)).to_csv(f"{name}.csv", index=False)
    (note,) = [note for note in gathered(place).notes if "'town' has other categories at south" in note]
    (place / "south.site.toml").write_text(note.partition(f"which is which, {told} ")[2])
    assert gathered(place).schema.column("town").categories == ("Bree", "Staddle")


def test_whole_numbers_that_are_unique_are_told(place):
    for k, name in enumerate(NAMES):
        numbers = np.random.default_rng(9).permutation(900)[60 * k : 60 * k + 60] * 17 + 1000
        frame(name).assign(account=numbers).to_csv(f"{name}.csv", index=False)
    assert "another whole number in each row: 'account'; if it names rows: --ignore account" in gathered(place).notes


def test_a_site_file_is_named_where_it_is_looked_for(place):
    (place / "data").mkdir()
    for name in NAMES:
        table = frame(name)
        table.assign(price=table["price"] * (1000 if name == "south" else 1)).to_csv(f"data/{name}.csv", index=False)
    files = [Path("data") / f"{name}.csv" for name in NAMES]
    message = complaint(lambda: gather(files, "price"))
    written = message.partition("write in ")[2].partition(": ")
    assert written[0] == "data/south.site.toml"
    Path(written[0]).write_text(written[2].partition("; if not")[0])
    assert_allclose(gather(files, "price").organisations[1].y, frame("south")["price"])
