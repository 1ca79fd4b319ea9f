"""``degroot keys``: each step is told in a line or two, each mistake in one."""

import errno
import os
import re

import pytest
from support.authority import load


@pytest.fixture
def at_home(tmp_path, monkeypatch):
    """The CA's folder, `keys`, and a member's, `north`."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


FINGERPRINT = r"fingerprint of the key: ((?:[0-9a-f]{4} ){7}[0-9a-f]{4})"


def test_from_a_request_to_a_roster_and_a_revocation(degroot, at_home):
    degroot("keys", "init", "--out", "keys", "--name", "Coast")
    request = degroot("keys", "request", "north", "--out", "north", "--host", "north.example.org")
    assert request.out.splitlines()[:2] == [
        "north/north.csr: for the CA, which signs it with: degroot keys sign north.csr",
        "north/north.key: for 'north' only; it stays here",
    ]
    signed = degroot("keys", "sign", "north/north.csr", "--out", "keys", "--days", 30)
    assert re.match(r"keys/north.pem: for 'north', valid until 20\d\d-\d\d-\d\d \d\d:\d\d UTC\n", signed.out)
    assert "hosts: north.example.org\n" in signed.out
    assert re.search(FINGERPRINT, request.out)[1] == re.search(FINGERPRINT, signed.out)[1]
    assert not (at_home / "keys" / "north.key").exists()
    made = degroot("keys", "roster", "--member", "north@north.example.org:7443", "--member", "south@[::1]:7443")
    assert made.out.splitlines() == [
        "keys/roster.toml: number 1, for any node: it is passed on",
        "  member   north at north.example.org:7443",
        "  member   south at [::1]:7443",
    ]
    assert degroot("keys", "roster").out == made.out
    removed = degroot("keys", "revoke", "north", "--remove")
    serial = load(at_home / "keys" / "north.pem").serial_number
    assert removed.out.splitlines() == [
        "keys/roster.toml: number 2, for any node: it is passed on",
        "  member   south at [::1]:7443",
        f"  revoked  north, certificate {serial:x}",
    ]
    begun = degroot("keys", "rotate")
    assert begun.out.splitlines() == [
        "keys/ca.pem: both CAs, for every node",
        "keys/roster.toml: number 3, signed by both, for any node: it is passed on",
        "then renew all certificates",
    ]
    assert degroot("keys", "roster").out.startswith("keys/roster.toml: number 3,")
    assert degroot("keys", "rotate", "--finish").out == "keys/ca.pem: the CA before is dropped; for every node\n"


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (["request", "North"], "must be small letters"),
        (["request", "north", "--host", "north:7443"], "without a port"),
        (["sign", "nowhere.csr"], "The request must be a file that can be read; nowhere.csr: No such file"),
        (["sign", "keys/ca.pem"], "must be what `degroot keys request` writes"),
        (["sign", "good.csr", "--days", "0"], "1 to 36500 days; got 0"),
        (["sign", "good.csr", "--out", "nowhere"], "nowhere/ca.pem: No such file"),
        (["issue", "north", "--out", "nowhere"], "No such file"),
        (["roster"], "There must be a roster to show; keys/roster.toml is not there"),
        (["roster", "--out", "nowhere", "--member", "north@a:1"], "No such file"),
        (["roster", "--member", "north"], "must be \"host:port\"; got ''"),
        (["roster", "--member", "north@host"], 'must be "host:port"'),
        (["roster", "--member", "@host:1"], "must be small letters"),
        (["roster", "--member", "north@host:99999"], "must have a port from 1 to 65535"),
        (["roster", "--remove", "north"], "must be one of nobody; got 'north'"),
        (["revoke", "north"], "must have issued certificates to 'north'"),
        (["revoke", "north", "--certificate", "nowhere.pem"], "No such file"),
        (["rotate", "--finish"], "There must be a rotation to finish"),
        (["rotate", "--days", "0"], "1 to 36500 days"),
        (["rotate", "--force"], "`--force` must come with `--finish`"),
        (["rotate", "--finish", "--days", "30"], "`--days` must come without `--finish`"),
        (["sign", "good.csr", "--fingerprint", "0123"], "must have the fingerprint '0123'; that of good.csr has"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(degroot, at_home, command, problem):
    degroot("keys", "init")
    degroot("keys", "request", "good", "--out", ".")
    before = {path: path.read_bytes() for path in (at_home / "keys").iterdir()}
    ended = degroot("keys", *command)
    assert ended.code == 2
    assert ended.out == ""
    (line,) = ended.err.splitlines()
    assert problem in line
    assert {path: path.read_bytes() for path in (at_home / "keys").iterdir()} == before


def test_what_takes_the_place_of_something_else_is_told(degroot, at_home):
    degroot("keys", "init")
    degroot("keys", "request", "north", "--out", "north")
    assert "differs" not in degroot("keys", "sign", "north/north.csr").out
    first = degroot("keys", "request", "north", "--out", "north", "--new-key").out
    assert "was there already" not in first
    again = degroot("keys", "request", "north", "--out", "north", "--new-key").out.splitlines()
    told = "north/north.new.key: was there already, and is used again; remove it to get another key"
    assert again == [*first.splitlines()[:2], told, *first.splitlines()[2:]]
    fingerprint = re.search(FINGERPRINT, first)[1]
    signed = degroot("keys", "sign", "north/north.new.csr", "--fingerprint", fingerprint)
    assert "the key differs from that of the certificate before: make sure" in signed.out
    made = degroot("keys", "init", "--force").out.splitlines()
    (former,) = (at_home / "keys").glob("before-*")
    assert made[2] == f"keys/{former.name}: the CA before, with its key, roster and list of certificates"
    assert "roster" not in degroot("keys", "rotate").out  # there is none to give


def test_a_ca_whose_files_are_damaged_signs_nothing(degroot, at_home):
    degroot("keys", "init")
    degroot("keys", "roster", "--member", "north@a:1")
    roster = at_home / "keys" / "roster.toml"
    roster.write_text(roster.read_text().replace("a:1", "a:2"))
    before = {path: path.read_bytes() for path in (at_home / "keys").iterdir()}
    for command in (["roster"], ["roster", "--member", "south@b:1"], ["revoke", "north"], ["rotate"]):
        ended = degroot("keys", *command)
        assert ended.code == 2
        assert "A roster must be signed by the consortium's CA; keys/roster.toml is not" in ended.err
    assert {path: path.read_bytes() for path in (at_home / "keys").iterdir()} == before


def test_files_of_another_user_are_one_line_wherever_they_are_met(degroot, at_home, monkeypatch):
    def is_denied(folder):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder / "roster.toml"))

    monkeypatch.setattr("degroot.node.tls.roster.read_own", is_denied)
    ended = degroot("keys", "roster")
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert "open to the user who runs this; keys/roster.toml: Permission denied" in line
