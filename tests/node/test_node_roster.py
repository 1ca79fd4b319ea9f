"""The signed roster: only the CA can change it, and numbers only rise."""

import errno
import os
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.authority import identity_files, load
from support.consortium import Consortium
from support.refusals import complaint

from degroot.exceptions import InvalidInput
from degroot.node.config import COPY, OPINION, QUERY
from degroot.node.peers import roster as roster_module
from degroot.node.peers.roster import RosterStore, apply_roster, read_newest
from degroot.node.tls.authority import init_ca, issue, open_authority
from degroot.node.tls.files import read_certificates
from degroot.node.tls.roster import (
    FILE,
    MAX_ROSTER_BYTES,
    MAX_SIGNATURES,
    SignedRoster,
    _encode,
    _sign,
    parse_roster,
    read_own,
    write_roster,
)
from degroot.node.tls.rotation import begin_rotation, finish_rotation

PAIR = [("north", "north.example.org:7443"), ("south", "10.0.0.7:7443")]


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A CA with four certificates, and the rosters that it has signed, one after the other."""
    folder = tmp_path_factory.mktemp("ca") / "keys"
    init_ca(folder, "coast")
    for name in ("north", "south", "west", "analyst"):
        issue(folder, name)
    return folder


@pytest.fixture(scope="module")
def signed(keys):
    return write_roster(keys, add=PAIR, revoke=["west"]), load(keys / "ca.pem")


def sign(folder, number, members=(), revoked=None, authorities=None):
    """A roster of any number, as only the holder of the CA's key can make it."""
    roster = SignedRoster(number, "2026-01-01T00:00:00Z", dict(members), revoked or {})
    return _sign(_encode(roster), authorities or [open_authority(folder)])


def test_a_roster_says_who_is_in_and_whose_certificates_are_good_no_longer(keys, signed):
    roster, ca = signed
    assert dict(roster.members) == dict(PAIR)
    assert roster.revoked_serials == {load(keys / "west.pem").serial_number}
    assert parse_roster(roster.content, [ca], "it") == roster
    assert read_own(keys) == roster


def test_rosters_are_numbered_and_each_goes_on_from_the_one_before(tmp_path):
    init_ca(tmp_path)
    first, second = issue(tmp_path, "north")[0], issue(tmp_path, "south")[0]
    assert read_own(tmp_path) is None
    assert write_roster(tmp_path, add=PAIR).number == 1
    moved = write_roster(tmp_path, add=[("south", "10.0.0.8:7443")])
    assert (moved.number, moved.members["south"], moved.members["north"]) == (2, "10.0.0.8:7443", PAIR[0][1])
    serials = [load(path).serial_number for path in (first, second)]
    revoked = write_roster(tmp_path, revoke=["south"], remove=["south"])
    assert (dict(revoked.members), revoked.revoked) == (dict(PAIR[:1]), {serials[1]: "south"})
    issue(tmp_path, "south", force=True)
    later = write_roster(tmp_path, add=PAIR[1:])
    assert (later.number, later.revoked) == (4, {serials[1]: "south"})  # revoked once and for all; the new one is good
    assert write_roster(tmp_path, revoke=["north"]).revoked_serials == set(serials)


@settings(max_examples=100)
@given(place=st.integers(0, 10_000), change=st.integers(1, 255))
@example(place=0, change=1)
def test_no_byte_can_be_changed(signed, place, change):
    roster, ca = signed
    content = bytearray(roster.content)
    content[place % len(content)] ^= change
    try:
        parsed = parse_roster(bytes(content), [ca], "it")
    except InvalidInput:
        return
    else:  # bits of the signature's encoding that mean nothing
        assert replace(parsed, content=b"") == replace(roster, content=b"")


@given(content=st.binary(max_size=300))
@example(b"# signature: A\n")
@example(b"# signature: ====\n")
@example(b"number = 1\n# signature: QUJD\n")
@example(b"")
def test_what_is_no_roster_is_refused_in_one_line(signed, content):
    assert "must be signed by the consortium's CA" in complaint(lambda: parse_roster(content, [signed[1]], "it"))


@settings(max_examples=30)
@given(cut=st.integers(1, 2000))
def test_half_a_roster_is_none(signed, cut):
    content = signed[0].content
    complaint(lambda: parse_roster(content[: -(cut % len(content)) or -1], [signed[1]], "it"))


