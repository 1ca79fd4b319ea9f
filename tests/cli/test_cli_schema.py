"""`degroot schema`: a draft that tells of nobody's row, and what does not fit it."""

import re
import sys

import numpy as np
import pandas as pd
import pytest
import typer

from degroot.schema import read_schema, read_site

NAMES = ("north", "south", "west")


def frame(name, n=80):
    random = np.random.default_rng(NAMES.index(name))
    table = pd.DataFrame({"nr": range(1, n + 1), "age": random.uniform(18.2, 64.7, n).round(2)})
    table["town"] = [*random.choice(["Bree", "Archet"], n - 2), "Frogmorton", "Frogmorton"]
    table["visit"] = (np.datetime64("2020-01-01") + random.integers(0, 900, n).astype("timedelta64[D]")).astype(str)
    return table.assign(cost=(100 * table["age"] + random.normal(0, 9, n)).round(2))


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        frame(name).to_csv(f"{name}.csv", index=False)
    return tmp_path


FILES = tuple(f"{name}.csv" for name in NAMES)
INIT = ("schema", "init", *FILES, "--target", "cost")


def test_a_draft_says_what_columns_are_and_nothing_of_single_rows(degroot, place):
    code, out, err = degroot(*INIT)
    assert (code, err) == (0, "")
    made = read_schema(place / "schema.toml")
    assert out.startswith(
        "schema.toml: 3 features: 1 number, 1 category, 1 date; left out: 'nr' (numbers the rows); "
        f"digest {made.digest}.\n"
    )
    assert (made.names, made.target.name, made.identifiers) == (("age", "town", "visit"), "cost", ("nr",))
    together = pd.concat([frame(name) for name in NAMES])
    for name in ("age", "cost"):
        low, high = made.column(name).range
        assert low < together[name].min() < together[name].max() < high
    text = (place / "schema.toml").read_text()
    assert "Frogmorton" not in text
    assert str(together["age"].max()) not in text
    assert made.column("town").unlisted == "gap"
    told = "1 category of 1 column has fewer than 10 rows, such as 'Frogmorton' of 'town': they are not listed"
    assert told in out
    assert degroot("schema", "check", "schema.toml", *FILES)[0] == 0


@pytest.mark.parametrize("answer", [True, False])
def test_rare_categories_are_listed_when_a_person_says_so(degroot, place, monkeypatch, answer):
    asked = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(typer, "confirm", lambda text, default: asked.append(text) or answer)
    assert degroot(*INIT)[0] == 0
    told = "1 category of 1 column has fewer than 10 rows, such as 'Frogmorton' of 'town'"
    assert asked == [f"{told}. List them, for all members to see?"]
    assert ("Frogmorton" in read_schema(place / "schema.toml").column("town").categories) is answer


def test_rare_categories_are_listed_without_asking_where_that_is_said(degroot, place):
    assert degroot(*INIT, "--list-rare")[0] == 0
    assert read_schema(place / "schema.toml").column("town").categories == ("Archet", "Bree", "Frogmorton")


def test_nothing_is_overwritten(degroot, place):
    assert degroot(*INIT)[0] == 0
    before = (place / "schema.toml").read_text()
    code, _, err = degroot(*INIT)
    assert code == 2
    assert "A schema is not overwritten; schema.toml is there already (--out says where)." in err
    assert (place / "schema.toml").read_text() == before


def test_files_that_write_columns_in_their_own_ways_get_site_files(degroot, place):
    other = frame("south").rename(columns={"age": "AGE_YEARS"}).drop(columns="town")
    other["visit"] = pd.to_datetime(other["visit"]).dt.strftime("%d.%m.%Y")
    other.to_csv("south.csv", index=False)
    code, out, _ = degroot(*INIT)
    assert code == 0
    assert "Note: 'AGE_YEARS' of south.csv is likely 'age': see south.site.toml." in out
    site = read_site(place / "south.site.toml")
    assert site.absent == ("town",)
    assert (site.find_name("age"), site.column("visit").format) == ("AGE_YEARS", "%d.%m.%Y")
    assert not (place / "north.site.toml").exists()
    code, out, err = degroot("schema", "check", "schema.toml", *FILES)
    assert (code, err) == (0, "")
    assert "south.csv: 80 rows; fits\n  site: south.site.toml, which is beside it" in out
    assert "absent, as its site says: 'town'" in out


def check(degroot, change, *more):
    """What is said of a file that was changed after all had agreed."""
    assert degroot(*INIT, "--list-rare")[0] == 0
    change(frame("south")).to_csv("south.csv", index=False)
    return degroot("schema", "check", "schema.toml", "south.csv", *more)


