"""Checks across organisations, where one process sees all rows: units of measurement, rows held twice, columns that say
nothing at a site, and categories that a site does not know."""

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.schema.columns import CATEGORY, NUMBER, ORDERED, WORDS, Column, describe_some
from degroot.schema.schema import Schema
from degroot.schema.sites import AS_SHARED, Site, write_line
from degroot.training.organisation import Organisation
from degroot.training.unit_checks import find_other_units

MAX_NOTES = 5  # of a kind of notes, or of places in a note
MAX_COMPARED_CATEGORIES = 20  # of a column whose words are compared
MIN_UNIQUE_ROWS = 50  # in which nothing is unique by chance
MIN_SHARED_ROWS, MIN_SHARED_SHARE = 5, 0.1  # rows at two organisations, in all and of the smaller one
MIN_DISTINCT_SHARE = 0.9  # of their rows that differ: others may be alike by chance


def check_target_units(
    organisations: Sequence[Organisation], schema: Schema, sites: Mapping[str, Site],
    site_files: Mapping[str, str], *, is_dealt: bool,
) -> list[str]:  # fmt: skip
    """Refuse a target that one organisation likely has in another unit than the others; or a note, if it is not sure.

    `sites`: how each organisation writes columns; whose site gives a factor of the target is right. `site_files`: in
    which file each says so. Organisations that were dealt from one file, `is_dealt`, seldom have units that differ by
    little.
    """
    target = schema.target
    if target is None or schema.classes is not None:
        return []
    said = {name for name, site in sites.items() if site.column(target.name).gives_unit}
    if len(organisations) == 2 and said:
        return []
    found = find_other_units([each.y for each in organisations], target)
    found = [each for each in found if organisations[each.place].name not in said]
    if not found:
        return []
    first, names = found[0], [organisations[each.place].name for each in found]
    site = sites[names[0]]
    also = f" (likewise at {', '.join(map(repr, names[1:]))})" if len(names) > 1 else ""
    differs = f"at {names[0]!r} it is {first.describe()}{also}"
    remedy = f"write in {site_files[names[0]]}: {first.write_line(target.name, site)}"
    if first.is_certain and not (is_dealt and first.is_common):
        raise InvalidInput(
            f"The target {target.name!r} must have one unit; {differs}. If its unit is another one, {remedy}; if not: "
            f"{site.change_line(target.name, factor=1.0)}."
        )
    return [f"the target {target.name!r} may have another unit: {differs}. If so, {remedy}"]


def check_target_labels(
    organisations: Sequence[Organisation], schema: Schema, sites: Mapping[str, Site], site_files: Mapping[str, str]
) -> None:
    """Refuse labels that are likely the same in other words: in another case, or another yes and no.

    `sites`: how each organisation writes columns; whose site maps labels is right. `site_files`: in which file each
    says so.
    """
    if schema.target is None or schema.classes is None:
        return
    labels = [dict(zip(*np.unique(each.y, return_counts=True), strict=True)) for each in organisations]
    usual = _find_usual(schema.classes, labels, _read_meaning)
    for each, own in zip(organisations, labels, strict=True):
        meant = {str(label): usual[label] for label in own if usual[label] != label}
        site = sites[each.name]
        if meant and not site.column(schema.target.name).values:
            label, likely = next(iter(meant.items()))
            kept = site.change_line(schema.target.name, values={label: label})
            raise InvalidInput(
                f"The target {schema.target.name!r} must have the same labels everywhere; {label!r} at {each.name!r} "
                f"is likely {likely!r}. If so, write in {site_files[each.name]}: "
                f"{site.change_line(schema.target.name, values=meant)}; if not: {kept}."
            )


def _read_meaning(label: str) -> str:
    """What a label likely means, whatever its case: of words for yes and no, 1 and 0."""
    places = {word: str(place) for pair in WORDS for place, word in enumerate(pair)}
    return places.get(label.casefold(), label.casefold())


