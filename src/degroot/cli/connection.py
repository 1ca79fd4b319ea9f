"""Which node is asked, who asks, and for whom: the options that `ask`, `explain` and `predict` share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from degroot.exceptions import DeGrootError, InvalidInput

if TYPE_CHECKING:
    from degroot.node.client import RemoteCollective
    from degroot.node.config import IdentityFiles
    from degroot.schema import Schema, Site

HINTS = {
    "CERTIFICATE_VERIFY_FAILED": " Its certificate must be of the consortium's CA, and valid now.",
    "Hostname": " Its certificate is for another name: --node NAME@HOST:PORT says which node is meant.",
    "Socket closed": " It may want certificates, or none.",
    "Handshake read failed": " It may be starting still: try again in a while.",
}
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # where to reach a node that listens on all addresses

Node = Annotated[str | None, typer.Option(metavar="[NAME@]HOST:PORT", help="The node to ask; default: of --config.")]
Ca = Annotated[Path | None, typer.Option(metavar="FILE", help="The consortium's CA.")]
Certificate = Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate of whoever asks.")]
Key = Annotated[Path | None, typer.Option(metavar="FILE", help="Its key.")]
Config = Annotated[Path | None, typer.Option(metavar="FILE", help="A node's TOML file: ask in its name.")]
Asker = Annotated[str | None, typer.Option(metavar="NAME", help="For whom: an agent's view, not the consensus.")]
Correct = Annotated[
    bool | None,
    typer.Option("--correct/--no-correct", help="With an asker: corrected by its rows.", show_default=False),
]
Consensus = Annotated[bool, typer.Option("--consensus", help="The neutral consensus, not the node's own view.")]
Purpose = Annotated[
    str, typer.Option(metavar="TEXT", help="Why: everybody who answers records it.", show_default=False)
]
InsecureLoopback = Annotated[
    str | None, typer.Option(metavar="NAME", help="Without certificates, on this machine, as NAME.")
]


def check_one(collective: Path | None, node: str | Path | None) -> None:
    """Refuse both a collective in a file and one of nodes, or neither."""
    if (collective is None) == (node is None):
        came = "neither" if collective is None else "both"
        raise InvalidInput(f"Either --collective or --node must say who is asked; got {came}.")


def check_consensus(consensus: bool, asker: str | None, asker_column: str | None = None) -> None:
    """Refuse an asker of the consensus, which is for nobody in particular."""
    if consensus and (asker is not None or asker_column is not None):
        raise InvalidInput(f"--consensus must come without {'--asker' if asker is not None else '--asker-column'}.")


def check_purpose(purpose: str) -> None:
    """Refuse a purpose that cannot be recorded, before anybody is asked."""
    from degroot.node.protocol.codec import check_purpose as check

    check(purpose)


@contextmanager
def connected(
    node: str | None,
    ca: Path | None,
    certificate: Path | None,
    key: Path | None,
    config: Path | None,
    insecure_loopback: str | None,
    *,
    consensus: bool = False,
    **settings: Any,
) -> Iterator["RemoteCollective"]:
    """The collective of the node that is meant; `consensus`: not the node's own view.

    Why it cannot be asked is said in plain words.
    """
    from degroot.node.client import connect
    from degroot.node.errors import PeerError

    name, address = _node(node, config)
    files = None if insecure_loopback is not None else _identity(ca, certificate, key, config)
    identity: dict[str, Any] = (
        {"insecure_loopback": insecure_loopback}
        if files is None
        else {
            "ca": files.ca,
            "certificate": files.certificate,
            "key": files.key,
            "node": name,
        }
    )
    try:
        view = {"view": "consensus"} if consensus else {}
        with connect(address, **identity, **view, **settings) as collective:
            yield collective
    except PeerError as error:
        if files is not None:
            _check_files(files)
        hint = next((told for sign, told in HINTS.items() if sign in error.reason), "")
        raise DeGrootError(f"The node must answer; {address}: {error.reason.rstrip('.')}.{hint}") from error


@contextmanager
def naming_rows(path: Path, first: int = 0) -> Iterator[None]:
    """Say of a row that nobody answers where it stands in the file; `first`: the place there of the first row asked."""
    from degroot.consultation.abstention import UnansweredRow

    try:
        yield
    except UnansweredRow as error:
        raise InvalidInput(error.describe(f"row {first + error.row + 1} of {path}")) from error


def find_site(path: Path, site: Path | None, config: Path | None, schema: "Schema") -> "Site":
    """How the file `path`, which is asked about, writes the columns of the schema.

    As the site file says that is given, as the node of `config` writes its rows, or as the site file beside it says.
    Columns that the rows of a site lack are read where the file has them.
    """
    from degroot.files.rows import open_asked_site, site_of

    if site is None and config is not None:
        from degroot.node.config import read

        return site_of(read(config).data, schema).with_every_column()
    found = open_asked_site(path, schema, site)
    if site is None and found.path is not None:
        typer.echo(f"Read as {found.path} says.", err=True)
    return found


def name_site_file(path: Path, site: Path | None, config: Path | None) -> str:
    """Where to write what the file `path` calls a column, with the option by which that is read."""
    from degroot.schema.sites import site_beside

    beside = site_beside(path)
    return str(site or beside) if site is not None or config is None else f"{beside}, for --site {beside}"


def _node(node: str | None, config: Path | None) -> tuple[str | None, str]:
    """Name, if it is known, and address of the node to ask."""
    from degroot.files.addresses import split
    from degroot.node.config import read
    from degroot.node.config.names import check_name

    if node is not None:
        name, _, address = node.rpartition("@")
        split(address, "--node")
        return check_name(name, "The name in --node") if "@" in node else None, address
    if config is None:
        raise InvalidInput("Either --node or --config must say which node to ask; both are missing.")
    told = read(config)
    host, _, port = told.listen.rpartition(":")
    return told.name, f"{EVERYWHERE.get(host, host)}:{port}"


def _identity(ca: Path | None, certificate: Path | None, key: Path | None, config: Path | None) -> "IdentityFiles":
    """Who asks: three files, or those of a node."""
    from degroot.node.config import IdentityFiles, read

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
    return files


def _check_files(files: "IdentityFiles") -> None:
    """Say what is wrong with the files of whoever asks, if that is why a node does not answer.

    What TLS says of them is hard to read, and to look into them takes longer than to ask.
    """
    from degroot.node.tls.identity import check_caller

    check_caller(files)
