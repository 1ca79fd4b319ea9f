"""``degroot keys``: a consortium's CA, and the certificates of its nodes and clients."""

from pathlib import Path
from typing import Annotated

import typer

from degroot.cli.errors import examples

keys = typer.Typer(
    name="keys",
    invoke_without_command=True,
    epilog=examples("degroot keys init", "degroot keys issue north"),
    rich_markup_mode=None,
)
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the CA and the certificates; `init` makes it.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]


@keys.callback()
def about(context: typer.Context) -> None:
    """Make a consortium's CA, and certificates for its nodes and clients."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@keys.command(epilog=examples("degroot keys init --out keys --name prices"))
def init(
    out: Out = Path("keys"),
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the consortium.")] = "degroot",
    days: Annotated[int, typer.Option(metavar="N", help="For how many days it is valid.")] = 3650,
    force: Force = False,
) -> None:
    """Make a consortium's CA.

    ca.pem is for everybody, ca.key for whoever issues certificates.
    """
    from degroot.node.tls.authority import init_ca

    certificate, key = init_ca(out, name, days, force)
    typer.echo(f"{certificate}: for every node")
    typer.echo(f"{key}: keep it where only those who issue certificates can read it")


@keys.command(epilog=examples("degroot keys issue north --out keys --host north.example.org"))
def issue(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the node or client, as in the roster.")],
    out: Out = Path("keys"),
    host: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="A further host name or IP address; may be repeated.")
    ] = None,
    days: Annotated[int, typer.Option(metavar="N", help="For how many days it is valid.")] = 365,
    force: Force = False,
) -> None:
    """Issue a certificate and its key to a node or client."""
    from degroot.node.tls.authority import issue

    certificate, key = issue(out, name, days, host or (), force)
    typer.echo(f"{certificate}: for {name!r}, together with {out / 'ca.pem'}")
    typer.echo(f"{key}: for {name!r} only")
