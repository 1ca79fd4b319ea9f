"""``degroot ask``."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from degroot.cli.complaints import stopping_at_once
from degroot.exceptions import DeGrootError, InvalidInput
from degroot.folders import make_folder

SHOWN = 10  # rows that are printed where no file is asked for
SUFFIXES = (".csv", ".parquet")
HINTS = {
    "CERTIFICATE_VERIFY_FAILED": " Its certificate must be of the consortium's CA, and valid now.",
    "Hostname": " Its certificate is for another name: --node NAME@HOST:PORT says which node is meant.",
    "Socket closed": " It may want certificates, or none.",
}
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # where to reach a node that listens on all addresses


def ask(
    input_: Annotated[Path, typer.Option("--input", help="The points: .csv, .parquet or .npz.")],
    node: Annotated[
        str | None,
        typer.Option(help="The node to ask, HOST:PORT or NAME@HOST:PORT; by default the one of --config."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="The answers, .csv or .parquet; by default the first are printed.")
    ] = None,
    ca: Annotated[Path | None, typer.Option(help="The consortium's CA.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="The certificate of whoever asks.")] = None,
    key: Annotated[Path | None, typer.Option(help="Its key.")] = None,
    config: Annotated[Path | None, typer.Option(help="A node's TOML file, to ask in the name of that node.")] = None,
    way: Annotated[str, typer.Option(help="solve: at the asked node; rounds: the nodes pool.")] = "solve",
    tolerance: Annotated[float | None, typer.Option(help="Of rounds: how far apart beliefs may stay.")] = None,
    rounds: Annotated[int | None, typer.Option(help="How many rounds at most.", min=1)] = None,
    no_guard: Annotated[bool, typer.Option("--no-guard", help="Without the guard against liars.")] = False,
    insecure_loopback: Annotated[
        str | None, typer.Option(metavar="NAME", help="Ask without certificates, on this machine only, by this name.")
    ] = None,
) -> None:
    """Ask a node for collective predictions: values, standard errors, weights, and who was missing."""
    from degroot import datafiles
    from degroot.cli.answers import FIELDS, columns, summary
    from degroot.node.client import connect

    settings: dict[str, Any] = {"way": _way(way, tolerance, rounds), "guard": not no_guard}
    settings |= {name: given for name, given in (("tolerance", tolerance), ("rounds", rounds)) if given is not None}
    name, address = _node(node, config)
    identity = (
        {"insecure_loopback": insecure_loopback}
        if insecure_loopback is not None
        else _identity(ca, certificate, key, config) | {"node": name}
    )
    _check_output(output)
    with stopping_at_once(), _reached(address), connect(address, **identity, **settings) as collective:
        points = datafiles.points(input_, collective.feature_names or ())
        begun = time.perf_counter()
        answer = collective.consult(points.X, FIELDS)
        told = [summary(answer), f"{time.perf_counter() - begun:.2f} seconds"]
        table = columns(answer, collective.classes)
    if points.ignored:
        told.append(f"columns not used: {', '.join(points.ignored)}")
    if output is None:
        _show(table)
    else:
        datafiles.write_answers(output, table)
        told.append(str(output))
    typer.echo("; ".join(told))


def _way(way: str, tolerance: float | None, rounds: int | None) -> str:
    if way not in ("solve", "rounds"):
        raise InvalidInput(f"--way must be solve or rounds; got {way!r}.")
    if way == "solve" and (tolerance is not None or rounds is not None):
        raise InvalidInput("--tolerance and --rounds must come with --way rounds; it is missing.")
    return way


def _node(node: str | None, config: Path | None) -> tuple[str | None, str]:
    """Name, if it is known, and address of the node to ask."""
    from degroot.addresses import split
    from degroot.node.configuration import read
    from degroot.node.names import check_name

    if node is not None:
        name, _, address = node.rpartition("@")
        split(address, "--node")
        return check_name(name, "The name in --node") if "@" in node else None, address
    if config is None:
        raise InvalidInput("Either --node or --config must say which node to ask; both are missing.")
    told = read(config)
    host, _, port = told.listen.rpartition(":")
    return told.name, f"{EVERYWHERE.get(host, host)}:{port}"


def _identity(ca: Path | None, certificate: Path | None, key: Path | None, config: Path | None) -> dict[str, Any]:
    """Who asks: three files, or those of a node. They are tried out first: what TLS says of them is hard to read."""
    from degroot.node import identity
    from degroot.node.configuration import IdentityFiles, read

    given = [file for file in (ca, certificate, key) if file is not None]
    if config is not None and not given:
        files = read(config).identity
        if files is None:
            raise InvalidInput(f"{config} must have a table [identity]; otherwise there is --insecure-loopback NAME.")
    elif config is None and ca is not None and certificate is not None and key is not None:
        files = IdentityFiles(ca, certificate, key)
    else:
        came = f"--config and {len(given)} of them" if config is not None else f"{len(given)} of them"
        raise InvalidInput(f"Either --config or --ca, --certificate and --key must be given; got {came}.")
    identity.check_caller(files)
    return {"ca": files.ca, "certificate": files.certificate, "key": files.key}


def _check_output(output: Path | None) -> None:
    """Before anybody is asked."""
    if output is not None:
        if output.suffix.lower() not in SUFFIXES:
            raise InvalidInput(f"Answers must go to a .csv or .parquet file; got {output}.")
        make_folder(output.parent)


@contextmanager
def _reached(address: str) -> Iterator[None]:
    """Say in plain words why the node cannot be asked."""
    from degroot.node.faults import PeerError

    try:
        yield
    except PeerError as error:
        hint = next((told for sign, told in HINTS.items() if sign in error.reason), "")
        raise DeGrootError(f"The node must answer; {address}: {error.reason.rstrip('.')}.{hint}") from error


def _show(columns: dict[str, list[Any]]) -> None:
    """The first rows; what the flags are is in the summary."""
    empty = {"flags"} | (set() if any(columns["missing"]) else {"missing"})
    shown = {name: values[:SHOWN] for name, values in columns.items() if name not in empty}
    table = Table(title=f"The first {SHOWN} rows" if len(columns["missing"]) > SHOWN else None)
    for name, values in shown.items():
        table.add_column(name.replace("_", " "), justify="left" if isinstance(values[0], str) else "right")
    for row in zip(*shown.values(), strict=True):
        table.add_row(*(value if isinstance(value, str) else f"{value:.4g}" for value in row))
    Console().print(table)
