"""Checks across organisations, where one process sees all rows: units of measurement, rows held twice, columns that say
nothing at a site, and categories that a site does not know."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.schema.columns import CATEGORY, NUMBER, ORDERED, WORDS, Column, describe_some
from degroot.schema.matching import UNIT_FACTORS, round_factor
from degroot.schema.schema import Schema
from degroot.schema.sites import write_line

if TYPE_CHECKING:
    from degroot.training.organisations import Organisation

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
FEWEST_KNOWN = 10  # values of a column at an organisation whose scale is looked at
MIDDLING = 9.0  # factor: the larger, the less likely it is that sites differ so without it
WIDE = (100.0, 1000.0, 1e6)  # factors by which no sites differ that have the same unit, or hardly any
NEAR, NEAR_MIDDLING, NEAR_WIDE = np.log(1.1), np.log(1.2), np.log(3.0)  # how far from it a ratio may be, as logarithm
LEAST, LEAST_WIDTH = 2.0, np.log(9.0)  # factor below which sites differ by themselves; logarithm, around zero
SURELY = 3.0  # standard deviations between the others, beyond which a site is not one of them
BEYOND = 2.0  # ranges of the others, beyond which it is not one of them where the factor is a common ratio
FAR, FEWEST_OTHERS = 4.0, 3  # ranges of so many others, beyond which it is none even if its numbers are among theirs
TEMPERATURES = ("temp", "celsius", "fahrenheit")
TWICE, TWICE_SHARE, DISTINCT = 5, 0.1, 0.9  # rows at two sites: how many, of the smaller, and of rows that differ


def check_target_units(
    organisations: Sequence["Organisation"], schema: Schema, said: Collection[str], group: str | None
) -> None:
    """Refuse a target that one organisation likely has in another unit than the others.

    The sites of the organisations `said` speak of the target: their factors are right.
    """
    if schema.target is None or schema.classes is not None:
        return
    found = find_other_units([each.y for each in organisations], schema.target)
    found = [each for each in found if organisations[each.place].name not in said]
    if not found or (len(organisations) == 2 and said):
        return
    first, names = found[0], [organisations[each.place].name for each in found]
    name, target = names[0], schema.target.name
    also = f" (likewise at {', '.join(map(repr, names[1:]))})" if len(names) > 1 else ""
    raise InvalidInput(
        f"The target {target!r} must have one unit; at {name!r} it is {first.describe()}{also}. If its unit is another "
        f"one, write in {_name_site(name, group)}: {first.write_line(target)}; if not: "
        f"{write_line(target, factor=1.0)}."
    )


def check_target_labels(
    organisations: Sequence["Organisation"], schema: Schema, said: Collection[str], group: str | None
) -> None:
    """Refuse labels that are likely the same in other words: in another case, or another yes and no.

    The sites of the organisations `said` map labels: theirs are right.
    """
    if schema.target is None or schema.classes is None:
        return
    labels = [dict(zip(*np.unique(each.y, return_counts=True), strict=True)) for each in organisations]
    usual = _find_usual(schema.classes, labels)
    for each, own in zip(organisations, labels, strict=True):
        meant = {str(label): usual[label] for label in own if usual[label] != label}
        if meant and each.name not in said:
            label, likely = next(iter(meant.items()))
            kept = write_line(schema.target.name, values={label: label})
            raise InvalidInput(
                f"The target {schema.target.name!r} must have the same labels everywhere; {label!r} at {each.name!r} "
                f"is likely {likely!r}. If so, write in {_name_site(each.name, group)}: "
                f"{write_line(schema.target.name, values=meant)}; if not: {kept}."
            )


def _find_usual(texts: Sequence[str], counts: Sequence[Mapping[str, int]]) -> dict[str, str]:
    """For each text the most frequent one that likely means the same."""
    places = {word: str(place) for pair in WORDS for place, word in enumerate(pair)}
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(places.get(text.casefold(), text.casefold()), []).append(text)
    total = {text: sum(each.get(text, 0) for each in counts) for text in texts}
    return {text: max(same, key=lambda each: total[each]) for same in alike.values() for text in same}


def _name_site(name: str, group: str | None) -> str:
    """The site file of an organisation, and the option that it takes where it has no file of its own."""
    site = f"{name}.site.toml"
    return site if group is None else f"{site}, for --site {shlex.quote(f'{name}={site}')}"


def check_sites(
    organisations: Sequence["Organisation"], schema: Schema, absent: Collection[tuple[str, str]] = ()
) -> list[str]:
    """Notes on what may be wrong at an organisation, one for each kind of thing.

    `absent`: names of organisations and of columns that are known not to be there.
    """
    notes = _describe_lacks(organisations, schema, absent) + _describe_constant(organisations, schema)
    notes += _describe_unknown(organisations, schema) + _describe_spellings(organisations, schema)
    return notes + _describe_units(organisations, schema) + _describe_twice(organisations)


# ---- units of measurement --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OtherUnit:
    """An organisation whose numbers are likely in another unit than those of the others."""

    place: int
    factor: float  # that takes its numbers to the unit of the others
    offset: float
    median: float
    reference: float  # the median at the others

    def write_line(self, name: str) -> str:
        """What the site file says of the column `name`."""
        return write_line(name, factor=self.factor, **({"offset": self.offset} if self.offset else {}))

    def describe(self) -> str:
        """How the numbers differ."""
        size = round_factor(max(self.factor, 1.0 / self.factor))
        about = "like degrees of two scales" if self.offset else f"near a factor of {size:g}"
        return f"{self.median:.4g} in the median, {self.reference:.4g} at the others, {about}"


def find_other_units(columns: Sequence[Array], column: Column) -> list[OtherUnit]:
    """The organisations whose numbers are likely in another unit: a minority, or of two that with the smaller numbers.

    The scale of such numbers differs from the typical one of the others by nearly a known factor, and by far more than
    the others differ among themselves; they lie apart from those of the others before the conversion, and among them
    after it.
    """
    known = [values[np.isfinite(values)] for values in columns]
    places = [k for k, values in enumerate(known) if len(values) >= FEWEST_KNOWN]
    if len(places) < 2:
        return []
    quantiles = np.array([np.quantile(known[k], QUANTILES) for k in places])  # (K, 5)
    found = [each for row, k in enumerate(places) if (each := _compare_scales(quantiles, row, k, column))]
    sides = [[each for each in found if (each.factor > 1.0) is side] for side in (True, False)]
    return min((side for side in sides if side), key=len, default=[])


def _compare_scales(quantiles: Array, row: int, place: int, column: Column) -> OtherUnit | None:
    own, others = quantiles[row], np.delete(quantiles, row, axis=0)
    typical = np.median(others, axis=0)
    if _is_temperature(column):
        found = _compare_degrees(own, others, typical, place)
        if found is not None:
            return found
    if not (own[-1] > own[0] and typical[-1] > typical[0]):
        return None
    signs = np.sign([*own[[0, -1]], *typical[[0, -1]]])
    compare = _compare_levels if abs(signs.sum()) == len(signs) else _compare_widths
    factor = compare(own, others, typical)
    if factor is None:
        return None
    return OtherUnit(place, round_factor(factor), 0.0, float(own[2]), float(typical[2]))


def _compare_levels(own: Array, others: Array, typical: Array) -> float | None:
    """The factor between numbers that are all of one sign."""
    levels = np.log(np.abs(others[:, 2]) + 1e-300)
    between, gap = _measure_spread(levels), float(np.log(typical[2] / own[2]))
    alone = len(others) >= FEWEST_OTHERS and abs(gap) >= FAR * np.ptp(levels)
    if abs(gap) < SURELY * between or (_count_overlaps(own, others) > len(others) // 3 and not alone):
        return None
    level = float(np.log(np.abs(own[2])))
    alike = np.abs(levels - level) < np.abs(levels - level - gap)  # those that have the unit of this one
    low, high = levels[~alike].min(), levels[~alike].max()
    apart = min(float(np.abs(levels[~alike] - each).min()) for each in (level, *levels[alike]))
    for factor in sorted(_list_factors(), key=lambda each: abs(np.log(each) - gap)):
        step, ratios = float(np.log(factor)), np.log(typical / own) - np.log(factor)
        if _is_wide(factor):
            if apart >= abs(step) / 2.0 and low - NEAR_WIDE <= level + step <= high + NEAR_WIDE:
                return factor
        elif abs(gap) >= BEYOND * np.ptp(levels[~alike]) and _are_near(ratios, factor):
            return factor if _count_overlaps(own * factor, others) > len(others) // 2 else None
    return None


def _compare_widths(own: Array, others: Array, typical: Array) -> float | None:
    """The factor between numbers around zero, by how far they spread."""
    widths, spread = typical[[4, 3]] - typical[[0, 1]], own[[4, 3]] - own[[0, 1]]
    if (widths <= 0.0).any() or (spread <= 0.0).any():
        return None
    ratios = np.log(widths / spread)
    gap = float(np.median(ratios))
    between = _measure_spread(np.log(np.maximum(others[:, 4] - others[:, 0], 1e-300)))
    if abs(gap) < max(SURELY * between, LEAST_WIDTH):
        return None
    factor = min(_list_factors(), key=lambda each: abs(np.log(each) - gap))
    return factor if _are_near(ratios - np.log(factor), factor) else None


def _measure_spread(logarithms: Array) -> float:
    """How far scales of the others differ, as a standard deviation of logarithms in which outliers do not count."""
    return float(np.median(np.abs(logarithms - np.median(logarithms))) * 1.4826)


def _list_factors() -> list[float]:
    return [each for factor in UNIT_FACTORS if factor >= LEAST for each in (factor, 1.0 / factor)]


def _is_wide(factor: float) -> bool:
    """Whether hardly any organisations differ by such a factor that have the same unit."""
    return any(np.isclose(max(factor, 1.0 / factor), each) for each in WIDE)


def _are_near(ratios: Array, factor: float) -> bool:
    """Whether logarithms of ratios, less that of the factor, are nearly zero."""
    near = NEAR_WIDE if _is_wide(factor) else NEAR_MIDDLING if max(factor, 1.0 / factor) > MIDDLING else NEAR
    return bool(np.median(np.abs(ratios)) <= near and np.abs(ratios).max() <= 2.0 * near)


def _count_overlaps(own: Array, others: Array) -> int:
    """How many of the others have values between the outer quantiles of these."""
    low, high = min(own[0], own[-1]), max(own[0], own[-1])
    return int(((others[:, 0] <= high) & (others[:, -1] >= low)).sum())


def _is_temperature(column: Column) -> bool:
    name = column.name.casefold()
    return column.unit.strip("° ").upper() in ("C", "F") or any(word in name for word in TEMPERATURES)


def _compare_degrees(own: Array, others: Array, typical: Array, place: int) -> OtherUnit | None:
    """Degrees Fahrenheit among degrees Celsius, or the other way round."""
    for factor, offset in ((1.0 / 1.8, -32.0 / 1.8), (1.8, 32.0)):
        converted = own * factor + offset
        width = max(float(typical[3] - typical[1]), 1e-300)
        near = np.abs(converted - typical).max() <= width and abs(np.log((converted[3] - converted[1]) / width)) < 0.35
        if near and _count_overlaps(own, others) <= len(others) // 3:
            return OtherUnit(place, round_factor(factor), round_factor(offset), float(own[2]), float(typical[2]))
    return None


def _describe_units(organisations: Sequence["Organisation"], schema: Schema) -> list[str]:
    """Features that one organisation likely has in another unit."""
    notes = []
    for place, column in enumerate(schema.columns):
        if column.kind != NUMBER:
            continue
        for found in find_other_units([each.X[:, place] for each in organisations], column):
            name = organisations[found.place].name
            notes.append(
                f"{column.name!r} may have another unit at {name}: {found.describe()}. If so, its site file says "
                f"{found.write_line(column.name)}"
            )
    return notes[:FEW_TOLD] + ([f"and {len(notes) - FEW_TOLD} more columns like that"] if len(notes) > FEW_TOLD else [])


# ---- what a site has -------------------------------------------------------------------------------------------------

FEW_TOLD = 5  # of a kind of notes, or of places in a note


def _describe_places(found: Sequence[tuple[str, str]], verb: str) -> list[str]:
    """A line on columns and the organisations where something is true of them."""
    if not found:
        return []
    by_column: dict[str, list[str]] = {}
    for column, organisation in found:
        by_column.setdefault(column, []).append(organisation)
    shown = [f"{column!r} at {_list_some(where)}" for column, where in list(by_column.items())[:FEW_TOLD]]
    rest = len(by_column) - FEW_TOLD
    return [f"{verb}: {', '.join(shown)}" + (f" and {rest} more columns" if rest > 0 else "")]


def _list_some(names: Sequence[str]) -> str:
    shown = " and ".join(names) if len(names) < 3 else names[0]
    return shown if len(names) < 3 else f"{shown} and {len(names) - 1} others"


def _describe_lacks(
    organisations: Sequence["Organisation"], schema: Schema, absent: Collection[tuple[str, str]]
) -> list[str]:
    found = [
        (name, each.name)
        for place, name in enumerate(schema.names)
        for each in organisations
        if each.lacks[place] and (each.name, name) not in absent
    ]
    return _describe_places(found, "without any value that counts, and so absent")


def _describe_constant(organisations: Sequence["Organisation"], schema: Schema) -> list[str]:
    """Columns that are the same everywhere are named; those that are so at some organisations are counted."""
    everywhere, somewhere = [], set()
    for place, name in enumerate(schema.names):
        known = [each.X[:, place][~np.isnan(each.X[:, place])] for each in organisations]
        same = [len(values) > 0 and bool((values == values[0]).all()) for values in known]
        together = np.concatenate(known)
        if len(together) and (together == together[0]).all():
            everywhere.append(name)
        elif any(same):
            somewhere.add(name)
    notes = [f"the same in all rows, and so of no use: {describe_some(everywhere)}"] if everywhere else []
    if somewhere:
        listed = [name for name in schema.names if name in somewhere]
        notes.append(f"the same in all rows of some organisation: {describe_some(listed, 3)}")
    return notes


def _describe_unknown(organisations: Sequence["Organisation"], schema: Schema) -> list[str]:
    """Categories that one organisation alone has: others' models have never seen them."""
    found: list[tuple[str, str, str]] = []
    for place, column in enumerate(schema.columns):
        if column.kind in (CATEGORY, ORDERED):
            seen = [set(np.unique(each.X[:, place][~np.isnan(each.X[:, place])]).tolist()) for each in organisations]
            for each, own in zip(organisations, seen, strict=True):
                others = set().union(*(codes for codes in seen if codes is not own))
                found += [(column.categories[int(code)], column.name, each.name) for code in sorted(own - others)]
    if not found:
        return []
    category, column_name, name = found[0]
    rest = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return [f"categories that one organisation alone has: {category!r} of {column_name!r} at {name}{rest}"]


