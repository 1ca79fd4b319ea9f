"""Raw tables by a schema: rows to train on and points to ask about, from every kind of file."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from support.refusals import complaint

from degroot.files import DataSource, data_source, load, points
from degroot.files.plain_csv import ARROW_GAPS
from degroot.files.rows import site_of
from degroot.files.toml import Table
from degroot.schema import Column, Schema, Site, SiteColumn, read_schema, read_site
from degroot.schema.columns import GAPS

SCHEMA = Schema(
    (
        Column("age", unit="years", range=(0, 120)),
        Column("sex", "category", ("female", "male")),
        Column("grade", "ordered", ("01", "02", "10")),
        Column("smokes", "boolean", ("no", "yes")),
        Column("visit", "date"),
    ),
    target=Column("weight", unit="kg"),
    units="patient",
)
TABLE = {
    "patient": ["p1", "p2", "p3"],
    "age": [31.0, None, 50.0],
    "sex": ["male", "female", None],
    "grade": ["01", "10", "02"],
    "smokes": ["yes", None, "no"],
    "visit": ["2024-01-31", "2024-02-01T12:00:00", None],
    "weight": [80.0, 61.5, 70.25],
}
NUMBERS = np.array([[31, 1, 0, 1, 19753.0], [np.nan, 0, 2, np.nan, 19754.5], [50, np.nan, 1, 0, np.nan]])
WRITERS = {
    ".csv": pyarrow.csv.write_csv,
    ".parquet": pyarrow.parquet.write_table,
    ".arrow": pyarrow.feather.write_feather,
}


def write(folder: Path, suffix: str = ".csv", **changed: list[object] | None) -> Path:
    table = {name: values for name, values in (TABLE | changed).items() if values is not None}
    path = folder / f"rows{suffix}"
    if suffix == ".npz":
        np.savez(
            path, **{name: np.array(["" if v is None else str(v) for v in values]) for name, values in table.items()}
        )
    else:
        WRITERS[suffix](pa.table(table), str(path))
    return path


def source(folder: Path, suffix: str = ".csv", site: Site | None = None, **changed: list[object] | None) -> DataSource:
    (folder / "schema.toml").write_text(SCHEMA.to_toml())
    if site is not None:
        (folder / "site.toml").write_text(site.to_toml())
    entries = {"file": str(write(folder, suffix, **changed)), "schema": "schema.toml"}
    entries |= {} if site is None else {"site": "site.toml"}
    return data_source(Table(entries, folder / "node.toml"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow", ".npz"])
def test_raw_rows_become_numbers_by_the_schema(tmp_path, suffix):
    rows = load(source(tmp_path, suffix))
    np.testing.assert_array_equal(rows.X, NUMBERS)
    np.testing.assert_array_equal(rows.y, TABLE["weight"])
    assert rows.names == SCHEMA.names
    assert rows.schema == SCHEMA
    assert rows.units.tolist() == TABLE["patient"]
    assert not rows.lacks.any()


def test_a_site_has_its_own_names_units_words_and_columns(tmp_path):
    site = Site(
        {
            "age": SiteColumn(name="AGE_MONTHS", factor=1 / 12),
            "sex": SiteColumn(values=(("M", "male"), ("F", "female"))),
            "visit": SiteColumn(name="seen", format="%d.%m.%Y"),
            "weight": SiteColumn(name="grams", factor=0.001),
        },
        absent=("grade",),
    )
    changed = {
        "age": None, "AGE_MONTHS": [372, None, 600], "sex": ["M", "F", None], "grade": None, "visit": None,
        "seen": ["31.01.2024", "01.02.2024", None], "weight": None, "grams": [80_000, 61_500, 70_250],
    }  # fmt: skip
    rows = load(source(tmp_path, site=site, **changed))
    expected = NUMBERS.copy()
    expected[:, 2], expected[1, 4] = np.nan, 19754.0
    np.testing.assert_allclose(rows.X, expected, rtol=1e-15)
    np.testing.assert_allclose(rows.y, TABLE["weight"], rtol=1e-15)
    assert rows.lacks.tolist() == [False, False, True, False, False]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sex": ["male", "x", None]}, ["rows.csv: row 2", "'sex'", "'female', 'male'", "got 'x'", "site file"]),
        ({"age": [31.0, 200.0, 5.0]}, ["rows.csv: row 2", "'age'", "from 0 to 120", "got 200"]),
        ({"visit": ["2024-01-31", "soon", None]}, ["rows.csv: row 2", "'visit'", "got 'soon'", "`format`"]),
        ({"weight": [80.0, None, 70.0]}, ["rows.csv: row 2", "'weight'", "must not be empty"]),
        ({"weight": ["80", "heavy", "70"]}, ["rows.csv: row 2", "'weight'", "'heavy'"]),
        (
            {"sex": None, "Sex": ["male", "female", None]},
            ["column 'sex'", 'columns.sex = { name = "Sex" }', "`absent`"],
        ),
        ({"grade": None}, ["column 'grade'", "`absent`"]),
        ({"patient": None}, ["column 'patient'"]),
        ({"patient": ["p1", "", "p2"]}, ["'patient'", "row 2 is empty"]),
    ],
)
def test_what_the_schema_does_not_admit_is_one_line(tmp_path, changed, words):
    message = complaint(lambda: load(source(tmp_path, **changed)))
    assert "\n" not in message
    for word in words:
        assert word in message, message


def test_points_may_lack_columns_which_are_absent(tmp_path):
    path = write(tmp_path, grade=None, Sex=TABLE["sex"], sex=None, weight=None)
    found = points(path, (), schema=SCHEMA)
    assert found.absent.tolist() == [False, True, True, False, False]
    assert found.ignored == ("patient", "Sex")
    assert "does not have 'sex', 'grade'" in found.note
    assert "'Sex'" in found.note
    expected = NUMBERS.copy()
    expected[:, [1, 2]] = np.nan
    np.testing.assert_array_equal(found.X, expected)
    renamed = points(path, (), schema=SCHEMA, site=Site({"sex": SiteColumn(name="Sex")}))
    np.testing.assert_array_equal(renamed.X[:, 1], NUMBERS[:, 1])
    assert not points(write(tmp_path), (), schema=SCHEMA).note
    other = write(tmp_path, **dict.fromkeys(SCHEMA.names))
    assert "must have columns of the schema" in complaint(lambda: points(other, (), schema=SCHEMA))


def test_columns_under_other_names_are_recognised_by_names_and_values(tmp_path):
    path = write(tmp_path, age=None, AGE_YEARS=TABLE["age"], sex=None, SX=TABLE["sex"], weight=None, W=[1, 2, 3])
    site_file = path.with_name("rows.site.toml")
    note = points(path, (), schema=SCHEMA, site_file=site_file).note
    lines = 'columns.age = { name = "AGE_YEARS" }; columns.sex = { name = "SX" }'
    assert note.endswith(f"If 'AGE_YEARS' there is 'age' and 'SX' there is 'sex', write in {site_file}: {lines}")
    site_file.write_text(lines.replace("; ", "\n"))
    assert not points(path, (), schema=SCHEMA, site=read_site(site_file)).note
    shown = points(path, (), schema=SCHEMA).note  # where there is no site file to write to
    assert "If 'SX' there is 'sex', rename it in the file." in shown
    wrong = Site({"age": SiteColumn(name="nix", factor=2.0)})
    note = points(path, (), schema=SCHEMA, site=wrong, site_file="site.toml").note
    assert "does not have 'age' (called 'nix' by the site), 'sex'; " in note
    assert 'columns.age = { name = "AGE_YEARS", factor = 2 }' in note


def test_a_column_that_may_be_anything_is_not_taken_for_one_that_is_missing(tmp_path):
    plain = Schema((Column("age"), Column("size")), target=Column("weight"))
    path = write(tmp_path, age=None, size=[1, 2, 3], income=[5, 6, 7])
    note = points(path, (), schema=plain, site_file="site.toml").note
    assert note == f"{path} does not have 'age'; models that need them abstain."


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_of_one_row_nothing_else_is_checked(tmp_path, suffix):
    path = write(tmp_path, suffix, sex=["male", "x", None])
    (tmp_path / "good").mkdir()
    whole = points(write(tmp_path / "good", suffix), (), schema=SCHEMA).X
    for row in (1, 3):
        np.testing.assert_array_equal(points(path, (), schema=SCHEMA, row=row).X, whole[row - 1 : row])
    assert f"{path}: row 2: column 'sex'" in complaint(lambda: points(path, (), schema=SCHEMA, row=2))
    told = complaint(lambda: points(path, (), schema=SCHEMA, row=99))
    assert told == f"--row must be one of the 3 rows of {path}; got 99."


def test_of_one_row_without_a_schema_nothing_else_is_checked(tmp_path):
    (tmp_path / "rows.csv").write_text("x,y\n1.5,2\nten,3\nNA,4\nNone,5\n")
    path = tmp_path / "rows.csv"
    np.testing.assert_array_equal(points(path, ("x", "y"), row=1).X, [[1.5, 2.0]])
    np.testing.assert_array_equal(points(path, ("x", "y"), row=3, gaps=True).X, [[np.nan, 4.0]])
    for row, told in ((2, "row 2 is 'ten'"), (3, "row 3 is missing or NaN"), (4, "row 4 is 'None'")):
        assert told in complaint(lambda row=row: points(path, ("x", "y"), row=row))
    assert "one of the 4 rows" in complaint(lambda: points(path, ("x", "y"), row=5))


def test_what_arrow_takes_as_missing_is_a_gap_by_a_schema_too():
    assert ARROW_GAPS < GAPS


def test_classes_of_the_schema_are_texts(tmp_path):
    (tmp_path / "schema.toml").write_text(
        Schema((Column("age"),), target=Column("grade", "category", ("01", "02", "10"))).to_toml()
    )
    own = [f"own{k}" for k in range(3)]
    path = write(tmp_path, **{name: [0.0, 0.5, 1.0] for name in own})
    entries = {"file": str(path), "schema": "schema.toml", "own_predictions": own}
    rows = load(data_source(Table(entries, tmp_path / "node.toml")))
    assert rows.y.tolist() == TABLE["grade"]
    assert rows.own.shape == (3, 3)
    entries["own_predictions"] = own[:2]
    assert "3 columns" in complaint(lambda: load(data_source(Table(entries, tmp_path / "node.toml"))))


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"target": "y", "site": "s.toml"}, "`site` must come with `schema`"),
        ({"target": "y", "absent": ["a"]}, "`absent` must come with `schema`"),
        ({"schema": "s.toml", "classes": ["a", "b"]}, "`classes` must not stand beside `schema`"),
        ({"schema": "s.toml", "space": "standardise"}, "`space` must not stand beside `schema`"),
        ({}, "`target` must"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(tmp_path, entries, words):
    table = Table({"file": "rows.csv"} | entries, tmp_path / "node.toml")
    assert words in complaint(lambda: data_source(table))


def test_other_targets_and_columns_than_the_schema_has_are_refused(tmp_path):
    told = source(tmp_path)
    wrong = DataSource(told.file, ("age",), schema=told.schema)
    assert "must be that of the schema, 'weight'" in complaint(lambda: load(wrong))
    strange = DataSource(told.file, (), schema=told.schema, absent=("height",))
    assert "'height' is none of them" in complaint(lambda: load(strange))
    absent = DataSource(told.file, (), schema=told.schema, absent=("grade",))
    assert site_of(absent, read_schema(told.schema)).absent == ("grade",)
    assert np.isnan(load(absent).X[:, 2]).all()
