"""The schema that is found in tables: kinds by what columns hold, and one line for what cannot be taken."""

import tomllib
from datetime import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from degroot import InvalidInput
from degroot.schema import Site, SiteColumn
from degroot.schema.columns import round_outward
from degroot.schema.identifiers import numbers_rows
from degroot.schema.inference import infer_schema
from degroot.schema.notation import list_number_notations

N = 40


def infer(values, name="x", **settings):
    """What is found of one column beside a number and a target."""
    column = values if isinstance(values, np.ndarray) else np.array(values, object)
    return infer_schema({"north.csv": beside(column, name)}, "y", **settings)


def beside(column, name="x"):
    return {name: column, "z": np.linspace(0, 1, len(column)), "y": np.linspace(5, 6, len(column))}


def column_of(values, name="x", **settings):
    found = infer(values, name, **settings).schema.columns
    return next((column for column in found if column.name == name), None)


def cycle(*values, n=N):
    return [values[k % len(values)] for k in range(n)]


# -- kinds -------------------------------------------------------------------------------------------------------------

KINDS = {
    "numbers": (np.linspace(0, 1, N) ** 2, "number", ()),
    "whole numbers": (np.array(cycle(3, 1, 2)), "number", ()),
    "texts of numbers": (cycle("1.5", " 2", "-3e2"), "number", ()),
    "points as gaps": (cycle("1.5", ".", "", "2.25", "?", "-"), "number", ()),
    "yes and no": (cycle("Yes", "No ", "", None), "boolean", ("No", "Yes")),
    "letters": (cycle("Y", "N", "N"), "boolean", ("N", "Y")),
    "words of two sites": (cycle("yes", "no", "yes", "N"), "boolean", ("no", "yes")),
    "only yes": (cycle("yes", ""), "boolean", ("no", "yes")),
    "booleans": (np.array(cycle(True, False)), "boolean", ("false", "true")),
    "booleans with gaps": (cycle(True, None, False), "boolean", ("false", "true")),
    "one letter": (cycle("f"), "category", ("f",)),
    "sexes": (cycle("f", "m"), "category", ("f", "m")),
    "texts": (cycle("b", " a", "NA", "10", "9"), "category", ("a", "b", "9", "10")),
    "days": (np.array(cycle("2024-01-31", "2023-05-01"), "datetime64[D]"), "date", ()),
    "days as text": (cycle("2024-01-31", "", "2024-02-01T12:30:00Z"), "date", ()),
    "days of Europe": (cycle("31.12.2023", "01.02.2024"), "date", ()),
    "days of America": (cycle("12/31/2023", "02/01/2024"), "date", ()),
    "times of day": (cycle("12:30", "7:05:30", "."), "number", ()),
    "times": (cycle(time(12, 30), None, time(7, 5)), "number", ()),
}


@pytest.mark.parametrize("case", KINDS)
def test_a_column_is_what_its_values_are(case):
    values, kind, categories = KINDS[case]
    found = infer(values)
    column = found.schema.column("x")
    assert (column.kind, column.categories) == (kind, categories)
    numbers = found.schema.encode(
        {"x": np.asarray(values, None if kind == "number" else object)}, "", found.sites["north.csv"]
    )
    assert np.isfinite(numbers[:, 0]).any()
    assert column.unit == ("h" if "times" in case else "")


def test_times_of_day_are_hours():
    column = column_of(cycle("12:30", "06:15:36"))
    assert column.encode(np.array(["12:30", "06:15:36", "0.5"], object)).tolist() == [12.5, 6.26, 0.5]


