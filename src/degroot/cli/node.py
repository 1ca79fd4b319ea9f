"""``degroot node``: one organisation's node."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from degroot.cli.errors import examples
from degroot.exceptions import InvalidInput
from degroot.files.atomic import save

node = typer.Typer(
    name="node",
    invoke_without_command=True,
    epilog=examples("degroot node init north", "degroot node check north.toml", "degroot node run north.toml"),
    rich_markup_mode=None,
)
File = Annotated[Path, typer.Argument(metavar="FILE", help="The node's configuration, a TOML file.")]
InsecureLoopback = Annotated[
    bool, typer.Option("--insecure-loopback", help="Without certificates, on this machine only: to try things out.")
]
UnsafePickle = Annotated[bool, typer.Option("--unsafe-pickle", help="Open pickled models, which can run any code.")]

WIDE = 120  # columns for a table that nobody watches: in a file it is told whole


@node.callback()
def about(context: typer.Context) -> None:
    """Run one organisation's node."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@node.command(epilog=examples("degroot node init north --listen 127.0.0.1:7441 --peer south@127.0.0.1:7442"))
def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the node, as in its certificate.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The file; NAME.toml by default.")] = None,
    listen: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Where peers reach this node.")] = None,
    peer: Annotated[
        list[str] | None, typer.Option(metavar="NAME@HOST:PORT", help="Another node; may be repeated.")
    ] = None,
    client: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A client that may ask; may be repeated.")
    ] = None,
    trained: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Of `degroot train`: take model and rows from there.")
    ] = None,
    page: Annotated[
        int | None,
        typer.Option(metavar="PORT", help="Of the node's page; default: 1000 from peers'.", min=1, max=65535),
    ] = None,
) -> None:
    """Write a configuration with comments, to be filled in.

    With --trained it is filled in already, and stands beside the organisation's model and rows.
    """
    from degroot.node.config import LISTEN, read, template

    peers = [(name, address) for name, _, address in (each.partition("@") for each in peer or ())]
    text, home = template(name, listen or LISTEN, peers, client or (), page), Path()
    if trained is not None:
        home, text = _filled(text, trained, name)
    path = out or home / f"{name}.toml"
    if path.exists():
        raise InvalidInput(f"A configuration is not overwritten; {path} is there already.")
    save(path, text.encode())
    try:
        read(path)
    except InvalidInput:
        path.unlink()
        raise
    typer.echo(
        f"{path}: {'fill it in' if trained is None else 'its keys go beside it'}, then: degroot node check {path}"
    )


def _filled(text: str, trained: Path, name: str) -> tuple[Path, str]:
    """The folder of an organisation that `degroot train` has made, and the configuration with its files filled in."""
    from degroot.node.config.template import filled
    from degroot.training import export_organisation

    home, told = export_organisation(trained, name)
    return home, filled(text, told)


@node.command(epilog=examples("degroot node check north.toml"))
def check(file: File, insecure_loopback: InsecureLoopback = False, unsafe_pickle: UnsafePickle = False) -> None:
    """Try out all that a configuration says, without starting the node."""
    from degroot.node import config
    from degroot.node.config import check as inspection

    inspection.check_system()
    failures = []
    for finding in inspection.inspect(config.read(file), insecure_loopback, unsafe_pickle):
        typer.echo(f"{finding.outcome:<8}{finding.what}: {finding.told}")
        failures += [finding] if finding.outcome == inspection.FAILED else []
    if failures:
        raise InvalidInput(f"{failures[0].what}: {failures[0].told}")


@node.command(epilog=examples("degroot node run north.toml"))
def run(file: File, insecure_loopback: InsecureLoopback = False, unsafe_pickle: UnsafePickle = False) -> None:
    """Run the node until it is stopped.

    What is in flight then is finished first.
    """
    from degroot.node import config
    from degroot.node.server import run as server

    server.run(config.read(file), insecure_loopback=insecure_loopback, unsafe_pickle=unsafe_pickle)


@node.command(epilog=examples("degroot node page north.toml"))
def page(file: File) -> None:
    """Print the address of a node's page, with the token to ask there."""
    from degroot.node import config
    from degroot.node.page import auth

    told = config.read(file)
    if told.page is None:
        raise InvalidInput(f"{file} must have a table [page] with a port; without it there is no page.")
    typer.echo(f"{told.page.address}#token={auth.read(told.state)}")


@node.command(epilog=examples("degroot node audit north.toml"))
def audit(file: File) -> None:
    """Print what has left this organisation, and what has come."""
    from degroot.node import config
    from degroot.node.records import ledger

    columns = ("peer", "kind", "who asked", "exchanges", "rows", "bytes sent", "bytes received", "first", "last")
    table = Table(*columns)
    for column in table.columns[3:7]:
        column.justify = "right"
    for line in ledger.summary(config.read(file).ledger):
        numbers = (f"{number:,}" for number in (line.exchanges, line.rows, line.sent, line.received))
        table.add_row(
            line.peer, line.kind, ledger.ASKED_BY[line.direction], *numbers,
            *(f"{at:%Y-%m-%d %H:%M:%S}" for at in (line.first, line.last)),
        )  # fmt: skip
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, WIDE)
    console.print(table)
