"""Drills with real processes: certificates are renewed, expire and are revoked, and rosters change, under load."""

import shutil
import signal
import threading

import grpc
import pytest
from support.authority import identity_files, load, renew
from support.coast import GIVEN, Coast, hurry
from support.consortium import free_ports
from support.drills import points, right, until
from support.under_load import UnderLoad, count_lines, read_log

from degroot import DeGrootError
from degroot.node.client import connect
from degroot.node.protocol.codec import PROTOCOL, tensor
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.protocol.v3 import collective_pb2_grpc
from degroot.node.records.ledger import opened
from degroot.node.tls.authority import issue, request_certificate, sign_request
from degroot.node.tls.contents import channel_credentials
from degroot.node.tls.roster import FILE, write_roster


def open_stream(consortium, name, caller):
    """A stream of predictions of a node, with the certificate that the caller has now."""
    options = [("grpc.ssl_target_name_override", name), ("grpc.use_local_subchannel_pool", 1)]
    credentials = channel_credentials(identity_files(consortium.folder / "keys", caller))
    channel = grpc.secure_channel(f"127.0.0.1:{consortium.ports[name]}", credentials, options)
    return collective_pb2_grpc.CollectiveStub(channel)


def ask_until_refused(stub, seconds):
    """Ask for predictions on one stream, again and again; the refusal that ends it."""
    asked = threading.Event()

    def requests():
        while not asked.wait(seconds):
            yield wire.PredictRequest(protocol=PROTOCOL, id=1, points=tensor(points(1)))

    try:
        with pytest.raises(grpc.RpcError) as caught:
            for _ in stub.Predict(requests(), timeout=300):
                pass
        return caught.value
    finally:
        asked.set()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with Coast(tmp_path_factory.mktemp("coast")) as consortium:
        yield consortium.fork(before=hurry).see_whole()


@pytest.fixture
def coast(nodes):
    """Four nodes that answer together, whatever the drill before was."""
    return nodes.see_whole()


def test_certificates_are_renewed_while_questions_run(coast):
    before, serials = count_lines(coast), {name: load(coast.keys / f"{name}.pem").serial_number for name in coast.names}
    with UnderLoad(coast, "node0", "node1") as asking:
        for name in coast.names:
            renew(coast.keys, name, 60)
        for name in coast.names:
            serial = f"{load(coast.keys / f'{name}.pem').serial_number:x}"
            coast.see("certificate taken in", name, after=before, serial=serial)
            ends = load(coast.keys / f"{name}.pem").not_valid_after_utc.timestamp()
            for other in coast.names:
                label = f'certificate_expiry_timestamp_seconds{{name="{name}"}}'
                until(lambda other=other, label=label, ends=ends: coast.measure(other, label) == ends, label)
        asked = len(asking.answers)
        until(lambda: len(asking.answers) > asked + 5, "nothing is answered")
    assert asking.reasons == {}  # nobody was ever missing
    # Nothing is left of the connections with the certificates before: they can be revoked
    roster = write_roster(coast.keys, revoke=coast.names)
    for name in coast.names:
        assert serials[name] in roster.revoked_serials
        renew(coast.keys, name, 60)  # as those that were renewed are: the CA revokes all that it has issued
        serial = f"{load(coast.keys / f'{name}.pem').serial_number:x}"
        coast.see("certificate taken in", name, after=before, serial=serial)
    coast.give()
    coast.see("roster taken in", number=roster.number)
    coast.see_whole()


def test_a_pair_that_is_copied_half_is_reported_and_the_old_one_goes_on(coast, tmp_path):
    before, name = count_lines(coast), "node1"
    request, key, _ = request_certificate(tmp_path, name, ["127.0.0.1", "localhost"])
    with UnderLoad(coast, "node0", name) as asking:
        sign_request(coast.keys, request)  # the new certificate, beside the old key
        coast.see("change not taken in", name, after=before, what="certificate")
        (line,) = read_log(coast, name, "change not taken in", before[name])  # once, not at every look
        assert "node1.key does not belong to" in line["reason"]
        asked = len(asking.answers)
        until(lambda: len(asking.answers) > asked + 5, "nothing is answered")
        shutil.copyfile(key, coast.keys / "node1.key")
        coast.see("certificate taken in", name, after=before)
        asked = len(asking.answers)
        until(lambda: len(asking.answers) > asked + 5, "nothing is answered")
    assert asking.reasons == {}