def test_all_tables_count():
    tables = {
        "north.csv": beside(np.array(cycle("a", "b"), object)),
        "south.csv": beside(np.array(cycle("c", ""), object)),
        "west.csv": beside(np.full(N, np.nan)),
    }
    assert infer_schema(tables, "y").schema.column("x").categories == ("a", "b", "c")
    tables["east.csv"] = {"y": np.linspace(5, 6, N), "z": np.linspace(0, 1, N)}  # without the column
    assert infer_schema(tables, "y").schema.names == ("x", "z")


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(-1e9, 1e9)),
            st.one_of(st.none(), st.sampled_from(["a", " b", "c d", "é,"])),
            st.one_of(st.none(), st.sampled_from(["Yes", "No"])),
            st.one_of(st.none(), st.dates()),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_every_table_survives_the_schema_that_is_found_in_it(rows):
    names = ["number", "text", "flag", "day"]
    table = {name: np.array(values, object) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    table["number"] = np.array([np.nan if value is None else value for value in table["number"]], float)
    table["day"] = np.array([str(value) if value is not None else "" for value in table["day"]], object)
    if all(value is None for values in (table["text"], table["flag"]) for value in values):
        return
    found = infer_schema({"a.csv": table})
    schema = found.schema
    numbers = schema.encode(table, "a.csv", found.sites["a.csv"])
    decoded = schema.decode(numbers)
    assert_array_equal(schema.encode(decoded, "again"), numbers)
    for name in schema.names:
        if name == "number":
            assert_array_equal(decoded[name], table[name])
        elif name == "text":
            assert decoded[name].tolist() == [None if value is None else value.strip() for value in table[name]]
        elif name == "flag":
            assert decoded[name].tolist() == [None if value is None else value == "Yes" for value in table[name]]
        else:
            assert [str(day)[:10] for day in decoded[name]] == [value or "NaT" for value in table[name]]


# -- columns that are no features --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "name", "reason"),
    [
        (np.arange(1, N + 1), "rownames", "numbers the rows"),
        (np.arange(N), "x", "numbers the rows"),
        (np.arange(N) * 13 % 1009 + 100000, "PassengerId", "another number in each row"),
        ([f"a{k}" for k in range(N)], "x", "another text in each row"),
        ([f"a{k % 100}" for k in range(150)], "x", "100 different texts in 150 rows"),
        (cycle(None), "x", "empty"),
        (np.full(N, np.nan), "x", "empty"),
        (cycle(".", ""), "x", "empty"),
        (cycle("a"), " ", "a column without a name"),
    ],
)
def test_a_column_that_says_nothing_is_left_out_and_told(values, name, reason):
    found = infer(values, name)
    assert name not in found.schema.names
    assert found.left_out == {name: reason}
    assert found.describe_left_out() == f"{name!r} ({reason})"


def test_a_table_that_was_dealt_is_still_numbered():
    whole = np.arange(1, 101)
    owner = np.random.default_rng(0).integers(0, 5, 100)
    assert numbers_rows("nr", [whole[owner == k] for k in range(5)])


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("year", [np.arange(1990, 2020)] * 2),
        ("year", [np.arange(1, 30)]),
        ("population", [np.sort(np.random.default_rng(0).integers(0, 10**6, 50))]),
        ("floor", [np.arange(50) % 7]),
        ("size", [np.linspace(0, 1, 50)]),
    ],
)
def test_other_numbers_are_features(name, columns):
    assert not numbers_rows(name, columns)
    assert infer(columns[0], name).schema.names == (name, "z")


def test_of_many_categories_the_most_frequent_are_listed():
    values = [f"t{k:03d}" for k in range(300) for _ in range(3 + (k < 100))]
    found = infer(values)
    column = found.schema.column("x")
    assert column.categories == tuple(f"t{k:03d}" for k in range(100))
    assert column.unlisted == "gap"
    assert found.notes == ("'x' has 300 different texts: the 100 most frequent are categories, the others gaps",)
    assert np.isnan(column.encode(np.array(["t299"]))[0])


def test_gaps_that_are_written_as_marks_are_told_in_one_line():
    table = {f"x{k}": np.array(cycle("1.5", ".", "2"), object) for k in range(9)}
    assert infer_schema({"a.csv": table}).notes == ("'.' is a gap in 'x0', 'x1', 'x2' and 6 more",)


# -- dates -------------------------------------------------------------------------------------------------------------


