r"""The table of one publisher: sums of its rows' residual products in every cell, and noise.

A row with residuals :math:`r_1, \dots, r_m` of the m other models, clipped to :math:`\pm 8 b`, is the vector

.. math:: v = u \cdot \Big(\tfrac13,\; \frac{r_j r_l}{b^2 \sqrt P} \text{ for } l \le j\Big), \quad P = m (m + 1) / 2,

with :math:`u \le 1` such that :math:`|v| \le 1`. The n rows of one unit count as 1 / n each. A table holds the sums of
v over the rows in each cell of T trees: one unit moves it by at most :math:`\sqrt T`. The proof is in docs/maps.md.
"""

import json
import math
import re
import secrets
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.maps.noise import add_noise, bound_root, find_noise_scale
from degroot.maps.settings import MapSettings, check_rows, check_settings, is_number, show
from degroot.maps.trees import draw_trees

Table = NDArray[np.int64]
UNIT = 2**30  # what 1 is in a table of whole numbers: sums of these are exact
COUNT_PART = 1.0 / 3.0  # of a row's vector: its count
LARGEST_RESIDUAL = 8.0  # in residual bounds, to which single residuals are clipped
ROUNDING = 1.0 - 1e-9  # the length of a row's vector may be computed wrongly by less than that
ROWS_AT_ONCE = 1 << 15
MOST_ROWS = 1 << 32  # of which a table of 64-bit whole numbers can hold the sums
MAGIC = b"degroot evidence map 1\n"
MAX_MAP_BYTES = 1 << 28
MOST_HEADER = 1 << 22
LONGEST_NAME = 200  # of an owner, a model or a version
SERIAL_BYTES = 16
SERIAL = re.compile(f"[0-9a-f]{{{2 * SERIAL_BYTES}}}")
HEADER_KEYS = {"owner", "models", "serial", "settings", "noise_scale"}


@dataclass(frozen=True, eq=False)
class EvidenceMap:
    """A member's noisy table, with all that it takes to read it."""

    owner: str  # whose rows are in it
    models: tuple[tuple[str, str], ...]  # name and version of the m models it scores, in the order of the table
    serial: str  # drawn at random: a digest of the rows would tell whether a guess of them is right
    settings: MapSettings
    noise_scale: float  # standard deviation of the noise in every entry of the table
    table: Table = field(repr=False)  # (T, cells, 1 + m (m + 1) / 2) counts and packed moments, in units of 2^-30

    def counts(self) -> Array:
        """(T, cells) how many rows are in a cell, with noise; rows on which models err much count for less."""
        return np.asarray(self.table[..., 0] / (UNIT * COUNT_PART), np.float64)

    def sums(self) -> Array:
        """(T, cells, m (m + 1) / 2) sums of residual products over the rows in a cell, packed, with noise."""
        return np.asarray(self.table[..., 1:] * (self.moment_unit / UNIT), np.float64)

    @property
    def moment_unit(self) -> float:
        """What 1 is in the moments: b² √P."""
        return self.settings.residual_bound**2 * math.sqrt(self.table.shape[-1] - 1)

    @property
    def count_noise(self) -> float:
        """Standard deviation of the noise in a cell's count, as the mean over trees."""
        return self.noise_scale / (UNIT * COUNT_PART * math.sqrt(len(self.table)))

    @property
    def sum_noise(self) -> float:
        """Standard deviation of the noise in a cell's sum of residual products, as the mean over trees."""
        return self.noise_scale * self.moment_unit / (UNIT * math.sqrt(len(self.table)))

    @property
    def n_rows(self) -> float:
        """About how many rows, or units, are in the table."""
        return float(self.counts().sum(axis=1).mean())

    def to_bytes(self) -> bytes:
        """A description in JSON, and the table."""
        told = {
            "owner": self.owner, "models": [list(each) for each in self.models], "serial": self.serial,
            "settings": self.settings.to_dict(), "noise_scale": self.noise_scale,
        }  # fmt: skip
        header = json.dumps(told, allow_nan=False).encode()
        return MAGIC + struct.pack("<I", len(header)) + header + self.table.astype("<i8").tobytes()

    @classmethod
    def from_bytes(cls, content: bytes) -> "EvidenceMap":
        """The map that `to_bytes` wrote; anything else is refused."""
        if len(content) > MAX_MAP_BYTES:
            raise InvalidInput(f"An evidence map must have at most {MAX_MAP_BYTES} bytes; it has {len(content)}.")
        start = len(MAGIC) + 4
        if not content.startswith(MAGIC) or len(content) < start:
            raise InvalidInput("An evidence map must begin with its format, version 1; it does not.")
        (size,) = struct.unpack_from("<I", content, len(MAGIC))
        told = _read_header(content[start : start + min(size, MOST_HEADER + 1)], size)
        settings, models = MapSettings.from_dict(told["settings"]), _read_models(told["models"])
        check_names(told["owner"], models)
        if not isinstance(told["serial"], str) or not SERIAL.fullmatch(told["serial"]):
            raise InvalidInput(f"The serial of an evidence map must be {2 * SERIAL_BYTES} hex digits; it is not.")
        scale = told["noise_scale"]
        if not is_number(scale) or scale < 0:
            raise InvalidInput(f"`noise_scale` must be finite and not negative; got {show(scale)}.")
        shape = table_shape(settings, len(models))
        if len(content) - start - size != 8 * math.prod(shape):
            raise InvalidInput(
                f"The table of an evidence map must have {8 * math.prod(shape)} bytes; it has "
                f"{len(content) - start - size}."
            )
        table = np.frombuffer(content, "<i8", offset=start + size).astype(np.int64).reshape(shape)
        table.setflags(write=False)
        return cls(told["owner"], models, told["serial"], settings, float(scale), table)


