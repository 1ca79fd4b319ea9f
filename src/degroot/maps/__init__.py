"""Evidence maps: tables of noisy second moments of residuals, differentially private, from which others answer alone.
Imports compute, exceptions, files, rules."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

HOMES = {
    "budget": ("BudgetSpent", "LifetimeBudget", "name_version"),
    "evidence": ("CollectedMaps", "evidence_at", "split_by_agent"),
    "settings": ("MapSettings", "TooFewRows", "least_rows"),
    "table": ("EvidenceMap", "PreparedMap", "make_map", "prepare_map"),
}  # where each name comes from


def __getattr__(name: str) -> Any:
    """A name, imported on first use: reading settings takes neither rules nor trees."""
    for home, names in HOMES.items():
        if name in names:
            return getattr(import_module(f"degroot.maps.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
