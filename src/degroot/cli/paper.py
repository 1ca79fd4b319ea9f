"""``degroot paper``."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from degroot.cli.errors import STOPPED, complain
from degroot.exceptions import InvalidInput


def paper(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Figures and tables, such as table1 or figure3; all if none."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the figures and tables.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A few repetitions only.")] = False,
    reps: Annotated[int | None, typer.Option(metavar="N", help="How many repetitions; 50 by default.", min=1)] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of all random choices.", min=0)] = 0,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", help="How many processes; default: all cores.", min=1)
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the report goes.")] = Path("degroot-paper"),
    data: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="With data sets: LIBSVM's files, plain or bz2, or npz.")
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
        from degroot.paper.reproduce import QUICK, RunPlan, reproduce
    except ImportError as error:
        raise InvalidInput(f"The paper needs extra packages: pip install 'degroot[paper]' ({error}).") from error

    if list_:
        _list(catalogue.find(names or ()))
        return
    if quick and reps is not None:
        raise InvalidInput("Either --quick or --reps must be given; got both.")
    plan = RunPlan(
        names=tuple(names or ()), out=out, reps=QUICK if quick else reps, seed=seed,
        jobs=-1 if jobs is None else jobs, data=data, download=not offline,
    )  # fmt: skip
    try:
        report = reproduce(plan)
    except KeyboardInterrupt:
        raise typer.Exit(complain("interrupted; run the same command again to resume", STOPPED)) from None
    from rich.console import Console

    Console().print("The report:", str(report.resolve()), soft_wrap=True)


def _list(experiments: Mapping[str, ModuleType]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "what it shows")
    for name, module in experiments.items():
        table.add_row(name, module.TITLE)
    Console().print(table)