@dataclass(frozen=True, eq=False)
class PreparedMap:
    """A table that lacks its noise only, of settings, names and rows that are checked. It must never leave."""

    owner: str
    models: tuple[tuple[str, str], ...]
    settings: MapSettings
    noise_scale: float
    exact: Table = field(repr=False)

    @property
    def n_bytes(self) -> int:
        """How many bytes the map will have."""
        serial = "0" * (2 * SERIAL_BYTES)
        empty = EvidenceMap(self.owner, self.models, serial, self.settings, self.noise_scale, self.exact[:0])
        return len(empty.to_bytes()) + self.exact.nbytes

    def draw(self) -> EvidenceMap:
        """The map. Every call draws new noise, and costs epsilon.

        Raises
        ------
        TooFewRows
            Where the noisy table counts fewer rows than `least_rows`.
        """
        noisy = add_noise(self.exact, self.noise_scale)
        noisy.setflags(write=False)
        serial = secrets.token_hex(SERIAL_BYTES)
        made = EvidenceMap(self.owner, self.models, serial, self.settings, self.noise_scale, noisy)
        check_rows(self.settings, made.n_rows)
        return made


def make_map(
    X: ArrayLike,
    residuals: ArrayLike,
    settings: MapSettings,
    *,
    owner: str,
    models: Iterable[tuple[str, str]],
    units: ArrayLike | None = None,
) -> EvidenceMap:
    """A noisy table of rows, (epsilon, delta)-private per row or, with `units`, per unit.

    Every call draws new noise, and costs epsilon: nodes give `prepare_map` to `LifetimeBudget.publish` instead.
    Parameters are those of `prepare_map`.

    Raises
    ------
    InvalidInput
        As `prepare_map` does.
    TooFewRows
        Where the noisy table counts fewer rows than `least_rows`. Nothing that is raised depends on values in rows
        other than through the noisy table.
    """
    return prepare_map(X, residuals, settings, owner=owner, models=models, units=units).draw()


def prepare_map(
    X: ArrayLike,
    residuals: ArrayLike,
    settings: MapSettings,
    *,
    owner: str,
    models: Iterable[tuple[str, str]],
    units: ArrayLike | None = None,
) -> PreparedMap:
    """All of a map but its noise: whatever can be refused without noise is refused here, and costs no epsilon.

    Parameters
    ----------
    X : (n, d)
    residuals : (n, m) or (n, m, Q)
        Prediction minus label of the m models of others, for Q outputs. The own model has no place in it: its
        out-of-fold residuals depend on every row.
    models : m pairs
        Name and version of each model.
    units : (n,)
        Which rows are of one person, farm or patient. All rows of a unit together count as one row.

    Raises
    ------
    InvalidInput
        Where fewer rows are declared than `least_rows`, OpenDP is missing, or names or shapes are wrong. Nothing that
        is raised depends on values in rows.
    """
    models = tuple((str(name), str(said)) for name, said in models)
    check_settings(settings)
    check_names(owner, models)
    check_rows(settings)
    scale = find_noise_scale(find_sensitivity(settings), settings.epsilon, settings.delta)
    return PreparedMap(owner, models, settings, scale, sum_rows(X, residuals, settings, len(models), units))


def find_sensitivity(settings: MapSettings) -> float:
    """The largest Euclidean distance between tables of data sets of which one has a unit more: √T, in their units."""
    return bound_root(settings.n_trees * UNIT**2)


