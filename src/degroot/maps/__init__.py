"""Evidence maps: tables of noisy second moments of residuals, differentially private, from which others answer alone.
Imports compute, exceptions, files, rules."""

from degroot.maps.budget import BudgetSpent, LifetimeBudget, name_version
from degroot.maps.evidence import CollectedMaps, evidence_at, split_by_agent
from degroot.maps.settings import MapSettings, least_rows
from degroot.maps.table import EvidenceMap, make_map

__all__ = [
    "BudgetSpent",
    "CollectedMaps",
    "EvidenceMap",
    "LifetimeBudget",
    "MapSettings",
    "evidence_at",
    "least_rows",
    "make_map",
    "name_version",
    "split_by_agent",
]
