"""Longer drills: a certificate that ends, the CA's key replaced, and members that join, move and leave, under load."""

import signal
import subprocess
import sys

import pytest
from support.authority import end_after, load, renew
from support.coast import GIVEN, Coast, hurry
from support.consortium import CLIENT, free_ports
from support.drills import points, until
from support.under_load import UnderLoad, count_lines, read_log

from degroot.node.tls.authority import issue
from degroot.node.tls.rotation import begin_rotation, finish_rotation

pytestmark = pytest.mark.slow

SHORT_SECONDS = 75


@pytest.fixture
def coast(tmp_path):
    with Coast(tmp_path) as consortium:
        yield consortium.fork(before=hurry).see_whole()


def check_node(consortium, name):
    """The lines of `degroot node check`."""
    command = [sys.executable, "-c", "from degroot.cli import main; main()", "node", "check"]
    file = consortium.folder / name / "node.toml"
    return subprocess.run([*command, str(file)], capture_output=True, text=True).stdout.splitlines()


def test_a_certificate_ends_under_load_and_the_reason_says_so_everywhere(coast):
    before, ended = count_lines(coast), "node3"
    ends = end_after(coast.keys, ended, SHORT_SECONDS)
    serial = f"{load(coast.keys / f'{ended}.pem').serial_number:x}"
    coast.see("certificate taken in", ended, after=before, serial=serial)
    with UnderLoad(coast, "node0", "node1") as asking:
        assert coast.has_logged(ended, "certificate expires", before[ended], days=0)
        reason = f"its certificate expired on {ends:%Y-%m-%d %H:%M} UTC"
        for name in coast.names[:3]:
            until(
                lambda name=name: coast.find_reasons(name).get(ended, "").count("expired"),
                lambda name=name: str(coast.find_reasons(name)),
                300,
            )
        assert {each for each in asking.reasons[ended] if "expired" not in each} <= {
            "unreachable (its certificate could not be looked at)"
        }
        coast.see("refused", "node1", after=before, caller=ended, reason="certificate")
        refusals = read_log(coast, "node1", "refused", before["node1"])
        assert f"'node3' is not let in: {reason}." in {line["why"] for line in refusals}
        assert any("expired" in line["reason"] for line in read_log(coast, "node0", "peer not ready", before["node0"]))
        coast.see("certificate expired", ended, after=before, name=ended)
        assert coast.measure(ended, f'certificate_expiry_timestamp_seconds{{name="{ended}"}}') == ends.timestamp()
        (line,) = (line for line in check_node(coast, "node0") if "peer node3" in line)
        assert line.startswith("warning")
        assert "expired" in line
        (line,) = (line for line in check_node(coast, ended) if "identity" in line)
        assert line.startswith("failed")
        assert "expired on" in line
        renew(coast.keys, ended)  # nobody is started again
        coast.see_whole()
    assert set(asking.reasons) == {ended}


def test_the_cas_key_is_replaced_step_by_step_under_load(coast):
    coast.sign(revoke=[CLIENT])  # a roster that has to be good under the new key, too
    issue(coast.keys, CLIENT, 90, ["127.0.0.1", "localhost"], force=True)
    before = count_lines(coast)
    with UnderLoad(coast, "node0", "node1") as asking:
        begin_rotation(coast.keys)  # all nodes have their ca.pem from there
        coast.see("certificate taken in", after=before)
        coast.give()
        coast.see("roster taken in", after=before, number=2)
        before = count_lines(coast)
        for name in (*coast.names, CLIENT):
            renew(coast.keys, name)
        for name in coast.names:
            serial = f"{load(coast.keys / f'{name}.pem').serial_number:x}"
            coast.see("certificate taken in", name, after=before, serial=serial)
    assert asking.reasons == {}
    before = count_lines(coast)
    with UnderLoad(coast, "node0", "node1") as asking:  # the client has its new certificate
        finish_rotation(coast.keys)
        coast.see("certificate taken in", after=before)
        asked = len(asking.answers)
        until(lambda: len(asking.answers) > asked + 5, "nothing is answered")
    assert asking.reasons == {}
    for name in coast.names:  # the roster is good under the new key alone
        coast.kill(name, signal.SIGTERM)
    coast.fork(before=hurry).see_whole()
    assert coast.measure("node3", "roster_number") == 2


def test_members_join_move_and_leave_by_the_roster_and_no_question_fails(coast):
    addresses = {name: f"127.0.0.1:{port}" for name, port in coast.ports.items()}
    coast.kill("node3", signal.SIGTERM)
    number = coast.sign(add=[(name, addresses[name]) for name in coast.names[:3]])
    coast.see("roster taken in", *coast.names[:3], number=number)
    for name in coast.names[:3]:
        until(lambda name=name: coast.find_reasons(name) == {}, "node3 is still a member")
    with UnderLoad(coast, "node0", "node1") as asking:
        number = coast.sign(add=[("node3", addresses["node3"])])  # joins
        coast.fork("node3", before=hurry)
        coast.see_whole()
        coast.kill("node2", signal.SIGTERM)  # moves
        (port,) = free_ports(1)
        coast.ports["node2"] = port
        coast.write("node2")
        coast.sign(add=[("node2", f"127.0.0.1:{port}")])
        coast.fork("node2", before=hurry)
        coast.see_whole()
        number = coast.sign(remove=["node3"])  # leaves
        coast.see("roster taken in", *coast.names[:3], number=number)  # node3 is told nothing any more
        for name in coast.names[:3]:
            until(lambda name=name: coast.find_reasons(name) == {}, "node3 is still missed")
        with coast.connect("node0") as node:
            assert node.consult(points(1)).names == tuple(coast.names[:3])
    assert set(asking.reasons) <= {"node2", "node3"}
    assert coast.has_logged(GIVEN, "roster taken in", number=number, source="file")
