"""``degroot train``."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from degroot.exceptions import InvalidInput

if TYPE_CHECKING:
    from degroot.training import Comparison, Trained

SHOWN = 20  # organisations in the table
CLEAR = 2.0  # standard errors, beyond which a difference is not put down to chance


def train(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="A file for each organisation: .csv, .parquet, .arrow or .npz."),
    ],
    target: Annotated[str, typer.Option(metavar="COLUMN", help="What to predict: numbers, or classes.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="A new folder for the collective.")] = Path("collective"),
    group: Annotated[str | None, typer.Option(metavar="COLUMN", help="Deals one file to organisations.")] = None,
    unit: Annotated[str | None, typer.Option(metavar="COLUMN", help="Whose row it is: kept together.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(metavar="NAME,NAME", help="Columns that are no features.")] = None,
    classes: Annotated[bool, typer.Option("--classes", help="Take a target of numbers as classes.")] = False,
    model: Annotated[str, typer.Option(metavar="NAME", help="linear, forest, boosting, or the best of them.")] = "best",
    rule: Annotated[str, typer.Option(metavar="NAME", help="degroot, stacking, average or auto.")] = "stacking",
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of all random choices.", min=0)] = 0,
) -> None:
    """Train a model for each organisation's file, and see what they are worth together.

    Features are numbers and may have gaps. A fifth of the rows is held out for the comparison; then all models are
    trained on all rows. Nothing is overwritten.
    """
    try:
        from degroot import training
    except ImportError as error:
        raise InvalidInput(f"Training needs extra packages: pip install 'degroot[batch]' ({error}).") from error

    done = training.train(
        files,
        target,
        out,
        group=group,
        unit=unit,
        ignore=ignore or (),
        classes=classes,
        model=model,
        rule=rule,
        seed=seed,
    )
    for note in done.gathered.notes:
        typer.echo(f"Note: {note}.")
    Console().print(_table(done))
    typer.echo(f"{_verdict(done.comparison)}\n")
    place = shlex.quote(str(out))
    typer.echo(f"{out} has the collective, trained on all rows. Ask it about rows without {target!r}:")
    typer.echo(f"  degroot predict --collective {place} --input new.csv --output answers.csv")
    typer.echo("Where rows may not come together, every organisation runs a node: degroot node --help")


def _table(done: "Trained") -> Table:
    """Every model and the collective, on rows that were held out: of its own organisation, and of all."""
    found, told = done.comparison, _told(done)
    measure = "Wrong answers" if done.gathered.classes is not None else "Root mean squared error"
    columns = ("organisation", "rows", "its model", "own rows,\nits model", "own rows,\ncollective", "all rows")
    table = Table(*columns, title=f"{measure} on {_held_out(found)} held out")
    for column in (table.columns[1], *table.columns[3:]):
        column.justify = "right"
    for k, each in enumerate(done.gathered.organisations[:SHOWN]):
        errors = (told(error) for error in (found.own[k], found.pooled[k], found.alone[k]))
        table.add_row(escape(each.name), f"{len(each.y):,}", done.kinds[k], *errors)
    left = len(done.gathered.organisations) - SHOWN
    if left > 0:
        table.add_row(f"and {left} more", *[""] * 5)
    table.add_section()
    table.add_row("plain average of all", *[""] * 4, told(found.average))
    table.add_row("the collective", *[""] * 4, told(found.collective))
    return table


def _held_out(found: "Comparison") -> str:
    return f"{found.rows} rows" if found.units is None else f"{found.rows} rows of {found.units} units"


def _verdict(found: "Comparison") -> str:
    if abs(found.gain) < CLEAR:
        return "The collective and the plain average differ by no more than chance explains."
    return f"The collective is {'better' if found.gain > 0 else 'worse'} than the plain average, beyond chance."


def _told(done: "Trained") -> Callable[[float], str]:
    return (lambda share: f"{share:.1%}") if done.gathered.classes is not None else (lambda error: f"{error:#.4g}")