def test_a_member_is_revoked_while_questions_run_and_comes_back_with_another_certificate(coast):
    before, revoked = count_lines(coast), "node3"
    stub, refusals = open_stream(coast, "node1", revoked), []
    keeps_asking = threading.Thread(target=lambda: refusals.append(ask_until_refused(stub, 0.02)))
    stays_silent = threading.Thread(target=lambda: refusals.append(ask_until_refused(stub, 1e6)))
    with UnderLoad(coast, "node0", "node1") as asking:
        keeps_asking.start()
        stays_silent.start()
        number = coast.sign(revoke=[revoked])
        coast.see("roster taken in", *coast.names[:3], after=before, number=number)
        reason = f"its certificate was revoked (roster {number})"
        for name in coast.names[:3]:
            coast.see_missing(name, {revoked: reason})
        for thread in (keeps_asking, stays_silent):  # streams that were open have ended
            thread.join(60)
            assert not thread.is_alive()
        for refusal in refusals:
            assert refusal.code() is grpc.StatusCode.UNAUTHENTICATED
            assert refusal.details() == f"'node3' is not let in: {reason}."
        assert coast.has_logged("node1", "refused", before["node1"], caller=revoked, reason="certificate")
        with pytest.raises(DeGrootError, match=r"certificate was revoked"):
            connect(f"127.0.0.1:{coast.ports['node1']}", node="node1", **coast.credentials(revoked))
        renew(coast.keys, revoked)
        coast.see("certificate taken in", revoked, after=before)
        coast.see("roster taken in", revoked, after=before, number=number)  # until now nobody told it
        coast.see_whole()
    assert set(asking.reasons) <= {revoked}


def test_a_lower_roster_is_refused_and_the_one_that_is_there_outlives_a_restart_without_its_file(coast, tmp_path):
    low = tmp_path / "low.toml"
    number = coast.sign()
    shutil.copyfile(coast.keys / FILE, low)
    number = coast.sign()
    coast.see("roster taken in", number=number)
    before = count_lines(coast)
    coast.give(low)
    coast.see("change not taken in", GIVEN, after=before, what="roster")
    (line,) = read_log(coast, GIVEN, "change not taken in", before[GIVEN])
    assert f"must have a higher number than {number}, which is taken in" in line["reason"]
    (coast.folder / "given.toml").unlink()
    for name in (GIVEN, "node2"):
        coast.kill(name, signal.SIGTERM)
        coast.fork(name, before=hurry)
    coast.see_whole()
    for name in coast.names:
        until(lambda name=name: coast.measure(name, "roster_number") == number, f"{name} has another roster")


def test_a_member_removed_at_one_node_does_not_make_others_drop_that_node(coast):
    with UnderLoad(coast, "node0", "node2") as asking:
        coast.write("node1", peers=["node0", "node2"])
        coast.see_missing("node0", {"node3": "not in the roster of: node1"})
        coast.see_missing("node1", {})
        right_without(coast, "node2", ["node3"])
        coast.write("node1")
        coast.see_whole()
    assert set(asking.reasons) == {"node3"}


def right_without(consortium, asked, without):
    """The answer is that of one process with the same members."""
    with consortium.connect(asked, way="solve") as node:
        X = points(5)
        right(node.consult(X), consortium, X, without)


def test_a_member_that_knows_it_was_removed_is_back_when_it_is_added_again(tmp_path):
    with Coast(tmp_path, 2, evidence="own") as coast:
        places = [(name, f"127.0.0.1:{coast.ports[name]}") for name in coast.names]
        coast.sign(add=places)
        coast.fork().ready()
        coast.sign(remove=["node1"])
        roster = coast.keys / FILE
        shutil.copyfile(roster, coast.folder / "removed.toml")
        coast.kill("node1")
        coast.edit("node1", 'key = "../keys/node1.key"\n', 'key = "../keys/node1.key"\nroster = "../removed.toml"\n')
        coast.fork("node1")
        coast.see("refused", "node0", caller="node1")
        with coast.connect("node0", caller="node0") as node:
            until(lambda: "node1" not in node.members, lambda: node.members)
        coast.sign(add=places[1:])
        coast.see("roster taken in", "node1", number=3, source="node0")
        coast.ready()


