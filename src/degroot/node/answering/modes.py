"""The ways of answering, and what can be asked for by which."""

from degroot.exceptions import InvalidInput
from degroot.intervals import rows_needed

SOLVE, ROUNDS = "solve", "rounds"


def check_way(way: str) -> None:
    """Refuse a way that is none."""
    if way not in (SOLVE, ROUNDS):
        raise InvalidInput(f"`way` must be {SOLVE!r} or {ROUNDS!r}; got {way[:100]!r}.")


def check_coverage(coverage: float | None, way: str) -> None:
    """Refuse a coverage that is none, or is asked for by rounds."""
    if coverage is None:
        return
    rows_needed(coverage)
    if way != SOLVE:
        raise InvalidInput(f"Intervals must be asked for by solving, way={SOLVE!r}; got {way!r}.")
