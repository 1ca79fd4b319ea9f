"""Schemas: columns as numbers and back, what is admitted, agreements and their differences."""

from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.refusals import complaint

from degroot.exceptions import InvalidInput
from degroot.files.columns import read_file_columns
from degroot.files.encoding import encode_file, names_read_as_text
from degroot.schema import Column, Schema, Site, SiteColumn, merge_schemas, read_schema, read_site, schema_from_text
from degroot.schema.columns import GAPS, normalise_text, parse_date, plain_text, share_text
from degroot.schema.sites import AS_SHARED

TEXTS = (st.text(min_size=1, max_size=8) | st.sampled_from(sorted(GAPS))).map(str.strip).filter(bool)
MIXED = Schema(
    (
        Column("age", unit="years", range=(0.0, 120.0)),
        Column("sex", "category", ("female", "male"), missing="not asked"),
        Column("grade", "ordered", ("A", "B", "C"), unlisted="gap"),
        Column("smoker", "boolean", ("no", "yes")),
        Column("visit", "date", cycle="year"),
    ),
    Column("outcome", "category", ("ill", "well")),
    units="patient",
    identifiers=("id",),
)


@st.composite
def columns(draw, name="x"):
    """A column of any kind, and values that it admits, None for gaps."""
    kind = draw(st.sampled_from(("number", "category", "ordered", "boolean", "date")))
    if kind == "number":
        value, column = st.floats(-1e12, 1e12), Column(name)
    elif kind == "date":
        value, column = st.datetimes(min_value=_day(1900), max_value=_day(2140)), Column(name, "date")
    elif kind == "boolean":
        value, column = st.booleans(), Column(name, "boolean", ("false", "true"))
    else:
        texts = draw(st.lists(TEXTS, min_size=1, max_size=6, unique=True))
        value, column = st.sampled_from(texts), Column(name, kind, tuple(texts))
    values = draw(st.lists(st.none() | value, min_size=1, max_size=20))
    return column, values


def _day(year):
    from datetime import datetime

    return datetime(year, 1, 1)


@given(columns())
def test_values_that_a_column_admits_come_back_from_numbers(drawn):
    column, values = drawn
    numbers = column.encode(np.array([*values, None], object)[:-1])
    assert not np.isinf(numbers).any()
    back = column.decode(numbers)
    for value, number, again in zip(values, numbers, back, strict=True):
        assert np.isnan(number) == (value is None)
        if value is not None:
            assert again == (np.datetime64(value, "us") if column.kind == "date" else value)


@given(columns())
def test_numbers_are_the_same_through_what_people_read(drawn):
    column, values = drawn
    numbers = column.encode(np.array([*values, None], object)[:-1])
    texts = [column.format(number) for number in numbers.tolist()]
    again = column.encode(np.array([*texts, ""], object)[:-1])
    np.testing.assert_allclose(again, numbers, rtol=1e-14)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("age", 130.0, "must hold numbers in years from 0 to 120; got 130.0"),
        ("age", "old", "must hold numbers in years from 0 to 120; got 'old'"),
        ("sex", "M", "must be one of 'female', 'male'; got 'M'"),
        ("smoker", "perhaps", "must be one of 'no', 'yes'; got 'perhaps'"),
        ("visit", "31/12/2023", "must hold dates such as 2024-01-31"),
    ],
)
def test_a_value_that_is_not_admitted_is_named_with_its_row_and_a_remedy(name, value, told):
    good = {"age": 50.0, "sex": "male", "grade": "A", "smoker": "yes", "visit": "2024-02-29"}
    table = {key: np.array([each, value if key == name else each], object) for key, each in good.items()}
    with pytest.raises(InvalidInput) as error:
        MIXED.encode(table, "north.csv")
    assert str(error.value).startswith(f"north.csv: row 2: column {name!r} {told}")
    assert "To go on: " in str(error.value)
    assert "\n" not in str(error.value)