def sum_rows(
    X: ArrayLike, residuals: ArrayLike, settings: MapSettings, m: int, units: ArrayLike | None = None
) -> Table:
    """The exact table (T, cells, 1 + m (m + 1) / 2), without noise: it must never leave."""
    points, errors = np.asarray(X, float), np.asarray(residuals, float)
    errors = errors[..., None] if errors.ndim == 2 else errors
    if points.ndim != 2 or errors.ndim != 3 or errors.shape[:2] != (len(points), m) or not errors.shape[2]:
        raise InvalidInput(
            f"`residuals` must have one row for each of `X`, and one column for each of {m} models; the shapes are "
            f"{np.shape(residuals)} and {points.shape}."
        )
    if len(points) > MOST_ROWS:
        raise InvalidInput(f"A map must be of at most {MOST_ROWS} rows; there are {len(points)}.")
    sizes, trees = _count_unit_rows(units, len(points)), draw_trees(settings)
    table = np.zeros(table_shape(settings, m), np.int64)
    for start in range(0, len(points), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        vectors = weigh_rows(errors[part], settings.residual_bound)
        vectors = np.sign(vectors) * (np.abs(vectors) // sizes[part, None])
        for tree, cells in zip(table, trees.find_cells(points[part]), strict=True):
            order = np.argsort(cells, kind="stable")
            found, first = np.unique(cells[order], return_index=True)
            tree[found] += np.add.reduceat(vectors[order], first, axis=0)
    return table


def weigh_rows(residuals: Array, bound: float) -> Table:
    """The vectors v of rows with residuals (n, m, Q), whole numbers (n, 1 + m (m + 1) / 2), none longer than UNIT.

    A residual that is no number counts as the largest. Rounding is towards 0, which makes no vector longer.
    """
    m = residuals.shape[1]
    low, column = np.tril_indices(m)
    scaled = np.clip(np.nan_to_num(residuals / bound, nan=np.inf), -LARGEST_RESIDUAL, LARGEST_RESIDUAL)
    vectors = np.empty((len(scaled), 1 + len(low)))
    vectors[:, 0] = COUNT_PART
    vectors[:, 1:] = (scaled[:, low] * scaled[:, column]).sum(axis=-1) / math.sqrt(len(low))
    vectors *= (ROUNDING / np.maximum(np.linalg.norm(vectors, axis=1), 1.0))[:, None]
    return np.trunc(vectors * UNIT).astype(np.int64)


def table_shape(settings: MapSettings, m: int) -> tuple[int, int, int]:
    """Of a table that scores m models."""
    return settings.n_trees, settings.n_cells, 1 + m * (m + 1) // 2


def check_names(owner: Any, models: tuple[tuple[str, str], ...]) -> None:
    """Refuse a map without two others' models, with one of them twice, or with the owner's own."""
    if not isinstance(owner, str) or not owner:
        raise InvalidInput("An evidence map must have an owner; it has none.")
    for text in (owner, *(text for model in models for text in model)):
        if len(text) > LONGEST_NAME or not text.isprintable():
            raise InvalidInput(
                f"Names and versions in an evidence map must have at most {LONGEST_NAME} printable characters; got "
                f"{show(text)}."
            )
    names = [name for name, _ in models]
    if len(models) < 2 or len(set(names)) < len(names):
        raise InvalidInput(
            f"An evidence map must score two models of others or more, each once; got {len(names)}, of them "
            f"{len(set(names))} different."
        )
    if owner in names:
        raise InvalidInput(f"An evidence map must leave out its owner's own model; it scores that of {owner!r}.")


def _count_unit_rows(units: ArrayLike | None, n: int) -> NDArray[np.int64]:
    """How many rows the unit of each row has, (n,)."""
    if units is None:
        return np.ones(n, np.int64)
    labels = np.asarray(units)
    if labels.shape != (n,):
        raise InvalidInput(f"`units` must hold one label for each of {n} rows; its shape is {labels.shape}.")
    try:
        _, place, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    except TypeError as error:
        raise InvalidInput("`units` must hold labels that can be sorted; they cannot.") from error
    counted: NDArray[np.int64] = sizes[place.reshape(-1)].astype(np.int64)
    return counted


def _read_header(raw: bytes, size: int) -> dict[str, Any]:
    if len(raw) != size or size > MOST_HEADER:
        raise InvalidInput(f"The description of an evidence map must be whole; {len(raw)} of {size} bytes are there.")
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"The description of an evidence map must be JSON; {error}.") from error
    if not isinstance(told, dict) or set(told) != HEADER_KEYS:
        raise InvalidInput(
            f"The description of an evidence map must have {', '.join(sorted(HEADER_KEYS))}; it has not."
        )
    return told


def _read_models(told: Any) -> tuple[tuple[str, str], ...]:
    def is_model(each: Any) -> bool:
        return isinstance(each, list) and len(each) == 2 and all(isinstance(text, str) for text in each)

    if not isinstance(told, list) or not all(is_model(each) for each in told):
        raise InvalidInput("The models of an evidence map must be pairs of name and version; they are not.")
    return tuple((name, version) for name, version in told)
