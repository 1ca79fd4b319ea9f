"""``degroot train``."""

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from degroot.compute.progress import progress
from degroot.exceptions import InvalidInput

if TYPE_CHECKING:
    from degroot.training import Trained


def train(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="A file for each organisation: .csv, .parquet, .arrow or .npz."),
    ],
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="What to predict: numbers, or classes.", show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="A new folder for the collective.")] = Path("collective"),
    group: Annotated[str | None, typer.Option(metavar="COLUMN", help="Deals one file to organisations.")] = None,
    unit: Annotated[str | None, typer.Option(metavar="COLUMN", help="Whose row it is: kept together.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(metavar="NAME,NAME", help="Columns that are no features.")] = None,
    schema: Annotated[Path | None, typer.Option(metavar="FILE", help="What the columns are, as agreed.")] = None,
    site: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="How an organisation writes its columns.")
    ] = None,
    weight: Annotated[str | None, typer.Option(metavar="COLUMN", help="For what a row counts in training.")] = None,
    classes: Annotated[bool, typer.Option("--classes", help="Take a target of numbers as classes.")] = False,
    model: Annotated[str, typer.Option(metavar="NAME", help="linear, forest, boosting, or the best of them.")] = "best",
    rule: Annotated[str, typer.Option(metavar="NAME", help="degroot, stacking, average or auto.")] = "stacking",
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of all random choices.", min=0)] = 0,
    shapley: Annotated[bool, typer.Option("--shapley", help="Measure who contributes to whom.")] = False,
) -> None:
    """Train a model for each organisation's file, and see what each organisation gains.

    Columns may hold numbers, text, yes and no, dates and gaps: what they are is found out and said, or is in --schema.
    A fifth of the rows is held out for the comparison; then all models are trained on all rows. Nothing is overwritten.
    """
    with progress("Working", lines=True):
        try:
            with progress("Loading the library"):
                from degroot import training
                from degroot.node.config.names import suggest_name
        except ImportError as error:
            raise InvalidInput(f"Training needs extra packages: pip install 'degroot[batch]' ({error}).") from error

        done = training.train(
            files, target, out, group=group, unit=unit, ignore=ignore or (), classes=classes, model=model, rule=rule,
            seed=seed, shapley=shapley, schema=schema, sites=site or (), weight=weight,
        )  # fmt: skip
    if done.gathered.inferred is not None:
        typer.echo(f"Inferred: {done.gathered.inferred}.")
    for note in done.gathered.notes:
        typer.echo(f"Note: {note}.")
    typer.echo(done.gains)
    typer.echo(f"On the other rows, left out in folds: {done.left_out.sentence}.")
    typer.echo(f"{_models(done)}\n")
    place = shlex.quote(str(out))
    typer.echo(f"{out} has the collective, trained on all rows; gains.csv in it has all organisations{_also(done)}.")
    typer.echo(f"Ask it about rows without {done.gathered.target!r}, for the organisation whose rows they are:")
    typer.echo(f"  degroot predict --collective {place} --input new.csv --output answers.csv {_whose(done, group)}")
    typer.echo("Where rows may not come together, every organisation runs a node:")
    typer.echo(f"  degroot node init {suggest_name(done.gains.names[0])} --trained {place}")


def _whose(done: "Trained", group: str | None) -> str:
    """The options that say for whom rows are asked about, and how they are written."""
    names, sites = done.gains.names, done.gathered.sites
    name, alike = names[0], all(sites.get(each) == sites.get(names[0]) for each in names)
    whose = f"--asker-column {shlex.quote(group)}" if group and alike else f"--asker {shlex.quote(name)}"
    return whose + (f" --site {shlex.quote(str(done.sites[name]))}" if name in done.sites else "")


def _models(done: "Trained") -> str:
    """What kinds of models were trained."""
    counts = Counter(done.kinds)
    told = ", ".join(f"{kind} {count}" for kind, count in counts.most_common())
    return f"Models of the organisations: {told}; on the pooled rows: {done.pooled_kind}."


def _also(done: "Trained") -> str:
    return "" if done.left_out.contributions is None else ", contributions.csv who contributes to whom"
