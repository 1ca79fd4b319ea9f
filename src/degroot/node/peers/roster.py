"""The roster that a node goes by: the newest that the CA has signed, from its file, its state folder or a peer."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from cryptography import x509

from degroot.exceptions import InvalidInput
from degroot.files.atomic import find_stamp, make_folder, save_durably
from degroot.node.config import OPINION, OWN, QUERY, Configuration, Peer
from degroot.node.tls.contents import read_bytes
from degroot.node.tls.files import read_certificates
from degroot.node.tls.roster import FILE, SignedRoster, is_signed, parse_roster


class OutdatedRoster(InvalidInput):
    """A roster whose number is not higher than that of the one taken in."""


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
        self._stamp: object = None  # of the file that is given, when it was last found good
        self._is_saved = True  # whether the state folder has the roster
        self._judged: tuple[SignedRoster, tuple[x509.Certificate, ...], bool] | None = None  # the last by `_counts`
        self.current: SignedRoster | None = None
        self.damage = ""  # why the one that was kept could not be read when the node started, if it could not

    @property
    def number(self) -> int:
        """Of the roster; 0: there is none that one of the CA's present keys has signed.

        Another is gone by as long as there is none, and gives way to any: the key that signed it may have been stolen.
        """
        return 0 if self.current is None or not self._counts(self.current) else self.current.number

    def _counts(self, roster: SignedRoster) -> bool:
        authorities, known = tuple(self._authorities()), self._judged
        if known is None or known[0] is not roster or known[1] != authorities:
            known = self._judged = roster, authorities, is_signed(roster.content, authorities)
        return known[2]

    def load(self) -> None:
        """Take in what is kept and what is given, before the node starts."""
        stamp = None if self._given is None else find_stamp(self._given)
        found = read_rosters(self._configuration, self._authorities())
        newest = find_newest(found)
        if self._given is not None and isinstance(found.get(self._given), SignedRoster):
            self._stamp = stamp
        kept = found.get(self._path)
        self.damage = str(kept) if isinstance(kept, InvalidInput) else ""
        if newest is not None:
            self.offer(newest.content, self._path)

    def look_at_file(self, *, force: bool = False) -> SignedRoster | None:
        """What is given in a file, if that has changed and is newer than what was taken in.

        A file that has not changed may be older by now, since members pass newer rosters on.
        """
        stamp = None if self._given is None else find_stamp(self._given)
        if self._given is None or stamp is None or (stamp == self._stamp and not force):
            return None
        try:
            offered = self.offer(read_bytes(self._given, "The roster"), self._given)
        except OutdatedRoster:
            if stamp == self._stamp:
                return None
            raise
        self._stamp = stamp
        return offered

    def offer(self, content: bytes, where: object) -> SignedRoster | None:
        """Take in a roster that the CA has signed, whose number has to be higher; None: it is the one that is here.

        Raises InvalidInput where it cannot be taken in. One that cannot be saved holds too: `save` tries again.
        """
        if self.current is not None and content == self.current.content:
            return None
        offered, current = parse_roster(content, self._authorities(), where), self.current
        if current is not None and offered.number <= self.number:
            if _strip(offered) == _strip(current):
                return None
            raise OutdatedRoster(
                f"A roster must have a higher number than {current.number}, which is taken in; {where} has "
                f"{offered.number}."
            )
        self.current, self._is_saved = offered, False
        with suppress(InvalidInput):  # revocations hold at once, also while the disk is full
            self.save()
        return offered

    def save(self) -> None:
        """Keep the roster in the state folder, if it is not there yet."""
        if self._is_saved or self.current is None:
            return
        make_folder(self._path.parent)
        try:
            save_durably(self._path, self.current.content)
        except OSError as error:
            raise InvalidInput(f"A roster must be kept in the state folder; {self._path}: {error.strerror}.") from error
        self._is_saved = True


def _strip(roster: SignedRoster) -> SignedRoster:
    """What a roster says, whoever has signed it."""
    return replace(roster, content=b"")


def read_newest(
    configuration: Configuration, authorities: Iterable[x509.Certificate] | None = None
) -> SignedRoster | None:
    """The newest of the roster that a node keeps and the one that it is given, if there is any."""
    return find_newest(read_rosters(configuration, authorities))


def read_rosters(
    configuration: Configuration, authorities: Iterable[x509.Certificate] | None = None
) -> dict[Path, SignedRoster | InvalidInput]:
    """The roster that a node keeps and the one that it is given, by file, as far as they are there, or what is wrong.

    `authorities`: by default those in the file of the CA.
    """
    found = dict[Path, SignedRoster | InvalidInput]()
    if configuration.identity is None:
        return found
    trusted = list(authorities or read_certificates(configuration.identity.ca, "The CA"))
    for path in (configuration.state / FILE, configuration.identity.roster):
        if path is not None and path.exists():
            try:
                found[path] = parse_roster(read_bytes(path, "The roster"), trusted, path)
            except InvalidInput as error:
                found[path] = error
    return found


def find_newest(found: Mapping[Path, SignedRoster | InvalidInput]) -> SignedRoster | None:
    """The roster with the highest number, if there is any.

    Where none can be used that is refused: without it revoked members would be let in again.
    """
    rosters = [each for each in found.values() if isinstance(each, SignedRoster)]
    failures = [each for each in found.values() if isinstance(each, InvalidInput)]
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
