"""The settings of a collective, at the top of its file."""

from collections.abc import Callable
from typing import Any

from degroot.neighbourhoods import KERNELS, METRICS
from degroot.rules import RULES
from degroot.settings import AUTO
from degroot.tomlfile import Table

SETTINGS = ("rule", "neighbours", "metric", "kernel", "ridge", "guard", "degree")
FORMER, EXACT = "search", "exact"


def read_settings(top: Table) -> dict[str, Any]:
    """The arguments of `Collective` that are there; what is not has its default.

    Files of earlier versions also have `search`: ``"exact"`` is all that there is now.
    """
    if top.entries.get(FORMER, EXACT) != EXACT:
        raise top.refusal(FORMER, f"be {EXACT!r} or absent, as the approximate search has been removed")
    take: dict[str, Callable[[str], Any]] = {
        "rule": lambda key: top.choice(key, (*RULES, AUTO)),
        "neighbours": lambda key: top.take(key, _is_reach, "be a number of rows, or a fraction of them in (0, 1]"),
        "metric": lambda key: top.choice(key, METRICS),
        "kernel": lambda key: top.choice(key, KERNELS),
        "ridge": lambda key: top.number(key, zero=True),
        "guard": top.flag,
        "degree": lambda key: top.whole(key, least=1),
    }
    return {key: take[key](key) for key in SETTINGS if key in top.entries}


def _is_reach(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value >= 1 if isinstance(value, int) else 0.0 < value <= 1.0