def _describe_spellings(organisations: Sequence["Organisation"], schema: Schema) -> list[str]:
    """Categories that differ in case only: the rarer is likely the other."""
    notes = []
    for place, column in enumerate(schema.columns):
        alike: dict[str, list[int]] = {}
        for code, text in enumerate(column.categories if column.kind in (CATEGORY, ORDERED) else ()):
            alike.setdefault(text.casefold(), []).append(code)
        meant: dict[str, dict[str, str]] = {}  # by organisation, what it writes and what that likely is
        for codes in (each for each in alike.values() if len(each) > 1):
            counts = {code: [int((each.X[:, place] == code).sum()) for each in organisations] for code in codes}
            usual = max(codes, key=lambda code: sum(counts[code]))
            for code in (each for each in codes if each != usual):
                for each, count in zip(organisations, counts[code], strict=True):
                    if count:
                        meant.setdefault(each.name, {})[column.categories[code]] = column.categories[usual]
        for name, values in meant.items():
            rare, likely = next(iter(values.items()))
            line = write_line(column.name, values=values)
            notes.append(f"{rare!r} of {column.name!r} at {name} may be {likely!r}. If so, its site file says {line}")
    return notes[:FEW_TOLD] + ([f"and {len(notes) - FEW_TOLD} more like that"] if len(notes) > FEW_TOLD else [])


