"""``degroot ask``."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from degroot.cli.connection import (
    Ca,
    Certificate,
    Config,
    Consensus,
    Correct,
    InsecureLoopback,
    Key,
    Node,
    Purpose,
    check_purpose,
    connected,
    find_site,
    name_site_file,
    naming_rows,
)
from degroot.cli.errors import stopping_at_once
from degroot.exceptions import InvalidInput
from degroot.files.atomic import make_folder

if TYPE_CHECKING:
    from degroot.answers import Consensus as Answer
    from degroot.files.rows import Points
    from degroot.node.client import RemoteCollective

SUFFIXES = (".csv", ".parquet")


def ask(
    input_: Annotated[
        Path, typer.Option("--input", metavar="FILE", help="The points: .csv, .parquet, .arrow or .npz.")
    ],
    node: Node = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The answers, .csv or .parquet; by default the first are printed."),
    ] = None,
    ca: Ca = None,
    certificate: Certificate = None,
    key: Key = None,
    config: Config = None,
    consensus: Consensus = False,
    correct: Correct = None,
    way: Annotated[
        str, typer.Option(metavar="WAY", help="Of the consensus: solve, at the asked node; rounds: the nodes pool.")
    ] = "solve",
    tolerance: Annotated[
        float | None, typer.Option(metavar="X", help="Of rounds: how far apart beliefs may stay.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(metavar="N", help="How many rounds at most.", min=1)] = None,
    coverage: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="With lower and upper bounds that hold the outcome so often, such as 0.9."),
    ] = None,
    fields: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="label, value, standard_error, weights (of up to 20 agents by default), missing, flags; beliefs, "
            "influence, correction, trust.",
        ),
    ] = None,
    purpose: Purpose = "",
    site: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="How the input is written; default: as rows of --config, NAME.site.toml."),
    ] = None,
    insecure_loopback: InsecureLoopback = None,
) -> None:
    """Ask a node for collective predictions, from its own view: what it grants of values, intervals and weights."""
    from degroot import files
    from degroot.answers.columns import Columns
    from degroot.cli.output import columns, describe_omitted, show, summary

    settings: dict[str, Any] = {"way": _way(way, tolerance, rounds)}
    settings |= {name: given for name, given in (("tolerance", tolerance), ("rounds", rounds)) if given is not None}
    check_purpose(purpose)
    asked = connected(node, ca, certificate, key, config, insecure_loopback, consensus=consensus, **settings)
    _check_output(output)
    given = None if fields is None else _read_fields(fields, output)
    with stopping_at_once(), asked as collective:
        points = _read_points(input_, collective, site, config)
        if points.note:
            typer.echo(points.note, err=True)
        begun = time.perf_counter()
        wanted, omitted = _choose_fields(given, collective, output)
        computed = Columns(tuple(wanted), collective.names).computed_fields
        absent = () if collective.schema is None else collective.schema.list_marked(points.absent)
        with naming_rows(input_):
            answer = collective.consult(
                points.X, computed, coverage=coverage, correct=correct, purpose=purpose, absent=absent
            )
        told = [summary(answer), _whose(answer), f"{time.perf_counter() - begun:.2f} seconds"]
        classes = collective.classes
    if points.ignored:
        told.append(f"columns not used: {', '.join(points.ignored)}")
    if output is None:
        show(answer, classes)
    else:
        files.write_answers(output, columns(answer, classes, wanted))
        told.append(str(output))
    typer.echo("; ".join(told))
    if omitted:
        typer.echo(describe_omitted(wanted, omitted))


def _read_fields(given: str, output: Path | None) -> list[str]:
    """The names of fields, if they are known."""
    from degroot.answers.columns import check_fields

    if output is None:
        raise InvalidInput("--fields must come with --output, to which they are written; it is missing.")
    names = [name.strip() for name in given.split(",") if name.strip()]
    check_fields(names)
    return names


def _choose_fields(
    given: list[str] | None, collective: "RemoteCollective", output: Path | None
) -> tuple[list[str], list[str]]:
    """The fields that are shown or written, and those that are left out as they have many columns."""
    from degroot.answers.columns import USUAL, check_label, choose_fields
    from degroot.answers.flags import MISSING
    from degroot.answers.frame import FLAGS

    if given is not None:
        check_label(given, collective.classes)
        return given, []
    known = ["value", *(name for name in USUAL if name != "value" and name in collective.granted), MISSING, FLAGS]
    return (known, []) if output is None else choose_fields(collective.names, collective.classes, known)


def _read_points(path: Path, collective: "RemoteCollective", site: Path | None, config: Path | None) -> "Points":
    """The points in a file: by the schema of the nodes, if they have one, as a site writes them."""
    from degroot import files

    schema = collective.schema
    if schema is None and site is not None:
        raise InvalidInput("--site must come with a schema, by which the nodes' rows are read; they have none.")
    if schema is None:
        return files.points(path, collective.feature_names or ())
    written, place = find_site(path, site, config, schema), name_site_file(path, site, config)
    return files.points(path, schema.names, schema=schema, site=written, site_file=place)


def _whose(answer: "Answer") -> str:
    """Whose view an answer is."""
    return "the consensus" if answer.asker is None else f"the view of {answer.asker}"


def _way(way: str, tolerance: float | None, rounds: int | None) -> str:
    if way not in ("solve", "rounds"):
        raise InvalidInput(f"--way must be solve or rounds; got {way!r}.")
    if way == "solve" and (tolerance is not None or rounds is not None):
        raise InvalidInput("--tolerance and --rounds must come with --way rounds; it is missing.")
    return way


def _check_output(output: Path | None) -> None:
    """Before anybody is asked."""
    if output is not None:
        if output.suffix.lower() not in SUFFIXES:
            raise InvalidInput(f"Answers must go to a .csv or .parquet file; got {output}.")
        make_folder(output.parent)
