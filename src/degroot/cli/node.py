"""``degroot node``: one organisation's node."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from degroot.cli.errors import examples, telling_storage_failures
from degroot.cli.garbage import collect_as_usual
from degroot.exceptions import InvalidInput
from degroot.files.atomic import PRIVATE, make_folder, save

if TYPE_CHECKING:
    from degroot.node.config import Configuration

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
token = typer.Typer(
    name="token",
    invoke_without_command=True,
    epilog=examples("degroot node token add north.toml ada --may ask", "degroot node token list north.toml"),
    rich_markup_mode=None,
)
node.add_typer(token)


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
    organisation: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of --trained, whose node it is; default: the one called so.")
    ] = None,
    page: Annotated[
        int | None,
        typer.Option(metavar="PORT", help="Of the node's page; default: 1000 from peers'.", min=1, max=65535),
    ] = None,
) -> None:
    """Write a configuration with comments, to be filled in.

    With --trained it is filled in already, and stands beside the organisation's model and rows.
    """
    from degroot.node.config import read
    from degroot.node.config.template import LISTEN, filled, template
    from degroot.training import export_organisation

    if organisation is not None and trained is None:
        raise InvalidInput("--organisation must stand with --trained FOLDER; that is missing.")
    peers = [(name, address) for name, _, address in (each.partition("@") for each in peer or ())]
    text = template(name, listen or LISTEN, peers, client or (), page)
    exported = None if trained is None else export_organisation(trained, name, organisation)
    if exported is not None:
        text = filled(text, exported.tables)
    path = out or (Path() if exported is None else exported.home) / f"{name}.toml"
    if path.exists():
        raise InvalidInput(f"A configuration is not overwritten; {path} is there already.")
    if exported is not None:
        exported.write_schema()
    save(path, text.encode())
    try:
        read(path)
    except InvalidInput:
        path.unlink()
        raise
    typer.echo(
        f"{path}: {'fill it in' if trained is None else 'its keys go beside it'}, then: degroot node check {path}"
    )


@node.command(epilog=examples("degroot node check north.toml"))
def check(file: File, insecure_loopback: InsecureLoopback = False, unsafe_pickle: UnsafePickle = False) -> None:
    """Try out all that a configuration says, without starting the node."""
    from degroot.node.config import check as inspection

    inspection.check_system()
    failures = []
    for finding in inspection.inspect(_read_to_write(file), insecure_loopback, unsafe_pickle):  # it tries to write
        typer.echo(f"{finding.outcome:<8}{finding.what}: {finding.told}")
        failures += [finding] if finding.outcome == inspection.FAILED else []
    if failures:
        raise InvalidInput(f"{failures[0].what}: {failures[0].told}")


@node.command(epilog=examples("degroot node run north.toml"))
def run(file: File, insecure_loopback: InsecureLoopback = False, unsafe_pickle: UnsafePickle = False) -> None:
    """Run the node until it is stopped.

    What is in flight then is finished first. The exit code is 75 where the state folder has no room, or its disk fails.
    """
    from degroot.node import config
    from degroot.node.server import run as server

    collect_as_usual()
    with telling_storage_failures():
        server.run(config.read(file), insecure_loopback=insecure_loopback, unsafe_pickle=unsafe_pickle)


@node.command(epilog=examples("degroot node export north.toml --peer south"))
def export(
    file: File,
    peer: Annotated[str, typer.Option(metavar="NAME", help="For whom: a peer that may copy the model.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The bundle; NODE-for-PEER.degroot by default.")
    ] = None,
) -> None:
    """Write this node's model as a signed bundle for one peer.

    It is carried there as a file. Models that store training rows are refused.
    """
    from degroot.node.copies.bundle import SUFFIX
    from degroot.node.copies.offer import check_copyable, examine_model, offer_bundle
    from degroot.node.peers.link import PUSHED
    from degroot.node.records.chain import OUT
    from degroot.node.records.ledger import record_beside
    from degroot.node.scoring.load import load_scored_agent

    told = _read_to_write(file)
    peers = [each.name for each in told.peers]
    if peer not in peers:
        raise InvalidInput(
            f"--peer must be one of {', '.join(peers) or 'the peers, and there are none'}; got {peer!r}."
        )
    check_copyable(told)
    seat = load_scored_agent(told)
    offer = examine_model(told, seat)
    content = offer_bundle(told, seat, offer, peer)
    path = out or Path(f"{told.name}-for-{peer}{SUFFIX}")
    for warning in offer.warnings:
        typer.echo(f"Warning: {warning}", err=True)
    make_folder(told.state, mode=PRIVATE)
    record_beside(told.ledger, peer, PUSHED, OUT, 0, len(content), 0)
    save(path, content)
    typer.echo(
        f"{path}: the model of {told.name}, version {seat.version}, for {peer}. There: degroot node import {peer}.toml "
        f"{path.name}"
    )


@node.command("import", epilog=examples("degroot node import south.toml north-for-south.degroot"))
def import_(
    file: File,
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="What `degroot node export` wrote at a peer.")],
) -> None:
    """Take in a peer's model from a signed bundle.

    A node that runs uses it from its next look on.
    """
    from degroot.node.copies.bundle import read_bundle
    from degroot.node.copies.copy import open_copy
    from degroot.node.copies.store import check_bundle, check_newer, keep_bundle
    from degroot.node.peers.link import PUSHED
    from degroot.node.peers.roster import read_newest
    from degroot.node.records.chain import IN
    from degroot.node.records.ledger import record_beside
    from degroot.node.scoring.load import load_scored_agent

    told = _read_to_write(file)
    content = read_bundle(bundle, told.limits.copy_bytes)
    seat = load_scored_agent(told)
    roster = read_newest(told)
    revoked = frozenset[int]() if roster is None else roster.revoked_serials
    opened = check_bundle(told, content, seat.agent, seat.feature_names, revoked)
    check_newer(told, opened)
    open_copy(opened, seat.agent, told.limits)
    keep_bundle(told, opened, content)
    record_beside(told.ledger, opened.owner, PUSHED, IN, 0, 0, len(content))
    typer.echo(f"{bundle}: the model of {opened.owner}, version {opened.version}, is held and will be scored here.")


@node.command(epilog=examples("degroot node page north.toml"))
def page(file: File) -> None:
    """Print the address of a node's page, with a token for a day.

    It is for whoever runs the node; for other people: degroot node token add.
    """
    from degroot.node.page.tokens import OPERATOR, OPERATOR_DAYS, RIGHTS, make_operator_token

    told = _read_to_write(file)
    address = _find_page(told)
    secret = make_operator_token(told.state)
    _note_token(told, OPERATOR, RIGHTS, OPERATOR_DAYS)
    typer.echo(f"{address}#token={secret}")


@node.command(epilog=examples("degroot node backup north.toml --out north-2026-01-31.zip"))
def backup(
    file: File,
    out: Annotated[Path, typer.Option(metavar="ARCHIVE", help="The archive, a ZIP file; it must not be there yet.")],
    with_key: Annotated[
        bool, typer.Option("--with-key", help="With the node's certificate and private key, which are left out else.")
    ] = False,
) -> None:
    """Back up a node's state and configuration, also while it runs.

    The archive is not encrypted: keep it as the state folder is kept.
    """
    from degroot.node.state.backup import write_backup

    made = write_backup(_read_to_write(file), out, with_key=with_key)
    key = "with the private key" if with_key else "without the private key"
    typer.echo(f"{out}: {made.files} files, {made.size:,} bytes, {key}; the ledger up to record {made.last_record:,}")


@node.command(epilog=examples("degroot node restore north.toml north-2026-01-31.zip"))
def restore(
    file: File,
    archive: Annotated[Path, typer.Argument(metavar="ARCHIVE", help="What `degroot node backup` wrote.")],
    force: Annotated[
        bool, typer.Option("--force", help="Also where there is state already, which is moved aside.")
    ] = False,
) -> None:
    """Restore a stopped node's state from a backup.

    What maps have cost, and the number of the roster, never go back from what is there.
    """
    from degroot.node.state.restore import restore_backup

    restored = restore_backup(file, archive, force=force)
    typer.echo(f"{file}: {restored.files} files restored from the backup of {restored.made}")
    for sentence in restored.kept:
        typer.echo(f"  {sentence}")
    if restored.moved is not None:
        typer.echo(f"  the state before is in {restored.moved}")


@node.command(
    epilog=examples(
        "degroot node audit north.toml",
        "degroot node audit north.toml --verify",
        "degroot node audit north.toml --json --out north.jsonl",
        "degroot node audit north.toml --verify --against south.jsonl",
    )
)
def audit(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The node's configuration; with --verify also an export, .json or .jsonl."),
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Check that the record is as it was written: exit code 1 if it is not.")
    ] = False,
    against: Annotated[
        list[Path] | None,
        typer.Option(metavar="EXPORT", help="With --verify: compare with a peer's export; may be repeated."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Export all, a line of JSON for each record.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Export the records as a table.")] = False,
    peer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Export exchanges with this peer or client only.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The export; by default it is printed.")] = None,
    ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With an export: the CA that signatures have to go back to."),
    ] = None,
) -> None:
    """Print, export or verify the record of what has left and come."""
    from degroot.cli import audit as auditing

    auditing.check_options(verify=verify, against=against, json=json, csv=csv, peer=peer, out=out, ca=ca)
    if verify:
        auditing.verify(file, against or [], ca)
    elif json or csv:
        auditing.export(file, as_json=json, peer=peer, out=out)
    else:
        auditing.show(file)


@node.command(
    epilog=examples(
        "degroot node report north.toml",
        "degroot node report north.toml --out north.html --since 2026-01-01",
        "degroot node report north.toml --dpia --out dpia.md",
    )
)
def report(
    file: File,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The report, .html or .md; by default Markdown is printed.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="DATE", help="Exchanges from this day of UTC on, such as 2026-01-31.")
    ] = None,
    dpia: Annotated[
        bool, typer.Option("--dpia", help="A data-protection impact assessment to be filled in, as Markdown.")
    ] = False,
) -> None:
    """Report what has left, to whom and why, for a privacy officer."""
    from degroot.cli import report as reporting

    reporting.write_report(file, out, since, dpia=dpia)


@token.callback()
def about_tokens(context: typer.Context) -> None:
    """Say who may look at a node's page, and ask through it.

    A node that runs takes changes in at once.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@token.command(
    epilog=examples("degroot node token add north.toml ada --may ask", "degroot node token add north.toml ben --days 7")
)
def add(
    file: File,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is, as the ledger will say who asked.")],
    may: Annotated[
        list[str] | None, typer.Option(metavar="RIGHT", help="ask, or look; looking is always allowed.")
    ] = None,
    days: Annotated[int, typer.Option(metavar="N", help="For how many days it is valid.")] = 90,
) -> None:
    """Make a token for one person.

    The address with it is printed this once.
    """
    from degroot.node.page.tokens import ASK, LOOK, RIGHTS, add_token

    for right in may or ():
        if right not in RIGHTS:
            raise InvalidInput(f"--may must be {' or '.join(RIGHTS)}; got {right!r}.")
    told = _read_to_write(file)
    address, may_ask = _find_page(told), ASK in (may or ())
    note = partial(_note_token, told, name, RIGHTS if may_ask else (LOOK,), days)
    secret = add_token(told.state, name, may_ask=may_ask, days=days, note=note)
    typer.echo(f"{address}#token={secret}")


