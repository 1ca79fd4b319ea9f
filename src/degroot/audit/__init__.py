"""Influence reports: which agents a collective's answers depend on.
Imports the layers below only. The collective is an argument."""

from degroot.audit.regions import Region
from degroot.audit.report import Audit, audit

__all__ = ["Audit", "Region", "audit"]
