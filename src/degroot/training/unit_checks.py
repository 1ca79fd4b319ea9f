"""Units of measurement across organisations: whose numbers are likely in another unit than those of the others.

A scale is looked at by five quantiles. Hardly any organisations differ by a factor of 100 or more that have the same
unit, so that such a factor need be met roughly only. Common ratios such as 2.54 occur by themselves: there all
quantiles must agree with the factor, and the other organisations among each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from degroot.compute.compiled import Array
from degroot.schema.columns import Column
from degroot.schema.matching import UNIT_FACTORS, round_factor
from degroot.schema.sites import Site

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
MIN_KNOWN = 10  # values of a column at an organisation whose scale is looked at
MIN_FACTOR, MIN_RARE_FACTOR = 2.0, 9.0  # that is looked for; by which organisations seldom differ that have one unit
WIDE_FACTORS = (100.0, 1000.0, 1e6)  # by which hardly any differ
MAX_LOG_ERROR, MAX_RARE_LOG_ERROR = np.log(1.1), np.log(1.2)  # of quantiles against a common factor, and a rare one
MAX_HUNDRED_LOG_ERROR, MAX_WIDE_LOG_ERROR = np.log(2.0), np.log(3.0)  # of medians, against 100 and larger factors
COMMON_HANDICAP, LARGE_HANDICAP = np.log(1.4), np.log(3.0)  # of factors that are no powers of ten; of those above 100
MIN_SPREADS = 3.0  # standard deviations between the others, from which on an organisation is none of them
MIN_RANGES = 4.0  # how far the others may lie from each other, at most one of so many parts of the factor
TEMPERATURE_WORDS = ("temp", "celsius", "fahrenheit")


@dataclass(frozen=True, slots=True)
class OtherUnit:
    """An organisation whose numbers are likely in another unit than those of the others."""

    place: int
    factors: tuple[float, ...]  # any of which may take its numbers to the unit of the others, the likeliest first
    offset: float
    scale: float  # of its numbers: their median or, around zero, how far they spread
    reference: float  # the same at the others
    what: str = "in the median"  # the scale is
    is_certain: bool = True  # or organisations may differ so by themselves

    @property
    def is_common(self) -> bool:
        """Whether it is no factor of 100 or more."""
        return not any(_is_wide(factor, each) for factor in self.factors for each in WIDE_FACTORS)

    @property
    def factor(self) -> float:
        """The likeliest factor."""
        return self.factors[0]

    def write_line(self, name: str, site: Site) -> str:
        """The line of the site file about the column `name`, with what the `site` says of it already."""
        unit = {"factor": self.factor} | ({"offset": self.offset} if self.offset else {})
        others = "".join(f" (or {round_factor(factor)})" for factor in self.factors[1:])
        return site.change_line(name, **unit) + others

    def describe(self) -> str:
        """How the numbers differ."""
        sizes = " or ".join(f"{max(factor, 1.0 / factor):.4g}" for factor in self.factors)
        about = "like degrees of two scales" if self.offset else f"near a factor of {sizes}"
        return f"{self.scale:.4g} {self.what}, {self.reference:.4g} at the others, {about}"


def find_other_units(columns: Sequence[Array], column: Column) -> list[OtherUnit]:
    """The organisations whose numbers are likely in another unit: a minority, or of two that with the smaller numbers.

    `columns` has the numbers of one column at each organisation.
    """
    known = [values[np.isfinite(values)] for values in columns]
    places = [k for k, values in enumerate(known) if len(values) >= MIN_KNOWN]
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
    if abs(signs.sum()) == len(signs):
        return _compare_levels(own, others, place)
    return _compare_widths(own, others, typical, place)


def _compare_levels(own: Array, others: Array, place: int) -> OtherUnit | None:
    """Numbers that are all of one sign, by the logarithms of their quantiles."""
    level, levels = np.log(np.abs(own)), np.log(np.abs(others) + 1e-300)
    gap = float(np.median(levels[:, 2]) - level[2])
    if abs(gap) < MIN_SPREADS * _measure_spread(levels[:, 2]):
        return None
    alike = np.abs(levels[:, 2] - level[2]) < np.abs(levels[:, 2] - level[2] - gap)  # those that have its unit
    rest = levels[~alike]
    medians = float(np.median(own)), float(np.median(others[~alike][:, 2]))
    wide = _match_wide(level[2], levels[alike][:, 2], rest[:, 2], gap)
    common = _match_common(level, rest)
    if not wide and not common:
        return None
    is_certain = bool(wide) or len(rest) > 1 or (_is_rare(common[0]) and _count_overlaps(own, others) == 0)
    factors = sorted({*common, *wide}, key=lambda factor: _rate_error(factor, gap))
    return OtherUnit(place, tuple(factors), 0.0, *medians, is_certain=is_certain)


def _match_wide(level: float, alike: Array, rest: Array, gap: float) -> list[float]:
    """The wide factor by which the logarithm of a median comes among those of the `rest`, if there is one.

    Nobody may lie between the two groups, that of this one and the rest.
    """
    apart = min(float(np.abs(rest - each).min()) for each in (level, *alike))
    found = []
    for factor in (each for wide in WIDE_FACTORS for each in (wide, 1.0 / wide)):
        step = float(np.log(factor))
        error = MAX_HUNDRED_LOG_ERROR if _is_wide(factor, 100.0) else MAX_WIDE_LOG_ERROR
        if apart >= abs(step) / 2.0 and rest.min() - error <= level + step <= rest.max() + error:
            found.append(factor)
    return sorted(found, key=lambda factor: _rate_error(factor, gap))[:1]


def _match_common(level: Array, rest: Array) -> list[float]:
    """The factors by which all quantiles come to those of the `rest`, who agree with each other."""
    typical = np.median(rest, axis=0)
    errors = {factor: np.abs(typical - level - np.log(factor)) for factor in _list_factors()}
    between = float(np.abs(rest - typical).max())
    found = [
        factor
        for factor, error in errors.items()
        if error.max() <= max(2.0 * _allow_error(factor), between)
        and np.median(error) <= _allow_error(factor)
        and abs(np.log(factor)) >= MIN_RANGES * between
    ]
    return found


def _rate_error(factor: float, gap: float) -> float:
    """How far the logarithm of a ratio is from a factor; other ones than powers of ten are less likely."""
    is_power = any(_is_wide(factor, each) for each in (10.0, *WIDE_FACTORS))
    handicap = LARGE_HANDICAP if max(factor, 1.0 / factor) > WIDE_FACTORS[0] else COMMON_HANDICAP
    return abs(float(np.log(factor)) - gap) + (0.0 if is_power else float(handicap))


def _compare_widths(own: Array, others: Array, typical: Array, place: int) -> OtherUnit | None:
    """Numbers around zero, by how far they spread."""
    widths, spread = typical[[4, 3]] - typical[[0, 1]], own[[4, 3]] - own[[0, 1]]
    if (widths <= 0.0).any() or (spread <= 0.0).any():
        return None
    ratios = np.log(widths / spread)
    gap, logarithms = float(np.median(ratios)), np.log(np.maximum(others[:, 4] - others[:, 0], 1e-300))
    if abs(gap) < MIN_SPREADS * _measure_spread(logarithms):
        return None
    found = []
    for factor in sorted(_list_factors(), key=lambda each: _rate_error(each, gap)):
        is_wide = any(_is_wide(factor, each) for each in WIDE_FACTORS)
        error = MAX_HUNDRED_LOG_ERROR if is_wide else _allow_error(factor)
        is_apart = abs(np.log(factor)) >= (1.0 if is_wide else MIN_RANGES) * np.ptp(logarithms)
        if _is_rare(factor) and is_apart and np.abs(ratios - np.log(factor)).max() <= error:
            found.append(factor)
    if not found:
        return None
    about = float(spread[0]), float(widths[0]), "between the 10 % and 90 % quantiles"
    other = OtherUnit(place, tuple(found), 0.0, *about)
    return replace(other, is_certain=not other.is_common)


def _measure_spread(logarithms: Array) -> float:
    """How far scales of the others differ, as a standard deviation of logarithms in which outliers do not count."""
    return float(np.median(np.abs(logarithms - np.median(logarithms))) * 1.4826)


def _list_factors() -> list[float]:
    return [each for factor in UNIT_FACTORS if factor >= MIN_FACTOR for each in (factor, 1.0 / factor)]


def _is_wide(factor: float, wide: float) -> bool:
    return bool(np.isclose(max(factor, 1.0 / factor), wide))


def _is_rare(factor: float) -> bool:
    """Whether organisations with the same unit seldom differ by such a factor."""
    return max(factor, 1.0 / factor) >= MIN_RARE_FACTOR


def _allow_error(factor: float) -> float:
    return float(MAX_RARE_LOG_ERROR if _is_rare(factor) else MAX_LOG_ERROR)


def _count_overlaps(own: Array, others: Array) -> int:
    """How many of the others have values between the outer quantiles of these."""
    low, high = min(own[0], own[-1]), max(own[0], own[-1])
    return int(((others[:, 0] <= high) & (others[:, -1] >= low)).sum())


def _is_temperature(column: Column) -> bool:
    name = column.name.casefold()
    return column.unit.strip("° ").upper() in ("C", "F") or any(word in name for word in TEMPERATURE_WORDS)


def _compare_degrees(own: Array, others: Array, typical: Array, place: int) -> OtherUnit | None:
    """Degrees Fahrenheit among degrees Celsius, or the other way round."""
    for factor, offset in ((1.0 / 1.8, -32.0 / 1.8), (1.8, 32.0)):
        converted = own * factor + offset
        if converted[3] <= converted[1]:
            continue
        width = max(float(typical[3] - typical[1]), 1e-300)
        near = np.abs(converted - typical).max() <= width and abs(np.log((converted[3] - converted[1]) / width)) < 0.35
        if near and _count_overlaps(own, others) <= len(others) // 3:
            return OtherUnit(place, (factor,), offset, float(own[2]), float(typical[2]))
    return None