@token.command("list", epilog=examples("degroot node token list north.toml"))
def list_(file: File) -> None:
    """List whose tokens there are, and what they may; never the tokens."""
    from degroot.node import config
    from degroot.node.page.tokens import describe_tokens

    told = config.read(file)
    _find_page(told)
    for line in describe_tokens(told.state):
        typer.echo(line)


@token.command(epilog=examples("degroot node token revoke north.toml ada"))
def revoke(file: File, name: Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is.")]) -> None:
    """Revoke somebody's token.

    Open pages end within a second or two.
    """
    from degroot.node.page.tokens import REVOKED, revoke_token
    from degroot.node.records.ledger import note_beside

    told = _read_to_write(file)
    _find_page(told)
    revoke_token(told.state, name)
    note_beside(told.ledger, REVOKED, name)
    typer.echo(f"{name}: revoked")


def _read_to_write(file: Path) -> "Configuration":
    """The configuration of a node whose state folder is about to be written; refused where that would harm the node."""
    from degroot.node import config
    from degroot.node.state.owner import check_owner

    told = config.read(file)
    check_owner(told.state)
    return told


def _find_page(told: "Configuration") -> str:
    """The address of a node's page."""
    if told.page is None:
        raise InvalidInput(f"{told.path} must have a table [page] with a port; without it there is no page.")
    return told.page.address


def _note_token(told: "Configuration", name: str, rights: tuple[str, ...], days: int) -> None:
    """Record that there is a token, before anybody is given it."""
    from degroot.node.page.tokens import ADDED
    from degroot.node.records.ledger import note_beside

    note_beside(told.ledger, ADDED, f"{name}, may {' and '.join(rights)}, days: {days}")