def test_many_bytes_and_many_signatures_take_no_time(signed, monkeypatch):
    from degroot.node.tls import roster as module

    checked = []
    monkeypatch.setattr(module, "is_signature", lambda *_: bool(checked.append(1)))
    line = signed[0].content.splitlines(keepends=True)[-1]
    flood = b"number = 1\n" + line * 5000
    complaint(lambda: parse_roster(flood, [signed[1]], "it"))
    assert len(checked) == MAX_SIGNATURES
    assert "at most 900000 bytes" in complaint(lambda: parse_roster(bytes(MAX_ROSTER_BYTES + 1), [signed[1]], "it"))
    assert len(checked) == MAX_SIGNATURES  # nothing was checked


def test_rosters_of_another_ca_and_other_messages_of_the_same_are_refused(keys, signed, tmp_path):
    init_ca(tmp_path, "coast")
    issue(tmp_path, "north")
    foreign = write_roster(tmp_path, add=PAIR)
    assert "must be signed by the consortium's CA" in complaint(
        lambda: parse_roster(foreign.content, [signed[1]], "it")
    )
    member = load(keys / "north.pem")  # a member's certificate is none of a CA's
    assert "must be signed" in complaint(lambda: parse_roster(signed[0].content, [member], "it"))


def test_orders_that_make_no_roster_are_refused(keys, tmp_path):
    before = (keys / FILE).read_bytes() if (keys / FILE).exists() else None
    init_ca(tmp_path)
    foreign, _ = issue(tmp_path, "north")
    for act, problem in (
        (lambda: write_roster(keys, add=[("North", "a:1")]), "small letters"),
        (lambda: write_roster(keys, add=[("east", "nowhere")]), 'must be "host:port"'),
        (lambda: write_roster(keys, add=[("east", "a:1"), ("east", "b:1")]), "'east' got a:1 and b:1"),
        (lambda: write_roster(keys, remove=["east"]), "must be one of"),
        (lambda: write_roster(keys, revoke=["east"]), "must have issued certificates to 'east'"),
        (lambda: write_roster(keys, add=[("east", "a:1"), ("far", "a:1")]), "'east' and 'far' have a:1"),
        (lambda: write_roster(keys, revoke=["east"], certificates=[tmp_path / "nowhere"]), "No such file"),
        (lambda: write_roster(keys, revoke=["north"], certificates=[keys / "south.pem"]), "must be for 'north'"),
        (lambda: write_roster(keys, revoke=["north"], certificates=[keys / "ca.pem"]), "must be for 'north'"),
        (lambda: write_roster(keys, revoke=["north"], certificates=[foreign]), "must be issued by this CA"),
    ):
        assert problem in complaint(act)
    assert ((keys / FILE).read_bytes() if (keys / FILE).exists() else None) == before


def test_the_last_member_cannot_be_removed_since_nodes_would_go_by_their_own_files(tmp_path):
    init_ca(tmp_path)
    write_roster(tmp_path, add=PAIR)
    assert "must keep a member" in complaint(lambda: write_roster(tmp_path, remove=["north", "south"]))


@pytest.mark.parametrize(
    "body",
    [
        'number = 0\nissued = "x"\n', 'number = -1\nissued = "x"\n', 'number = 99999999999999999999\nissued = "x"\n',
        'number = "1"\nissued = "x"\n', "number = 1\n", "number", 'number = 1\nissued = "x"\nmembers = 7\n',
        'number = 1\nissued = "x"\n[members]\n"A B" = "a:1"\n', 'number = 1\nissued = "x"\n[members]\nnorth = "a"\n',
        'number = 1\nissued = "x"\n[revoked]\nxyz = "north"\n', 'number = 1\nissued = "x"\nmore = 1\n',
    ],
)  # fmt: skip
def test_a_signed_roster_must_make_sense_too(keys, signed, body):
    complaint(lambda: parse_roster(_sign(body.encode(), [open_authority(keys)]), [signed[1]], "it"))


# -- at a node ---------------------------------------------------------------------------------------------------------