def test_a_category_that_is_not_listed_can_be_a_gap():
    assert np.isnan(MIXED.column("grade").encode(np.array(["Z"]))[0])


def test_texts_are_trimmed_and_blanks_are_gaps():
    column = Column("x", "category", ("No", "Yes"))
    np.testing.assert_array_equal(
        column.encode(np.array(["No ", "  ", "Yes", "NA", None], object)), [0, np.nan, 1, np.nan, np.nan]
    )


def test_numbers_that_are_written_as_texts_are_numbers():
    np.testing.assert_array_equal(Column("x").encode(np.array([" 1.5", "2", 3, None], object)), [1.5, 2, 3, np.nan])


def test_numbers_are_no_dates_and_booleans_are_no_numbers():
    assert np.isinf(Column("x", "date").encode(np.array([20240131]))).all()
    assert np.isinf(Column("x").encode(np.array([True]))).all()


def test_dates_are_in_utc_where_they_name_a_zone():
    assert parse_date("2024-01-01T12:00:00+12:00") == parse_date("2024-01-01") == 19723.0


def test_a_site_renames_scales_and_maps():
    site = Site(
        {"age": SiteColumn("months", factor=1 / 12), "sex": SiteColumn(values=(("F", "female"), ("M", "male")))},
        ("grade",),
    )
    table = {"months": np.array([600.0]), "sex": np.array(["M"], object), "grade": np.array(["A"], object)}
    np.testing.assert_allclose(MIXED.encode(table, site=site), [[50.0, 1.0, np.nan, np.nan, np.nan]])
    assert MIXED.find_absent(table, site).tolist() == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("name", "said", "told"),
    [
        ("sex", SiteColumn(factor=2.0), "'sex' must be a number to have `factor`, `offset`, `decimal`"),
        ("visit", SiteColumn(strip="$"), "'visit' must be a number to have "),
        ("age", SiteColumn(format="%d.%m.%Y"), "'age' must be a date to have `format`; it is a number."),
        ("sex", SiteColumn(values=(("M", "man"),)), "'M' must be mapped to what the schema admits, and that must be"),
        ("age", SiteColumn(values=(("old", "very"),)), "'old' must be mapped to what the schema admits, and"),
        ("visit", SiteColumn(values=(("x", "31.12.2024"),)), "'x' must be mapped to what the schema admits"),
    ],
)  # fmt: skip
def test_a_site_says_what_can_be_said_of_a_column(name, said, told):
    assert told in complaint(lambda: MIXED.check_site(Site({name: said})))


def test_a_site_may_map_to_gaps_and_write_values_as_it_writes_the_others():
    MIXED.check_site(
        Site(
            {
                "sex": SiteColumn(values=(("?", ""), ("M", "male"))),
                "age": SiteColumn(values=(("baby", "0,5"),), decimal=",", factor=2.0),
                "visit": SiteColumn(values=(("new year", "01.01.2024"),), format="%d.%m.%Y"),
            }
        )
    )


def test_files_hold_all_of_a_schema_and_of_a_site(tmp_path):
    (tmp_path / "schema.toml").write_text(MIXED.to_toml())
    assert read_schema(tmp_path / "schema.toml") == MIXED
    assert schema_from_text(MIXED.to_toml(), "the peer's schema").digest == MIXED.digest
    site = Site({"age": SiteColumn("a b", 2.0, -1.0, (), None), "visit": SiteColumn(format="%d.%m.%Y"),
                 "sex": SiteColumn(values=(("M", "male"),))}, ("grade",))  # fmt: skip
    (tmp_path / "site.toml").write_text(site.to_toml())
    read = read_site(tmp_path / "site.toml")
    assert (dict(read.columns), read.absent) == (dict(site.columns), site.absent)


