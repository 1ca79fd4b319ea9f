"""Columns: what one column of a table holds, and its values as numbers.

A table of mixed columns becomes an array of numbers by its schema: a number stays what it is, a category is its place
in the column's list, no and yes are 0 and 1, a date is the days since 1970-01-01, and a gap is NaN. A value that the
schema does not admit is infinite: whoever reads a file finds it there, with its row, and says what the column requires.
"""

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from degroot.compute.compiled import Array
from degroot.compute.tables import LARGEST, is_missing
from degroot.exceptions import InvalidInput

NUMBER, CATEGORY, ORDERED, BOOLEAN, DATE = KINDS = ("number", "category", "ordered", "boolean", "date")
REFUSE, GAP = UNLISTED = ("refuse", "gap")  # what becomes of a category that is not in the list
CYCLES = {"day": 1.0, "week": 7.0, "year": 365.2425}  # in days
FALSE_TRUE = ("false", "true")
WORDS = {("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t")}  # that mean false and true
MAX_CATEGORIES = 255  # that trees split on natively
GAPS = frozenset(
    ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL",
     "NaN", "n/a", "nan", "null", "<NA>", "None", "NaT")
)  # fmt: skip
GAP_MARKS = frozenset((".", "-", "--", "?"))  # which are gaps too where numbers or dates are expected
POINT, COMMA = ".", ","  # decimal marks
HOURS = "h"  # the unit of numbers that may be written as times of day, such as 12:30
TIME_FORM = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(:[0-5][0-9](\.[0-9]+)?)?")
NUMBER_FORM = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
MICROSECONDS_A_DAY = 86_400_000_000
EPOCH = datetime(1970, 1, 1)
FIRST_DAY, LAST_DAY = ((moment - EPOCH) / timedelta(days=1) for moment in (datetime.min, datetime.max))
NOT_ADMITTED = math.inf
MIN_PUBLISHED_ROWS = 10  # that share a value, so that it tells of nobody's row
FEW_SHOWN = 6  # categories in a message


@dataclass(frozen=True, slots=True)
class SiteColumn:
    """How one site writes a column that the members have agreed on."""

    name: str | None = None  # what the site calls it; None: as the schema does
    factor: float = 1.0  # by which its numbers are multiplied to be in the unit of the schema
    offset: float = 0.0  # which is added after that
    values: tuple[tuple[str, str], ...] = ()  # what it writes, and what the schema calls that
    format: str | None = None  # of dates, as strptime has it; None: ISO 8601
    decimal: str = POINT  # the decimal mark of its numbers: a point or a comma
    strip: str = ""  # characters that are left out of its numbers, such as "$,"
    gives_unit: bool = field(default=False, compare=False)  # whether its file says the factor, be it 1

    @property
    def parses_numbers(self) -> bool:
        """Whether its numbers are written with other signs than digits and a point."""
        return self.decimal != POINT or bool(self.strip)

    def plain_number(self, text: str) -> str:
        """A number as it is written, with a point and without the signs that are left out."""
        for sign in self.strip:
            text = text.replace(sign, "")
        return text if self.decimal == POINT else text.replace(POINT, "?").replace(self.decimal, POINT)


AS_AGREED = SiteColumn()


