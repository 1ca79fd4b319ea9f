"""Credentials: renewed files are taken in as a whole or not at all, and certificates that lapse are noticed."""

import asyncio
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from support.authority import end_after, identity_files, load, renew, server_credentials
from support.consortium import free_ports
from support.refusals import complaint

from degroot.node.peers.instances import DUPLICATE_SECONDS, InstanceWatch
from degroot.node.protocol.codec import LONGEST_PLACES, clean_places, draw_question
from degroot.node.tls.authority import (
    encode,
    init_ca,
    issue,
    make_ca,
    open_authority,
    request_certificate,
    sign_request,
)
from degroot.node.tls.credentials import Lapsed, NodeCredentials
from degroot.node.tls.roster import write_roster
from degroot.node.tls.rotation import begin_rotation, finish_rotation
from degroot.node.tls.signing import LEDGER_CONTEXT, keep_authorities, make_checker, read_former


@pytest.fixture
def keys(tmp_path):
    folder = tmp_path / "keys"
    init_ca(folder, "coast")
    for name in ("north", "south"):
        issue(folder, name)
    return folder


@pytest.fixture
def north(keys):
    return NodeCredentials(identity_files(keys, "north"), "north")


def renew_ca(folder):
    """Another certificate of the CA, for the key that is there."""
    ca = open_authority(folder)
    subject, begins = ca.certificate.subject, ca.certificate.not_valid_before_utc
    ends = ca.certificate.not_valid_after_utc + timedelta(days=1)
    number = x509.random_serial_number()
    builder = x509.CertificateBuilder(subject, subject, ca.key.public_key(), number, begins, ends)
    for extension in ca.certificate.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    (folder / "ca.pem").write_bytes(encode(builder.sign(ca.key, hashes.SHA256())))


def read_chain(keys, name):
    """What gRPC tells of a caller."""
    return (keys / f"{name}.pem").read_bytes()


# -- what was signed before ------------------------------------------------------------------------------------------


def test_records_of_a_former_ca_are_checked_by_what_was_trusted_then(keys, north, tmp_path):
    keep_authorities(tmp_path, north.authorities)
    signature, certificate = north.sign(LEDGER_CONTEXT, b"head")
    begin_rotation(keys)
    for name in ("north", "south"):
        renew(keys, name)
    finish_rotation(keys)
    assert north.refresh()
    keep_authorities(tmp_path, north.authorities)
    keep_authorities(tmp_path, north.authorities)  # once is enough
    assert len(read_former(tmp_path)) == 2
    check = make_checker(keys / "ca.pem", tmp_path)
    check(LEDGER_CONTEXT, b"head", signature, certificate, "north")
    assert "must be that of" in complaint(lambda: check(LEDGER_CONTEXT, b"other", signature, certificate, "north"))
    check = make_checker(keys / "ca.pem")
    assert "signed by the" in complaint(lambda: check(LEDGER_CONTEXT, b"head", signature, certificate, "north"))


# -- the own identity --------------------------------------------------------------------------------------------------


def test_renewed_files_are_taken_in_and_unchanged_ones_are_not(keys, north):
    serial, ends = north.serial, north.expires
    assert not north.refresh()
    assert not north.refresh(force=True)
    (keys / "north.pem").write_bytes((keys / "north.pem").read_bytes())  # touched only
    assert not north.refresh()
    assert (north.generation, north.serial) == (0, serial)
    renew(keys, "north", 600)
    assert north.refresh()
    assert north.generation == 1
    assert north.serial == f"{load(keys / 'north.pem').serial_number:x}" != serial
    assert north.expires > ends


def test_a_pair_that_is_half_written_is_refused_and_the_old_identity_goes_on(keys, north):
    home = keys.parent / "home"
    request, new_key, _ = request_certificate(home, "north")
    serial, message = north.serial, b"message"
    sign_request(keys, request)  # the certificate is there, and the key before it
    for _ in range(2):
        assert "north.key does not belong to" in complaint(north.refresh)
        assert (north.serial, north.generation) == (serial, 0)
        signature, chain = north.sign(b"context", message)
        assert x509.load_pem_x509_certificate(chain).serial_number == int(serial, 16)
        assert signature
    shutil.copyfile(new_key, keys / "north.key")
    assert north.refresh()
    assert north.serial != serial


@pytest.mark.parametrize("content", [b"", b"nothing", None])
@pytest.mark.parametrize("part", ["ca.pem", "north.pem", "north.key"])
def test_files_that_cannot_be_used_are_tried_again_until_they_can(keys, north, part, content):
    whole = (keys / part).read_bytes()
    if content is None:
        (keys / part).unlink()
    else:
        (keys / part).write_bytes(content)
    for _ in range(2):
        complaint(north.refresh)
    (keys / part).write_bytes(whole)
    assert not north.refresh()
    assert north.generation == 0


def test_the_certificate_of_somebody_else_is_not_taken_in(keys, north):
    for suffix in (".pem", ".key"):
        shutil.copyfile(keys / f"south{suffix}", keys / f"north{suffix}")
    assert "must be for 'north'" in complaint(north.refresh)