@given(st.lists(columns(), min_size=1, max_size=4), st.integers(1, 9))
def test_the_text_of_any_schema_is_read_as_the_same_schema(drawn, version):
    schema = Schema(tuple(replace(column, name=f"c{k} ü,\"'") for k, (column, _) in enumerate(drawn)), version=version)
    assert schema_from_text(schema.to_toml(), "text") == schema


@pytest.mark.parametrize(
    "other",
    [
        replace(MIXED, version=2),
        replace(MIXED, columns=(replace(MIXED.columns[0], unit="months"), *MIXED.columns[1:])),
        replace(MIXED, columns=MIXED.columns[::-1]),
        replace(MIXED, columns=MIXED.columns[1:]),
        replace(MIXED, target=None),
        replace(
            MIXED,
            columns=(
                MIXED.columns[0],
                replace(MIXED.columns[1], categories=("female", "male", "x")),
                *MIXED.columns[2:],
            ),
        ),
    ],
)
def test_schemas_that_differ_have_other_digests_and_say_what_differs(other):
    assert other.digest != MIXED.digest
    assert MIXED.list_differences(other)
    assert not MIXED.list_differences(MIXED)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "`columns` must be tables"),
        ("format = 2\n[columns.a]\nkind = 'number'", "`format` must be 1"),
        ("[columns.a]\nkind = 'text'", "must be one of 'number'"),
        ("[columns.a]\nkind = 'category'", "`categories` must be distinct strings"),
        ("[columns.a]\nkind = 'number'\nrange = [2, 1]", "low first"),
        ("target = 'b'\n[columns.a]\nkind = 'number'", "`target` must be one of the columns"),
        ("[columns.a]\nkind = 'category'\ncategories = [' x']", "without blanks"),
        ("[columns.a]\nkind = 'number'\nunlisted = 'drop'", "must be one of 'refuse', 'gap'"),
        ("units = 'a'\n[columns.a]\nkind = 'number'", "must have one role"),
        ("[columns.a]\nknd = 'number'", "did you mean 'kind'?"),
    ],
)
def test_a_schema_that_contradicts_itself_is_refused_in_one_line(text, told, tmp_path):
    (tmp_path / "schema.toml").write_text(text)
    with pytest.raises(InvalidInput, match=r"schema\.toml") as error:
        read_schema(tmp_path / "schema.toml")
    assert told in str(error.value)


@given(st.lists(st.lists(TEXTS, min_size=1, max_size=5, unique=True), min_size=1, max_size=4), st.data())
def test_merged_schemas_keep_everybodys_values(lists, data):
    schemas = [Schema((Column("x", "category", tuple(texts)),)) for texts in lists]
    merged = merge_schemas(schemas, [str(k) for k in range(len(schemas))])
    for schema in schemas:
        values = data.draw(st.lists(st.none() | st.sampled_from(schema.columns[0].categories), min_size=1))
        numbers = schema.encode({"x": np.array([*values, None], object)[:-1]})
        assert merged.decode(schema.recode(numbers, merged))["x"].tolist() == values


def test_ordered_categories_are_merged_where_one_order_holds_both():
    low, all_three = (Column("x", "ordered", each) for each in (("a", "b"), ("a", "b", "c")))
    assert merge_schemas([Schema((low,)), Schema((all_three,))], ["1", "2"]).columns == (all_three,)
    with pytest.raises(InvalidInput, match="must have one order"):
        merge_schemas([Schema((low,)), Schema((replace(low, categories=("b", "a")),))], ["1", "2"])


def test_targets_are_numbers_or_the_texts_of_classes():
    assert MIXED.encode_target(np.array(["well", "", "ill"], object), "f").tolist() == ["well", "", "ill"]
    with pytest.raises(InvalidInput, match="f: row 1: column 'outcome' must be one of 'ill', 'well'; got 'dead'"):
        MIXED.encode_target(np.array(["dead"], object), "f")


@pytest.mark.parametrize(
    ("value", "text"), [(1, "1"), (2.0, "2"), (np.float64(0.5), "0.5"), (np.True_, "true"), ("nan", "")]
)
def test_values_become_texts_as_people_write_them(value, text):
    assert normalise_text(value) == text


