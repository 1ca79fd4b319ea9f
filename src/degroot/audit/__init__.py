"""Influence reports: what a collective's answers rest on."""

from degroot.audit.regions import Region
from degroot.audit.report import Audit, audit

__all__ = ["Audit", "Region", "audit"]
