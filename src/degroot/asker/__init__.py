"""The asker's view, on arrays: candidates from the asker's own rows, their mixture, and a guard.
Imports rules, neighbourhoods, stacking, trust and compute only."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from degroot.asker.candidates import FEW_ROWS, Candidate, OwnRows, list_candidates
    from degroot.asker.mixture import assign_folds, clustered_standard_error, mix_candidates

__all__ = [
    "FEW_ROWS",
    "Candidate",
    "OwnRows",
    "assign_folds",
    "clustered_standard_error",
    "list_candidates",
    "mix_candidates",
]

HOMES = {
    "candidates": ("FEW_ROWS", "Candidate", "OwnRows", "list_candidates"),
    "mixture": ("assign_folds", "clustered_standard_error", "mix_candidates"),
}  # where each name comes from


def __getattr__(name: str) -> Any:
    """A name, imported on first use: the names of candidates take no compiled code."""
    for home, names in HOMES.items():
        if name in names:
            return getattr(import_module(f"degroot.asker.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
