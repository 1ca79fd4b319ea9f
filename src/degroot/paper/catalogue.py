"""The catalogue: which experiments there are, in the order of the report."""

from collections.abc import Iterable
from importlib import import_module
from types import ModuleType

from degroot.exceptions import InvalidInput

NAMES = (
    "synthetic", "table1", "readings", "table2",
    *(f"figure{number}" for number in range(1, 12)),
    "theorem1", "theorem2", "degrees",
)  # fmt: skip


EXTRAS = ("readings", "degrees")  # beyond the paper


def module_name(name: str) -> str:
    """The module of an experiment."""
    return f"degroot.paper.{'extras' if name in EXTRAS else 'figures'}.{name}"


def find(names: Iterable[str] = ()) -> dict[str, ModuleType]:
    """The experiments called `names`, in the order of the report; all without any."""
    wanted = list(names) or list(NAMES)
    for name in wanted:
        if name not in NAMES:
            raise InvalidInput(f"There is no figure or table {name!r}; there are {', '.join(NAMES)}.")
    return {name: import_module(module_name(name)) for name in NAMES if name in wanted}
