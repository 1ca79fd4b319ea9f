"""What nodes of version 0.1.0 left on disk is taken up as it is: residuals, ledger, answers; and their configuration,
as far as it still says something: of the rest it is told what to change."""

import json
import re
import shutil
import signal
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.consortium import Forked, free_ports

from degroot import Collective, InvalidInput, connect
from degroot.files import load
from degroot.files.checksums import save_record
from degroot.node.config import (
    Client,
    IdentityFiles,
    Limits,
    MetricsAddress,
    ModelSource,
    NodeSettings,
    Page,
    Peer,
    Timing,
    read,
)
from degroot.node.page.answers import Archive
from degroot.node.page.tokens import EARLIER_FILE, make_operator_token
from degroot.node.records.ledger import Ledger, summary
from degroot.node.records.ledger_search import Wanted, add_up
from degroot.node.scoring.load import load_scored_agent
from degroot.node.scoring.residual_store import Residuals, adopt
from degroot.node.state import version
from degroot.node.state.version import VERSION, check_version, take_over

DATA = Path(__file__).parents[1] / "data" / "0.1.0"
EXPECTED = json.loads((DATA / "nodes" / "expected.json").read_text())
NAMES = ("north", "south", "east")
QUERY = frozenset({"query"})


@pytest.fixture
def nodes(tmp_path):
    return Path(shutil.copytree(DATA / "nodes", tmp_path / "nodes"))


def read_contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def list_ledger(path):
    return [
        [each.peer, each.kind, each.direction, each.exchanges, each.rows, each.sent, each.received]
        for each in summary(path)
    ]


# -- configuration -----------------------------------------------------------------------------------------------------


def test_a_configuration_of_node_init_says_what_it_said():
    home = DATA / "nodes" / "north"
    node = read(home / "node.toml")
    assert (node.name, node.listen, node.state) == ("north", "127.0.0.1:17441", home / "north-state")
    assert (node.quorum, node.needed, node.evidence) == (None, 2, "own")
    assert node.identity == IdentityFiles(home / "ca.pem", home / "north.pem", home / "north.key")
    assert node.model == ModelSource(home / "model.onnx")
    assert (node.data.file, node.data.target) == (home / "rows.csv", ("y",))
    assert (node.data.own_predictions, node.data.space, node.data.classes) == (None, None, None)
    assert node.collective == NodeSettings("degroot", None, "euclidean", None, None, guard=True)
    assert node.peers == (Peer("south", "127.0.0.1:17442", QUERY), Peer("east", "127.0.0.1:17443", QUERY))
    assert node.clients == (Client("analyst", frozenset({"ask"})),)
    assert node.limits == Limits(2000, 1_000_000, 20_000, 32, 67_108_864, 60)
    assert node.timing == Timing(5.0, 1.0, chunk_rows=1000, shutdown_seconds=10.0)
    assert (node.page, node.metrics) == (Page(18441, "127.0.0.1"), None)


def test_a_configuration_with_every_setting_is_told_what_to_change_and_says_the_rest(tmp_path):
    path = tmp_path / "everything.toml"
    text = (DATA / "everything.toml").read_text()
    for said, line, other in (
        ("`queries` is no setting any more; remove the line.", 'queries = "calibrate"\n', ""),
        ("`peers[2].may` must not have 'opinion' where evidence is 'own'", 'may = ["query", "opinion"]\n', ""),
        ("`quorum` must come with evidence = 'pooled'", "quorum = 2\n", 'quorum = 2\nevidence = "pooled"\n'),
    ):
        path.write_text(text)
        with pytest.raises(InvalidInput, match=re.escape(said)):
            read(path)
        assert text.count(line) == 1
        text = text.replace(line, other)
    path.write_text(text)
    node, keys = read(path), tmp_path / "keys"
    assert (node.name, node.listen, node.state) == ("north", "localhost:7443", Path("/var/north"))
    assert (node.quorum, node.needed, node.evidence) == (2, 2, "pooled")
    assert node.identity == IdentityFiles(keys / "ca.pem", keys / "north.pem", keys / "north.key")
    served = {"ca": keys / "server.pem", "certificate": keys / "client.pem", "key": keys / "client.key"}
    assert node.model == ModelSource(None, "models:8081", "prices", "3", **served)
    assert (node.data.file, node.data.target) == (tmp_path / "rows.parquet", ("rent", "price"))
    assert (node.data.own_predictions, node.data.space) == (("rent oof", "price oof"), "standardise")
    assert node.collective == NodeSettings("stacking", 50, "cosine", "gaussian", 0.5, guard=True)
    few = frozenset({"query", "opinion"})
    assert node.peers == (Peer("south", "south.example.org:7443", few), Peer("east", "[::1]:7445", few))
    assert node.clients == (Client("dashboard", frozenset({"ask"})),)
    assert node.limits == Limits(100, 5000.5, 4000, 3, 1_000_000, 30)
    assert node.timing == Timing(2.5, 0.5, chunk_rows=700, shutdown_seconds=4.0)
    assert (node.page, node.metrics) == (Page(8443, "::1"), MetricsAddress(9443))


