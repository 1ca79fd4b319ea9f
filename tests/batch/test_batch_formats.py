"""Input files: every format gives the same rows, shard by shard, in any order; what is no number is found."""

import math
import os

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from degroot import InvalidInput
from degroot.batch import Columns, Reader, make_plan
from degroot.batch.formats import opened
from degroot.batch.numbers import numbers
from degroot.files.columns import read_columns
from degroot.files.csv_rows import row_ends

NAMES = ["x0", "x1"]
VALUE = Columns(("value",), ("north",))


def stream(table, path):
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table, 30)


def whole(table, path):
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table)


WRITERS = {
    "a.parquet": lambda table, path: pa.parquet.write_table(table, path, row_group_size=33),
    "b.parquet": pa.parquet.write_table,
    "a.pq": pa.parquet.write_table,
    "a.feather": lambda table, path: pa.feather.write_feather(table, path, chunksize=17),
    "b.feather": lambda table, path: pa.feather.write_feather(table, path, compression="zstd", chunksize=40),
    "a.arrow": stream,
    "b.ARROW": whole,
    "a.ipc": whole,
    "a.csv": pa.csv.write_csv,
}


@pytest.fixture
def table():
    random = np.random.default_rng(0)
    return pa.table({"id": [f"r{k}" for k in range(101)], **{name: random.normal(size=101) for name in NAMES}})


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same_shards_in_any_order(table, tmp_path, name):
    WRITERS[name](table, tmp_path / name)
    plan = make_plan([str(tmp_path / name)], tmp_path / "out.csv", NAMES, VALUE, keep=["id"], rows=25)
    assert [shard.rows for shard in plan.shards] == [25, 25, 25, 25, 1]
    reader = Reader(plan.task)
    for shard in [*plan.shards, *plan.shards[::-1], plan.shards[2], plan.shards[4]]:
        found, expected = reader.read(shard), table.slice(shard.first, shard.rows)
        assert found.column("id").to_pylist() == expected.column("id").to_pylist()
        np.testing.assert_array_equal(numbers(found, NAMES), np.column_stack([expected[name] for name in NAMES]))


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 2, -3], pa.int64()),
        pa.array([1, 2, 3], pa.uint8()),
        pa.array([0.5, 1.5, -2.0], pa.float32()),
        pa.array([True, False, True]),
        pa.array([1, 2, 3]).cast(pa.decimal128(30, 2)),
        pa.array([7, 8, 7]).dictionary_encode(),
        pa.array([1.5, None, 2.0]),
        pa.nulls(3),
    ],
    ids=lambda array: str(array.type),
)
def test_numbers_of_every_kind_are_features(values):
    expected = [math.nan if value is None else float(value) for value in values.to_pylist()]
    np.testing.assert_array_equal(numbers(pa.table({"x": values}), ["x"])[:, 0], expected)


TEXTS = {
    "1": 1.0, "+1.5": 1.5, " -2 ": -2.0, ".5": 0.5, "5.": 5.0, "1e3": 1000.0, "-1E-2": -0.01, "007": 7.0,
    "": math.nan, "NA": math.nan, " n/a ": math.nan, "nan": math.nan, "null": math.nan, "1e999": math.inf,
    "abc": math.inf, "0x10": math.inf, "1_0": math.inf, "++1": math.inf, "1e": math.inf, "1 2": math.inf,
    "--1": math.inf, ".": math.inf, "é": math.inf, "-inf": math.inf,
}  # fmt: skip


def test_text_is_a_number_or_missing_or_bad():
    found = numbers(pa.table({"x": list(TEXTS)}), ["x"])[:, 0]
    np.testing.assert_array_equal(found, list(TEXTS.values()))


@pytest.mark.parametrize("written", TEXTS)
def test_one_odd_text_in_a_csv_file_changes_no_other_number(tmp_path, written):
    (tmp_path / "a.csv").write_text(f"x,y\n1.25,a\n{written},b\n-3e-5,c\n")
    plan = make_plan([str(tmp_path / "a.csv")], tmp_path / "out.csv", ["x"], VALUE, keep=["y"])
    read = Reader(plan.task).read(plan.shards[0])
    np.testing.assert_array_equal(np.abs(numbers(read, ["x"])[:, 0]), np.abs([1.25, TEXTS[written], -3e-5]))
    assert read.column("y").to_pylist() == ["a", "b", "c"]


def test_a_kept_feature_of_a_csv_file_stays_as_it_is_written(tmp_path):
    (tmp_path / "a.csv").write_text("x\n01.50\n+2\n")
    plan = make_plan([str(tmp_path / "a.csv")], tmp_path / "out.csv", ["x"], VALUE, keep=["x"])
    read = Reader(plan.task).read(plan.shards[0])
    assert read.column("x").to_pylist() == ["01.50", "+2"]
    np.testing.assert_array_equal(numbers(read, ["x"])[:, 0], [1.5, 2.0])


FIELD = st.text(st.sampled_from('ab ",\n\r1é'), max_size=6)


