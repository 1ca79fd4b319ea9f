"""``degroot keys``: a consortium's CA, and the certificates of its nodes and clients."""

from pathlib import Path
from typing import Annotated

import typer

keys = typer.Typer(name="keys", invoke_without_command=True)
Out = Annotated[Path, typer.Option(help="Folder of the CA and the certificates; made if it is not there.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]


@keys.callback()
def about(context: typer.Context) -> None:
    """Make a consortium's CA, and certificates for its nodes and clients."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@keys.command()
def init(
    out: Out = Path("keys"),
    name: Annotated[str, typer.Option(help="Name of the consortium.")] = "degroot",
    days: Annotated[int, typer.Option(help="For how many days it is valid.")] = 3650,
    force: Force = False,
) -> None:
    """Make a consortium's CA: ca.pem for everybody, ca.key for whoever issues certificates."""
    from degroot.node.authority import init_ca

    certificate, key = init_ca(out, name, days, force)
    typer.echo(f"{certificate}: for every node")
    typer.echo(f"{key}: keep it where only those who issue certificates can read it")


@keys.command()
def issue(
    name: Annotated[str, typer.Argument(help="Name of the node or client, as in the roster.")],
    out: Out = Path("keys"),
    host: Annotated[list[str] | None, typer.Option(help="A further host name or IP address; may be repeated.")] = None,
    days: Annotated[int, typer.Option(help="For how many days it is valid.")] = 365,
    force: Force = False,
) -> None:
    """Issue a certificate and its key to a node or client."""
    from degroot.node.authority import issue

    certificate, key = issue(out, name, days, host or (), force)
    typer.echo(f"{certificate}: for {name!r}, together with {out / 'ca.pem'}")
    typer.echo(f"{key}: for {name!r} only")