@dataclass(frozen=True)
class Column:
    """One column of a schema.

    Parameters
    ----------
    name : str
    kind : ``"number"``, ``"category"``, ``"ordered"``, ``"boolean"`` or ``"date"``
    categories : texts
        Of a category, in any order, or of an ordered category, from low to high; of a boolean the words for false and
        true.
    unit : str
        Of a number, such as ``"kg"``.
    range : (low, high), optional
        What is plausible: other numbers are not admitted.
    missing : str
        What a gap means, in words: ``"not measured"``.
    unlisted : ``"refuse"`` or ``"gap"``
        What becomes of a category that is not listed.
    cycle : ``"day"``, ``"week"`` or ``"year"``, optional
        Of a date: near is then what is near within the cycle.

    Examples
    --------
    >>> Column("sex", "category", ("female", "male")).encode(np.array(["male", None, "femal"], object))
    array([ 1., nan, inf])
    """

    name: str
    kind: str = NUMBER
    categories: tuple[str, ...] = ()
    unit: str = ""
    range: tuple[float, float] | None = None
    missing: str = ""
    unlisted: str = REFUSE
    cycle: str | None = None

    @property
    def is_listed(self) -> bool:
        """Whether its values are from a list."""
        return self.kind in (CATEGORY, ORDERED, BOOLEAN)

    @cached_property
    def places(self) -> dict[str, float]:
        """The number of each category; of a boolean, of all usual words for false and true."""
        places = {text: float(place) for place, text in enumerate(self.categories)}
        if self.kind == BOOLEAN:
            for false, true in WORDS:
                places |= {false: 0.0, true: 1.0, false.title(): 0.0, true.title(): 1.0}
                places |= {false.upper(): 0.0, true.upper(): 1.0}
            places |= {"0": 0.0, "1": 1.0}
            places |= {text: float(place) for place, text in enumerate(self.categories)}
        return places

    def encode(self, values: NDArray[Any], site: SiteColumn = AS_AGREED) -> Array:
        """Values as a file or a frame has them as numbers, (n,): NaN for a gap, infinite where it is not admitted."""
        if self.is_listed:
            return self._encode_listed(values, dict(site.values))
        if self.kind == DATE:
            return _encode_dates(values, site.format, dict(site.values))
        parse = parse_time if self.unit == HOURS else parse_number
        if site.parses_numbers:
            numbers = _encode_numbers(values, dict(site.values), lambda text: parse(site.plain_number(text)))
        else:
            numbers = _encode_numbers(values, dict(site.values), parse)
        if site.factor != 1.0 or site.offset != 0.0:
            numbers = numbers * site.factor + site.offset
        if self.range is not None:
            low, high = self.range
            numbers[(numbers < low) | (numbers > high)] = NOT_ADMITTED
        numbers[np.abs(numbers) > LARGEST] = NOT_ADMITTED
        return numbers

    def _encode_listed(self, values: NDArray[Any], renamed: dict[str, str]) -> Array:
        unlisted = math.nan if self.unlisted == GAP else NOT_ADMITTED
        if values.dtype.kind == "b" and not renamed and self.kind == BOOLEAN:
            return values.astype(np.float64)
        return encode_distinct(values, renamed, lambda text: self.places.get(text, unlisted), self.places)

    def find_meaningless(self, numbers: Array) -> NDArray[np.bool_]:
        """Which numbers (n,) stand for no value: infinite, beyond the range, or places without a category."""
        low, high = -LARGEST, LARGEST
        if self.is_listed:
            low, high = 0.0, len(self.categories) - 1.0
        elif self.kind == DATE:
            low, high = FIRST_DAY, LAST_DAY
        elif self.range is not None:
            low, high = self.range
        wrong = (numbers < low) | (numbers > high)
        return wrong | (numbers != np.rint(numbers)) & ~np.isnan(numbers) if self.is_listed else wrong

    def count_unlisted(self, values: NDArray[Any], site: SiteColumn = AS_AGREED) -> Counter[str]:
        """How often each category is there that is not listed, and so is a gap."""
        if not self.is_listed or self.unlisted != GAP:
            return Counter()
        wrong = find_not_admitted(replace(self, unlisted=REFUSE).encode(values, site))
        return Counter(map(normalise_text, values[wrong].tolist()))

    def decode(self, numbers: Array) -> NDArray[Any]:
        """The values that these numbers stand for: floats, texts, booleans or ``datetime64[us]``; None or NaT for gaps.

        Examples
        --------
        >>> Column("day", "date").decode(np.array([19723.5, np.nan]))
        array(['2024-01-01T12:00:00.000000', 'NaT'], dtype='datetime64[us]')
        """
        if self.kind == NUMBER:
            return np.array(numbers, np.float64)
        gaps = np.isnan(numbers)
        if self.kind == DATE:
            dates: NDArray[Any] = _microseconds_from(np.where(gaps, 0.0, numbers)).view("datetime64[us]")
            dates[gaps] = np.datetime64("NaT")
            return dates
        known = [False, True] if self.kind == BOOLEAN else list(self.categories)
        values = np.array([*known, None], object)
        found: NDArray[Any] = values[np.where(gaps, len(known), numbers).astype(np.intp)]
        return found

    def format(self, number: float) -> str:
        """A number as a person reads it, without its unit; empty for a gap."""
        if math.isnan(number):
            return ""
        if self.kind == NUMBER:
            return f"{number:.15g}"
        if self.kind == DATE:
            return str(self.decode(np.array([number]))[0]).removesuffix("T00:00:00.000000").removesuffix(".000000")
        return self.categories[int(number)]

    def describe_requirement(self) -> str:
        """What its values must be, after "must"."""
        if self.kind == DATE:
            return "hold dates such as 2024-01-31 or 2024-01-31T12:30:00"
        if self.kind == NUMBER:
            unit = f" in {self.unit}" if self.unit else ""
            return f"hold numbers{unit}" + (f" from {self.range[0]:g} to {self.range[1]:g}" if self.range else "")
        return f"be one of {describe_some(self.categories)}"

    def describe_remedy(self, value: Any) -> str:
        """What to do about a value that is not admitted."""
        if self.is_listed:
            return 'add it to `categories` in the schema, set `unlisted = "gap"` there, or map it in the site file'
        if self.kind == DATE:
            return "correct it, or give `format` in the site file"
        if self.range is not None and is_number(str(value)):
            return "correct it, give `factor` in the site file, or widen `range` in the schema"
        if any(sign.isdigit() for sign in str(value)) and not is_number(str(value)):
            return 'correct it or leave it empty; how a site writes numbers, such as strip = "$,", is in its site file'
        return "correct it or leave it empty"

    def describe_refusal(self, where: str, row: int, value: Any) -> str:
        """The line about a value that is not admitted: file, row (from 1), column, requirement, value and remedy."""
        too_large = self.kind == NUMBER and self.range is None and is_number(str(value))
        size = f" of at most {LARGEST:g} in size" if too_large else ""
        return (
            f"{where}: row {row}: column {self.name!r} must {self.describe_requirement()}{size}; got {_quote(value)}. "
            f"To go on: {self.describe_remedy(value)}."
        )