@given(
    st.lists(st.lists(FIELD, min_size=2, max_size=2), min_size=1, max_size=12),
    st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
    st.booleans(),
    st.booleans(),
    st.integers(1, 5),
)
def test_rows_of_csv_files_are_cut_where_they_end(tmp_path_factory, rows, end, quoted, ended, size):
    """Quoted line breaks, quotes and commas, and every kind of line end."""

    def written(field):
        marked = field.replace('"', '""')
        return f'"{marked}"' if quoted or set(field) & set(',"\n\r') else field

    content = end.join(",".join(map(written, row)) for row in [["first", "second\nname"], *rows]) + end * ended
    path = tmp_path_factory.mktemp("lines") / "a.csv"
    path.write_text(content, newline="")
    plan = make_plan([str(path)], path.with_name("out.csv"), [], VALUE, keep=["first", "second\nname"], rows=size)
    read = [Reader(plan.task).read(shard).to_pylist() for shard in plan.shards]
    assert [list(row.values()) for shard in read for row in shard] == rows
    assert [len(shard) for shard in read[:-1]] == [size] * (len(read) - 1)


def test_a_row_may_lie_across_blocks_of_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("degroot.files.csv_rows.BLOCK", 7)
    path = tmp_path / "a.csv"
    path.write_text('a,b\n1,"x\n""y"\r\n\r\n2,z\n3,5" pipe\n')
    assert list(row_ends(path, 1)) == [(1, 4), (1, 14), (1, 21), (1, 31)]
    assert list(row_ends(path, 3, 4)) == [(3, 31)]
    assert list(row_ends(path, 3, 4, 7)) == [(1, 14), (2, 31)]


@pytest.mark.parametrize("name", WRITERS)
def test_shards_have_fewer_rows_where_rows_are_long(tmp_path, monkeypatch, name):
    monkeypatch.setattr("degroot.batch.shards.BYTES", 3000)
    path, texts = tmp_path / name, [f"{k:099d}" for k in range(95)]
    WRITERS[name](pa.table({"x": range(95), "text": texts}), path)
    plan = make_plan([str(path)], tmp_path / "out.csv", ["x"], VALUE, keep=["text"])
    assert 1 < max(shard.rows for shard in plan.shards) <= 33
    reader = Reader(plan.task)
    assert [text for shard in plan.shards for text in reader.read(shard)["text"].to_pylist()] == texts
    assert len(make_plan([str(path)], tmp_path / "out.csv", ["x"], VALUE).shards) == (
        len(plan.shards) if path.suffix == ".csv" else 1
    )


def test_a_mark_at_the_beginning_of_a_csv_file_is_no_part_of_its_first_name(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n", encoding="utf-8-sig")
    assert opened(tmp_path / "a.csv").schema.names == ["x", "y"]


def test_names_that_look_like_numbers_stay_names(tmp_path):
    (tmp_path / "a.csv").write_text("01,2.0\n1,2\n")
    assert opened(tmp_path / "a.csv").schema.names == ["01", "2.0"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("x,y\n1,2\n3\n", "row 2 of .* has 1"),
        ("x,y\n1,2\n\n3,4\n5,6,7\n", "row 3 of .* has 3"),
    ],
)
def test_a_row_of_a_csv_file_with_other_columns_is_named(tmp_path, content, told):
    (tmp_path / "a.csv").write_text(content)
    plan = make_plan([str(tmp_path / "a.csv")], tmp_path / "out.csv", ["x"], VALUE)
    with pytest.raises(InvalidInput, match=told):
        Reader(plan.task).read(plan.shards[0])


def test_a_file_that_is_shorter_than_it_was_is_refused(table, tmp_path):
    pa.csv.write_csv(table, tmp_path / "a.csv")
    plan = make_plan([str(tmp_path / "a.csv")], tmp_path / "out.csv", NAMES, VALUE)
    pa.csv.write_csv(table.slice(0, 50), tmp_path / "a.csv")
    with pytest.raises(InvalidInput, match="must have 101 rows"):
        Reader(plan.task).read(plan.shards[0])


@pytest.mark.parametrize("content", ['x,y\n1,"a\n2,b\n', 'x,y\n1,a\n2,"b\n', 'x,"y\n1,a\n', 'x,y\n1,"a""\n2,b\n'])
def test_a_quote_that_is_never_closed_is_refused_and_swallows_no_rows(tmp_path, content):
    path = tmp_path / "a.csv"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=r"must be whole \.csv files; .*a.csv: .*a quote is opened and never closed"):
        make_plan([str(path)], tmp_path / "out.csv", ["x"], VALUE)
    with pytest.raises(InvalidInput, match="a quote is opened and never closed"):
        read_columns(path)


def test_damage_inside_a_page_is_one_line_with_the_rows(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table({"x": np.random.default_rng(0).normal(size=80_000)})
    pa.parquet.write_table(
        table, path, row_group_size=20_000, use_dictionary=False, compression="none", write_page_checksum=True
    )
    place = pa.parquet.read_metadata(path).row_group(3).column(0)
    content = bytearray(path.read_bytes())
    content[place.data_page_offset + place.total_compressed_size // 2] ^= 1
    path.write_bytes(content)
    plan = make_plan([str(path)], tmp_path / "out.csv", ["x"], VALUE, rows=20_000)
    reader = Reader(plan.task)
    for shard in plan.shards[:2]:
        np.testing.assert_array_equal(reader.read(shard)["x"], table["x"].slice(shard.first, shard.rows))
    with pytest.raises(InvalidInput, match=r"rows 60001 to 80000 of .*a.parquet: .*checksum") as caught:
        reader.read(plan.shards[3])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.arrow"])
def test_a_file_that_may_not_be_read_is_named(table, tmp_path, name):
    WRITERS[name](table, tmp_path / name)
    (tmp_path / name).chmod(0)
    if os.access(tmp_path / name, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(InvalidInput, match=f"must be files that can be read; .*{name}: Permission denied"):
        make_plan([str(tmp_path / name)], tmp_path / "out.csv", NAMES, VALUE)