class Stand:
    """A node's configuration with a place for the CA's roster, and the CA."""

    def __init__(self, folder):
        self.made = Consortium(folder, 3)
        self.keys, self.given = folder / "keys", folder / "given.toml"
        made = self.made.configuration("node0")
        self.configuration = replace(made, identity=replace(made.identity, roster=self.given))

    def store(self):
        """What the node has when it starts."""
        store = RosterStore(self.configuration, lambda: read_certificates(self.keys / "ca.pem", "The CA"))
        store.load()
        return store

    def sign(self, number, **settings):
        return sign(self.keys, number, **settings)


@pytest.fixture
def stand(tmp_path):
    return Stand(tmp_path)


@settings(max_examples=8)
@given(numbers=st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_numbers_only_rise_whoever_offers_and_across_restarts(tmp_path_factory, numbers):
    stand = Stand(tmp_path_factory.mktemp("stand"))
    store, highest = stand.store(), 0
    for number in numbers:
        content = stand.sign(number)
        if number < highest:
            complaint(lambda content=content: store.offer(content, "a peer"))
        else:
            assert (store.offer(content, "a peer") is not None) == (number > highest)
        highest = max(highest, number)
        assert store.number == highest
        assert stand.store().number == highest  # after a restart


def test_a_lower_roster_and_another_with_the_same_number_are_refused(stand):
    store = stand.store()
    assert store.offer(stand.sign(5, members=PAIR), "a peer").number == 5
    for content, number in ((stand.sign(4, members=PAIR), 4), (stand.sign(5, members=PAIR[:1]), 5)):
        message = complaint(lambda content=content: store.offer(content, "a peer"))
        assert message == f"A roster must have a higher number than 5, which is taken in; a peer has {number}."
    assert store.offer(stand.sign(5, members=PAIR), "a peer") is None  # the same, with another signature
    assert store.offer(store.current.content, "a peer") is None


def test_the_file_that_is_given_is_looked_at_when_it_changes(stand):
    store = stand.store()
    assert store.look_at_file() is None
    stand.given.write_bytes(stand.sign(1))
    assert store.look_at_file().number == 1
    assert store.look_at_file() is None
    half = stand.sign(2)[:-40]  # is being copied
    stand.given.write_bytes(half)
    for _ in range(2):  # until it is whole
        assert "must be signed" in complaint(store.look_at_file)
    stand.given.write_bytes(stand.sign(2))
    assert store.look_at_file().number == 2
    stand.given.write_bytes(stand.sign(1))
    assert "must have a higher number than 2" in complaint(store.look_at_file)
    stand.given.unlink()
    assert store.look_at_file() is None
    assert stand.store().number == 2  # the state folder has it


def test_a_file_that_has_not_changed_may_be_older_than_what_members_have_passed_on(stand):
    stand.given.write_bytes(stand.sign(1))
    assert stand.store().offer(stand.sign(2), "a peer").number == 2
    store = stand.store()  # after a restart
    for force in (False, True):
        assert store.look_at_file(force=force) is None
    stand.given.write_bytes(stand.sign(1, members=PAIR))
    for force in (False, True):
        assert "must have a higher number than 2" in complaint(lambda force=force: store.look_at_file(force=force))


def test_revocations_hold_while_the_disk_is_full_and_are_kept_when_there_is_room(stand, monkeypatch):
    store = stand.store()

    def fail(path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(roster_module, "save_durably", fail)
        assert store.offer(stand.sign(3), "a peer").number == store.number == 3
        assert "No space left" in complaint(store.save)
        assert stand.store().number == 0
    store.save()
    assert stand.store().number == 3


def test_damage_to_the_kept_roster_is_reported_where_another_takes_its_place(stand):
    stand.store().offer(stand.sign(3), "a peer")
    assert stand.store().damage == ""
    (stand.configuration.state / FILE).write_bytes(b"damaged")
    stand.given.write_bytes(stand.sign(2))
    store = stand.store()
    assert store.number == 2
    assert str(stand.configuration.state / FILE) in store.damage
    assert stand.store().damage == ""  # the other one is kept by now


def test_the_newest_of_what_is_kept_and_given_counts_and_damage_is_refused_only_if_nothing_else_is_there(stand):
    kept = stand.configuration.state / FILE
    stand.store().offer(stand.sign(3), "a peer")
    stand.given.write_bytes(stand.sign(2))
    assert stand.store().number == 3
    stand.given.write_bytes(stand.sign(4))
    assert stand.store().number == 4
    kept.write_bytes(b"damaged")
    assert stand.store().number == 4
    kept.write_bytes(b"damaged")
    stand.given.unlink()
    assert "put the CA's newest roster in its place" in complaint(lambda: read_newest(stand.configuration))


def test_two_cas_while_the_key_is_replaced_and_one_after(stand):
    issue(stand.keys, "north")
    write_roster(stand.keys, add=PAIR)
    store = stand.store()
    store.offer((stand.keys / FILE).read_bytes(), "file")
    first = open_authority(stand.keys)
    begin_rotation(stand.keys)
    both = read_own(stand.keys)
    assert both.number == 2
    assert parse_roster(both.content, [first.certificate], "it") == both  # where the new CA has not arrived
    assert store.offer(both.content, "a peer").number == 2
    old = sign(stand.keys, 3, authorities=[first])
    assert store.offer(old, "a peer").number == 3  # of the retired key, which is trusted still
    finish_rotation(stand.keys, force=True)
    message = complaint(lambda: store.offer(sign(stand.keys, 9, authorities=[first]), "a peer"))
    assert "must be signed by the consortium's CA" in message


def test_a_node_starts_after_the_old_key_is_dropped_if_it_was_given_the_roster_that_both_have_signed(stand):
    first = write_roster(stand.keys, add=PAIR)
    stand.store().offer(first.content, "a peer")
    begin_rotation(stand.keys)
    both = read_own(stand.keys)
    finish_rotation(stand.keys, force=True)
    assert "put the CA's newest roster in its place" in complaint(stand.store)
    stand.given.write_bytes(both.content)
    assert stand.store().number == 2


def test_a_stolen_key_of_the_ca_locks_nobody_out_once_it_is_replaced(stand):
    """Whoever has it can sign any number; under the new key alone that number counts no more."""
    write_roster(stand.keys, add=PAIR)
    store, stolen = stand.store(), open_authority(stand.keys)
    assert store.offer(sign(stand.keys, 2**53, authorities=[stolen]), "a peer").number == 2**53
    begin_rotation(stand.keys)
    both = (stand.keys / FILE).read_bytes()
    assert "must have a higher number" in complaint(lambda: store.offer(both, "file"))
    finish_rotation(stand.keys, force=True)
    assert store.number == 0, "a peer that knows a number passes on what is higher"
    assert store.current.number == 2**53, "and until then it is gone by"
    assert store.offer(both, "file").number == store.number == 2
    assert stand.store().number == 2


def test_the_roster_is_where_peers_come_from_and_the_file_what_they_may(stand):
    configuration = stand.configuration
    members = [("node0", "a:1"), ("node1", "moved:7443"), ("new", "b:1")]
    roster = SignedRoster(1, "", dict(members))
    applied = apply_roster(configuration, roster)
    assert {peer.name: peer.address for peer in applied.peers} == {"node1": "moved:7443", "new": "b:1"}
    known = {peer.name: peer for peer in configuration.peers}
    new = {peer.name: peer for peer in applied.peers}
    assert new["node1"].may == known["node1"].may
    assert new["new"].may == {QUERY, OPINION}  # evidence is pooled here
    assert COPY not in apply_roster(replace(configuration, evidence="own"), roster).rights["new"]
    assert OPINION not in apply_roster(replace(configuration, evidence="own"), roster).rights["new"]
    assert "node2" not in applied.rights
    assert apply_roster(configuration, None) is configuration
    assert apply_roster(configuration, SignedRoster(1, "", {}, {1: "x"})) is configuration
    (peer,) = apply_roster(configuration, SignedRoster(1, "", {"new": "b:1"})).peers  # it is not in it itself
    assert (peer.name, peer.may, peer.use) == ("new", frozenset(), {QUERY})
    client = SignedRoster(1, "", {"node0": "a:1", "analyst": "c:1"})
    assert [each.name for each in apply_roster(configuration, client).clients] == []


def test_without_certificates_there_is_no_roster(stand):
    assert read_newest(replace(stand.configuration, identity=None)) is None
    assert identity_files(stand.keys, "node0").roster is None