def test_numbers_by_a_schema_are_checked():
    MIXED.check_numbers(np.array([[np.nan] * 5, [1.0, 1.0, 2.0, 0.0, -5.5]]))
    for place, value in [(1, 2.0), (1, 0.5), (1, -1.0), (0, np.inf)]:
        wrong = np.zeros((1, 5))
        wrong[0, place] = value
        with pytest.raises(InvalidInput, match="numbers by the schema; row 0"):
            MIXED.check_numbers(wrong)


@pytest.mark.parametrize("words", [("yes", "no"), ("true", "false"), ("1", "0"), ("T", "F"), ("ja", "No")])
def test_words_of_a_boolean_that_mean_the_other_are_refused(words):
    assert "false, then that for true" in complaint(lambda: Schema((Column("smokes", "boolean", words),)))


def test_a_range_has_one_digest_however_its_numbers_are_written():
    digests = {Schema((Column("age", range=pair),)).digest for pair in ((0, 9), (0.0, 9.0), (-0.0, 9.0))}
    assert len(digests) == 1


def test_numbers_beyond_the_range_are_no_numbers_by_the_schema():
    with pytest.raises(InvalidInput, match="column 'age' must be from 0 to 120 or NaN; got 121"):
        MIXED.check_numbers(np.array([[121.0, 0, 0, 0, 0]]))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_what_a_schema_lists_is_a_category_in_files_whatever_it_is_called(tmp_path, suffix):
    text = '[columns.veneer]\nkind = "category"\ncategories = ["None", "Stone"]\n\n[columns.area]\nkind = "number"\n'
    (tmp_path / "schema.toml").write_text(text)
    schema = read_schema(tmp_path / "schema.toml")
    assert schema_from_text(schema.to_toml(), "text") == schema
    file = tmp_path / f"north{suffix}"
    table = pa.table({"veneer": ["None", "Stone", "NA", ""], "area": [1.0, 2.0, 3.0, 4.0]})
    pa.csv.write_csv(table, file) if suffix == ".csv" else pa.parquet.write_table(table, file)
    columns = read_file_columns(file, names_read_as_text(schema))
    found = encode_file(columns, schema, AS_SHARED, "north")[:, 0]
    np.testing.assert_array_equal(found, [0, 1, np.nan, np.nan])
    other = Schema((Column("veneer", "category", ("Brick", "Stone")), Column("area")))
    found = encode_file(columns, other, AS_SHARED, "north")[:, 0]
    np.testing.assert_array_equal(found, [np.nan, 1, np.nan, np.nan])


def test_a_site_maps_to_what_the_schema_lists_whatever_it_is_called():
    column = Column("veneer", "category", ("None", "Stone"))
    site = SiteColumn(values=(("0", "None"), ("NA", "Stone"), ("9", "NA")))
    found = column.encode(np.array(["0", "NA", "9", "None", None], object), site)
    np.testing.assert_array_equal(found, [0, 1, np.nan, 0, np.nan])


@pytest.mark.parametrize("text", ["", " ", " None"])
def test_a_category_has_a_text(text):
    assert "without blanks around it" in complaint(lambda: Schema((Column("x", "category", (text, "a")),)))


@pytest.mark.parametrize("value", [None, float("nan"), np.datetime64("NaT"), pd.NA, pd.NaT, Decimal("NaN"), " "])
def test_what_is_no_value_has_no_text(value):
    assert plain_text(value) == normalise_text(value) == ""


@given(TEXTS)
def test_a_text_stays_what_it_is_unless_it_reads_as_a_gap(text):
    assert plain_text(text) == text.strip()
    assert share_text(text, {}, listed=(text.strip(),)) == text.strip()
    assert share_text(text, {}) == ("" if text.strip() in GAPS else text.strip())
