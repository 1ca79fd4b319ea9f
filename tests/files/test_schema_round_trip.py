"""Any table that a schema admits survives file, numbers, wire and file; any other value is refused in one line."""

import csv
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.refusals import complaint

from degroot.batch import Columns, Reader, make_plan
from degroot.files import points
from degroot.schema import Column, Schema, Site, SiteColumn, read_schema, read_site
from degroot.schema.columns import GAP_MARKS, GAPS, WORDS, normalise_text

FORMATS = [".csv", ".parquet", ".arrow"]
EPOCH = datetime(1970, 1, 1)
UNUSUAL = settings(
    max_examples=15, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip

plain = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff")
odd = st.sampled_from([",", '"', "'", " ", ";", "=", "ü", "名", "\\", "#", ".", "[", "]", "1", "a"])
texts = st.text(st.one_of(odd, plain), min_size=1, max_size=8)
usual_words = {form for pair in WORDS for word in pair for form in (word, word.title(), word.upper())} | {"0", "1"}
words = texts.map(str.strip).filter(lambda text: normalise_text(text) == text and text not in GAPS and text != "")
own_words = words.filter(lambda text: text not in usual_words)
numbers = st.one_of(
    st.floats(-1e130, 1e130).filter(lambda x: x == 0 or abs(x) > 1e-130),
    st.sampled_from([0.0, -0.0, 1e130, 5e-130, 0.1, 1 / 3, 2.0**53 + 2]),
    st.integers(-1000, 1000).map(float),
)
dates = st.datetimes(datetime(1791, 1, 1), datetime(2149, 1, 1))


@dataclass(frozen=True)
class Made:
    """A column of a schema, how a site writes it, and values that it admits with the number of each."""

    column: Column
    site: SiteColumn
    values: list[tuple[Any, float]]  # as the members read them: None for a gap
    gap: str | None = None  # how the site writes one


@st.composite
def columns(draw: st.DrawFn, name: str, own: str, rows: int) -> Made:
    kind = draw(st.sampled_from(["number", "category", "ordered", "boolean", "date"]))
    about: dict[str, Any] = {"missing": draw(st.sampled_from(["", "not measured"]))}
    site: dict[str, Any] = {"name": own if own != name else None}
    if kind == "number":
        values = draw(st.lists(st.one_of(st.none(), numbers), min_size=rows, max_size=rows))
        known = [value for value in values if value is not None]
        about["unit"] = draw(st.sampled_from(["", "kg", "€ / m²"]))
        if known and draw(st.booleans()):
            about["range"] = (min(known), max(known))
        site["factor"] = draw(st.sampled_from([1.0, 0.5, 1024.0]))
        made = [(value, math.nan if value is None else value) for value in values]
    elif kind == "date":
        days = draw(st.lists(st.one_of(st.none(), dates), min_size=rows, max_size=rows))
        about["cycle"] = draw(st.sampled_from([None, "day", "week", "year"]))
        site["format"] = draw(st.sampled_from([None, "%d.%m.%Y %H:%M:%S.%f"]))
        micro = timedelta(microseconds=1)
        made = [(day, math.nan if day is None else ((day - EPOCH) // micro) / 86_400_000_000) for day in days]
    else:
        few = {"boolean": (2, 2)}.get(kind, (1, 5))
        known = tuple(draw(st.lists(own_words, min_size=few[0], max_size=few[1], unique=True)))
        if kind == "boolean" and draw(st.booleans()):
            known = draw(st.sampled_from([("no", "yes"), ("N", "Y"), ("false", "true"), ("F", "T"), ("0", "1")]))
        about["categories"] = known
        about["unlisted"] = draw(st.sampled_from(["refuse", "gap"])) if kind != "boolean" else "refuse"
        places = draw(st.lists(st.sampled_from([None, *range(len(known))]), min_size=rows, max_size=rows))
        made = [(None if k is None else known[k], math.nan if k is None else float(k)) for k in places]
        if draw(st.booleans()):
            own_texts = draw(st.permutations(known))  # also words of the schema, for other things
            site["values"] = tuple(zip(own_texts, known, strict=True))
    gap = draw(st.sampled_from([None, "-999"])) if "-999" not in about.get("categories", ()) else None
    if gap is not None and not any(number == -999.0 * site.get("factor", 1.0) for _, number in made):
        site["values"] = (*site.get("values", ()), (gap, ""))
        return Made(Column(name, kind, **about), SiteColumn(**site), made, gap)
    return Made(Column(name, kind, **about), SiteColumn(**site), made)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, Site, list[Made]]:
    count, rows = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    names = draw(st.lists(texts.filter(lambda text: not text.startswith("__index")), min_size=2 * count,
                          max_size=2 * count, unique_by=str.casefold))  # fmt: skip
    made = []
    for place, name in enumerate(names[:count]):
        own = draw(st.sampled_from([name, names[count + place]]))
        made.append(draw(columns(name, own, rows)))
    schema = Schema(tuple(each.column for each in made), target=None, version=draw(st.integers(1, 9)))
    return schema, Site({each.column.name: each.site for each in made if each.site != SiteColumn()}), made


def as_written(each: Made, value: Any) -> Any:
    """A value as the site writes it."""
    if value is None:
        return each.gap
    if each.column.kind == "number":
        return value / each.site.factor
    if each.column.kind == "date":
        return value if each.site.format is None else value.strftime(each.site.format)
    shared = {category: own for own, category in each.site.values}
    return shared.get(value, value)


def write(path: Path, table: dict[str, list[Any]]) -> Path:
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            csv.writer(file, quoting=csv.QUOTE_ALL).writerow(table)  # a name may be all that parts fields elsewhere
            texts_of = [[_as_text(value) for value in column] for column in table.values()]
            rows = [row if any(row) else ["NA", *row[1:]] for row in map(list, zip(*texts_of, strict=True))]
            writer.writerows(rows)  # a row of a single gap would be no row
    else:
        arrow = pa.table({name: _as_arrow(column) for name, column in table.items()})
        if path.suffix == ".parquet":
            pyarrow.parquet.write_table(arrow, path)
        else:
            pyarrow.feather.write_feather(arrow, str(path))
    return path


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    return value.isoformat() if isinstance(value, datetime) else repr(value) if isinstance(value, float) else str(value)


def _as_arrow(column: list[Any]) -> pa.Array:
    known = [value for value in column if value is not None]
    if any(isinstance(value, str) for value in known):
        column = [None if value is None else _as_text(value) for value in column]
        return pa.array(column, pa.string()).dictionary_encode() if len(known) % 2 else pa.array(column, pa.string())
    return pa.array(column, pa.timestamp("us") if known and isinstance(known[0], datetime) else None)


def read_by_shards(path: Path, schema: Schema, site: Site) -> np.ndarray:
    plan = make_plan([str(path)], path.with_name("out.csv"), schema.names, Columns(("value",), ("a",)), schema=schema,
                     site=site, rows=2)  # fmt: skip
    return np.vstack([plan.task.encoding.encode(Reader(plan.task).read(shard)) for shard in plan.shards])


@pytest.mark.parametrize("suffix", FORMATS)
@UNUSUAL
@given(made=tables())
def test_any_table_that_a_schema_admits_survives_the_round_trip(tmp_path, suffix, made):
    schema, site, columns = made
    (tmp_path / "schema.toml").write_text(schema.to_toml(), encoding="utf-8")
    (tmp_path / "site.toml").write_text(site.to_toml(), encoding="utf-8")
    read, told = read_schema(tmp_path / "schema.toml"), read_site(tmp_path / "site.toml")
    assert read == schema
    assert read.digest == schema.digest
    own = {told.find_name(each.column.name): [as_written(each, v) for v, _ in each.values] for each in columns}
    path = write(tmp_path / f"own{suffix}", own)
    expected = np.array([[number for _, number in each.values] for each in columns]).T
    found = points(path, (), schema=read, site=told)
    np.testing.assert_array_equal(found.X, expected)
    assert not found.absent.any()
    np.testing.assert_array_equal(read_by_shards(path, read, told), expected)
    received = np.frombuffer(found.X.tobytes()).reshape(found.X.shape)  # as it goes over the wire
    decoded = {name: [_plain(value) for value in column] for name, column in read.decode(received).items()}
    for each in columns:
        meant = [_true(each, value) for value, _ in each.values]
        assert decoded[each.column.name] == meant, each.column
    again = points(write(tmp_path / f"again{suffix}", decoded), (), schema=read)
    assert again.X.tobytes() == _canonical(found.X).tobytes()


def _plain(value: Any) -> Any:
    """A decoded value as Python has it; None for a gap."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else value.astype("datetime64[us]").item()
    if isinstance(value, float | np.floating):
        return None if math.isnan(value) else float(value)
    return value


def _true(each: Made, value: Any) -> Any:
    if each.column.kind == "boolean" and value is not None:
        return value == each.column.categories[1]
    return value


def _canonical(X: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(X), np.nan, X)


def not_admitted(column: Column, site: SiteColumn) -> st.SearchStrategy[str]:
    if column.kind == "number":
        low, high = (each / site.factor for each in column.range or (-1e300, 1e300))
        outside = [repr(2 * abs(high) + 1), repr(-2 * abs(low) - 1)]
        outside = outside if column.range else ["1e999", "-1e999", "1e141", "-1e200"]
        return st.sampled_from(["abc", "1,5", "12 kg", "<5", "true", *outside])
    if column.kind == "date":
        return st.sampled_from(["soon", "2024-02-30", "31.12.", "2024-13-01", "12:61"])
    known = {normalise_text(text) for text in column.categories} | (usual_words if column.kind == "boolean" else set())
    return own_words.filter(lambda text: text not in known and text not in GAP_MARKS)


@pytest.mark.parametrize("suffix", FORMATS)
@UNUSUAL
@given(made=tables(), data=st.data())
def test_any_value_that_is_not_admitted_is_one_line(tmp_path, suffix, made, data):
    schema, site, columns = made
    admitting = [each for each in columns if each.column.unlisted == "refuse"]
    if not admitting:
        return
    each = data.draw(st.sampled_from(admitting))
    bad = data.draw(not_admitted(each.column, each.site).filter(lambda text: text not in dict(each.site.values)))
    row = data.draw(st.integers(0, len(each.values) - 1))
    own = {site.find_name(e.column.name): [as_written(e, v) for v, _ in e.values] for e in columns}
    name = site.find_name(each.column.name)
    own[name] = [_as_text(value) for value in own[name]]
    own[name][row] = bad
    path = write(tmp_path / f"bad{suffix}", own)
    for read in (lambda: points(path, (), schema=schema, site=site), lambda: refuse_in_shards(path, schema, site)):
        message = complaint(read)
        assert "\n" not in message
        assert f"{path}: row {row + 1}: " in message
        assert "To go on: " in message
        assert " ".join(repr(each.column.name).split()) in message


def refuse_in_shards(path: Path, schema: Schema, site: Site) -> None:
    plan = make_plan([str(path)], path.with_name("out.csv"), schema.names, Columns(("value",), ("a",)), schema=schema,
                     site=site, rows=2)  # fmt: skip
    for shard in plan.shards:
        table = Reader(plan.task).read(shard)
        plan.task.encoding.refuse(shard, table, plan.task.encoding.encode(table))


def test_dates_with_zones_are_moments(tmp_path):
    schema = Schema((Column("at", "date"),))
    moment = datetime(2024, 3, 1, 12, 30, 0, 123456, tzinfo=UTC)
    for suffix in FORMATS:
        path = write(tmp_path / f"zones{suffix}", {"at": [moment.isoformat(), "2024-03-01T13:30:00.123456+01:00"]})
        X = points(path, (), schema=schema).X
        assert X[0, 0] == X[1, 0]
        assert schema.decode(X)["at"][0] == np.datetime64("2024-03-01T12:30:00.123456")
