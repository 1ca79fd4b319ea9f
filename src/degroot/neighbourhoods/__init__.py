"""Exact means and second moments over the N nearest private rows. Imports compute only."""

from typing import TYPE_CHECKING, Any

from degroot.neighbourhoods.codes import KERNELS, METRICS

if TYPE_CHECKING:
    from degroot.neighbourhoods.neighbourhoods import Neighbourhoods

__all__ = ["KERNELS", "METRICS", "Neighbourhoods"]


def __getattr__(name: str) -> Any:
    """What computes, imported on first use: its compiled code takes longer than all the rest."""
    if name == "Neighbourhoods":
        from degroot.neighbourhoods.neighbourhoods import Neighbourhoods

        return Neighbourhoods
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
