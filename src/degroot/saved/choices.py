"""The choice of a rule, made once and written down."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from degroot.choice import Choice
from degroot.evidence import Reach
from degroot.rules import Option
from degroot.tomlfile import Table

KNOWN = ("chosen", "rows", "options")
OPTION = ("rule", "neighbours", "kernel", "least", "most", "ridge", "error")


def choice_entries(choice: Choice) -> dict[str, Any]:
    """The choice as a table of a TOML file."""
    told = zip(choice.options, choice.errors.tolist(), strict=True)
    options = [{"rule": each.rule, **asdict(each.reach), "ridge": each.ridge, "error": error} for each, error in told]
    return {"chosen": choice.options.index(choice.option), "rows": choice.rows, "options": options}


def choice_of(table: Table) -> Choice:
    """The choice that such a table tells."""
    told = list(_options(table))
    options = tuple(option for option, _ in told)
    chosen = table.whole("chosen", 0, len(options) - 1)
    return Choice(options[chosen], options, np.array([error for _, error in told]), table.whole("rows"))


def _options(table: Table) -> Iterator[tuple[Option, float]]:
    for each in table.tables("options", OPTION):
        reach = Reach(
            each.take("neighbours", lambda value: isinstance(value, int | float), "be a number"), each.text("kernel"),
            each.whole("least"), each.given("most", each.whole, None),
        )  # fmt: skip
        ridge = each.number("ridge", zero=True) if "ridge" in each.entries else None
        error = each.take("error", lambda value: isinstance(value, float), "be a number")
        yield Option(each.text("rule"), reach, ridge), error