def test_the_format_of_dates_goes_to_the_site():
    found = infer(cycle("31.12.2023", "01.02.2024"))
    assert found.sites["north.csv"].column("x").format == "%d.%m.%Y"
    assert found.notes == ("'x' holds dates written as %d.%m.%Y in north.csv",)


def test_dates_in_an_order_that_is_not_clear_are_left_out_with_what_to_write():
    found = infer(cycle("01/02/2024", "03/04/2024"))
    assert (
        'say it in north.site.toml: columns.x = { format = "%m/%d/%Y" } or columns.x = { format = "%d/%m/%Y" }'
        in found.left_out["x"]
    )
    site = Site({"x": SiteColumn(format="%d/%m/%Y")})
    assert infer(cycle("01/02/2024", "03/04/2024"), sites={"north.csv": site}).schema.column("x").kind == "date"


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            [*cycle("1", "2.5"), "<5"],
            "north.csv: row 41: column 'x' must hold numbers; got '<5'. To go on: .*--ignore x",
        ),
        (
            [f"{k},{100 + k}" for k in range(1, 60)],
            "north.csv: column 'x' must hold numbers in a clear notation; the comma of '1,101' may be .* To go on: "
            r'write in north.site.toml: columns.x = \{ decimal = ".", strip = "," \} \(thousands\) or '
            r'columns.x = \{ decimal = "," \} \(decimal\)',
        ),
        (
            [*cycle("2024-01-31", "2024-02-29"), "soon"],
            "north.csv: row 41: column 'x' must hold dates such as 2024-01-31, in one format; got 'soon'.",
        ),
        (np.array([1.0, np.inf, 3.0]), "north.csv: row 2: column 'x' must hold finite numbers; got inf"),
    ],
)
def test_a_value_that_does_not_fit_is_one_line_with_file_row_and_what_to_type(values, told):
    with pytest.raises(InvalidInput, match=told) as error:
        infer(values)
    assert "\n" not in str(error.value)


def test_a_mapping_of_the_site_mends_it():
    site = Site({"x": SiteColumn(values=(("<5", "2.5"), ("none", "")))})
    column = column_of([*cycle("1", "2.5"), "<5", "none"], sites={"north.csv": site})
    assert column.kind == "number"
    assert_array_equal(column.encode(np.array(["<5", "none"], object), site.column("x")), [2.5, np.nan])


@pytest.mark.parametrize(("decimal", "strip"), [(".", "$,"), (",", "$")])
def test_a_notation_that_may_be_two_is_asked_for_and_what_is_said_is_taken(decimal, strip):
    written = cycle("$152,664", "$99,120", "$203,007")
    with pytest.raises(InvalidInput, match="must hold numbers in a clear notation") as error:
        infer(written)
    assert f'columns.x = {{ decimal = "{decimal}", strip = "{strip}" }}' in str(error.value)
    site = Site({"x": SiteColumn(decimal=decimal, strip=strip)})
    for target in (None, "x"):
        table = beside(np.array(written, object))
        found = infer_schema({"north.csv": table}, target, sites={"north.csv": site}).schema.column("x")
        assert found.kind == "number"
        factor = 1.0 if decimal == "." else 0.001
        assert_allclose(found.encode(table["x"][:3], site.column("x")), np.array([152664, 99120, 203007]) * factor)


def test_a_notation_that_may_be_two_is_that_which_gives_numbers_of_the_size_of_others():
    tables = {
        "north.csv": beside(np.array(cycle("152,664", "99,120", "203,007"), object)),
        "south.csv": beside(np.array(cycle(151000, 98000, 301500))),
    }
    found = infer_schema(tables)
    assert found.schema.column("x").kind == "number"
    assert found.sites["north.csv"].column("x").strip == ","
    tables["south.csv"] = beside(np.array(cycle(151.0, 98.2, 301.5)))
    assert infer_schema(tables).sites["north.csv"].column("x").decimal == ","


