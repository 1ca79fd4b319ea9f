"""The roster that a node goes by: the newest that the CA has signed, from its file, its state folder or a peer."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from cryptography import x509

from degroot.exceptions import InvalidInput
from degroot.files.atomic import find_stamp, make_folder, save_durably
from degroot.node.config import OPINION, OWN, QUERY, Configuration, Peer
from degroot.node.tls.files import read_bytes, read_certificates
from degroot.node.tls.roster import FILE, SignedRoster, is_signed, parse_roster


class RosterStore:
    """The newest signed roster that a node has seen, kept in its state folder: none with a lower number is taken in.

    Parameters
    ----------
    authorities : callable
        Gives the certificates of the CA, as they are now.
    """

    def __init__(self, configuration: Configuration, authorities: Callable[[], Iterable[x509.Certificate]]) -> None:
        self._configuration, self._authorities = configuration, authorities
        self._path = configuration.state / FILE
        self._given = None if configuration.identity is None else configuration.identity.roster
        self._stamp: object = None  # of the file that is given, when it was last read
        self.current: SignedRoster | None = None

    @property
    def number(self) -> int:
        """Of the roster; 0: there is none."""
        return 0 if self.current is None else self.current.number

    def load(self) -> None:
        """Take in what is kept and what is given, before the node starts."""
        newest = read_newest(self._configuration, self._authorities())
        if newest is not None:
            self.offer(newest.content, self._path)

    def look_at_file(self, *, force: bool = False) -> SignedRoster | None:
        """What is given in a file, if that has changed and is newer than what was taken in."""
        stamp = None if self._given is None else find_stamp(self._given)
        if self._given is None or stamp is None or (stamp == self._stamp and not force):
            return None
        offered = self.offer(read_bytes(self._given, "The roster"), self._given)
        self._stamp = stamp
        return offered

    def offer(self, content: bytes, where: object) -> SignedRoster | None:
        """Take in a roster that the CA has signed, whose number has to be higher; None: it is the one that is here.

        Raises InvalidInput where it cannot be taken in. A roster that none of the CA's present keys has signed does not
        count, whatever its number: the key that signed it may have been stolen.
        """
        if self.current is not None and content == self.current.content:
            return None
        authorities = tuple(self._authorities())
        offered, current = parse_roster(content, authorities, where), self.current
        if current is not None and offered.number <= current.number and is_signed(current.content, authorities):
            if _strip(offered) == _strip(current):
                return None
            raise InvalidInput(
                f"A roster must have a higher number than {current.number}, which is taken in; {where} has "
                f"{offered.number}."
            )
        make_folder(self._path.parent)
        try:
            save_durably(self._path, content)
        except OSError as error:
            raise InvalidInput(f"A roster must be kept in the state folder; {self._path}: {error.strerror}.") from error
        self.current = offered
        return offered


def _strip(roster: SignedRoster) -> SignedRoster:
    """What a roster says, whoever has signed it."""
    return replace(roster, content=b"")


def read_newest(
    configuration: Configuration, authorities: Iterable[x509.Certificate] | None = None
) -> SignedRoster | None:
    """The newest of the roster that a node keeps and the one that it is given, if there is any.

    Where none can be used that is refused: without it revoked members would be let in again. `authorities`: by default
    those in the file of the CA.
    """
    if configuration.identity is None:
        return None
    trusted = list(authorities or read_certificates(configuration.identity.ca, "The CA"))
    rosters, failures = list[SignedRoster](), list[InvalidInput]()
    for path in (configuration.state / FILE, configuration.identity.roster):
        if path is not None and path.exists():
            try:
                rosters.append(parse_roster(read_bytes(path, "The roster"), trusted, path))
            except InvalidInput as error:
                failures.append(error)
    if failures and not rosters:
        raise InvalidInput(f"{str(failures[0]).rstrip('.')}: put the CA's newest roster in its place.") from failures[0]
    return max(rosters, key=lambda roster: roster.number, default=None)


def apply_roster(configuration: Configuration, roster: SignedRoster | None) -> Configuration:
    """The configuration with the roster's members as peers, each with the rights that the node's file gives it.

    Who is not in that file has the rights of a peer without further ado. A roster without members leaves the peers. A
    node that was removed goes on to call the members, who may do nothing at it: when it is added again, they let it in
    and pass on that roster.
    """
    if roster is None or not roster.members:
        return configuration
    known = {peer.name: peer for peer in configuration.peers}
    default = frozenset((QUERY,) if configuration.evidence == OWN else (QUERY, OPINION))
    peers = (
        replace(known.get(name, Peer(name, address, default)), address=address)
        for name, address in sorted(roster.members.items())
        if name != configuration.name
    )
    clients = tuple(client for client in configuration.clients if client.name not in roster.members)
    if configuration.name not in roster.members:
        peers = (replace(peer, may=frozenset[str](), use=frozenset((QUERY,))) for peer in peers)
    return replace(configuration, peers=tuple(peers), clients=clients)