def check_column(column: Column, what: str) -> None:
    """Refuse a column that contradicts itself; `what` is how messages call it."""
    if not column.name:
        raise InvalidInput(f"{what} must have a name; it is empty.")
    if column.kind not in KINDS:
        raise InvalidInput(f"{what}: `kind` must be one of {', '.join(KINDS)}; got {column.kind!r}.")
    if column.unlisted not in UNLISTED:
        raise InvalidInput(f"{what}: `unlisted` must be {' or '.join(UNLISTED)}; got {column.unlisted!r}.")
    if column.is_listed:
        listed, few = column.categories, 2 if column.kind == BOOLEAN else 1
        if len(set(listed)) != len(listed) or len(listed) < few or not all(isinstance(text, str) for text in listed):
            raise InvalidInput(f"{what}: `categories` must be distinct strings, at least {few}; got {list(listed)!r}.")
        if column.kind == BOOLEAN and len(listed) != 2:
            raise InvalidInput(f"{what}: `categories` of a boolean must be its words for false and true; got {listed}.")
        for place, text in enumerate(listed if column.kind == BOOLEAN else ()):
            if any(text.lower() == pair[1 - place] for pair in (*WORDS, ("0", "1"))):
                raise InvalidInput(
                    f"{what}: `categories` of a boolean must be its word for false, then that for true; got {listed}."
                )
        for text in listed:
            if not text or plain_text(text) != text:
                raise InvalidInput(
                    f"{what}: a category must be text without blanks around it, not empty; got {text!r}."
                )
    elif column.categories:
        raise InvalidInput(
            f"{what}: `categories` must stand with a category or a boolean; its kind is {column.kind!r}."
        )
    if column.range is not None:
        low, high = column.range
        if column.kind != NUMBER or not (math.isfinite(low) and math.isfinite(high) and low <= high):
            raise InvalidInput(
                f"{what}: `range` must be two finite numbers of a number, low first; got {column.range}."
            )
    if column.cycle is not None and (column.kind != DATE or column.cycle not in CYCLES):
        raise InvalidInput(f"{what}: `cycle` must be {', '.join(CYCLES)}, of a date; got {column.cycle!r}.")


def is_number(text: str) -> bool:
    """Whether a text reads as a finite number.

    Examples
    --------
    >>> is_number("-1.5e3"), is_number("<5"), is_number("nan")
    (True, False, False)
    """
    return NUMBER_FORM.fullmatch(text) is not None and math.isfinite(float(text))


def parse_number(text: str) -> float:
    """The number that a text is; infinite if it is none."""
    return float(text) if is_number(text) else NOT_ADMITTED


