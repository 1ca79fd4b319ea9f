"""Evidence maps: tables of noisy second moments of residuals, differentially private, from which others answer alone.
Imports compute, exceptions, files, rules."""

from degroot.maps.budget import LifetimeBudget, name_version
from degroot.maps.evidence import CollectedMaps, evidence_at
from degroot.maps.settings import MapSettings, least_rows
from degroot.maps.table import EvidenceMap, make_map

__all__ = [
    "CollectedMaps",
    "EvidenceMap",
    "LifetimeBudget",
    "MapSettings",
    "evidence_at",
    "least_rows",
    "make_map",
    "name_version",
]
