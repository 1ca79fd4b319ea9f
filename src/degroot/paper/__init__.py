"""The paper, reproduced: one module for each figure and table.
Imports public names, files and compute only.

Every module has ``Settings``, a frozen dataclass with the paper's values as defaults; ``compute(settings)``, which
gives a tidy table; ``draw(table, settings)``, which gives a figure; and ``findings(table, settings)``, which puts our
values beside the printed ones. ``degroot paper`` runs them all."""
