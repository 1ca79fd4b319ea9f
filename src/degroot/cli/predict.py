"""``degroot predict``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

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
    check_consensus,
    check_one,
    connected,
    find_site,
)
from degroot.cli.errors import stopping_at_once, stopping_in_order
from degroot.cli.node import UnsafePickle
from degroot.compute.progress import progress
from degroot.exceptions import InvalidInput

INTERRUPTED = "interrupted; run the same command again to resume"


def predict(
    input_: Annotated[
        list[str],
        typer.Option("--input", metavar="FILES", help="Rows: .csv, .parquet, .arrow; a file, folder or pattern."),
    ],
    output: Annotated[Path, typer.Option(metavar="FILE", help="The answers: a .parquet or .csv file.")],
    more: Annotated[list[str] | None, typer.Argument(metavar="FILES", help="More input.", show_default=False)] = None,
    collective: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The collective: a TOML file or a folder.")
    ] = None,
    node: Node = None,
    keep: Annotated[
        list[str] | None, typer.Option(metavar="NAME,NAME", help="Columns of the input to write too.")
    ] = None,
    fields: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="label, value, standard_error, weights; beliefs, influence, correction, trust, flags, missing.",
        ),
    ] = None,
    coverage: Annotated[
        float | None, typer.Option(metavar="SHARE", help="With bounds that hold so often, such as 0.9.")
    ] = None,
    asker: Asker = None,
    asker_column: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="For whom each row is; no agent: the consensus."),
    ] = None,
    correct: Correct = None,
    consensus: Consensus = False,
    on_bad_row: Annotated[str, typer.Option(metavar="WHAT", help="A bad value: refuse, or null.")] = "refuse",
    jobs: Annotated[int | None, typer.Option(metavar="N", help="How many threads; default: all cores.", min=1)] = None,
    engine: Annotated[str, typer.Option(metavar="NAME", help="local, or ray: a Ray cluster.")] = "local",
    placement: Annotated[
        str | None,
        typer.Option(metavar="WHAT", help="On Ray: workers with copies, or agents apart."),
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Of the Ray cluster; without, one is started here.")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Begin anew, whatever is finished.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="First see whether all saved files are whole.")] = False,
    unsafe_pickle: UnsafePickle = False,
    site: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Its site file; default: the one beside it."),
    ] = None,
    ca: Ca = None,
    certificate: Certificate = None,
    key: Key = None,
    config: Config = None,
    insecure_loopback: InsecureLoopback = None,
) -> None:
    """Predict all rows of files of any size. The same command resumes a run."""
    try:
        with progress("Loading the library", lines=True):
            from degroot.batch import predict_files
    except ModuleNotFoundError as error:
        raise InvalidInput(f"Large files need extra packages: pip install 'degroot[batch]' ({error}).") from error

    check_one(collective, node or config)
    check_consensus(consensus, asker, asker_column)
    settings: dict[str, Any] = {
        "inputs": [*input_, *(more or ())], "output": output, "fields": None if fields is None else _names([fields]),
        "coverage": coverage, "keep": _names(keep or []), "asker": asker, "asker_column": asker_column,
        "correct": correct, "on_bad_row": on_bad_row, "jobs": jobs, "engine": engine, "placement": placement,
        "address": address, "restart": restart, "verify": verify, "unsafe_pickle": unsafe_pickle, "site": site,
    }  # fmt: skip
    if collective is not None:
        if site is None and asker is not None:
            _remind_of_site(collective, asker, settings["inputs"])
        with stopping_in_order(INTERRUPTED), progress("Working", lines=True):
            done = predict_files(collective, **settings)
    else:
        asked = connected(node, ca, certificate, key, config, insecure_loopback, consensus=consensus)
        with stopping_at_once(), progress("Working", lines=True), asked as nodes:
            if site is None and config is not None and nodes.schema is not None:
                settings["site"] = find_site(Path(input_[0]), None, config, nodes.schema)
            done = predict_files(nodes, **settings)
    if done.note:
        typer.echo(done.note, err=True)
    typer.echo(done)
    if done.omitted:
        from degroot.cli.output import describe_omitted

        typer.echo(describe_omitted(done.fields, done.omitted))


def _remind_of_site(collective: Path, asker: str, inputs: Sequence[str]) -> None:
    """Say that the asker has a site file, unless one lies beside the input."""
    from degroot.schema.sites import site_beside
    from degroot.training.folder import find_site_file

    own = find_site_file(collective, asker)
    if own is not None and not any(site_beside(Path(each)).exists() for each in inputs):
        typer.echo(f"Read as the schema has it; for files that {asker} writes in its own way: --site {own}", err=True)


def _names(given: list[str]) -> list[str]:
    """Names that are given one by one, or with commas between them."""
    return [name.strip() for each in given for name in each.split(",") if name.strip()]