def test_what_stands_for_a_gap_is_named_with_all_of_its_words_and_mended_by_the_line_that_is_printed():
    values = [*cycle("1", "2.5", "7"), "unknown", "n.d."]
    for target in (None, "x"):
        table = beside(np.array(values, object))
        with pytest.raises(InvalidInput, match="got 'unknown'") as error:
            infer_schema({"north.csv": table}, target)
        line = str(error.value).partition("columns.x")
        written = tomllib.loads(f"{line[1]}{line[2]}".removesuffix("."))["columns"]["x"]["values"]
        assert written == {"unknown": "", "n.d.": ""}
        site = Site({"x": SiteColumn(values=tuple(written.items()))})
        assert infer_schema({"north.csv": table}, target, sites={"north.csv": site}).schema.column("x").kind == "number"


def test_many_texts_among_numbers_are_codes():
    column = column_of([*map(str, range(100, 140)), *(f"{k}a" for k in range(100, 109))] * 3)
    assert column.kind == "category"


def test_dates_here_and_other_texts_there_are_refused_in_one_line():
    days = np.array(cycle("2024-01-31", "2023-12-01"), "datetime64[s]")
    for other in (cycle("20240131", "20231201"), cycle("01.02.2024", "2024-01-05"), cycle("2024-01-31", "soon")):
        with pytest.raises(InvalidInput, match=r"south\.csv: row [12]: column 'x' must hold dates in one format"):
            infer_schema({"north.csv": beside(days), "south.csv": beside(np.array(other, object))})


def test_the_word_none_among_categories_is_a_gap_and_told_with_what_keeps_it():
    found = infer_schema({"north.csv": beside(np.array(cycle("None", "brick", "stone"), object))})
    assert found.schema.column("x").categories == ("brick", "stone")
    (note,) = (note for note in found.notes if "'None' is a gap in 'x'" in note)
    written = tomllib.loads(note.partition("site file: ")[2])["columns"]["x"]["values"]
    site = Site({"x": SiteColumn(values=tuple(written.items()))})
    tables = {"north.csv": beside(np.array(cycle("None", "brick", "stone"), object))}
    column = infer_schema(tables, sites={"north.csv": site}).schema.column("x")
    assert column.categories == ("brick", "none", "stone")
    assert_array_equal(column.encode(tables["north.csv"]["x"][:2], site.column("x")), [1.0, 0.0])


def test_numbers_among_dates_are_refused_with_the_format_that_makes_them_dates():
    written = cycle("2024-01-31", "2023-12-01", "2024-05-13")
    days = np.array(written, "datetime64[s]")
    tables = {
        "north.csv": beside(days),
        "south.csv": beside(np.array([int(text.replace("-", "")) for text in written])),
    }
    with pytest.raises(InvalidInput, match=r"in south.site.toml: columns.x = \{ format = \"%Y%m%d\" \}; if not, "):
        infer_schema(tables)
    site = Site({"x": SiteColumn(format="%Y%m%d")})
    column = infer_schema(tables, sites={"south.csv": site}).schema.column("x")
    assert column.kind == "date"
    own, shared = column.encode(tables["south.csv"]["x"], site.column("x")), column.encode(days, SiteColumn())
    assert_array_equal(own, shared)


@pytest.mark.parametrize("worded", [("north.csv", "south.csv"), ("north.csv", "west.csv"), ("south.csv", "west.csv")])
def test_the_table_that_differs_from_the_others_is_the_one_to_map(worded):
    tables = {
        name: beside(np.array(cycle("male", "female") if name in worded else cycle(1, 2)))
        for name in ("north.csv", "south.csv", "west.csv")
    }
    (other,) = set(tables) - set(worded)
    with pytest.raises(InvalidInput, match=f"write in {Path(other).stem}.site.toml which is which, for example: "):
        infer_schema(tables)