# -- state, without a node ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_ledger_lists_every_exchange(nodes, name, degroot):
    path, expected = nodes / name / f"{name}-state" / "ledger.sqlite", EXPECTED["ledger"][name]
    code, _, told = degroot("node", "audit", nodes / name / "node.toml")
    assert code == 2
    assert "is of version 1, which the node takes over when it is started" in told
    Ledger(path, name).close()  # as the node does
    assert list_ledger(path) == expected
    queries = sum(exchanges for _, kind, _, exchanges, *_ in expected if kind == "model query")
    assert add_up(path, Wanted(kind="model query")).exchanges == queries
    code, out, _ = degroot("node", "audit", nodes / name / "node.toml")
    assert code == 0
    assert out.count("model query") == 4


def test_the_page_has_its_answers_and_its_token_for_all_is_removed(nodes):
    state = nodes / "north" / "north-state"
    before = read_contents(state)
    archive, expected = Archive(state), EXPECTED["page"]
    listed = {each["id"]: each for each in archive.entries()}
    assert listed.keys() == expected.keys()
    for id_, told in expected.items():
        answer, rows = archive.find(id_), told["rows"]
        assert listed[id_] == {key: told["summary"].get(key, listed[id_][key]) for key in listed[id_]}
        assert listed[id_]["purpose"] == ""  # which nobody could say then
        kept = {key: value for key, value in told["summary"].items() if key != "guard"}  # which was the caller's choice
        assert kept.items() <= answer.summary().items()
        consensus = answer.consensus
        assert_array_equal(answer.points, [[row["rooms"], row["age"]] for row in rows])
        for name in ("value", "standard_error", "lower", "upper"):
            known = getattr(consensus, name)
            assert (known is None) == (name not in rows[0])
            assert known is None or known.tolist() == [row[name] for row in rows]
        assert consensus.weights.tolist() == [[row[f"weight_{name}"] for name in consensus.names] for row in rows]
    assert read_contents(state) == before


def test_calibration_that_was_interrupted_goes_on_where_it_was(tmp_path, nodes):
    shutil.copytree(DATA / "interrupted", tmp_path / "state")
    parts = {path: path.read_bytes() for path in (tmp_path / "state").rglob("*.part")}
    node = read(nodes / "north" / "node.toml")
    rows = load(node.data)
    for state in (node.state, tmp_path / "state"):
        assert adopt(state) == ["east", "south"]
    whole = Residuals.at(node.state, rows.X, rows.y)
    residuals = Residuals.at(tmp_path / "state", rows.X, rows.y)
    assert residuals.find_complete() == set()
    assert sorted(model.name for model in whole.find_complete()) == ["east", "south"]
    for model in whole.find_complete():
        complete = whole.read(model)
        work = residuals.begin(model, 1000)
        assert (work.chunk, work.remaining()) == (8, [1, 2])
        assert_allclose(work.part[work.rows(0)], complete[work.rows(0)], rtol=1e-12)
        assert sorted(np.concatenate([work.rows(chunk) for chunk in range(3)])) == list(range(24))
    assert len(parts) == 2
    assert {path: path.read_bytes() for path in parts} == parts


@pytest.mark.parametrize("command", ["check", "run"])
def test_state_of_a_newer_version_is_refused_in_one_line(nodes, degroot, command):
    state = nodes / "north" / "north-state"
    save_record(state / version.FILE, {"version": VERSION + 1, "degroot": "9.8.7"})
    before = read_contents(state)
    code, out, err = degroot("node", command, nodes / "north" / "node.toml", "--insecure-loopback")
    told = f"version {VERSION} or older; {state} was written by degroot 9.8.7 with state version {VERSION + 1}"
    assert (code, err.count("\n")) == (2, 1)
    assert told in err
    assert (f"failed  state: A state folder must be of {told}" in out) == (command == "check")
    assert read_contents(state) | {"lock": b""} == before | {"lock": b""}


def test_a_damaged_mark_of_the_version_is_written_anew_and_adopts_nothing(nodes):
    state, told = nodes / "north" / "north-state", []
    (state / version.FILE).write_bytes(b"{}")
    residuals = read_contents(state / "residuals")
    take_over(state, SimpleNamespace(warning=lambda event, **_: told.append(event)))
    assert told == ["the mark of the state's version is damaged, and is written anew"]
    assert check_version(state) == VERSION
    assert read_contents(state / "residuals") == residuals


# -- state, taken up by nodes ------------------------------------------------------------------------------------------


