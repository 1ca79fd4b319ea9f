"""The command line: one short function for each command."""

import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import degroot
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.folders import make_folder

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


@app.command()
def paper(
    names: Annotated[
        list[str] | None, typer.Argument(help="Figures and tables, such as table1 or figure3; all if none.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the figures and tables.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A few repetitions only.")] = False,
    reps: Annotated[int | None, typer.Option(help="How many repetitions; 50 by default.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random choices.", min=0)] = 0,
    jobs: Annotated[int | None, typer.Option(help="How many processes; one for each core by default.", min=1)] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report; made if it is not there.")] = Path("degroot-paper"),
    data: Annotated[
        Path | None, typer.Option(help="Folder with data sets: LIBSVM's files, plain or bz2, or npz.")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Download nothing; leave out what is not at hand.")
    ] = False,
) -> None:
    """Reproduce the paper's figures and tables, with our values beside the printed ones.

    What is finished is kept in the folder: started again, it goes on where it stopped.
    """
    try:
        from degroot.paper import catalogue
        from degroot.paper.reproduce import QUICK, Plan, reproduce
    except ImportError as error:
        raise InvalidInput(f"The paper needs extra packages: pip install 'degroot[paper]' ({error}).") from error

    if list_:
        _list(catalogue.find(names or ()))
        return
    if quick and reps is not None:
        raise InvalidInput("Either --quick or --reps must be given; got both.")
    plan = Plan(
        names=tuple(names or ()), out=out, reps=QUICK if quick else reps, seed=seed,
        jobs=-1 if jobs is None else jobs, data=data, download=not offline,
    )  # fmt: skip
    try:
        report = reproduce(plan)
    except KeyboardInterrupt:
        raise typer.Exit(_complain("stopped; what is finished is kept: the same command goes on", 130)) from None
    Console().print("The report:", str(report.resolve()), soft_wrap=True)


def _list(experiments: Mapping[str, ModuleType]) -> None:
    table = Table("name", "what it shows")
    for name, module in experiments.items():
        table.add_row(name, module.TITLE)
    Console().print(table)


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
