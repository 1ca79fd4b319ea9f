"""Evidence maps: tables of noisy second moments of residuals, differentially private, from which others answer alone.
Imports compute, exceptions, files, rules."""

from degroot.maps.budget import BudgetSpent, LifetimeBudget, name_version
from degroot.maps.evidence import CollectedMaps, evidence_at, split_by_agent
from degroot.maps.settings import MapSettings, TooFewRows, least_rows
from degroot.maps.table import EvidenceMap, PreparedMap, make_map, prepare_map

__all__ = [
    "BudgetSpent",
    "CollectedMaps",
    "EvidenceMap",
    "LifetimeBudget",
    "MapSettings",
    "PreparedMap",
    "TooFewRows",
    "evidence_at",
    "least_rows",
    "make_map",
    "name_version",
    "prepare_map",
    "split_by_agent",
]
