"""Notation: in which format dates are written, and with which marks numbers, as spreadsheets export them."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from degroot.schema.columns import COMMA, NUMBER_FORM, POINT, SiteColumn, parse_date

ISO = "ISO 8601"
ISO_FORM = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?")
DATE_FORMATS = (
    "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y", "%d %b %Y", "%d-%b-%Y", "%d %B %Y",
    "%b %d, %Y", "%B %d, %Y", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y", "%d-%b-%y", "%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M",
    "%d/%m/%Y %H:%M", "%Y/%m/%d %H:%M", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S",
    "%Y/%m/%d %H:%M:%S", "%d.%m.%y %H:%M", "%m/%d/%y %H:%M", "%d/%m/%y %H:%M", "%d-%m-%Y %H:%M", "%d-%m-%Y %H:%M:%S",
    "%d %b %Y %H:%M", "%d-%b-%Y %H:%M", "%m/%d/%Y %I:%M %p", "%m/%d/%Y %I:%M:%S %p",
)  # fmt: skip
SAMPLE = 500  # texts that are looked at to see whether most are dates
SIGNS = "$€£¥%'\u2019 \u00a0\u202f"  # currencies, percent, and what stands between thousands beside comma and point
GROUPED_BY_COMMAS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]+)?")
GROUPED_BY_POINTS = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+(,[0-9]+)?")
DECIMAL_COMMA_FORM = re.compile(r"[+-]?[0-9]+(,[0-9]+)?")
THREE_DECIMALS_FORM = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")  # or one group of thousands
WHOLE_FORM = re.compile(r"[+-]?[0-9]+")


def list_date_formats(texts: Collection[str], site: SiteColumn) -> list[str]:
    """The formats in which all texts are dates: the one that the site gives, ISO 8601, or else any.

    Examples
    --------
    >>> list_date_formats(["31.12.2024"], SiteColumn()), list_date_formats(["01/02/2024"], SiteColumn())
    (['%d.%m.%Y'], ['%m/%d/%Y', '%d/%m/%Y'])
    """
    if site.format is not None:
        return [site.format] if all(_has_format(text, site.format) for text in texts) else []
    return [form for form in (ISO, *DATE_FORMATS) if all(_has_format(text, form) for text in texts)]


def find_no_dates(counts: Mapping[str, int], site: SiteColumn, share: float) -> list[str]:
    """The texts that are no dates where at least a `share` of the values are, in the format of most; else none.

    Examples
    --------
    >>> find_no_dates({"2024-01-31": 8, "unknown": 1}, SiteColumn(), 0.8)
    ['unknown']
    """
    forms = (ISO, *DATE_FORMATS) if site.format is None else (site.format,)
    sample = dict(list(counts.items())[:SAMPLE])
    right = {form: sum(count for text, count in sample.items() if _has_format(text, form)) for form in forms}
    form = max(right, key=lambda form: right[form])
    if right[form] < share * sum(sample.values()):
        return []
    wrong = [text for text in counts if not _has_format(text, form)]
    known = sum(counts.values())
    return wrong if sum(counts[text] for text in wrong) <= (1.0 - share) * known else []


def _has_format(text: str, form: str) -> bool:
    if form == ISO:
        return ISO_FORM.fullmatch(text) is not None and bool(np.isfinite(parse_date(text)))
    try:
        datetime.strptime(text, form)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class NumberNotation:
    """How numbers are written: the decimal mark, and the signs beside digits."""

    decimal: str
    strip: str

    def describe(self) -> str:
        """The notation in words, after "written"."""
        parts = ["with a decimal comma"] if self.decimal == COMMA else []
        parts += [f"with {' and '.join(map(repr, self.strip))} around or between digits"] if self.strip else []
        return ", ".join(parts)


def list_number_notations(texts: Sequence[str]) -> list[NumberNotation]:
    """The notations in which all texts are numbers: one, two if it is not clear which, or none.

    A comma or a point stands between thousands if three digits follow each time, and no number of more than three
    digits goes without.

    Examples
    --------
    >>> list_number_notations(["$950", "$1,250.50"]), list_number_notations(["12,5 %", "7"])
    ([NumberNotation(decimal='.', strip='$,')], [NumberNotation(decimal=',', strip=' %')])
    >>> len(list_number_notations(["1,250", "2,100"])), list_number_notations(["1,2,3", "four"])
    (2, [])
    """
    signs = sorted({sign for text in texts for sign in text if sign in SIGNS})
    bare = [_strip_signs(text) for text in texts]
    found = []
    if all(NUMBER_FORM.fullmatch(text) or GROUPED_BY_COMMAS.fullmatch(text) for text in bare):
        found.append(_make_notation(bare, signs, POINT, COMMA))
    if all(DECIMAL_COMMA_FORM.fullmatch(text) or GROUPED_BY_POINTS.fullmatch(text) for text in bare):
        found.append(_make_notation(bare, signs, COMMA, POINT))
    if len(found) == 2 and not any(COMMA in text or POINT in text for text in bare):
        return found[:1]
    if len(found) == 2 and not all(THREE_DECIMALS_FORM.fullmatch(text) for text in bare):
        grouped = all(len(text.lstrip("+-")) < 4 for text in bare if WHOLE_FORM.fullmatch(text))
        return found[:1] if grouped else found[1:]
    return found


def _strip_signs(text: str) -> str:
    """A text without the signs at its ends and between thousands."""
    bare = text.strip(SIGNS)
    if bare[:1] in ("+", "-"):
        bare = bare[0] + bare[1:].lstrip(SIGNS)
    return re.sub(rf"(?<=[0-9])[{re.escape(SIGNS)}](?=[0-9]{{3}}(?![0-9]))", "", bare)


def _make_notation(bare: Sequence[str], signs: Sequence[str], decimal: str, grouping: str) -> NumberNotation:
    groups = [grouping] if any(grouping in text for text in bare) else []
    written = decimal if decimal == POINT or any(COMMA in text for text in bare) else POINT
    return NumberNotation(written, "".join(sorted([*signs, *groups])))
