"""Inference: the schema that tables have by what is in them, and what was found that members should know.

Names, kinds and categories are inferred; ranges and units are for members to agree on.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote

import numpy as np

from degroot.compute.progress import progress
from degroot.compute.tables import LARGEST
from degroot.exceptions import InvalidInput
from degroot.schema.columns import (
    AS_AGREED,
    BOOLEAN,
    CATEGORY,
    DATE,
    GAP,
    GAP_MARKS,
    HOURS,
    MAX_CATEGORIES,
    NUMBER,
    TIME_FORM,
    WORDS,
    Column,
    SiteColumn,
    describe_some,
    is_number,
)
from degroot.schema.identifiers import MIN_IDENTIFIER_ROWS, names_rows, numbers_rows
from degroot.schema.labels import check_classes, map_labels, plain_label, sort_texts
from degroot.schema.notation import ISO, NumberNotation, find_no_dates, list_date_formats, list_number_notations
from degroot.schema.schema import Columns, Schema
from degroot.schema.sites import AS_SHARED, Site, site_beside, write_line
from degroot.schema.table_columns import (
    MAX_GAP_TEXTS,
    TableColumn,
    refuse_kinds,
    refuse_nested,
    refuse_notation,
    refuse_undated,
    refuse_values,
    write_gaps,
)

MAX_LISTED = 100  # of the categories of a column that has more than `MAX_CATEGORIES`
MIN_NUMBERS_SHARE = 0.8  # of the values, from which on a column holds numbers, and the other texts are odd
NONE = "None"  # the one gap that may also be a category
MIN_UNIQUE_SHARE, MIN_UNIQUE_TEXTS = 0.5, 50  # different texts, of the values and in all, from which on they name rows


@dataclass(frozen=True, slots=True)
class Inference:
    """What was inferred."""

    schema: Schema
    sites: Mapping[str, Site]  # of each table, with what was found of the way in which it writes columns
    left_out: Mapping[str, str]  # columns that are no features, and why
    notes: tuple[str, ...]  # what else members should know, a line each

    def describe(self) -> str:
        """How many features there are of each kind, and which columns are left out."""
        left_out = self.describe_left_out()
        return f"{self.describe_kinds()}{f'; left out: {left_out}' if left_out else ''}"

    def describe_kinds(self) -> str:
        """How many features there are of each kind.

        Examples
        --------
        >>> table = {"age": np.array([31, 40]), "sex": np.array(["f", "m"], object), "y": np.array([1.0, 2.0])}
        >>> infer_schema({"north.csv": table}, "y").describe_kinds()
        '2 features: 1 number, 1 category'
        """
        counts = Counter(column.kind for column in self.schema.columns)
        plural = {NUMBER: "numbers", CATEGORY: "categories", BOOLEAN: "booleans", DATE: "dates"}
        told = ", ".join(
            f"{counts[kind]} {kind if counts[kind] == 1 else word}" for kind, word in plural.items() if counts[kind]
        )
        n = len(self.schema.columns)
        return f"{n} feature{'' if n == 1 else 's'}: {told}"

    def describe_left_out(self) -> str:
        """Which columns are no features, and why; empty if there are none."""
        reasons: dict[str, list[str]] = {}
        for name, reason in self.left_out.items():
            reasons.setdefault(reason, []).append(name)
        return "; ".join(f"{describe_some(names)} ({reason})" for reason, names in reasons.items())


@dataclass(slots=True)
class _Found:
    """What has been found of all columns."""

    columns: list[Column] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    identifiers: list[str] = field(default_factory=list)
    formats: dict[tuple[str, str], str] = field(default_factory=dict)  # of dates, by table and column
    notations: dict[tuple[str, str], NumberNotation] = field(default_factory=dict)  # of numbers, likewise
    mixed: dict[str, str] = field(
        default_factory=dict
    )  # categories with numbers among them, and another of their texts
    marks: dict[str, set[str]] = field(default_factory=dict)  # that are gaps
    shortened: dict[str, int] = field(default_factory=dict)  # columns with too many categories, and how many

    def identify(self, name: str, reason: str) -> None:
        self.left_out[name] = reason
        self.identifiers.append(name)


def infer_schema(
    tables: Mapping[str, Columns],
    target: str | None = None,
    *,
    sites: Mapping[str, Site] | None = None,
    units: str | None = None,
    identifiers: Iterable[str] = (),
    ignore: Iterable[str] = (),
    classes: bool = False,
) -> Inference:
    """The schema that fits all `tables`, by the names that messages call them.

    A column that some tables do not have is a feature all the same. `sites` say how a table writes columns; columns to
    `ignore` and `identifiers` are no features; `classes` takes numbers of the target as labels.

    Examples
    --------
    >>> north = {"age": np.array([31, 40]), "sex": np.array(["f", "m"], object), "price": np.array([1.5, 2.0])}
    >>> inference = infer_schema({"north.csv": north}, "price")
    >>> [(column.name, column.kind) for column in inference.schema.columns]
    [('age', 'number'), ('sex', 'category')]
    """
    sites = dict(sites or {})
    own = {where: sites.get(where, AS_SHARED) for where in tables}
    apart = {name for name in (target, units, *identifiers, *ignore) if name is not None}
    found = _Found(identifiers=list(identifiers))
    collected = _collect(tables, own)
    with progress("Inferring columns", len(collected)) as work:
        for name, parts in collected.items():
            work.name_step(name)
            if name in apart:
                pass
            elif name.strip():
                _infer_column(name, parts, found)
            else:
                found.left_out[name] = "a column without a name"
            work()
    if not found.columns:
        raise InvalidInput(
            f"A table must have features beside the target; {next(iter(tables))} has none"
            f"{f': {_describe_reasons(found.left_out)}' if found.left_out else ''}."
        )
    with progress("Inferring the target"):
        label = None if target is None else _infer_target(target, tables, own, classes, found)
        own = {where: _write_site(where, site, found, label, tables[where]) for where, site in own.items()}
    schema = Schema(tuple(found.columns), label, units, tuple(dict.fromkeys(found.identifiers)))
    return Inference(schema, own, found.left_out, tuple(_describe_notes(found)))


def _collect(tables: Mapping[str, Columns], sites: Mapping[str, Site]) -> dict[str, list[TableColumn]]:
    """The columns of all tables by their names in the schema, in the order of the first table."""
    collected: dict[str, list[TableColumn]] = {}
    for where, table in tables.items():
        site = sites[where]
        for name, values in site.share_names(table).items():
            collected.setdefault(name, []).append(TableColumn(where, values, site.column(name)))
    return collected


# ---- kinds -----------------------------------------------------------------------------------------------------------


def _infer_column(name: str, parts: Sequence[TableColumn], found: _Found) -> None:
    for part in parts:
        refuse_nested(name, part)
    numbers = [part for part in parts if part.is_numeric and part.site.format is None]
    dates = [part for part in parts if part.values.dtype.kind == "M"]
    others = [part for part in parts if part.values.dtype.kind != "M" and (not part.is_numeric or part.site.format)]
    counts = {part.where: part.count_texts() for part in others}
    texts = sum(counts.values(), Counter[str]())
    known = [part for part in numbers if not np.isnan(part.values.astype(np.float64)).all()]
    if not texts and not known and not any(not np.isnat(part.values).all() for part in dates):
        found.left_out[name] = "empty"
    elif dates:
        _infer_dates(name, dates, known, others, counts, found)
    elif not texts:
        _infer_numbers(name, known, found)
    else:
        _infer_texts(name, known, others, counts, found)


def _infer_numbers(name: str, parts: Sequence[TableColumn], found: _Found) -> None:
    for part in parts:
        infinite = np.flatnonzero(np.isinf(part.values.astype(np.float64)))
        if len(infinite):
            raise InvalidInput(
                f"{part.where}: row {infinite[0] + 1}: column {name!r} must hold finite numbers; got "
                f"{part.values[infinite[0]]}. To go on: correct it or leave it empty, or --ignore {quote(name)}."
            )
    columns = [part.values for part in parts]
    if numbers_rows(name, columns):
        found.identify(name, "numbers the rows")
    elif names_rows(name, columns):
        found.identify(name, "another number in each row")
    else:
        found.columns.append(Column(name))


def _infer_dates(
    name: str, dates: Sequence[TableColumn], numbers: Sequence[TableColumn], others: Sequence[TableColumn],
    counts: Mapping[str, Counter[str]], found: _Found,
) -> None:  # fmt: skip
    """A column that holds dates in some table."""
    if numbers:
        refuse_undated(name, dates[0], numbers[0])
    if not _infer_written_dates(name, others, counts, found):
        for part in others:
            wrong = find_no_dates(_without_marks(counts[part.where]), part.site, 0.0)
            if wrong:
                refuse_values(name, [part], wrong, f"dates in one format, as {dates[0].where} does", len(wrong))


def _infer_texts(
    name: str,
    numbers: Sequence[TableColumn],
    others: Sequence[TableColumn],
    counts: Mapping[str, Counter[str]],
    found: _Found,
) -> None:
    """A column that has texts in some table."""
    says_format = not numbers and any(part.site.format is not None for part in others)
    if says_format and _infer_written_dates(name, others, counts, found):
        return
    texts = sum(counts.values(), Counter[str]())
    words = _find_words(texts, numbers)
    if words is not None:
        _note_none(name, others, found)
        found.columns.append(Column(name, BOOLEAN, words))
        return
    plain = [text for text in texts if text not in GAP_MARKS]
    odd = [text for text in plain if not is_number(text)]
    numeric = sum(int(np.isfinite(part.values.astype(np.float64)).sum()) for part in numbers)
    numeric += sum(texts[text] for text in plain if is_number(text))
    if not odd:
        _note_marks(name, texts, found)
        if numeric:
            found.columns.append(Column(name))
        else:
            found.left_out[name] = "empty"
        return
    if not numeric and all(TIME_FORM.fullmatch(text) for text in plain):
        _note_marks(name, texts, found)
        found.columns.append(Column(name, unit=HOURS))
        return
    if not numeric and _infer_written_dates(name, others, counts, found):
        return
    if _note_notations(name, others, numbers, counts, found):
        _note_marks(name, texts, found)
        found.columns.append(Column(name))
        return
    for part in [] if numeric else others:
        wrong = find_no_dates(_without_marks(counts[part.where]), part.site, MIN_NUMBERS_SHARE)
        if wrong:
            count = sum(counts[part.where][text] for text in wrong)
            refuse_values(name, [part], wrong, "dates such as 2024-01-31, in one format", count)
    known = numeric + sum(texts[text] for text in odd)
    if numeric >= MIN_NUMBERS_SHARE * known and not _are_codes(odd):
        refuse_values(name, others, odd, "numbers", known - numeric)
    wordy = [part for part in others if counts[part.where] and not any(map(is_number, counts[part.where]))]
    if numbers and wordy:
        refuse_kinds(name, numbers, wordy, counts)
    for part in numbers:
        texts += part.count_texts()
    if numeric:
        found.mixed[name] = odd[0]
    _note_none(name, others, found)
    _infer_category(name, texts, [*(counts[part.where] for part in others)], found)


def _infer_category(name: str, texts: Counter[str], counts: Sequence[Counter[str]], found: _Found) -> None:
    known = sum(texts.values())
    unique = all(len(each) == sum(each.values()) for each in counts)
    if unique and known >= MIN_IDENTIFIER_ROWS:
        found.identify(name, "another text in each row")
    elif len(texts) > MIN_UNIQUE_TEXTS and len(texts) >= MIN_UNIQUE_SHARE * known:
        found.identify(name, f"{len(texts):,} different texts in {known:,} rows")
    elif len(texts) > MAX_CATEGORIES:
        frequent = sorted(texts, key=lambda text: (-texts[text], text))[:MAX_LISTED]
        found.shortened[name] = len(texts)
        found.columns.append(Column(name, CATEGORY, sort_texts(frequent), unlisted=GAP))
    else:
        found.columns.append(Column(name, CATEGORY, sort_texts(texts)))


def _are_codes(texts: Sequence[str]) -> bool:
    """Whether texts among numbers are too many to stand for gaps, as of subjects 207, 207a and 207b."""
    return len(texts) > MAX_GAP_TEXTS and not any(text[0] in "<>" for text in texts)


def _find_words(texts: Counter[str], numbers: Sequence[TableColumn]) -> tuple[str, str] | None:
    """The words of a boolean: yes and no, true and false and the like, written as they are most often; else None."""
    known = {word: place for pair in WORDS for place, word in enumerate(pair)}
    if not all(text.casefold() in known for text in texts):
        return None
    if not all(np.isin(part.values[~np.isnan(part.values.astype(np.float64))], (0, 1)).all() for part in numbers):
        return None
    lower = {text.casefold() for text in texts}
    pairs = [pair for pair in sorted(WORDS) if lower & set(pair)]
    if len(lower) == 1 and len(next(iter(lower))) == 1:
        return None  # a letter alone may mean anything
    pair = max(pairs, key=lambda pair: sum(texts[text] for text in texts if text.casefold() in pair))
    written = {text.casefold(): text for text, _ in reversed(texts.most_common())}
    shown = [written.get(word) for word in pair]
    like = next(text for text in shown if text is not None)
    form = str.upper if like.isupper() else str.title if like.istitle() else str.lower
    return (shown[0] or form(pair[0]), shown[1] or form(pair[1]))


def _infer_written_dates(
    name: str, parts: Sequence[TableColumn], counts: Mapping[str, Counter[str]], found: _Found
) -> bool:
    """Whether all texts are dates: of ISO 8601, or in a format that is then noted, of each table its own."""
    possible = {
        part.where: list_date_formats(texts, part.site)
        for part in parts
        if (texts := [text for text in counts[part.where] if text not in GAP_MARKS])
    }
    if not all(possible.values()):
        return False
    clear = {formats[0] for formats in possible.values() if len(formats) == 1}
    chosen = {where: [form for form in formats if form in clear] or formats for where, formats in possible.items()}
    unclear = next((formats for formats in chosen.values() if len(formats) > 1), None)
    if unclear is not None:
        where = next(where for where, formats in chosen.items() if len(formats) > 1)
        found.left_out[name] = (
            f"dates such as {next(iter(counts[where]))!r} in an order that is not clear; say it in "
            f"{site_beside(Path(where))}: "
            f"{write_line(name, format=unclear[0])} or {write_line(name, format=unclear[1])}"
        )
        return True
    _note_marks(name, sum(counts.values(), Counter[str]()), found)
    found.columns.append(Column(name, DATE))
    given = {part.where for part in parts if part.site.format is not None}
    found.formats |= {(where, name): form for where, (form,) in chosen.items() if form != ISO and where not in given}
    return True


def _note_notations(
    name: str,
    parts: Sequence[TableColumn],
    numbers: Sequence[TableColumn],
    counts: Mapping[str, Counter[str]],
    found: _Found,
) -> bool:
    """Whether all texts are numbers with signs beside digits, in a notation that is then noted, of each table its own.

    A table whose numbers are in the plain notation has none. Where a comma may be a decimal mark or stand between
    thousands, it is what other tables write, or what gives numbers of the size of the `numbers` in other tables.
    """
    written = {
        part.where: texts
        for part in parts
        if not part.site.parses_numbers
        and (texts := list(_without_marks(counts[part.where])))
        and not all(is_number(text) for text in texts)
    }
    possible = {where: list_number_notations(texts) for where, texts in written.items()}
    if not possible or not all(possible.values()):
        return False
    clear = [notations[0] for notations in possible.values() if len(notations) == 1]
    plain = [part.count_texts() for part in (*parts, *numbers) if part.where not in written]
    known = [float(text) for texts in plain for text in texts if is_number(text)]
    for where, notations in possible.items():
        chosen = [each for each in notations if each in clear] or notations
        if len(chosen) > 1:
            chosen = _match_size(written[where], chosen, known) or chosen
        if len(chosen) > 1:
            part = next(part for part in parts if part.where == where)
            refuse_notation(name, part, written[where][0], chosen)
        found.notations[where, name] = chosen[0]
    return True


def _match_size(
    texts: Sequence[str], notations: Sequence[NumberNotation], numbers: Sequence[float]
) -> list[NumberNotation]:
    """The one notation in which texts are numbers of the size of those in other tables; none: it is not clear."""
    reference = float(np.median(np.abs(numbers))) if len(numbers) else 0.0
    if reference == 0.0:
        return []
    ratios = []
    for each in notations:
        own = SiteColumn(decimal=each.decimal, strip=each.strip)
        size = float(np.median([abs(float(own.plain_number(text))) for text in texts]))
        ratios.append(abs(np.log10(max(size, 1e-300) / reference)))
    best = int(np.argmin(ratios))
    is_clear = ratios[best] < 1.0 and all(ratio > 2.0 for place, ratio in enumerate(ratios) if place != best)
    return [notations[best]] if is_clear else []


def _without_marks(counts: Counter[str]) -> Counter[str]:
    return Counter({text: count for text, count in counts.items() if text not in GAP_MARKS})


# ---- the target ------------------------------------------------------------------------------------------------------


def _infer_target(
    name: str, tables: Mapping[str, Columns], sites: Mapping[str, Site], classes: bool, found: _Found
) -> Column:
    """Numbers where all are numbers, and classes where none is, or where they are asked for."""
    parts = []
    for where, table in tables.items():
        own = sites[where].find_name(name)
        if own not in table:
            raise InvalidInput(f"{where} must have the column {own!r}; it has none.")
        parts.append(TableColumn(where, table[own], sites[where].column(name)))
    counts = {part.where: part.count_texts() for part in parts}
    texts = sum(counts.values(), Counter[str]())
    if not texts:
        raise InvalidInput(f"The target must be known in some rows; column {name!r} is empty.")
    odd = [text for text in texts if not is_number(text)]
    numeric = len(odd) < len(texts)
    if not classes and _note_notations(name, parts, (), counts, found):
        return Column(name)
    if classes or not numeric:
        labels = {plain_label(text) if not odd else text for text in texts}
        return Column(name, CATEGORY, check_classes(labels, name, not odd))
    odd = [text for text in odd if text not in GAP_MARKS]
    if odd:
        _refuse_numbers_for_labels(name, parts, counts)
        part = next(part for part in parts if part.find_row(odd[0]))
        raise InvalidInput(
            f"{part.where}: row {part.find_row(odd[0])}: the target {name!r} must hold numbers, or labels with "
            f"--classes; got {odd[0]!r}. To go on: correct it or, if it is a gap, write in "
            f"{site_beside(Path(part.where))}: {write_gaps(name, odd)}."
        )
    if max(abs(float(text)) for text in texts if is_number(text)) > LARGEST:
        raise InvalidInput(f"The target must not exceed {LARGEST:g} in size; {name!r} does.")
    return Column(name)


def _refuse_numbers_for_labels(name: str, parts: Sequence[TableColumn], counts: Mapping[str, Counter[str]]) -> None:
    """Refuse labels that few tables write as numbers, and the others as words."""
    coded = [part for part in parts if counts[part.where] and all(map(is_number, counts[part.where]))]
    worded = [part for part in parts if counts[part.where] and not any(map(is_number, counts[part.where]))]
    if not coded or len(coded) >= len(worded):
        return
    labels = sum((counts[part.where] for part in worded), Counter[str]())
    listed, numbers = sort_texts(labels), sort_texts(set(map(plain_label, counts[coded[0].where])))
    words = _find_words(labels, ()) if numbers == ("0", "1") else None
    values = dict.fromkeys(numbers, "LABEL") if words is None else dict(zip(numbers, words, strict=True))
    raise InvalidInput(
        f"{coded[0].where}: the target {name!r} must hold labels as {worded[0].where} does, such as {listed[0]!r}; got "
        f"numbers such as {numbers[0]}. To go on: write in {site_beside(Path(coded[0].where))} which is which: "
        f"{write_line(name, values=values)}."
    )


def _write_site(where: str, site: Site, found: _Found, target: Column | None, table: Columns) -> Site:
    """The site with the formats of dates and numbers that were found, and labels as its table writes them."""
    columns = dict(site.columns)
    for (table_name, name), form in found.formats.items():
        if table_name == where:
            columns[name] = replace(columns.get(name, AS_AGREED), format=form)
    for (table_name, name), notation in found.notations.items():
        if table_name == where:
            own = columns.get(name, AS_AGREED)
            columns[name] = replace(own, decimal=notation.decimal, strip=notation.strip)
    site = replace(site, columns=columns)
    return site if target is None else map_labels(site, target, table[site.find_name(target.name)])


# ---- what is said ----------------------------------------------------------------------------------------------------


def _note_marks(name: str, texts: Iterable[str], found: _Found) -> None:
    for mark in GAP_MARKS & set(texts):
        found.marks.setdefault(mark, set()).add(name)


def _note_none(name: str, parts: Iterable[TableColumn], found: _Found) -> None:
    """Note that a word is a gap which may also mean that there is none of something."""
    if any(part.has_word(NONE) for part in parts):
        found.marks.setdefault(NONE, set()).add(name)


def _describe_notes(found: _Found) -> list[str]:
    order = [column.name for column in found.columns]
    notes = []
    for mark, columns in sorted(found.marks.items()):
        names = sorted(columns & set(order), key=order.index)
        if names:
            line = write_line(names[0], values={NONE: "none"})
            remedy = f"; if it is a category, write in the site file: {line}" if mark == NONE else ""
            notes.append(f"{mark!r} is a gap in {describe_some(names, 3)}{remedy}")
    notes += [
        f"{name!r} has {count:,} different texts: the {MAX_LISTED} most frequent are categories, the others gaps"
        for name, count in found.shortened.items()
    ]
    written: dict[str, list[str]] = {}
    for (where, name), form in found.formats.items():
        written.setdefault(f"{name!r} holds dates written as {form}", []).append(where)
    for (where, name), notation in found.notations.items():
        written.setdefault(f"{name!r} holds numbers written {notation.describe()}", []).append(where)
    notes += [f"{told} in {describe_places(places)}" for told, places in written.items()]
    listed = {column.name for column in found.columns if column.kind == CATEGORY}
    mixed = [f"{name!r} (such as {text!r})" for name, text in found.mixed.items() if name in listed]
    notes += [f"numbers and texts, taken as categories: {', '.join(mixed)}"] if mixed else []
    return notes


def describe_places(places: Sequence[str]) -> str:
    """The first of the files, and how many more there are."""
    return places[0] + (f" and {len(places) - 1} more" if len(places) > 1 else "")


def _describe_reasons(left_out: Mapping[str, str]) -> str:
    return "; ".join(f"{name!r} ({reason})" for name, reason in list(left_out.items())[:3])
