"""The lifetime budget: what every published version of a map has cost, and the tables themselves, in a folder.

Spending is written down, and is on the disk, before noise is drawn, and after all that can be refused without noise.
The same version is drawn once: a second draw of noise would let both be averaged, so the stored table is given out
again. No message has a version in it, which is a digest of private rows, or a local path.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from degroot.exceptions import DeGrootError, InvalidInput
from degroot.files.atomic import make_folder, publish, sync
from degroot.files.lock import try_lock
from degroot.maps.settings import MapSettings, TooFewRows, check_settings, least_rows
from degroot.maps.table import EvidenceMap, PreparedMap

SPENT, STORED, REFUSED = "spent", "stored", "refused"  # what a line says
KEYS = {
    SPENT: {"what", "version", "epsilon", "delta"},
    STORED: {"what", "version", "sha256"},
    REFUSED: {"what", "version"},
}
MOST_FILE_BYTES = 1 << 26
TABLE_DIGITS = 32  # of a table's name


class BudgetSpent(DeGrootError):
    """A new version of a map would cost more than is left for life."""


@dataclass(frozen=True)
class LifetimeBudget:
    """What a member's tables may cost together, for life. Epsilons add up, and so do deltas (basic composition)."""

    folder: Path  # with one line for each spending, and the tables; whoever deletes it forgets what was spent
    epsilon: float
    delta: float

    def spent(self) -> tuple[float, float]:
        """Epsilon and delta of all versions so far."""
        epsilon, delta = self._add_up(self._read())
        return float(epsilon), float(delta)

    def publish(self, version: str, settings: MapSettings, prepare: Callable[[], PreparedMap]) -> EvidenceMap:
        """The map of a version: the stored one, or a new one, which is paid for before its noise is drawn.

        What `prepare` refuses costs nothing, and neither does a disk without room for the table. A table that was paid
        for and not stored, as after a power cut, has never left; it is paid for again.

        Raises
        ------
        BudgetSpent
            Where the version would cost more than is left.
        TooFewRows
            Where the noisy table of the version counts too few rows, now or when it was drawn. It costs once.
        InvalidInput
            Where the record of what was spent is damaged, or a stored table is missing or changed.
        """
        if not (math.isfinite(self.epsilon) and math.isfinite(self.delta)):
            raise InvalidInput(f"A lifetime budget must be finite; got {self.epsilon} and {self.delta}.")
        check_settings(settings)
        make_folder(self.folder)
        with self._locked():
            entries = self._read()
            for entry in entries:
                if entry["what"] == STORED and entry["version"] == version:
                    return self._load(version, entry["sha256"])
                if entry["what"] == REFUSED and entry["version"] == version:
                    raise TooFewRows(
                        f"A map at epsilon {settings.epsilon:g} must be of at least {least_rows(settings):,} rows or "
                        f"units; the noisy table of this version, which is paid for, counted fewer."
                    )
            self._check_left(settings, entries)
            prepared = prepare()
            if prepared.settings != settings:
                raise InvalidInput("A map must be of the settings that are paid for; it is of others.")
            self._reserve(version, prepared.n_bytes)
            self._append({
                "what": SPENT, "version": version, "epsilon": settings.epsilon, "delta": settings.delta
            })  # fmt: skip
            try:
                made = prepared.draw()
            except TooFewRows:
                self._append({"what": REFUSED, "version": version})
                raise
            self._store(version, made)
            return made

    def _check_left(self, settings: MapSettings, entries: list[dict[str, Any]]) -> None:
        spent = self._add_up(entries)
        asked = _to_decimal(settings.epsilon), _to_decimal(settings.delta)
        limits = _to_decimal(self.epsilon), _to_decimal(self.delta)
        if any(used + more > limit for used, more, limit in zip(spent, asked, limits, strict=True)):
            left = [float(limit - used) for limit, used in zip(limits, spent, strict=True)]
            raise BudgetSpent(
                f"All versions of a map together must cost at most epsilon {self.epsilon:g} and delta {self.delta:g}; "
                f"spent are {float(spent[0]):g} and {float(spent[1]):g}, left are {left[0]:g} and {left[1]:g}, and "
                f"this version asks for {settings.epsilon:g} and {settings.delta:g}."
            )

    def _reserve(self, version: str, n_bytes: int) -> None:
        """Take the room for a table before it is paid for: on a full disk every attempt would cost."""
        self._unfinished(version).write_bytes(bytes(n_bytes))
        sync(self._unfinished(version))

    def _store(self, version: str, made: EvidenceMap) -> None:
        content = made.to_bytes()
        with open(self._unfinished(version), "r+b") as file:  # in the room that is reserved
            file.write(content)
            file.truncate()
        publish(self._unfinished(version), self._table(version))
        self._append({"what": STORED, "version": version, "sha256": sha256(content).hexdigest()})

    def _load(self, version: str, digest: str) -> EvidenceMap:
        try:
            content = self._table(version).read_bytes()
        except OSError as error:
            raise InvalidInput(f"The stored map of this version must be readable; {error.strerror}.") from error
        if sha256(content).hexdigest() != digest:
            raise InvalidInput("The stored map of this version must be as it was published; it has changed.")
        return EvidenceMap.from_bytes(content)

    def _add_up(self, entries: Iterable[dict[str, Any]]) -> tuple[Decimal, Decimal]:
        costs = [entry for entry in entries if entry["what"] == SPENT]
        epsilon, delta = (sum((_to_decimal(each[key]) for each in costs), Decimal(0)) for key in ("epsilon", "delta"))
        return epsilon, delta

    def _read(self) -> list[dict[str, Any]]:
        """All lines, each checked against the one before it; a missing file is an unspent budget."""
        try:
            size = self._record.stat().st_size
            content = self._record.read_bytes() if size <= MOST_FILE_BYTES else b"too large"
        except FileNotFoundError:
            self._check_tables([])
            return []
        except OSError as error:
            raise InvalidInput(f"The record of what was spent must be readable; {error.strerror}.") from error
        lines = content.split(b"\n")
        if lines.pop() != b"":
            raise self._damaged(len(lines) + 1)
        entries, before = [], b""
        for number, line in enumerate(lines, 1):
            entries.append(self._parse(line, before, number))
            before = line
        self._check_tables(entries)
        return entries

    def _check_tables(self, entries: Iterable[dict[str, Any]]) -> None:
        """Refuse a record that does not know of tables that are there: lines of it were deleted."""
        known = {self._table(entry["version"]).name for entry in entries}
        strays = [path for path in self.folder.glob("?" * TABLE_DIGITS + ".map") if path.name not in known]
        if strays:
            raise InvalidInput(
                f"The record of what was spent must name every table that was published; {len(strays)} are there that "
                "it does not name: what they cost is not known, and no more is published."
            )

    def _parse(self, line: bytes, before: bytes, number: int) -> dict[str, Any]:
        try:
            entry = json.loads(line)
            right = entry.pop("before") == sha256(before).hexdigest() and set(entry) == KEYS[entry["what"]]
            right = right and isinstance(entry["version"], str) and isinstance(entry.get("sha256", ""), str)
            right = right and all(
                isinstance(entry.get(key, 1.0), int | float) and 0.0 < entry.get(key, 1.0) < np.inf
                for key in ("epsilon", "delta")
            )
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            right = False
        if not right:
            raise self._damaged(number)
        checked: dict[str, Any] = entry
        return checked

    def _append(self, entry: dict[str, Any]) -> None:
        """One line more, on the disk when this returns: all of it or, where the disk is full, none."""
        existing = self._record.read_bytes() if self._record.exists() else b""
        before = existing.split(b"\n")[-2] if existing else b""
        line = json.dumps({"before": sha256(before).hexdigest()} | entry, allow_nan=False).encode() + b"\n"
        unfinished = self._record.with_suffix(".unfinished")
        try:
            unfinished.write_bytes(existing + line)
            publish(unfinished, self._record)
        except OSError as error:
            raise InvalidInput(f"What a map costs must be written down first; {error.strerror}.") from error

    def _damaged(self, number: int) -> InvalidInput:
        return InvalidInput(
            f"The record of what was spent must be whole, or no map is published; line {number} of "
            f"{self._record.name} is damaged."
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self.folder / "lock", "ab") as file:
            if not try_lock(file):
                raise InvalidInput("One process at a time may publish maps; another does.")
            yield
        sync(self.folder)

    @property
    def _record(self) -> Path:
        return self.folder / "spent.jsonl"

    def _unfinished(self, version: str) -> Path:
        return self._table(version).with_suffix(".unfinished")

    def _table(self, version: str) -> Path:
        return self.folder / f"{sha256(version.encode()).hexdigest()[:TABLE_DIGITS]}.map"


def _to_decimal(number: float) -> Decimal:
    """As it is written, so that ten tenths are 1."""
    return Decimal(repr(float(number)))


def name_version(
    X: ArrayLike,
    y: ArrayLike,
    settings: MapSettings,
    *,
    owner: str,
    models: Iterable[tuple[str, str]],
    units: ArrayLike | None = None,
) -> str:
    """The version of a map, by all that decides its table but the noise: rows, labels, units, models and settings.

    It is a digest of private rows and must stay at home: whoever has it can tell whether a guess of the rows is right.
    """
    told = {"owner": owner, "models": [list(each) for each in models], "settings": settings.to_dict()}
    digest = sha256(json.dumps(told, sort_keys=True).encode())
    for array in (X, y, units):
        column = np.asarray("none" if array is None else array)
        column = column.astype(str) if column.dtype.kind == "O" else np.ascontiguousarray(column)
        digest.update(f"{column.dtype.str} {column.shape} ".encode())
        digest.update(column.tobytes())
    return digest.hexdigest()
