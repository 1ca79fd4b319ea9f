"""``degroot keys``: a consortium's CA, and the certificates of its nodes and clients."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from degroot.cli.errors import examples
from degroot.exceptions import InvalidInput

if TYPE_CHECKING:
    from degroot.node.tls.roster import SignedRoster

keys = typer.Typer(
    name="keys",
    invoke_without_command=True,
    epilog=examples("degroot keys init", "degroot keys request north", "degroot keys sign north.csr"),
    rich_markup_mode=None,
)
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of the CA and the certificates; `init` makes it.")]
Hosts = Annotated[
    list[str] | None, typer.Option(metavar="HOST", help="A further host name or IP address; may be repeated.")
]
Days = Annotated[int, typer.Option(metavar="N", help="For how many days it is valid.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]


@keys.callback()
def about(context: typer.Context) -> None:
    """Make a consortium's CA, its members' certificates, and its roster."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@keys.command(epilog=examples("degroot keys init --out keys --name prices"))
def init(
    out: Out = Path("keys"),
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the consortium.")] = "degroot",
    days: Days = 3650,
    force: Annotated[bool, typer.Option("--force", help="Move a CA that is there aside, and make another.")] = False,
) -> None:
    """Make a consortium's CA.

    ca.pem is for everybody, ca.key for whoever issues certificates.
    """
    from degroot.node.tls.authority import init_ca

    made = init_ca(out, name, days, force)
    typer.echo(f"{made.certificate}: for every node")
    typer.echo(f"{made.key}: keep it where only those who issue certificates can read it")
    if made.former is not None:
        typer.echo(f"{made.former}: the CA before, with its key, roster and list of certificates")


@keys.command(epilog=examples("degroot keys issue north --out keys --host north.example.org"))
def issue(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the node or client, as in the roster.")],
    out: Out = Path("keys"),
    host: Hosts = None,
    days: Days = 365,
    force: Force = False,
) -> None:
    """Issue a certificate and its key, for trials.

    The CA then knows the key. Otherwise the node makes its own, with `degroot keys request`, and the CA signs it, with
    `degroot keys sign`.
    """
    from degroot.node.tls.authority import issue

    certificate, key = issue(out, name, days, host or (), force)
    typer.echo(f"{certificate}: for {name!r}, together with {out / 'ca.pem'}")
    typer.echo(f"{key}: for {name!r} only")


@keys.command(epilog=examples("degroot keys request north --out keys --host north.example.org"))
def request(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the node or client, as in the roster.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the key and the request.")] = Path("keys"),
    host: Hosts = None,
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Make another key where there is one, NAME.new.key beside it.")
    ] = False,
) -> None:
    """Make a key and a request for a certificate.

    The request goes to the CA, the key stays here.
    """
    from degroot.node.tls.authority import find_pending_key, request_certificate

    pending = find_pending_key(out, name) if new_key else None
    path, key, fingerprint = request_certificate(out, name, host or (), new_key=new_key)
    typer.echo(f"{path}: for the CA, which signs it with: degroot keys sign {path.name}")
    typer.echo(f"{key}: for {name!r} only; it stays here")
    if pending is not None:
        typer.echo(f"{pending}: was there already, and is used again; remove it to get another key")
    typer.echo(f"fingerprint of the key: {fingerprint}")


@keys.command(epilog=examples("degroot keys sign north.csr --out keys"))
def sign(
    file: Annotated[Path, typer.Argument(metavar="REQUEST", help="What `degroot keys request` has written.")],
    out: Out = Path("keys"),
    days: Days = 365,
    fingerprint: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Sign only if the key has this fingerprint; spaces do not count.")
    ] = None,
) -> None:
    """Sign a request for a certificate, new or renewed.

    Ask whoever has sent it for the fingerprint of the key: it has to be the one that is printed here. With
    `--fingerprint` nothing is signed if it is another.
    """
    from degroot.node.tls.authority import sign_request

    signed = sign_request(out, file, days, expected=fingerprint)
    ends = signed.certificate.not_valid_after_utc
    typer.echo(f"{signed.path}: for {signed.path.stem!r}, valid until {ends:%Y-%m-%d %H:%M} UTC")
    if signed.hosts:
        typer.echo(f"hosts: {', '.join(signed.hosts)}")
    typer.echo(f"fingerprint of the key: {signed.fingerprint}")
    if signed.is_other_key:
        name = signed.path.stem
        typer.echo(f"the key differs from that of the certificate before: make sure that {name!r} has made another")