POOLED = (
    ("[identity]", 'evidence = "pooled"\n[disclosure]\nleast_rows = 1\n[identity]'),
    (
        'name = "analyst"',
        'name = "analyst"\nfields = ["value", "standard_error", "weights", "beliefs", "trust", "interval"]',
    ),
)  # what has to be said for the consensus that was once answered without a word


@contextmanager
def running(folder, changes=()):
    """The nodes in this folder, on free ports; where they listen, and where the page of the first is."""
    ports = iter(free_ports(6))
    moved = {str(17441 + k): str(next(ports)) for k in range(3)} | {str(18441 + k): str(next(ports)) for k in range(3)}
    for name in NAMES:
        file = folder / name / "node.toml"
        text = re.sub(r"\b1[78]44[123]\b", lambda found: moved[found[0]], file.read_text())
        for said, other in (("probe_seconds = 1.0", "probe_seconds = 0.1"), *changes):
            assert text.count(said) == 1
            text = text.replace(said, other)
        file.write_text(text)
    processes = [Forked(folder / name, insecure_loopback=True) for name in NAMES]
    try:
        yield [f"127.0.0.1:{moved[str(17441 + k)]}" for k in range(3)], f"http://127.0.0.1:{moved['18441']}"
        for process in processes:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(90) for process in processes] == [0, 0, 0]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()


def wait_until_ready(name, address, patience=120.0):
    until = time.monotonic() + patience
    while True:
        try:
            with connect(address, insecure_loopback=name) as node:  # its own people are told all
                members = node.members
        except Exception as error:  # it is not there yet
            members = error
        if members == dict.fromkeys(NAMES, "ready"):
            return
        assert time.monotonic() < until, members
        time.sleep(0.05)


def test_nodes_take_up_the_state_and_do_not_calibrate_again(nodes):
    answer, north = EXPECTED["answer"], nodes / "north" / "north-state"
    kept = {path: path.read_bytes() for path in nodes.glob("*/*-state/residuals/*/*.npy")}
    with running(nodes, POOLED) as (addresses, page):
        for name, address in zip(NAMES, addresses, strict=True):
            wait_until_ready(name, address)
        with connect(addresses[0], insecure_loopback="analyst", view="consensus") as node:
            found = node.consult(np.array(answer["points"]))
        for token, status in (("the-token-of-the-page-in-the-fixture", 401), (make_operator_token(north), 200)):
            reply = httpx.get(f"{page}/api/answers", headers={"Authorization": f"Bearer {token}"}, timeout=60)
            assert reply.status_code == status
        assert {each["id"] for each in reply.json()["answers"]} == EXPECTED["page"].keys()
        assert not (north / EARLIER_FILE).exists()
    assert list(found.names) == answer["names"]
    for name in ("value", "standard_error", "weights", "beliefs", "trust", "influence"):
        assert_allclose(getattr(found, name), answer[name], rtol=1e-9, atol=1e-12, err_msg=name)
    flags = [[flag.agent, flag.kind, flag.points.tolist()] for flag in found.flags]
    assert flags == [[agent, reason.partition(":")[0], points] for agent, reason, points in answer["flags"]]
    assert_taken_up(nodes, kept)


def test_nodes_with_the_files_that_they_had_answer_from_their_own_views(nodes):
    X = np.array(EXPECTED["answer"]["points"])
    kept = {path: path.read_bytes() for path in nodes.glob("*/*-state/residuals/*/*.npy")}
    agents = [load_scored_agent(read(nodes / name / "node.toml")).agent for name in sorted(NAMES)]
    with running(nodes) as (addresses, _):
        for name, address in zip(NAMES, addresses, strict=True):
            wait_until_ready(name, address)
            with connect(address, insecure_loopback="analyst") as node:
                found = node.consult(X)
                assert (found.asker, found.weights) == (name, None)
                assert_allclose(found.value, Collective(agents, guard=True).predict(X, asker=name), rtol=1e-9)
    assert_taken_up(nodes, kept)


def assert_taken_up(nodes, kept):
    """Nothing was scored again, and nothing that was recorded is lost."""
    assert {path: path.read_bytes() for path in nodes.glob("*/*-state/residuals/*/*.npy")} == kept
    for name in NAMES:
        log = (nodes / name / "log").read_text()
        assert log.count("residuals of an earlier version are used as they are") == 1
        assert "scored anew" not in log
        assert check_version(nodes / name / f"{name}-state") == VERSION
        now = {tuple(line[:3]): line[3:] for line in list_ledger(nodes / name / f"{name}-state" / "ledger.sqlite")}
        for peer, kind, direction, *sums in EXPECTED["ledger"][name]:
            assert all(a >= b for a, b in zip(now[peer, kind, direction], sums, strict=True))
            assert kind != "model query" or now[peer, kind, direction] == sums
