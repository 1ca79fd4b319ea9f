"""``degroot demo``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from degroot.folders import make_folder


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture; made if it is not there.")] = Path("."),
    seed: Annotated[int, typer.Option(help="Seed of all random choices.", min=0)] = 0,
) -> None:
    """Let five agents answer together: a table, and a picture of weights, stability and intervals."""
    from degroot import demo
    from degroot.paper.spread import plus_minus

    console, picture = Console(), make_folder(out) / "degroot-demo.png"
    table = Table(title=f"Mean squared error on test points: mean ± sd over {demo.REPETITIONS} repetitions")
    table.add_column("problem")
    for column in ("DeGroot", "stacking", "average of models", "best single model"):
        table.add_column(column, justify="right")
    with console.status("Five agents on the paper's synthetic problem, five on the diabetes data ..."):
        for compare in (demo.synthetic, demo.diabetes):
            result = compare(seed)
            errors = (result.degroot, result.stacking, result.average, result.best_single)
            table.add_row(result.problem, *map(plus_minus, errors))
    console.print(table)
    console.print("The best single model is the one that turns out best on the test points: nobody could know it.")
    demo.draw(picture, seed)
    console.print("Weights, stability and intervals along the curve:", str(picture.resolve()), soft_wrap=True)