def _describe_twice(organisations: Sequence["Organisation"]) -> list[str]:
    """Organisations that have many of the same rows, target and all."""
    hashes = [_hash_rows(each) for each in organisations]
    sizes = [len(np.unique(each)) for each in hashes]
    together = np.concatenate([np.unique(each) for each in hashes])
    owner = np.repeat(np.arange(len(hashes)), sizes)
    order = np.argsort(together, kind="stable")
    together, owner = together[order], owner[order]
    pairs: dict[tuple[int, int], int] = {}
    for start in np.flatnonzero(together[1:] == together[:-1]).tolist():
        pair = (int(owner[start]), int(owner[start + 1]))
        pairs[pair] = pairs.get(pair, 0) + 1
    notes = []
    for (one, two), count in sorted(pairs.items(), key=lambda item: -item[1]):
        smaller = min(len(hashes[one]), len(hashes[two]))
        differing = all(sizes[k] >= DISTINCT * len(hashes[k]) for k in (one, two))
        if count > max(TWICE, TWICE_SHARE * smaller) and differing:
            names = f"{organisations[one].name} and {organisations[two].name}"
            notes.append(
                f"{names} have {count} rows in common, of {smaller}: gains are too good where rows are held twice"
            )
    return notes[:FEW_TOLD] + ([f"and {len(notes) - FEW_TOLD} more pairs like that"] if len(notes) > FEW_TOLD else [])


def _hash_rows(organisation: "Organisation") -> np.ndarray:
    """A number for each row with its target, (n,): the same for the same."""
    labels = organisation.y
    if labels.dtype.kind not in "fiu":
        labels = np.array([hash(text) for text in labels.tolist()], np.int64).astype(np.float64)
    rows = np.ascontiguousarray(np.column_stack([np.nan_to_num(organisation.X, nan=-1.2345e300), labels]) + 0.0)
    factors = np.random.default_rng(0).integers(1, 2**63, rows.shape[1], np.uint64) * np.uint64(2) + np.uint64(1)
    mixed = rows.view(np.uint64)
    mixed = mixed ^ (mixed >> np.uint64(29))
    with np.errstate(over="ignore"):
        return np.asarray((mixed * factors).sum(axis=1, dtype=np.uint64))
