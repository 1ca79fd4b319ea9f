"""`degroot predict` and `degroot explain` on raw files, by the schema of a collective."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from degroot import Agent, Collective
from degroot.schema import Column, Schema, Site, SiteColumn, encode_frame

SCHEMA = Schema(
    (Column("age", unit="years"), Column("sex", "category", ("female", "male")), Column("visit", "date")),
    target=Column("body weight", unit="kg"),
)


def table(seed, n=40):
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": random.integers(20, 80, n).astype(float),
            "sex": random.choice(["female", "male", None], n),
            "visit": np.datetime64("2024-01-01") + random.integers(0, 500, n).astype("timedelta64[D]"),
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    agents = []
    for seed in range(3):
        X = encode_frame(table(seed), SCHEMA)
        y = X[:, 0] + 9.0 * (X[:, 1] == 1)
        agents.append(Agent(HistGradientBoostingRegressor(max_iter=3).fit(X, y), X, y, f"agent {seed}", schema=SCHEMA))
    table(9).to_csv("in.csv", index=False)
    return Collective(agents).save(tmp_path / "saved")


def test_raw_files_are_predicted_and_explained_with_units(degroot, folder):
    code, out, err = degroot("predict", "--collective", folder, "--input", "in.csv", "--output", "out.csv")
    assert (code, err) == (0, ""), err
    assert "40 rows; 0 bad" in out
    answer = Collective.load(folder).consult(table(9))
    np.testing.assert_allclose(pd.read_csv("out.csv")["value"], answer.value, rtol=1e-12)
    code, out, err = degroot("explain", "--collective", folder, "--input", "in.csv", "--row", "3", "--coverage", "0.9")
    assert (code, err) == (0, ""), err
    assert out.startswith("The collective says ")
    assert " kg for 'body weight' at row 3." in out
    assert out.split(" times in 100")[0].split("between ")[1].endswith(" kg, 90")


def test_a_site_file_is_read_and_what_is_absent_is_noted(degroot, folder):
    site = Site({"age": SiteColumn(name="AGE"), "body weight": SiteColumn(factor=0.001)})
    (folder.parent / "site.toml").write_text(site.to_toml())
    table(9).rename(columns={"age": "AGE"}).drop(columns="visit").to_csv("own.csv", index=False)
    whole = ("--collective", folder, "--input", "own.csv", "--site", "site.toml")
    for command in (("predict", *whole, "--output", "out.csv"), ("explain", *whole)):
        code, out, err = degroot(*command)
        assert code == 2, out
        assert "Each row must have what at least one model takes" in err
        assert "'visit'" in err
        assert err.rstrip().count("\n") <= 1
    table(9).rename(columns={"age": "AGE"}).to_csv("own.csv", index=False)
    assert degroot("predict", *whole, "--output", "out.csv").code == 0
    answer = Collective.load(folder).consult(table(9))
    np.testing.assert_allclose(pd.read_csv("out.csv")["value"], answer.value, rtol=1e-12)
    assert degroot("explain", *whole).code == 0


def test_a_bad_value_is_one_line(degroot, folder):
    table(9).assign(sex="x").to_csv("bad.csv", index=False)
    for command in (("predict", "--output", "out.csv"), ("explain",)):
        code, out, err = degroot(*command, "--collective", folder, "--input", "bad.csv")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "bad.csv: row 1: column 'sex' must be one of 'female', 'male'; got 'x'. To go on: " in err


def test_of_the_row_that_is_explained_nothing_else_is_checked(degroot, folder):
    rows = table(9).astype({"sex": object})
    rows.loc[7, "sex"] = "x"
    rows.to_csv("bad.csv", index=False)
    whole = ("explain", "--collective", folder, "--row")
    for row in ("1", "9"):
        told = degroot(*whole, row, "--input", "bad.csv")
        assert told.code == 0, told
        assert told == degroot(*whole, row, "--input", "in.csv")
    assert "bad.csv: row 8: column 'sex'" in degroot(*whole, "8", "--input", "bad.csv")[2]
    err = degroot(*whole, "99", "--input", "bad.csv")[2]
    assert err == "degroot: --row must be one of the 40 rows of bad.csv; got 99.\n"


def test_a_column_under_another_name_comes_with_the_line_to_type(degroot, folder):
    table(9).rename(columns={"sex": "GENDER"}).to_csv("new.csv", index=False)
    line = 'columns.sex = { name = "GENDER" }'
    for command in (("predict", "--output", "out.csv"), ("explain",)):
        code, _, err = degroot(*command, "--collective", folder, "--input", "new.csv")
        assert code == 0, err
        assert f"If 'GENDER' there is 'sex', write in new.site.toml: {line}\n" in err
    (folder.parent / "new.site.toml").write_text(line)
    for command in (("predict", "--output", "out.csv"), ("explain",)):
        code, _, err = degroot(*command, "--collective", folder, "--input", "new.csv")
        assert (code, err) == (0, "Read as new.site.toml says.\n")
    answer = Collective.load(folder).consult(table(9))
    np.testing.assert_allclose(pd.read_csv("out.csv")["value"], answer.value, rtol=1e-12)


def test_train_says_how_files_of_an_organisation_are_read_and_predict_reminds_of_it(degroot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("north", "south")):
        written = table(seed).assign(
            visit=lambda made: made["visit"].dt.strftime("%d.%m.%Y"), kg=lambda made: made["age"]
        )
        written.to_csv(f"{name}.csv", index=False)
    code, out, err = degroot("train", "north.csv", "south.csv", "--target", "kg", "--model", "linear")
    assert code == 0, err
    assert "--asker north --site collective/north/site.toml" in out
    whole = ("predict", "--collective", "collective", "--input", "north.csv", "--output", "out.csv", "--asker", "north")
    code, _, err = degroot(*whole)
    assert code == 2
    assert "--site collective/north/site.toml" in err
    assert "column 'visit' must hold dates" in err
    code, out, _ = degroot(*whole, "--site", "collective/north/site.toml")
    assert (code, out.split(";")[0]) == (0, "40 rows")
