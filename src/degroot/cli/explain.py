"""``degroot explain``."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from degroot.cli.connection import (
    Asker,
    Ca,
    Certificate,
    Config,
    Consensus,
    Correct,
    InsecureLoopback,
    Key,
    Node,
    Purpose,
    check_consensus,
    check_one,
    check_purpose,
    connected,
    find_site,
    name_site_file,
    naming_rows,
)
from degroot.cli.errors import stopping_at_once
from degroot.cli.node import UnsafePickle
from degroot.compute.progress import progress
from degroot.exceptions import InvalidInput

if TYPE_CHECKING:
    from degroot.answers import Consultable


def explain(
    input_: Annotated[
        Path, typer.Option("--input", metavar="FILE", help="The points: .csv, .parquet, .arrow or .npz.")
    ],
    row: Annotated[int, typer.Option(metavar="N", help="Which row of the file.", min=1)] = 1,
    collective: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A collective: a TOML file or folder.")
    ] = None,
    coverage: Annotated[
        float | None, typer.Option(metavar="SHARE", help="With an interval that holds so often: 0.9.")
    ] = None,
    asker: Asker = None,
    correct: Correct = None,
    node: Node = None,
    consensus: Consensus = False,
    unsafe_pickle: UnsafePickle = False,
    ca: Ca = None,
    certificate: Certificate = None,
    key: Key = None,
    config: Config = None,
    purpose: Purpose = "",
    site: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="How the input is written; default: as rows of --config, NAME.site.toml."),
    ] = None,
    insecure_loopback: InsecureLoopback = None,
) -> None:
    """Explain the collective answer about one row: who carries it, who disagrees, how stable it is."""
    check_one(collective, node or config)
    check_consensus(consensus, asker)
    why = _check_why(purpose, collective)
    with stopping_at_once(), progress("Working", lines=True):
        asked: AbstractContextManager[Consultable] = (
            nullcontext(_loaded(collective, unsafe_pickle))
            if collective is not None
            else connected(node, ca, certificate, key, config, insecure_loopback, consensus=consensus)
        )
        with asked as found:
            point, absent, note = _point(input_, row, found, site, config)
            if coverage is not None and asker is None and not getattr(found, "is_calibrated", False):
                found.calibrate()
            with progress("Asking"), naming_rows(input_, row - 1):
                answer = found.consult(point, coverage=coverage, asker=asker, correct=correct, absent=absent, **why)
            target = None if found.schema is None else found.schema.target
            text = answer.explain(0, target=target).text.replace("point 0", f"row {row}", 1)
    if note:
        typer.echo(note, err=True)
    typer.echo(text)


def _check_why(purpose: str, collective: Path | None) -> dict[str, str]:
    """The purpose, which nodes record; a collective in this process does not."""
    if purpose and collective is not None:
        raise InvalidInput("--purpose must come with --node or --config: a collective in a file keeps no record.")
    if purpose:
        check_purpose(purpose)
    return {"purpose": purpose} if purpose else {}


def _loaded(path: Path, unsafe_pickle: bool) -> "Consultable":
    with progress("Opening the collective"):
        from degroot import Collective

        return Collective.load(path, unsafe_pickle=unsafe_pickle)


def _point(
    path: Path, row: int, asked: "Consultable", site: Path | None, config: Path | None
) -> tuple[Any, tuple[str, ...], str]:
    """The row that is meant, (1, d), the features that its file does not have, and what is to be said of them."""
    from degroot.files.rows import points
    from degroot.schema import AS_SHARED

    schema = asked.schema
    if schema is None and site is not None:
        raise InvalidInput("--site must come with a collective that has a schema; this one has none.")
    written = AS_SHARED if schema is None else find_site(path, site, config, schema)
    with progress(f"Reading {path}"):
        found = points(
            path, asked.feature_names or (), gaps=schema is None and asked.takes_gaps, row=row, schema=schema,
            site=written, site_file=name_site_file(path, site, config),
        )  # fmt: skip
    return found.X, () if schema is None else schema.list_marked(found.absent), found.note
