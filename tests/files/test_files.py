"""Data files: the same rows from CSV, Parquet and npz; every mistake is one line; answers are whole files."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from support.refusals import complaint

from degroot.files import load, points, write_answers
from degroot.files.columns import read_columns, read_file_columns
from degroot.files.encoding import encode_column
from degroot.node.config import DataSource
from degroot.schema import Column, read_schema, read_site
from degroot.schema.columns import AS_AGREED
from degroot.schema.inference import infer_schema

FRAME = pd.DataFrame({"b": [1.5, 2.0, -3.0], "y": [1.0, 2.0, 3.0], "a": [1, 2, 3], "oof": [0.9, 2.2, 3.1]})


def as_file(folder: Path, suffix: str, frame: pd.DataFrame = FRAME) -> Path:
    path = folder / f"rows{suffix}"
    if suffix == ".csv":
        frame.to_csv(path, index=False)
    elif suffix == ".parquet":
        frame.to_parquet(path)
    else:
        np.savez(path, **{name: frame[name].to_numpy() for name in frame})
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_the_same_rows_from_every_kind_of_file(tmp_path, suffix):
    rows = load(DataSource(as_file(tmp_path, suffix), ("y",), ("oof",)))
    assert rows.names == ("b", "a")
    assert rows.X.dtype == np.float64
    np.testing.assert_array_equal(rows.X, FRAME[["b", "a"]])
    np.testing.assert_array_equal(rows.y, FRAME["y"])
    np.testing.assert_array_equal(rows.own, FRAME["oof"])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_several_targets_and_predictions_are_columns_in_the_order_of_their_names(tmp_path, suffix):
    path = as_file(tmp_path, suffix, FRAME.assign(c=0.0))
    rows = load(DataSource(path, ("y", "b"), ("oof", "a")))
    assert rows.names == ("c",)
    np.testing.assert_array_equal(rows.y, FRAME[["y", "b"]])
    np.testing.assert_array_equal(rows.own, FRAME[["oof", "a"]])
    everything = DataSource(as_file(tmp_path, suffix), tuple(FRAME))
    assert "features beside the target" in complaint(lambda: load(everything))


def test_peers_and_no_own_predictions_leave_all_columns(tmp_path):
    path = as_file(tmp_path, ".csv")
    assert load(DataSource(path, ("y",), "peers")).own == "peers"
    assert load(DataSource(path, ("y",))).own is None
    assert load(DataSource(path, ("y",))).names == ("b", "a", "oof")


def test_an_npz_file_may_hold_the_whole_table(tmp_path):
    path, X, y = tmp_path / "rows.npz", np.arange(6.0).reshape(3, 2), np.array([[1.0], [2.0], [3.0]])
    np.savez(path, X=X, y=y)
    assert load(DataSource(path, ("y",))).names == ("x0", "x1")
    np.savez(path, X=X, y=y, names=["b", "a"])
    rows = load(DataSource(path, ("y",)))
    assert rows.names == ("b", "a")
    np.testing.assert_array_equal(rows.X, X)
    np.testing.assert_array_equal(rows.y, [1.0, 2.0, 3.0])
    np.savez(path, X=X, y=np.hstack([y, -y]))
    np.testing.assert_array_equal(load(DataSource(path, ("y1", "y0"))).y, np.hstack([-y, y]))


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ({"X": np.zeros((3, 2)), "y": np.zeros(2)}, "the shape of 'y' is (2,)"),
        ({"X": np.zeros((3, 2)), "y": np.zeros(3), "names": ["a", "a"]}, "a name of its own for each of 2 features"),
        ({"X": np.zeros((3, 2)), "y": np.zeros(3), "names": ["a"]}, "a name of its own for each of 2 features"),
        ({"a": np.zeros((3, 2)), "y": np.zeros(3)}, "the shape of 'a' is (3, 2)"),
        ({"a": np.zeros(()), "y": np.zeros(3)}, "the shape of"),
        ({"a": np.array([{}, {}]), "y": np.zeros(2)}, "allow_pickle"),
        ({}, "at least one row"),
    ],
)
def test_npz_files_that_are_no_tables(tmp_path, held, words):
    path = tmp_path / "rows.npz"
    np.savez(path, **held)
    assert words in complaint(lambda: load(DataSource(path, ("y",))))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_labels_are_what_the_classes_are(tmp_path, suffix):
    path = as_file(tmp_path, suffix, pd.DataFrame({"x": [1.0, 2.0, 3.0], "label": [10, 2, 2]}))
    assert load(DataSource(path, ("label",), classes=(2, 10))).y.tolist() == [10, 2, 2]
    assert load(DataSource(path, ("label",), classes=("2", "10"))).y.tolist() == ["10", "2", "2"]
    path = as_file(tmp_path, suffix, pd.DataFrame({"x": [1.0, 2.0], "label": [1.5, 2.0]}))
    assert "row 1 is 1.5" in complaint(lambda: load(DataSource(path, ("label",), classes=(1, 2))))


def test_labels_that_look_like_something_else_stay_texts(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,label\n1,01\n2,NA\n3,true\n")
    assert load(DataSource(path, ("label",), classes=("01", "NA", "true"))).y.tolist() == ["01", "NA", "true"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_an_absent_target_is_named_with_a_near_one(tmp_path, suffix):
    path = as_file(tmp_path, suffix, FRAME.rename(columns={"y": "price"}))
    message = complaint(lambda: load(DataSource(path, ("prise",))))
    assert "must have the column 'prise'" in message
    assert "did you mean 'price'?" in message
    assert "its columns are 'b', 'price', 'a', 'oof'" in complaint(lambda: load(DataSource(path, ("zzz",))))
    assert "must have the column 'off'" in complaint(lambda: load(DataSource(path, ("price",), ("off",))))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("a,y\n", "at least one row"),
        ("a,y\n1,2\n3\n", "expected 2 fields, got 1"),
        ("a,a,y\n1,2,3\n", "'a' is there twice"),
        ("a,y\n1,2\nred,3\n", "Column 'a'", ),
        ("a,y\n1,2\nred,3\n", "row 2 is 'red'", ),
        ("a,y\n,2\n,3\n", "row 1 is missing"),
        ("a,y\n1,2\n,3\n", "row 2 is missing or NaN"),
        ("a,y\n1,2\n1,nan\n", "Column 'y'"),
        ("a,y\n1,2\ninf,3\n", "row 2 is inf"),
        ("a,y\n2020-01-01,2\n", "datetime64"),
        ("a,y\ntrue,2\n,3\n", "row 2 is missing"),
    ],
)  # fmt: skip
def test_tables_that_are_no_numbers_say_where(tmp_path, text, words):
    path = tmp_path / "rows.csv"
    path.write_text(text)
    message = complaint(lambda: load(DataSource(path, ("y",))))
    assert words in message
    assert str(path) in message


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_files_that_are_missing_or_something_else(tmp_path, suffix):
    path = tmp_path / f"rows{suffix}"
    assert "No such file" in complaint(lambda: load(DataSource(path, ("y",))))
    for content in (bytes(range(256)) * 20, b"PK\x03\x04 cut off", b"PAR1 cut off"):
        path.write_bytes(content)
        assert str(path) in complaint(lambda: load(DataSource(path, ("y",))))


def test_a_spreadsheet_is_refused_with_what_to_save_it_as(tmp_path):
    path = tmp_path / "rows.xlsx"
    assert complaint(lambda: load(DataSource(path, ("y",)))).endswith("rows.xlsx: No such file or directory.")
    path.touch()
    told = complaint(lambda: load(DataSource(path, ("y",))))
    assert ".csv, .parquet, .pq" in told
    assert told.endswith("got " + str(path) + ". Save its sheet as .csv.")


def test_columns_that_only_pandas_knows_and_kinds_that_are_numbers(tmp_path):
    path = tmp_path / "rows.parquet"
    FRAME.set_index(pd.Index([7, 1, 9])).to_parquet(path)
    assert load(DataSource(path, ("y",))).names == ("b", "a", "oof")
    kinds = {
        "d": pa.array([1, 2], pa.decimal128(5, 2)), "k": pa.array([True, False]), "s": pa.array([1, 2], pa.int8()),
        "c": pa.array([0.5, 1.5], pa.float32()).dictionary_encode(), "y": pa.array([1.0, 2.0]),
    }  # fmt: skip
    pyarrow.parquet.write_table(pa.table(kinds), path)
    np.testing.assert_array_equal(load(DataSource(path, ("y",))).X, [[1, 1, 1, 0.5], [2, 0, 2, 1.5]])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_points_are_taken_by_name_in_any_order(tmp_path, suffix):
    asked = points(as_file(tmp_path, suffix), ["a", "b"])
    np.testing.assert_array_equal(asked.X, FRAME[["a", "b"]])
    assert asked.ignored == ("y", "oof")
    message = complaint(lambda: points(as_file(tmp_path, suffix), ["a", "c", "d"]))
    assert "missing: 'c', 'd'" in message


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@given(values=arrays.arrays(np.float64, st.integers(1, 20), elements=st.floats(-1e300, 1e300)))
def test_answers_are_read_back_as_they_were_written(tmp_path_factory, suffix, values):
    path = tmp_path_factory.mktemp("answers") / f"answers{suffix}"
    write_answers(path, {"value": values, "missing": ["south"] * len(values)})
    asked = points(path, ["value"])
    np.testing.assert_array_equal(asked.X[:, 0], values)
    assert asked.ignored == ("missing",)


def test_answers_replace_older_ones_only_when_they_are_whole(tmp_path):
    path = tmp_path / "answers.csv"
    write_answers(path, {"value": [1.0, 2.0]})
    before = path.read_bytes()
    with pytest.raises(pa.ArrowInvalid):
        write_answers(path, {"value": [1.0, "two"]})
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["answers.csv"]
    assert ".csv or .parquet" in complaint(lambda: write_answers(tmp_path / "answers.txt", {"value": [1.0]}))
    assert "folder that can be written" in complaint(lambda: write_answers(tmp_path / "no" / "a.csv", {"value": [1.0]}))


# -- text and rows that do not fit -------------------------------------------------------------------------------------


def test_text_in_another_encoding_is_refused_with_its_row(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes('a,t\n1,b\n2,"c\nd"\n3,é\n'.encode("latin-1"))
    assert complaint(lambda: read_columns(path)) == (
        f"{path}: row 3 must be UTF-8 text; it is not. Save the file anew as CSV, UTF-8."
    )
    path.write_bytes("a,t\n1,é".encode()[:-1])  # cut inside a character
    assert "row 1 must be UTF-8 text" in complaint(lambda: read_columns(path))


def test_a_row_with_another_number_of_fields_is_named(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('a,b\n1,2\n\n3,"x\ny"\n4,5,6\n')
    assert complaint(lambda: read_columns(path)).startswith(
        f"{path}: row 3 must have as many fields as the header; expected 2 fields, got 3."
    )


def test_bytes_are_text_where_they_can_be(tmp_path):
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pa.table({"t": pa.array([b"a", None, "é".encode()]), "i": [b"\xff", b"", None]}), path)
    columns = read_columns(path)
    assert columns["t"].tolist() == ["a", None, "é"]
    column = Column("t", "category", ("a", "é"), unlisted="gap")
    np.testing.assert_array_equal(encode_column(column, read_file_columns(path)["t"], AS_AGREED), [0, np.nan, 1])
    assert np.isinf(encode_column(column, read_file_columns(path)["i"], AS_AGREED)[0])
    numbers = {"z": np.arange(3.0), "y": np.arange(3.0)}
    assert complaint(lambda: infer_schema({"r": {"i": columns["i"], **numbers}}, "y")).startswith(
        "r: row 1: column 'i' must hold one value in each row; it holds bytes that are no UTF-8 text."
    )
    lists = np.array([None, np.array([1, 2]), None], object)
    assert "r: row 2: column 'i'" in complaint(lambda: infer_schema({"r": {"i": lists, **numbers}}, "y"))


@pytest.mark.parametrize(("read", "what"), [(read_schema, "schema"), (read_site, "site file")])
def test_a_file_that_is_not_there_is_called_what_it_should_be(read, what, tmp_path):
    path = tmp_path / "nope.toml"
    assert complaint(lambda: read(path)) == f"The {what} must be a TOML file; {path}: No such file or directory."