def parse_time(text: str) -> float:
    """The hours that a number or a time of day is; infinite if it is neither.

    Examples
    --------
    >>> parse_time("12:30"), parse_time("0.5"), parse_time("noon")
    (12.5, 0.5, inf)
    """
    if TIME_FORM.fullmatch(text) is None:
        return parse_number(text)
    hours, minutes, seconds = [*map(float, text.split(":")), 0.0][:3]
    return hours + minutes / 60.0 + seconds / 3600.0


def plain_text(value: Any) -> str:
    """A value as the text of a category: without blanks around it, a whole number without a point; empty for a gap.

    A gap is what is no value in Python or numpy: None, NaN, NaT, pandas' NA and the empty text. A text that reads as a
    gap, such as NA, stays what it is; `normalise_text` takes it as a gap.

    Examples
    --------
    >>> plain_text(" No "), plain_text(3.0), plain_text(None), plain_text(True), plain_text("None")
    ('No', '3', '', 'true', 'None')
    """
    if value is None or value is getattr(sys.modules.get("numpy.ma"), "masked", None):
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool | np.bool_):
        return FALSE_TRUE[int(value)]
    if isinstance(value, Real | Decimal) and not isinstance(value, Integral):
        number = math.nan if value != value else float(value)
        return "" if math.isnan(number) else str(int(number)) if number.is_integer() else repr(number)
    return normalise_text(str(value))


def normalise_text(value: Any) -> str:
    """The same, and empty for a text that reads as a gap too, such as NA.

    Examples
    --------
    >>> normalise_text(" No "), normalise_text(3.0), normalise_text("NA"), normalise_text("None")
    ('No', '3', '', '')
    """
    text = plain_text(value)
    return "" if text in GAPS else text


def share_text(value: Any, renamed: Mapping[str, str], listed: Container[str] = ()) -> str:
    """The text that the schema has for what a site writes; empty for a gap. `renamed`: what both call otherwise.

    What is `listed` is a category, whatever it is called; other texts that read as gaps are gaps.

    Examples
    --------
    >>> renamed = {"M": "male", "None": "unknown", "999": ""}
    >>> [share_text(value, renamed) for value in (" M ", "None", 999.0, "NA", "female")]
    ['male', 'unknown', '', '', 'female']
    >>> share_text("NA", renamed, listed=("NA", "EU"))
    'NA'
    """
    own = plain_text(value)
    text = plain_text(renamed.get(own, own))
    return text if text in listed else normalise_text(text)


def encode_distinct(
    values: NDArray[Any],
    renamed: Mapping[str, str],
    encode: Callable[[str], float],
    listed: Container[str] = (),
) -> Array:
    """Each value's number by its text, NaN for gaps; `encode` is asked once for each distinct value.

    `renamed`: what the site writes, and what the schema calls that; `listed`: texts that are no gaps.
    """

    def encode_value(value: Any) -> float:
        if isinstance(value, bytes):  # which are no text, or they would have been decoded
            return NOT_ADMITTED
        text = share_text(value, renamed, listed)
        return encode(text) if text else math.nan

    if values.dtype.kind in "fiub":
        distinct, place = np.unique(values, return_inverse=True)
        return np.array([encode_value(value) for value in distinct.tolist()])[place.reshape(-1)]
    known: dict[Any, float] = {}
    numbers = np.empty(len(values))
    for row, value in enumerate(values.tolist()):
        key = (value,) if isinstance(value, bool | np.bool_) else value  # True is 1 as a key, and 0 is False
        try:
            number = known.get(key)
        except TypeError:  # what cannot be a key, such as a list
            number = NOT_ADMITTED
        if number is None:
            number = known[key] = encode_value(value)
        numbers[row] = number
    return numbers


def _encode_numbers(values: NDArray[Any], renamed: dict[str, str], parse: Callable[[str], float]) -> Array:
    if values.dtype.kind in "fiu" and not renamed:
        return values.astype(np.float64)
    if values.dtype.kind in "bmM":
        return np.where(is_missing(values), np.nan, NOT_ADMITTED)

    return encode_distinct(values, renamed, lambda text: math.nan if text in GAP_MARKS else parse(text))


