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
)
from degroot.cli.errors import stopping_at_once
from degroot.exceptions import InvalidInput
from degroot.files.atomic import make_folder

if TYPE_CHECKING:
    from degroot.answers import Consensus as Answer

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
    purpose: Purpose = "",
    insecure_loopback: InsecureLoopback = None,
) -> None:
    """Ask a node for collective predictions, from its own view: what it grants of values, intervals and weights."""
    from degroot import files
    from degroot.cli.output import FIELDS, columns, show, summary

    settings: dict[str, Any] = {"way": _way(way, tolerance, rounds)}
    settings |= {name: given for name, given in (("tolerance", tolerance), ("rounds", rounds)) if given is not None}
    check_purpose(purpose)
    asked = connected(node, ca, certificate, key, config, insecure_loopback, consensus=consensus, **settings)
    _check_output(output)
    with stopping_at_once(), asked as collective:
        points = files.points(input_, collective.feature_names or ())
        begun = time.perf_counter()
        fields = ["value", *(name for name in FIELDS if name != "value" and name in collective.granted)]
        answer = collective.consult(points.X, fields, coverage=coverage, correct=correct, purpose=purpose)
        told = [summary(answer), _whose(answer), f"{time.perf_counter() - begun:.2f} seconds"]
        classes = collective.classes
    if points.ignored:
        told.append(f"columns not used: {', '.join(points.ignored)}")
    if output is None:
        show(answer, classes)
    else:
        files.write_answers(output, columns(answer, classes))
        told.append(str(output))
    typer.echo("; ".join(told))


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
