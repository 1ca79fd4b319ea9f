"""The command line: one short function for each command."""

import math
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import degroot
from degroot.exceptions import DeGrootError, InvalidInput

app = typer.Typer(
    help="Collective prediction without sharing data, models or labels.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def about(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """Collective prediction without sharing data, models or labels."""
    if version:
        typer.echo(degroot.__version__)
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture; made if it is not there.")] = Path("."),
    seed: Annotated[int, typer.Option(help="Seed of all random choices.", min=0)] = 0,
) -> None:
    """Let five agents answer together: a table, and a picture of weights and error bars."""
    from degroot import demo

    console, picture = Console(), _folder(out) / "degroot-demo.png"
    table = Table(title=f"Mean squared error on test points: mean ± sd over {demo.REPETITIONS} repetitions")
    table.add_column("problem")
    for column in ("collective", "average of models", "best single model"):
        table.add_column(column, justify="right")
    with console.status("Five agents on the paper's synthetic problem, five on the diabetes data ..."):
        for compare in (demo.synthetic, demo.diabetes):
            result = compare(seed)
            errors = (result.collective, result.average, result.best_single)
            table.add_row(result.problem, *(_plus_minus(error.mean(), error.std()) for error in errors))
    console.print(table)
    console.print("The best single model is the one that turns out best on the test points: nobody could know it.")
    demo.draw(picture, seed)
    console.print("Weights and error bars along the curve:", str(picture.resolve()), soft_wrap=True)


def _plus_minus(mean: float, spread: float) -> str:
    digits = max(0, 1 - math.floor(math.log10(spread))) if spread > 0 else 3
    return f"{mean:.{digits}f} ± {spread:.{digits}f}"


def _folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"--out must be a folder that can be made; {path}: {error.strerror}.") from error
    return path


def main() -> None:
    """Run the command line; a user's mistake is one line on standard error and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except DeGrootError as error:
        code = _complain(str(error))
    except (typer.Abort, KeyboardInterrupt):
        code = _complain("stopped", code=130)
    except Exception as error:
        if not hasattr(error, "format_message"):  # what the command-line library says of wrong options
            raise
        code = _complain(error.format_message())
    sys.exit(code)


def _complain(message: str, code: int = 2) -> int:
    sys.stderr.write(f"degroot: {' '.join(message.split())}\n")
    return code