def test_when_the_ca_ends_is_known_while_two_are_trusted(keys, north):
    first = load(keys / "ca.pem").not_valid_after_utc
    begin_rotation(keys, days=5000)
    assert north.refresh()
    assert north.ca_expires == first  # of the CA by which this node is known
    renew(keys, "north")
    north.refresh()
    assert north.ca_expires > first


# -- certificates of others --------------------------------------------------------------------------------------------


def test_a_caller_is_good_until_its_certificate_ends(keys, north):
    ends = end_after(keys, "south", 3600)
    chain, certificate = read_chain(keys, "south"), load(keys / "south.pem")
    assert north.find_caller_lapse(chain) is None
    assert north.find_lapse(certificate, ends) is None
    told = f"its certificate expired on {ends:%Y-%m-%d %H:%M} UTC"
    assert north.find_lapse(certificate, ends + timedelta(seconds=1)) == told
    end_after(keys, "south", -1)
    assert "its certificate expired on" in north.find_caller_lapse(read_chain(keys, "south"))


@pytest.mark.parametrize(("days", "told"), [(4000, "expired on"), (-4000, "is not valid before")])
def test_a_clock_that_is_wrong_for_a_while_refuses_callers_no_longer_than_that(keys, north, monkeypatch, days, told):
    class Wrong(datetime):
        @classmethod
        def now(cls, zone=None):
            return datetime.now(zone) + timedelta(days=days)

    chain = read_chain(keys, "south")
    assert north.find_caller_lapse(chain) is None
    with monkeypatch.context() as patched:
        patched.setattr("degroot.node.tls.credentials.datetime", Wrong)
        assert north.find_caller_lapse(chain).startswith(f"its certificate {told} 20")
    assert north.find_caller_lapse(chain) is None


def test_a_revoked_caller_is_refused_and_its_next_certificate_is_good(keys, north):
    chain = read_chain(keys, "south")
    assert north.find_caller_lapse(chain) is None
    roster = write_roster(keys, revoke=["south"])
    north.use_roster(roster)
    assert north.generation == 1  # connections are made anew
    assert north.find_caller_lapse(chain) == "its certificate was revoked (roster 1)"
    renew(keys, "south")  # the same key and name
    assert north.find_caller_lapse(read_chain(keys, "south")) is None
    assert north.find_caller_lapse(chain) is not None
    assert not north.is_revoked
    north.use_roster(write_roster(keys, revoke=["north"]))
    assert north.is_revoked


def test_callers_of_a_ca_that_was_dropped_are_refused(keys, north):
    chain = read_chain(keys, "south")
    begin_rotation(keys)
    renew(keys, "north")
    north.refresh()
    assert north.find_caller_lapse(chain) is None
    finish_rotation(keys, force=True)
    north.refresh()
    assert north.find_caller_lapse(chain) == "its certificate is of a CA that is trusted no longer"


def test_callers_of_a_ca_that_was_renewed_with_its_key_are_good_until_it_is_dropped(keys, north):
    chain = read_chain(keys, "south")
    renew_ca(keys)
    assert north.refresh()
    assert north.find_caller_lapse(chain) is None
    begin_rotation(keys)
    renew(keys, "north")
    finish_rotation(keys, force=True)
    assert north.refresh()
    assert north.find_caller_lapse(chain) == "its certificate is of a CA that is trusted no longer"
    assert north.find_caller_lapse(read_chain(keys, "north")) is None