def test_numbers_here_and_words_there_are_refused():
    tables = {
        "north.csv": beside(np.array(cycle(1, 2))),
        "south.csv": beside(np.array(cycle("male", "female"), object)),
    }
    with pytest.raises(
        InvalidInput, match=r"'x' must be of one kind; north.csv has numbers such as 1, south.csv texts such as 'fem"
    ) as error:
        infer_schema(tables, "y")
    line = str(error.value).partition("for example: ")[2].partition("; or ")[0]
    assert tomllib.loads(line) == {"columns": {"x": {"values": {"female": "1", "male": "2"}}}}
    site = Site({"x": SiteColumn(values=(("1", "male"), ("2", "female")))})
    assert infer_schema(tables, "y", sites={"north.csv": site}).schema.column("x").categories == ("female", "male")


# -- ranges ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40))
def test_a_range_holds_all_numbers_and_tells_none(values):
    numbers = np.array(values)
    found = round_outward(numbers)
    if found is None:
        assert len(set(values)) == 1
        return
    low, high = found
    assert low <= numbers.min() < numbers.max() <= high
    for end, value in ((low, numbers.min()), (high, numbers.max())):
        assert end != value or end == 0.0 or (numbers == value).sum() >= 10


def test_a_range_is_in_round_numbers():
    assert round_outward(np.array([18.2, 64.7, 33.3])) == (10.0, 70.0)
    assert round_outward(np.array([0.0, 7.0] * 10)) == (0.0, 7.0)


def write_number(value, decimal, grouping, sign):
    """A number with two decimals, with marks between thousands and a sign before it."""
    whole, part = f"{abs(value):,.2f}".split(".")
    return f"{'-' if value < 0 else ''}{sign}{whole.replace(',', grouping)}{decimal}{part}"


@given(
    numbers=st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=30),
    marks=st.sampled_from([(".", ","), (",", "."), (",", " "), (",", ""), (".", ""), (".", "'"), (",", "\u00a0")]),
    sign=st.sampled_from(["", "$", "€ "]),
    suffix=st.sampled_from(["", "%", " %"]),
)
def test_numbers_as_spreadsheets_write_them_are_read_back(numbers, marks, sign, suffix):
    values = [number / 100 for number in numbers]
    texts = np.array([write_number(value, *marks, sign) + suffix for value in values], object)
    inference = infer_schema({"north.csv": {"x": texts, "z": np.arange(len(texts)) % 2}})
    (column,) = (each for each in inference.schema.columns if each.name == "x")
    assert column.kind == "number"
    np.testing.assert_allclose(column.encode(texts, inference.sites["north.csv"].column("x")), values, rtol=1e-12)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["$950", "$1,250"], (".", "$,")),  # no number of four digits goes without a comma
        (["950", "1,250", "1250"], (",", "")),
        (["1.250,5", "7"], (",", ".")),
        (["1,250,000"], (".", ",")),
        (["0,125", "0,250"], (",", "")),
    ],
)
def test_commas_and_points_are_told_apart(texts, expected):
    (found,) = list_number_notations(texts)
    assert (found.decimal, found.strip) == expected


@pytest.mark.parametrize("texts", [["1,2,3"], ["12 34"], ["1.2.3"], ["5-10", "10-15"], ["a1"], ["$"], ["1,25,000"]])
def test_what_is_no_number_has_no_notation(texts):
    assert list_number_notations(texts) == []


def test_a_target_with_signs_is_a_number_and_each_site_keeps_its_notation():
    north = {"x": np.arange(20) / 7, "price": np.array([f"${1000 + k:,}.50" for k in range(20)], object)}
    south = {"x": np.arange(20) / 7, "price": np.array([f"{1000 + k},50" for k in range(20)], object)}
    found = infer_schema({"north.csv": north, "south.csv": south}, "price")
    assert found.schema.classes is None
    for where, table in (("north.csv", north), ("south.csv", south)):
        read = found.schema.encode_target(table["price"], where, found.sites[where])
        np.testing.assert_array_equal(read, 1000.5 + np.arange(20))


def test_numbers_among_texts_are_told_where_they_are_categories():
    found = infer_schema({"north.csv": {"x": np.array(cycle("1", "2", "<5", "many"), object)}})
    assert found.schema.columns[0].kind == "category"
    assert "numbers and texts, taken as categories: 'x' (such as '<5')" in found.notes
