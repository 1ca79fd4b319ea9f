"""``degroot demo``."""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the picture goes.")] = Path("."),
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of all random choices.", min=0)] = 0,
) -> None:
    """Let five organisations answer together, each with a node of its own on this machine; then one of them dies."""
    from degroot.cli import demonstration

    demonstration.run(out, seed)
