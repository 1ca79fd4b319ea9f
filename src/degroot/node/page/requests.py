"""Requests: what somebody asks through the page, typed as rows or sent as a file."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from degroot import files
from degroot.agents.abstention import ColumnMask
from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.node.answering.terms import CONSENSUS, OWN, SOLVE, check_coverage, check_view, check_way
from degroot.node.page.fields import parse_typed_rows
from degroot.node.protocol.codec import check_purpose
from degroot.schema import AS_SHARED, Schema, Site

USUAL_TERMS = {"way": SOLVE, "coverage": None, "view": None, "purpose": ""}  # how a question is to be answered
TERMS = tuple(USUAL_TERMS)
ASKED = ("rows", *TERMS)  # what a question has that is typed
FORM = "form"  # where rows come from that were typed
FORM_BYTES, FILE_BYTES, ROWS = 1 << 18, 1 << 25, 100_000
MOST = files.Extent(ROWS, columns=1 << 16, bytes=1 << 28)  # that a file may hold, however small it is packed
NAME = 100  # characters of a file's name that are kept
SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,10}", re.ASCII)
SUFFIXES = {
    "text/csv": ".csv",
    "application/vnd.apache.parquet": ".parquet",
    "application/vnd.apache.arrow.file": ".arrow",
    "application/vnd.apache.arrow.stream": ".arrow",
}


class TooMuch(InvalidInput):
    """More than the page takes."""


@dataclass(frozen=True, slots=True)
class AskTerms:
    """How a question is to be answered."""

    way: str = SOLVE
    coverage: float | None = None
    view: str | None = None  # which answer is in front; None: that from the own view, by rounds the consensus
    purpose: str = ""  # why, as everybody who answers records it

    def checked(self) -> "AskTerms":
        """Itself, if it makes sense."""
        check_way(self.way)
        view = self.view or (OWN if self.way == SOLVE else CONSENSUS)
        check_view(view, self.way)
        check_coverage(self.coverage, view)
        check_purpose(self.purpose)
        return self


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Points, where they came from, and how they are to be answered."""

    points: Array  # (M, d)
    source: str
    terms: AskTerms
    ignored: tuple[str, ...] = ()  # columns that are no features
    absent: ColumnMask = None  # (d,) columns of the schema that none of the points has
    note: str = ""  # what there is to say of them


@dataclass(frozen=True, slots=True)
class AskedTable:
    """What points are: their features and, where there is one, the schema and how this node's files write it."""

    features: Sequence[str]
    schema: Schema | None = None
    site: Site = AS_SHARED


def parse_rows(body: bytes, table: AskedTable) -> Inquiry:
    """Rows that came as JSON."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"What is asked must be JSON; {error}.") from error
    if not isinstance(told, dict) or not isinstance(told.get("rows"), list):
        raise InvalidInput("What is asked must be an object with a list `rows`; it is not.")
    strange = [name for name in told if name not in ASKED]
    if strange:
        raise InvalidInput(f"What is asked must have {', '.join(ASKED)} only; got {strange[0][:NAME]!r}.")
    if table.schema is None or not told["rows"]:
        return Inquiry(_points(told["rows"], table.features), FORM, _terms(told))
    points, absent = parse_typed_rows(told["rows"], table.schema)
    return Inquiry(_few(points), FORM, _terms(told), absent=absent)


def check_terms(given: Iterable[str]) -> None:
    """Refuse what is asked of a file beside its name and how to answer."""
    strange = [name for name in given if name not in ("filename", *TERMS)]
    if strange:
        raise InvalidInput(f"A file must be asked about with {', '.join(TERMS)} only; got {strange[0][:NAME]!r}.")


def read_uploaded_file(body: bytes, filename: str, kind: str, terms: AskTerms, table: AskedTable) -> Inquiry:
    """Rows that came as a file, written as this node's own rows are."""
    source = _name(filename)
    suffix = PurePath(source).suffix or SUFFIXES.get(kind, "")
    with TemporaryDirectory(prefix="degroot-page-") as folder:
        path = Path(folder) / f"rows{suffix if SUFFIX.fullmatch(suffix) else ''}"
        path.write_bytes(body)
        try:
            points = files.points(path, table.features, most=MOST, schema=table.schema, site=table.site)
        except InvalidInput as error:
            told = str(error).replace(str(path), source or "the file")
            if isinstance(error, files.TooLarge):
                raise TooMuch(f"{told} `degroot ask` takes more.") from error
            raise InvalidInput(told) from error
    absent = None if points.absent is None or not points.absent.any() else points.absent
    note = points.note.replace(str(path), source or "the file")
    return Inquiry(_few(points.X), source or f"rows{suffix}", terms, points.ignored, absent, note)


def _terms(told: Mapping[str, Any]) -> AskTerms:
    way, coverage, view, purpose = (told.get(name, usual) for name, usual in USUAL_TERMS.items())
    if not isinstance(way, str):
        raise InvalidInput(f"`way` must be a string; got {str(way)[:NAME]!r}.")
    if coverage is not None and not _is_number(coverage):
        raise InvalidInput(f"`coverage` must be a number or null; got {str(coverage)[:NAME]!r}.")
    if view is not None and not isinstance(view, str):
        raise InvalidInput(f"`view` must be a string or null; got {str(view)[:NAME]!r}.")
    if not isinstance(purpose, str):
        raise InvalidInput(f"`purpose` must be a string; got {str(purpose)[:NAME]!r}.")
    return AskTerms(way, None if coverage is None else float(coverage), view, purpose).checked()


def _points(rows: Sequence[Any], features: Sequence[str]) -> Array:
    """Rows as numbers, in the order of the features."""
    if not rows:
        raise InvalidInput("There must be at least one row; there is none.")
    return _few(np.array([_row(row, place, features) for place, row in enumerate(rows)]))


def _row(row: Any, place: int, features: Sequence[str]) -> list[float]:
    if isinstance(row, dict):
        strange = [name for name in row if name not in features]
        if strange:
            raise InvalidInput(f"Row {place} must have features of the collective only; got {strange[0][:NAME]!r}.")
        row = [row.get(name) for name in features]
    if not isinstance(row, list) or len(row) != len(features):
        came = f"{len(row)} came" if isinstance(row, list) else "none came"
        raise InvalidInput(f"Row {place} must have a number for each of {len(features)} features; {came}.")
    for name, value in zip(features, row, strict=True):
        if not _is_number(value):
            told = "it is missing" if value is None else f"got {str(value)[:NAME]!r}"
            raise InvalidInput(f"{name!r} in row {place} must be a finite number; {told}.")
    return [float(value) for value in row]


def _few(points: Array) -> Array:
    if len(points) > ROWS:
        raise TooMuch(f"The page takes at most {ROWS} rows; {len(points)} came. `degroot ask` takes more.")
    return points


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(float(value)))
    except OverflowError:
        return False


def _name(filename: str) -> str:
    """The last part of a file's name, without what cannot be shown."""
    shown = "".join(sign for sign in filename if sign.isprintable())
    return re.split(r"[/\\]", shown)[-1][-NAME:]
