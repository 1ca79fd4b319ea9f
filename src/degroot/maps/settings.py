"""Settings of evidence maps, which members declare before they look at rows, and what follows from these alone."""

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from degroot.exceptions import InvalidInput

LARGEST_SEED = 2**63
LONGEST_SHOWN = 50  # characters of what was not accepted
EPSILONS = (0.01, 100.0)  # least and largest of one table
MOST_TREES, MOST_DEPTH, MOST_FEATURES = 1024, 12, 10_000
DEFAULT_TREES = 16
DEFAULT_DEPTHS = (2, 8)  # least and largest
ROWS_A_CELL = 64  # at epsilon 1
LEAST_ROWS = 1000  # and as many over epsilon as are below: benchmarks/MAPS.md, accuracy by number of rows
LEAST_ROWS_TIMES_EPSILON = 3000.0


class TooFewRows(InvalidInput):
    """The noisy table of a version counts too few rows to be published."""


@dataclass(frozen=True, slots=True)
class MapSettings:
    """What the members of a consortium declare. All of it is public, and none of it may be computed from rows.

    Members may differ in `epsilon` and `delta` only, where `depth` is declared.
    """

    ranges: tuple[tuple[float, float], ...]  # (d, 2) least and largest value of each feature; beyond counts as there
    residual_bound: float  # a residual that is large: rows on which the models err more count for less
    rows: int  # about how many rows, or units, a member has; public
    epsilon: float  # of one table, per row or, with units, per unit
    delta: float = 1e-6
    seed: int = 0  # of the trees
    trees: int | None = None
    depth: int | None = None  # None: from rows and epsilon

    @property
    def n_trees(self) -> int:
        """How many trees there are. More of them cost size only: a mean over them is as noisy as one."""
        return DEFAULT_TREES if self.trees is None else self.trees

    @property
    def n_levels(self) -> int:
        """How many splits lead to a cell: so many that a cell holds about 64 rows, or fewer with a larger epsilon."""
        if self.depth is not None:
            return self.depth
        depth = round(math.log2(max(self.rows * math.sqrt(self.epsilon) / ROWS_A_CELL, 1.0)))
        return min(max(depth, DEFAULT_DEPTHS[0]), DEFAULT_DEPTHS[1])

    @property
    def n_cells(self) -> int:
        """Of each tree."""
        return int(2**self.n_levels)

    @property
    def grid(self) -> "MapSettings":
        """All that tables have to have in common to be used together."""
        return replace(self, trees=self.n_trees, depth=self.n_levels, rows=1, epsilon=1.0, delta=0.5)

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self) | {"ranges": [list(pair) for pair in self.ranges]}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> "MapSettings":
        """From what `to_dict` gave; anything else is refused."""
        names = {each.name for each in fields(cls)}
        if not isinstance(told, Mapping) or set(told) != names:
            raise InvalidInput(f"Settings of a map must be {', '.join(sorted(names))}; they are not.")
        pairs = told["ranges"]
        if not isinstance(pairs, list) or not all(_is_pair(each) for each in pairs):
            raise InvalidInput("`ranges` must be pairs of numbers; they are not.")
        settings = cls(**(dict(told) | {"ranges": tuple((float(low), float(high)) for low, high in pairs)}))
        check_settings(settings)
        return settings


def check_settings(settings: MapSettings) -> None:
    """Refuse settings that cannot be."""
    for low, high in settings.ranges:
        if not (is_number(low) and is_number(high) and low < high and math.isfinite(high - low)):
            raise InvalidInput(f"`ranges` must hold the least and the largest value of a feature; got {low}, {high}.")
    _check_whole("The number of features in `ranges`", len(settings.ranges), 1, MOST_FEATURES)
    if not (is_number(settings.residual_bound) and 1e-50 <= settings.residual_bound <= 1e50):
        raise InvalidInput(
            f"`residual_bound` must be positive, from 1e-50 to 1e50; got {show(settings.residual_bound)}."
        )
    if not (is_number(settings.epsilon) and EPSILONS[0] <= settings.epsilon <= EPSILONS[1]):
        raise InvalidInput(
            f"`epsilon` must be between {EPSILONS[0]:g} and {EPSILONS[1]:g}; got {show(settings.epsilon)}."
        )
    _check_whole("`rows`", settings.rows, 1, 10**12)
    if not (is_number(settings.delta) and 0.0 < settings.delta * settings.rows < 1.0):
        raise InvalidInput(
            f"`delta` must be positive and less than 1 over the number of rows, or whole rows might be told; "
            f"got {show(settings.delta)} for {settings.rows} rows."
        )
    _check_whole("`seed`", settings.seed, 0, LARGEST_SEED)
    _check_whole("`trees`", settings.n_trees, 1, MOST_TREES)
    _check_whole("`depth`", settings.n_levels, 1, MOST_DEPTH)


def least_rows(settings: MapSettings) -> int:
    """From how many rows, or units, on a member may publish a table: with fewer, noise leaves little to be learned.

    Examples
    --------
    >>> least_rows(MapSettings(((0.0, 1.0),), 2.0, rows=5000, epsilon=8.0))
    1000
    >>> least_rows(MapSettings(((0.0, 1.0),), 2.0, rows=5000, epsilon=0.5))
    6000
    """
    return max(LEAST_ROWS, math.ceil(LEAST_ROWS_TIMES_EPSILON / settings.epsilon))


def check_rows(settings: MapSettings, found: float | None = None) -> None:
    """Refuse too few rows: those declared, or those that a noisy table says it has `found`. Neither looks at rows."""
    least, rows = least_rows(settings), settings.rows if found is None else found
    if rows < least:
        how = "are declared" if found is None else "are in the table by its own noisy count"
        raise (InvalidInput if found is None else TooFewRows)(
            f"A map at epsilon {settings.epsilon:g} must be of at least {least:,} rows or units; {rows:,.0f} {how}."
        )


def is_number(value: Any) -> bool:
    """Whether this is a finite number that a float can hold. Whole numbers of JSON may have thousands of digits."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def show(value: Any) -> str:
    """What came, on one short line: it may be a peer's."""
    try:
        said = repr(value)
    except ValueError:  # a whole number with too many digits
        return "a number with too many digits"
    return said if len(said) <= LONGEST_SHOWN else f"{said[:LONGEST_SHOWN]}…"


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(is_number(each) for each in value)


def _check_whole(what: str, value: Any, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidInput(f"{what} must be a whole number from {least} to {most}; got {show(value)}.")