def test_a_second_node_with_the_same_identity_is_noticed_by_everybody_and_forgotten_when_it_stops(coast):
    before, name = count_lines(coast), "node2"
    home, (port,) = coast.folder / "copied", free_ports(1)
    shutil.copytree(coast.folder / name, home, ignore=shutil.ignore_patterns("state", "log"))
    path = home / "node.toml"
    metrics = f"[metrics]\nport = {coast.metrics[name]}\n"
    path.write_text(path.read_text().replace(f":{coast.ports[name]}", f":{port}").replace(metrics, ""))
    coast.fork("copied", before=hurry)
    others = [each for each in coast.names if each != name]
    coast.see("two nodes run under one name", *others, after=before, peer=name)
    coast.see("another node runs under this node's name", name, after=before)
    until(
        lambda: '"another node runs under this node\'s name"' in (home / "log").read_text(), "the copy has not noticed"
    )
    for each in coast.names:
        label = f'duplicate_identity{{peer="{name}"}}'
        until(lambda each=each, label=label: coast.measure(each, label) == 1.0, f"{each} does not count it")
    coast.processes.pop("copied").kill()
    for each in coast.names:
        until(lambda each=each, label=label: coast.measure(each, label) == 0.0, f"{each} counts it still")
    shutil.rmtree(home)


def test_sighup_reads_all_files_anew_and_a_broken_one_changes_nothing(coast):
    name, before = "node1", count_lines(coast)

    def hang_up():
        done = len(read_log(coast, name, "reloaded"))
        coast.processes[name].send_signal(signal.SIGHUP)
        until(lambda: len(read_log(coast, name, "reloaded")) > done, "it has not reloaded")
        return read_log(coast, name, "reloaded")[-1]["failures"]

    with UnderLoad(coast, "node0", name) as asking:
        assert hang_up() == []  # nothing has changed
        file = coast.folder / name / "node.toml"
        whole = file.read_text()
        for content, problem in (("name = ", "must be a TOML file"), (whole + "[more]\n", "more")):
            file.write_text(content)
            for _ in range(2):
                assert hang_up() == ["configuration"]
                reasons = [line["reason"] for line in read_log(coast, name, "change not taken in", before[name])]
                assert problem in reasons[-1]
        file.write_text(whole)
        assert hang_up() == []
        assert coast.processes[name].poll() is None
    assert asking.reasons == {}


def test_a_roster_and_a_configuration_that_come_together_are_both_taken_in(coast):
    before, late = count_lines(coast), "late"
    issue(coast.keys, late, 90, ["127.0.0.1", "localhost"])
    file = coast.folder / GIVEN / "node.toml"
    whole = file.read_text()
    number = write_roster(coast.keys).number
    coast.give()
    file.write_text(f'{whole}\n[[clients]]\nname = "{late}"\n')
    coast.processes[GIVEN].send_signal(signal.SIGHUP)
    coast.see("roster taken in", after=before, number=number)
    coast.see("configuration taken in", GIVEN, after=before)
    coast.see("reloaded", GIVEN, after=before, failures=[])
    coast.see_whole()
    with connect(f"127.0.0.1:{coast.ports[GIVEN]}", node=GIVEN, **coast.credentials(late)) as node:
        assert len(node.consult(points(1)).value) == 1
    file.write_text(whole)


def has_recorded(consortium, name, question):
    """Whether a question is in a node's ledger."""
    with opened(consortium.configuration(name).ledger) as ledger:
        return ledger.execute("SELECT 1 FROM records WHERE question = ?", (question,)).fetchone() is not None


def test_one_question_id_runs_through_all_logs_and_ledgers(coast):
    before = count_lines(coast)
    with coast.connect("node1") as node:
        node.consult(points(3))
    coast.see("answered", "node1", after=before, rows=3)
    (answered,) = (line for line in read_log(coast, "node1", "answered", before["node1"]) if line["rows"] == 3)
    number = answered["question"]
    assert answered["missing"] == []
    for name in coast.names:
        if name != "node1":
            coast.see("exchange", name, after=before, question=number, caller="node1", asker="analyst", rows=3)
        until(lambda name=name: has_recorded(coast, name, number), f"the ledger of {name} does not have the question")


def test_every_line_of_all_logs_is_json(coast):
    for name in coast.names:
        assert all("event" in line for line in read_log(coast, name))