@keys.command(epilog=examples("degroot keys roster --member north@north.example.org:7443", "degroot keys roster"))
def roster(
    out: Out = Path("keys"),
    member: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME@HOST:PORT", help="Add a member, or change its address; may be repeated."),
    ] = None,
    remove: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Remove a member; may be repeated.")] = None,
) -> None:
    """Sign the next roster of members.

    It is roster.toml, and says who the members are and which certificates are revoked. Given to one node, it is taken
    in and passed on by all. Without options the newest one is shown.
    """
    from degroot.node.tls.roster import FILE, read_own, write_roster

    if member or remove:
        pairs = [(name, address) for name, _, address in (each.partition("@") for each in member or ())]
        newest: SignedRoster | None = write_roster(out, add=pairs, remove=remove or ())
    else:
        newest = read_own(out)
    if newest is None:
        raise InvalidInput(f"There must be a roster to show; {out / FILE} is not there. Make one with --member.")
    _show(newest, out / FILE)


@keys.command(epilog=examples("degroot keys revoke north --out keys"))
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose certificates are revoked, all so far.")],
    out: Out = Path("keys"),
    certificate: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="A certificate that the CA has no record of.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the member from the roster, too.")] = False,
) -> None:
    """Revoke the certificates of a node or client.

    The next roster is signed, in which all of them so far are revoked. A new certificate, signed after that, is good.
    """
    from degroot.node.tls.roster import FILE, write_roster

    newest = write_roster(out, revoke=[name], certificates=certificate or (), remove=[name] if remove else ())
    _show(newest, out / FILE)


@keys.command(epilog=examples("degroot keys rotate --out keys", "degroot keys rotate --out keys --finish"))
def rotate(
    out: Out = Path("keys"),
    days: Annotated[
        int | None, typer.Option(metavar="N", help="For how many days the new CA is valid; 3650 if it is not given.")
    ] = None,
    finish: Annotated[bool, typer.Option("--finish", help="Drop the CA before, once everybody is renewed.")] = False,
    force: Annotated[bool, typer.Option("--force", help="With --finish: though some are not renewed.")] = False,
) -> None:
    """Give the CA a new key.

    Three steps: rotate, and give everybody the new ca.pem, which holds both CAs, and one node roster.toml; renew all
    certificates; then finish, and give everybody ca.pem once more. A step that was interrupted is done again.
    """
    from degroot.node.tls.authority import CA_DAYS
    from degroot.node.tls.roster import FILE, read_own
    from degroot.node.tls.rotation import begin_rotation, finish_rotation

    if finish and days is not None:
        raise InvalidInput(f"`--days` must come without `--finish`, which makes no CA; got both, {days} days.")
    if force and not finish:
        raise InvalidInput("`--force` must come with `--finish`: it drops a CA; got it alone.")
    if finish:
        typer.echo(f"{finish_rotation(out, force=force)}: the CA before is dropped; for every node")
        return
    typer.echo(f"{begin_rotation(out, CA_DAYS if days is None else days)}: both CAs, for every node")
    newest = read_own(out)
    if newest is not None:
        typer.echo(f"{out / FILE}: number {newest.number}, signed by both, for any node: it is passed on")
    typer.echo("then renew all certificates")


def _show(roster: "SignedRoster", path: Path) -> None:
    typer.echo(f"{path}: number {roster.number}, for any node: it is passed on")
    for name, address in roster.members.items():
        typer.echo(f"  member   {name} at {address}")
    for serial, name in roster.revoked.items():
        typer.echo(f"  revoked  {name}, certificate {serial:x}")