def _find_usual(
    texts: Sequence[str], counts: Sequence[Mapping[str, int]], meaning: Callable[[str], str]
) -> dict[str, str]:
    """For each text the most frequent one that has the same meaning; `counts`: how often each is at an organisation."""
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(meaning(text), []).append(text)
    total = {text: sum(each.get(text, 0) for each in counts) for text in texts}
    return {text: max(same, key=lambda each: total[each]) for same in alike.values() for text in same}


def check_sites(
    organisations: Sequence[Organisation], schema: Schema, absent: Collection[tuple[str, str]] = ()
) -> list[str]:
    """Notes on what may be wrong at an organisation, one for each kind of thing.

    `absent`: names of organisations and of columns that are known not to be there.
    """
    notes = _describe_lacks(organisations, schema, absent) + _describe_constant(organisations, schema)
    notes += _describe_unique(organisations, schema) + _describe_foreign(organisations, schema)
    notes += _describe_unknown(organisations, schema) + _describe_spellings(organisations, schema)
    return notes + _describe_units(organisations, schema) + _describe_twice(organisations)


def _describe_units(organisations: Sequence[Organisation], schema: Schema) -> list[str]:
    """Features that one organisation likely has in another unit."""
    notes = []
    for place, column in enumerate(schema.columns):
        if column.kind != NUMBER:
            continue
        for found in find_other_units([each.X[:, place] for each in organisations], column):
            name = organisations[found.place].name
            notes.append(
                f"{column.name!r} may have another unit at {name}: {found.describe()}. If so, its site file says "
                f"{found.write_line(column.name, AS_SHARED)}"
            )
    return _limit(notes, "columns")


# ---- what a site has -------------------------------------------------------------------------------------------------


def _describe_places(found: Sequence[tuple[str, str]], verb: str) -> list[str]:
    """A line on columns and the organisations where something is true of them."""
    if not found:
        return []
    by_column: dict[str, list[str]] = {}
    for column, organisation in found:
        by_column.setdefault(column, []).append(organisation)
    shown = [f"{column!r} at {_list_some(where)}" for column, where in list(by_column.items())[:MAX_NOTES]]
    rest = len(by_column) - MAX_NOTES
    return [f"{verb}: {', '.join(shown)}" + (f" and {rest} more columns" if rest > 0 else "")]


def _list_some(names: Sequence[str]) -> str:
    shown = " and ".join(names) if len(names) < 3 else names[0]
    return shown if len(names) < 3 else f"{shown} and {len(names) - 1} others"


def _describe_lacks(
    organisations: Sequence[Organisation], schema: Schema, absent: Collection[tuple[str, str]]
) -> list[str]:
    found = [
        (name, each.name)
        for place, name in enumerate(schema.names)
        for each in organisations
        if each.lacks[place] and (each.name, name) not in absent
    ]
    return _describe_places(found, "empty, treated as absent")


def _describe_constant(organisations: Sequence[Organisation], schema: Schema) -> list[str]:
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


def _describe_unknown(organisations: Sequence[Organisation], schema: Schema) -> list[str]:
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
    line = write_line(column_name, values={category: "CATEGORY"})
    return [
        f"categories that one organisation alone has: {category!r} of {column_name!r} at {name}{rest}; if others call "
        f"it otherwise, its site file says {line}"
    ]


def _describe_foreign(organisations: Sequence[Organisation], schema: Schema) -> list[str]:
    """Columns whose categories at one organisation are all others than those of the rest, who share theirs."""
    notes = []
    for place, column in enumerate(schema.columns):
        codes = [set(each.X[:, place][~np.isnan(each.X[:, place])].astype(int).tolist()) for each in organisations]
        k = _find_foreign(codes) if column.kind in (CATEGORY, ORDERED) else None
        if k is None:
            continue
        own = [column.categories[code] for code in sorted(codes[k])]
        theirs = [column.categories[code] for code in sorted(set.union(*codes) - codes[k])]
        meant = _match_words(own, theirs)
        if len(codes) == 2 and meant is None:
            continue  # two that have nothing in common may differ by themselves
        values = meant or dict(zip(own, (*theirs, *[""] * len(own)), strict=False))
        notes.append(
            f"{column.name!r} has other categories at {organisations[k].name}, such as {own[0]!r}, than elsewhere, "
            f"such as {theirs[0]!r}. If they mean the same, its site file says which is which, "
            f"{'likely' if meant else 'for example'} {write_line(column.name, values=values)}"
        )
    return _limit(notes, "columns")


