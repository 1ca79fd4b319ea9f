"""Docstrings of properties as they are written: napoleon would take what stands before a colon for a type."""

from typing import Any

from sphinx.application import Sphinx


def _keep(_: Sphinx, what: str, __: str, ___: Any, ____: Any, lines: list[str]) -> None:
    if what in ("attribute", "property") and lines:
        lines.insert(0, "")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _keep, priority=400)  # before napoleon
    return {"parallel_read_safe": True}