PROBLEMS = {
    "a value": (lambda t: t.replace({"town": {"Bree": "Bri"}}), "column 'town' must be one of 'Archet', 'Bree', "),
    "rows": (lambda t: t.assign(age=[-7.0] + [999.0] * 2 + [30.0] * 77), "row 1: column 'age' must hold numbers from"),
    "other unit": (lambda t: t.assign(age=t["age"] * 12), 'columns.age = { factor = 0.0833333333333 }.'),
    "renamed": (lambda t: t.rename(columns={"town": "place"}),
                "column 'town' is missing; 'place' looks like it. To go on: write in south.site.toml: "
                'columns.town = { name = "place" }'),
    "missing": (lambda t: t.drop(columns="visit"), "column 'visit' is missing. To go on: if it is not collected"),
    "decimal comma": (lambda t: t.assign(age=t["age"].map(lambda age: f"{age:.2f}".replace(".", ","))),
                      'If these are numbers, write in south.site.toml: columns.age = { decimal = "," }.'),
    "currency": (lambda t: t.assign(cost=t["cost"].map("${:,.2f}".format)),
                 'If these are numbers, write in south.site.toml: columns.cost = { strip = "$," }.'),
    "date": (lambda t: t.assign(visit="soon"), "column 'visit' must hold dates such as 2024-01-31"),
}  # fmt: skip


@pytest.mark.parametrize("problem", PROBLEMS)
def test_what_does_not_fit_is_told_with_what_to_do(degroot, problem):
    change, told = PROBLEMS[problem]
    code, out, err = check(degroot, change)
    assert code == 2
    assert told in out
    assert "south.csv: 80 rows; 1 column not as in the schema" in out
    assert err == "degroot: Data must fit the schema; south.csv does not.\n"


def test_what_fits_is_told_with_its_gaps(degroot, place):
    def change(table):
        table.loc[:6, "age"] = np.nan
        return table.drop(columns="cost").assign(extra=1, town="")

    code, out, _ = check(degroot, change)
    assert code == 0
    for line in (
        "south.csv: 80 rows; fits",
        "no target 'cost': these rows can be asked about",
        "gaps: 'age' 7",
        "without any value: 'town'",
        "not in the schema, ignored: 'extra'",
    ):
        assert f"{line}\n" in out


def test_a_site_may_be_elsewhere(degroot, place):
    (place / "mine.toml").write_text('[columns.age]\nname = "months"\nfactor = 0.0833333333333')
    code, out, _ = check(
        degroot, lambda t: t.rename(columns={"age": "months"}).assign(months=t["age"] * 12), "--site", "mine.toml"
    )
    assert code == 0
    assert "site: mine.toml\n" in out


def test_the_lines_that_are_suggested_make_a_file_fit(degroot, place):
    def change(table):
        return table.assign(age=table["age"] * 60, cost=table["cost"].map(lambda cost: f"{cost:.2f}".replace(".", ",")))

    _, out, _ = check(degroot, change)
    lines = re.findall(r"write in south\.site\.toml: (.*?\})", out)
    assert len(lines) == 2
    (place / "south.site.toml").write_text("\n".join(lines))
    code, out, err = degroot("schema", "check", "schema.toml", "south.csv")
    assert (code, err) == (0, ""), out
    factor = read_site(place / "south.site.toml").column("age").factor
    assert factor == pytest.approx(1 / 60, rel=1e-10)


def test_all_units_that_fit_are_told(degroot, place):
    (place / "schema.toml").write_text('[columns.weight]\nkind = "number"\nunit = "lb"\nrange = [0.5, 11]')
    pd.DataFrame({"weight": np.linspace(600.0, 4900.0, 40)}).to_csv("babies.csv", index=False)
    code, out, _ = degroot("schema", "check", "schema.toml", "babies.csv")
    assert code == 2
    assert "columns.weight = { factor = 0.00220462262185 }, or factor = 0.001." in out


def test_what_a_factor_makes_of_a_value_is_told_beside_it(degroot, place):
    (place / "mine.toml").write_text('[columns.age]\nname = "AGE"\nfactor = 0.002')
    code, out, _ = check(
        degroot, lambda t: t.rename(columns={"age": "AGE"}).assign(AGE=t["age"] * 12), "--site", "mine.toml"
    )
    assert code == 2
    age = round(float(frame("south")["age"][0] * 12), 10)
    assert f"; got {age:g}" in out or f"; got {frame('south')['age'][0] * 12}" in out
    assert f", which is {age * 0.002:.4g} by the site file's factor. To go on: correct it, or the factor" in out
    assert 'write in mine.toml: columns.age = { name = "AGE", factor = 0.0833333333333 }' in out


def test_a_target_by_another_name_is_suggested(degroot, place):
    _, out, _ = check(degroot, lambda t: t.rename(columns={"cost": "COST"}))
    told = "no target 'cost': these rows can be asked about; if 'COST' is the target, write in south.site.toml: "
    assert f'{told}columns.cost = {{ name = "COST" }}\n' in out


@pytest.mark.parametrize("has_it", [True, False])
def test_a_name_in_the_site_file_that_is_not_in_the_file_is_told(degroot, place, has_it):
    (place / "mine.toml").write_text('[columns.town]\nname = "nix"')
    code, out, _ = check(degroot, lambda t: t if has_it else t.drop(columns="town"), "--site", "mine.toml")
    assert code == 2
    assert "column 'nix' is missing, as mine.toml calls 'town'" in out
    assert "'town' is missing" not in out
    likely = "'town' looks like it. To go on: write in mine.toml: columns.town = { name = \"town\" }"
    assert (likely in out) is has_it