def _find_foreign(codes: Sequence[set[int]]) -> int | None:
    """The one organisation whose few categories nobody else has, while all others have some in common."""
    everything: set[int] = set().union(*codes)
    for k, own in enumerate(codes):
        rest = [each for j, each in enumerate(codes) if j != k and each]
        counts = Counter(code for each in rest for code in each)
        is_apart = bool(own) and bool(rest) and not any(code in counts for code in own)
        share = len(rest) == 1 or all(any(counts[code] > 1 for code in each) for each in rest)
        if is_apart and share and len(everything) <= MAX_COMPARED_CATEGORIES:
            return k
    return None


def _match_words(own: Sequence[str], others: Sequence[str]) -> dict[str, str] | None:
    """For each word the one of the others that begins as it does, or as which it begins; None: not for all of them."""
    meant: dict[str, str] = {}
    for word in own:
        alike = [
            each for each in others
            if each.casefold().startswith(word.casefold()) or word.casefold().startswith(each.casefold())
        ]  # fmt: skip
        if len(alike) != 1 or alike[0] in meant.values():
            return None
        meant[word] = alike[0]
    return meant


def _describe_unique(organisations: Sequence[Organisation], schema: Schema) -> list[str]:
    """Whole numbers that are other ones in all rows, as numbers of customers are."""
    found = []
    for place, column in enumerate(schema.columns):
        values = np.concatenate([each.X[:, place] for each in organisations])
        is_whole = column.kind == NUMBER and bool(np.isfinite(values).all() and (values == np.rint(values)).all())
        if is_whole and len(values) >= MIN_UNIQUE_ROWS and len(np.unique(values)) == len(values):
            found.append(column.name)
    if not found:
        return []
    remedy = f"--ignore {shlex.quote(','.join(found))}"
    return [f"another whole number in each row: {describe_some(found)}; if it names rows: {remedy}"]


def _limit(notes: list[str], what: str) -> list[str]:
    """The first few notes, and how many more there are."""
    rest = len(notes) - MAX_NOTES
    return notes[:MAX_NOTES] + ([f"and {rest} more {what} like that"] if rest > 0 else [])


def _describe_spellings(organisations: Sequence[Organisation], schema: Schema) -> list[str]:
    """Categories that differ in case only: the rarer is likely the other."""
    notes = []
    for place, column in enumerate(schema.columns):
        if column.kind not in (CATEGORY, ORDERED):
            continue
        counts = [_count_categories(each.X[:, place], column) for each in organisations]
        usual = _find_usual(column.categories, counts, str.casefold)
        for each, own in zip(organisations, counts, strict=True):
            meant = {text: usual[text] for text in own if usual[text] != text}
            if meant:
                text, likely = next(iter(meant.items()))
                notes.append(
                    f"{text!r} of {column.name!r} at {each.name} may be {likely!r}. If so, its site file says "
                    f"{write_line(column.name, values=meant)}"
                )
    return _limit(notes, "columns")


def _count_categories(codes: Array, column: Column) -> dict[str, int]:
    """How often each category is there that is."""
    found = np.bincount(codes[~np.isnan(codes)].astype(np.intp), minlength=len(column.categories))
    return {text: int(count) for text, count in zip(column.categories, found, strict=True) if count}


def _describe_twice(organisations: Sequence[Organisation]) -> list[str]:
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
        differing = all(sizes[k] >= MIN_DISTINCT_SHARE * len(hashes[k]) for k in (one, two))
        if count > max(MIN_SHARED_ROWS, MIN_SHARED_SHARE * smaller) and differing:
            names = f"{organisations[one].name} and {organisations[two].name}"
            notes.append(
                f"{names} have {count} rows in common, of {smaller}: gains are too good where rows are held twice"
            )
    return _limit(notes, "pairs")


def _hash_rows(organisation: Organisation) -> np.ndarray:
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
