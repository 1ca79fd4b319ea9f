"""``degroot schema``: what the columns of tables are, as members agree on it."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from degroot.cli.errors import examples
from degroot.exceptions import InvalidInput

schema = typer.Typer(
    name="schema",
    invoke_without_command=True,
    epilog=examples(
        "degroot schema init north.csv south.csv --target price", "degroot schema check schema.toml north.csv"
    ),
    rich_markup_mode=None,
)
NEEDED = "Schemas of files need extra packages: pip install 'degroot[batch]'"
SHOWN = 10  # problems of a file


@schema.callback()
def about(context: typer.Context) -> None:
    """Write down what the columns of tables are, for members to agree on, and try it on data files."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@schema.command(
    epilog=examples(
        "degroot schema init north.csv south.csv --target price",
        "degroot schema init stations.csv --group station --target pm25 --unit day",
    )
)
def init(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Data files: .csv, .parquet, .arrow or .npz.")],
    target: Annotated[str, typer.Option(metavar="COLUMN", help="What to predict.")],
    group: Annotated[str | None, typer.Option(metavar="COLUMN", help="Deals a file to organisations.")] = None,
    unit: Annotated[str | None, typer.Option(metavar="COLUMN", help="Whose row it is.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(metavar="NAME,NAME", help="Columns that are no features.")] = None,
    classes: Annotated[bool, typer.Option("--classes", help="Take a target of numbers as classes.")] = False,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The new file.")] = Path("schema.toml"),
    list_rare: Annotated[
        bool, typer.Option("--list-rare", help="List categories with fewer than 10 rows without asking.")
    ] = False,
) -> None:
    """Write a schema from data files, for members to edit and agree on.

    Ranges are rounded, and categories with fewer than 10 rows are listed only if you say so, so that the file tells of
    nobody's row. Where files write columns in their own ways, NAME.site.toml goes beside each. Nothing is overwritten.
    """
    from degroot.files.atomic import save

    try:
        from degroot.training.drafting import draft_schema
    except ImportError as error:
        raise InvalidInput(f"{NEEDED} ({error}).") from error

    def confirm_rare(told: str) -> bool:
        return list_rare or (
            sys.stdin.isatty() and typer.confirm(f"{told}. List them, for all members to see?", default=False)
        )

    if out.exists():
        raise InvalidInput(f"A schema is not overwritten; {out} is there already (--out says where).")
    draft = draft_schema(
        files, target, group=group, unit=unit, ignore=ignore or (), classes=classes, confirm_rare=confirm_rare
    )
    save(out, draft.to_toml().encode())
    for place, site in draft.sites.items():
        save(place, site.to_toml().encode())
    typer.echo(f"{out}: {draft.about}; digest {draft.schema.digest}.")
    for note in draft.notes:
        typer.echo(f"Note: {note}.")
    for place in draft.sites:
        typer.echo(f"{place}: how that file writes columns; look it through.")
    typer.echo(f"Add units, correct ranges and agree on it; then every member: degroot schema check {out} DATA")


@schema.command(
    epilog=examples(
        "degroot schema check schema.toml north.csv",
        "degroot schema check schema.toml export.csv --site north.site.toml",
    )
)
def check(
    file: Annotated[Path, typer.Argument(metavar="SCHEMA", help="The schema.")],
    data: Annotated[list[Path], typer.Argument(metavar="DATA", help="Data files.")],
    site: Annotated[
        Path | None, typer.Option(metavar="FILE", help="How the data is written; by default NAME.site.toml beside it.")
    ] = None,
) -> None:
    """Try a schema on data files.

    Prints rows, gaps, and all that does not fit, with what to do.
    """
    from degroot.answers.display import counted

    try:
        from degroot.schema.schema import read_schema
        from degroot.training.file_checks import check_file
    except ImportError as error:
        raise InvalidInput(f"{NEEDED} ({error}).") from error

    agreed, failed = read_schema(file), []
    typer.echo(f"{file}: version {agreed.version}, digest {agreed.digest}, {len(agreed.columns)} features")
    for path in data:
        report = check_file(path, agreed, site)
        verdict = "fits" if not report.problems else f"{counted(len(report.problems), 'column')} not as in the schema"
        typer.echo(f"{path}: {counted(report.rows, 'row')}; {verdict}")
        for note in report.notes:
            typer.echo(f"  {note}")
        for problem in report.problems[:SHOWN]:
            typer.echo(f"  {problem}")
        if len(report.problems) > SHOWN:
            typer.echo(f"  and {len(report.problems) - SHOWN} more columns")
        failed += [path] if report.problems else []
    if failed:
        rest = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
        verb = "does" if len(failed) == 1 else "do"
        raise InvalidInput(f"Data must fit the schema; {', '.join(map(str, failed[:3]))}{rest} {verb} not.")
