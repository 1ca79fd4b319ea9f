"""Docstrings of properties as they are written: napoleon would take what stands before a colon for a type."""

from typing import Any

from sphinx.application import Sphinx

HELD = "held back"
_held: dict[str, str] = {}


def _hold(_: Sphinx, what: str, name: str, __: Any, ___: Any, lines: list[str]) -> None:
    if what in ("attribute", "property") and lines:
        _held[name], lines[0] = lines[0], HELD


def _give_back(_: Sphinx, __: str, name: str, ___: Any, ____: Any, lines: list[str]) -> None:
    if name in _held and HELD in lines:
        lines[lines.index(HELD)] = _held.pop(name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _hold, priority=400)  # napoleon comes at 500
    app.connect("autodoc-process-docstring", _give_back, priority=600)
    return {"parallel_read_safe": True}