def _encode_dates(values: NDArray[Any], form: str | None, renamed: dict[str, str]) -> Array:
    if values.dtype.kind == "M":
        return days_from(values)

    def encode_text(text: str) -> float:
        return math.nan if text in GAP_MARKS else parse_date(text, form)

    if values.dtype.kind in "fiub" and form is None:  # numbers are no dates, whatever day they may mean
        mapped = set(renamed.values())
        return encode_distinct(values, renamed, lambda text: encode_text(text) if text in mapped else NOT_ADMITTED)
    return encode_distinct(values, renamed, encode_text)


def days_from(dates: NDArray[Any]) -> Array:
    """Dates ``datetime64`` as days since 1970-01-01; infinite where microseconds would be lost."""
    gaps = np.isnat(dates)
    with np.errstate(over="ignore"):
        microseconds = np.where(gaps, np.datetime64(0, "us"), dates.astype("datetime64[us]")).astype(np.int64)
    days = microseconds / MICROSECONDS_A_DAY
    exact = _microseconds_from(days) == microseconds
    exact &= gaps | (microseconds.view("datetime64[us]").astype(dates.dtype) == dates)
    days[~exact] = NOT_ADMITTED
    days[gaps] = np.nan
    return days


def _microseconds_from(days: Array) -> NDArray[np.int64]:
    """Whole microseconds of days; days and their fractions are multiplied apart, so that only one rounding counts."""
    whole = np.floor(days)
    part = np.rint((days - whole) * MICROSECONDS_A_DAY).astype(np.int64)
    return whole.astype(np.int64) * MICROSECONDS_A_DAY + part


def parse_date(text: str, form: str | None = None) -> float:
    """Days since 1970-01-01 of a date as text, in UTC where it names a zone; infinite if it is none.

    Examples
    --------
    >>> parse_date("2024-01-01T12:00:00Z"), parse_date("31.12.2023", "%d.%m.%Y"), parse_date("soon")
    (19723.5, 19722.0, inf)
    """
    try:
        moment = datetime.fromisoformat(text) if form is None else datetime.strptime(text, form)
        if moment.tzinfo is not None:
            moment = (moment - moment.utcoffset()).replace(tzinfo=None)  # type: ignore[operator]
    except (ValueError, OverflowError):  # of which the second is a zone that leads before year 1 or after 9999
        return NOT_ADMITTED
    microseconds = (moment - EPOCH) // timedelta(microseconds=1)
    days = microseconds / MICROSECONDS_A_DAY
    whole = math.floor(days)  # as `_microseconds_from` does
    again = whole * MICROSECONDS_A_DAY + round((days - whole) * MICROSECONDS_A_DAY)
    return days if again == microseconds else NOT_ADMITTED


def round_outward(values: Array) -> tuple[float, float] | None:
    """A range around these numbers in round numbers, so that neither end tells one of them; None without a width.

    An end lies at the next multiple outside of a power of ten that is 10 to 100 % of the width, so that of an outermost
    number one digit is told at most; where the number lies there itself the end is moved on, unless many rows share it.

    Examples
    --------
    >>> round_outward(np.array([0.0] * 20 + [3.21, 47.0]))
    (0.0, 50.0)
    >>> round_outward(np.array([10.0, 20.0, 30.0]))
    (0.0, 40.0)
    """
    known = values[np.isfinite(values)]
    if not len(known) or known.min() == known.max():
        return None
    low, high = float(known.min()), float(known.max())
    step = 10.0 ** np.floor(np.log10(high - low))
    ends = [np.floor(low / step), np.ceil(high / step)]
    for place, (end, value, side) in enumerate(zip(ends, (low, high), (-1.0, 1.0), strict=True)):
        if np.isclose(end * step, value, rtol=1e-12, atol=1e-9 * step) and (known == value).sum() < MIN_PUBLISHED_ROWS:
            ends[place] = end + side
    if low >= 0.0:
        ends[0] = max(ends[0], 0.0)  # a bound that tells of no row
    return float(f"{ends[0] * step:.12g}"), float(f"{ends[1] * step:.12g}")


def find_not_admitted(numbers: Array) -> NDArray[np.intp]:
    """The rows whose values are not admitted."""
    return np.flatnonzero(np.isinf(numbers))


def _quote(value: Any) -> str:
    return repr(value) if isinstance(value, str) else f"{value}"


def describe_some(names: Sequence[str], most: int = FEW_SHOWN) -> str:
    """The first few names, and how many more there are.

    Examples
    --------
    >>> describe_some(["a", "b", "c"], 2)
    "'a', 'b' and 1 more"
    """
    shown = ", ".join(map(repr, names[:most]))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