@pytest.mark.parametrize("chain", [b"", b"nothing", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_a_chain_that_cannot_be_read_lets_nobody_in(north, chain):
    assert north.find_caller_lapse(chain) == "its certificate cannot be read"


# -- looking at a node's certificate -----------------------------------------------------------------------------------


@contextmanager
def serving(keys, name):
    """A gRPC server that shows the certificate of `name`, and lets in who has one."""
    (port,) = free_ports(1)
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_secure_port(f"127.0.0.1:{port}", server_credentials(identity_files(keys, name)))
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def look(credentials, address, name="south", seconds=60.0):
    return asyncio.run(credentials.look_at(address, name, seconds))


def why_lapsed(credentials, address, name="south"):
    with pytest.raises(Lapsed) as caught:
        look(credentials, address, name)
    return str(caught.value)


def test_the_certificate_of_a_node_is_looked_at_without_showing_the_own(keys, north, tmp_path):
    with serving(keys, "south") as address:
        assert look(north, address) == load(keys / "south.pem")
        assert why_lapsed(north, address, "west") == "its certificate is for 'south'"
        north.use_roster(write_roster(keys, revoke=["south"]))
        assert why_lapsed(north, address) == "its certificate was revoked (roster 1)"
    end_after(keys, "south", -3600)
    with serving(keys, "south") as address:
        assert why_lapsed(north, address) == "its certificate has expired"
    end_after(keys, "south", 400 * 86400, datetime.now(UTC))
    other = tmp_path / "other"
    init_ca(other, "coast")
    issue(other, "south")
    with serving(other, "south") as address:
        assert why_lapsed(north, address).startswith("its certificate is not good: ")


def test_an_authority_need_not_be_a_root(keys, tmp_path):
    """Organisations give `ca.pem` an authority that another has signed, without that one."""
    root, key = make_ca(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")]), 30, None)
    now = load(keys / "ca.pem")
    between = (
        x509.CertificateBuilder(
            root.subject, now.subject, now.public_key(), x509.random_serial_number(), now.not_valid_before_utc,
            root.not_valid_after_utc,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    (keys / "ca.pem").write_bytes(encode(between))
    credentials = NodeCredentials(identity_files(keys, "north"), "north")
    with serving(keys, "south") as address:
        assert look(credentials, address) == load(keys / "south.pem")


def test_comments_in_the_file_of_the_ca_are_no_matter(keys, north):
    path = keys / "ca.pem"
    path.write_text(f"# Küste\n{path.read_text()}", encoding="utf-8")
    assert north.refresh()
    with serving(keys, "south") as address:
        assert look(north, address) == load(keys / "south.pem")


def test_a_certificate_that_only_openssl_can_read_is_not_good(keys, north, monkeypatch):
    def refuse(_):
        raise ValueError("a foreign error")

    monkeypatch.setattr(x509, "load_der_x509_certificate", refuse)
    with serving(keys, "south") as address:
        assert why_lapsed(north, address) == "its certificate cannot be read"


def test_nobody_there_and_silence_are_no_lapses(north):
    (port,) = free_ports(1)
    with pytest.raises(OSError, match="onnect"):
        look(north, f"127.0.0.1:{port}")
    with pytest.raises(OSError, match=r"^A host must be one that can be looked up; got 'a\.\.b'\.$"):
        look(north, f"a..b:{port}")
    listening = threading.Event()

    async def scene():
        async def stay_silent(reader, writer):
            listening.set()
            try:
                await reader.read()
            finally:
                writer.transport.abort()

        server = await asyncio.start_server(stay_silent, "127.0.0.1", port)
        async with server:
            with pytest.raises(TimeoutError):
                await north.look_at(f"127.0.0.1:{port}", "south", 0.2)

    asyncio.run(scene())
    assert listening.is_set()


# -- instances ---------------------------------------------------------------------------------------------------------


def number(text):
    """A process's number, as one is drawn."""
    return text.rjust(16, "0")


@given(runs=st.lists(st.tuples(st.text("abc", min_size=1, max_size=3), st.integers(1, 4)), max_size=100))
def test_restarts_are_no_duplicates_and_any_return_is_one(runs):
    """Each process speaks a few times and then another one; a duplicate is where one that was followed speaks again."""
    now = [0.0]
    watch, seen, last, returned = InstanceWatch(lambda: now[0]), set(), None, False
    for instance, times in runs:
        returned |= instance in seen and instance != last
        seen.add(instance)
        last = instance
        for _ in range(times):
            watch.note("north", number(instance), "somewhere")
        assert watch.is_duplicate("north") == returned
    now[0] += DUPLICATE_SECONDS
    assert not watch.is_duplicate("north")


def test_a_duplicate_is_told_once_named_by_where_it_is_and_forgotten_when_it_falls_silent():
    now = [0.0]
    watch = InstanceWatch(lambda: now[0])
    a, b = number("a"), number("b")
    assert [watch.note("north", each, f"at {each[-1]}") for each in (a, a, b)] == [False] * 3
    assert watch.describe("north") == ""
    assert watch.note("north", a, "at a")  # it runs still
    assert watch.describe("north") == "at a and at b"
    assert watch.describe("north", instance=a) == "at b"  # what the one is told of the other
    for _ in range(20):
        now[0] += DUPLICATE_SECONDS / 4
        assert not watch.note("north", b, "at b")
        assert not watch.note("north", a, "at a")  # known
        assert watch.is_duplicate("north")
    for _ in range(9):
        now[0] += DUPLICATE_SECONDS / 8
        watch.note("north", a, "at a")
    assert not watch.is_duplicate("north")  # the other one has stopped
    assert watch.describe("north", instance=a) == ""
    assert watch.note("north", b, "at b")
    assert not watch.is_duplicate("south")
    watch.forget("north")
    assert not watch.is_duplicate("north")


def test_peers_of_the_version_before_tell_of_no_instance():
    watch = InstanceWatch()
    for instance in ("", number("a"), "", number("b"), ""):
        assert not watch.note("north", instance, "")
    assert not watch.is_duplicate("north")


def test_what_a_member_makes_up_takes_no_room():
    watch = InstanceWatch()
    drawn = [draw_question() for _ in range(1000)]
    for instance in drawn:
        watch.note("north", instance, "somewhere")
    for made_up in ("a" * 10_000_000, "a" * 15, "A" * 16, "g" * 16, f"{number('a')}\n", "ä" * 16):
        assert not watch.note("north", made_up, "somewhere")
    known = watch._known["north"]
    assert known.latest == drawn[-1]
    assert list(known.earlier) == drawn[-65:-1]
    assert clean_places("") == ""
    assert clean_places("at\n" * 10_000_000) == "at?" * (LONGEST_PLACES // 3)
    assert clean_places("10.0.0.7 and [::1]:7443") == "10.0.0.7 and [::1]:7443"
