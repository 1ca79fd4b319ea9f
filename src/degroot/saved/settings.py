"""The settings of a collective, at the top of its file."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from degroot.answers.choice import Choice
from degroot.consultation.settings import AUTO, EVIDENCE
from degroot.files.toml import Table
from degroot.neighbourhoods.codes import KERNELS, METRICS
from degroot.rules.evidence import NeighbourhoodSpec
from degroot.rules.rules import RULES, RuleSettings

SETTINGS = ("rule", "neighbours", "metric", "kernel", "ridge", "guard", "degree", "evidence", "correct")
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
        "evidence": lambda key: top.choice(key, EVIDENCE),
        "correct": top.flag,
    }
    return {key: take[key](key) for key in SETTINGS if key in top.entries}


def _is_reach(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return value >= 1 if isinstance(value, int) else 0.0 < value <= 1.0


KNOWN = ("chosen", "rows", "options")
OPTION = ("rule", "neighbours", "kernel", "least", "most", "ridge")


def choice_entries(choice: Choice) -> dict[str, Any]:
    """The choice as a table of a TOML file."""
    told = zip(choice.options, choice.errors.tolist(), strict=True)
    options = [option_entries(each) | {"error": error} for each, error in told]
    return {"chosen": choice.options.index(choice.option), "rows": choice.rows, "options": options}


def choice_of(table: Table) -> Choice:
    """The choice that such a table tells."""
    told = list(_options(table))
    options = tuple(option for option, _ in told)
    chosen = table.whole("chosen", 0, len(options) - 1)
    return Choice(options[chosen], options, np.array([error for _, error in told]), table.whole("rows"))


def _options(table: Table) -> Iterator[tuple[RuleSettings, float]]:
    for each in table.tables("options", (*OPTION, "error")):
        yield option_of(each), each.take("error", lambda value: isinstance(value, float), "be a number")


def option_entries(option: RuleSettings) -> dict[str, Any]:
    """A rule with its settings as entries of a TOML file."""
    return {"rule": option.rule, **option.reach._asdict(), "ridge": option.ridge}


def option_of(table: Table) -> RuleSettings:
    """The rule that such entries tell."""
    reach = NeighbourhoodSpec(
        table.take("neighbours", lambda value: isinstance(value, int | float), "be a number"), table.text("kernel"),
        table.whole("least"), table.given("most", table.whole, None),
    )  # fmt: skip
    ridge = table.number("ridge", zero=True) if "ridge" in table.entries else None
    return RuleSettings(table.text("rule"), reach, ridge)
