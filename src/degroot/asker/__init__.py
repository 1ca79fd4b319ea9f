"""The asker's view, on arrays: candidates from the asker's own rows, their mixture, and a guard.
Imports rules, neighbourhoods, stacking, trust and compute only."""

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
