"""Failure drills with real processes: after each the right answer comes from the rest, and the missing are named."""

import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest
from support.consortium import Consortium, made_rows, save_linear
from support.drills import EXACT, MISSING, WAYS, check, missing, points, queried, right, until, whole
from support.proxy import Proxy

from degroot import Agent, DeGrootError
from degroot.node import client
from degroot.node.answering.answer import STALE
from degroot.node.records.ledger import IN, summary

BATCHES = {"solve": (20, 1000), "rounds": (5, 40)}  # of so many points: both take a while, but not long
PATIENT = {"timing": "shutdown_seconds = 60"}  # the machine may be busy


def rows_answered(consortium, name):
    """How many rows a node has answered for clients."""
    lines = summary(consortium.configuration(name).ledger)
    return sum(line.rows for line in lines if (line.kind, line.direction) == ("consult", IN))


def questions(consortium, asked, peer):
    """How often a node has put a question to a peer, or begun to."""
    lines = summary(consortium.configuration(asked).ledger)
    return sum(line.exchanges for line in lines if line.peer == peer and line.kind in ("opinion", "pool"))


def complaint(consortium, name, prefix=(), code=2):
    """The one line of a node that does not start, with the exit code."""
    command = [*prefix, sys.executable, "-c", "from degroot.cli import main; main()", "node", "run"]
    node = subprocess.run(
        [*command, str(consortium.folder / name / "node.toml")], capture_output=True, text=True, timeout=60
    )
    assert node.returncode == code
    (line,) = node.stderr.splitlines()
    return line


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Five nodes; between node1 and node3 there are proxies."""
    with Consortium(tmp_path_factory.mktemp("five"), 5, deadline=3.0, **PATIENT) as consortium, ExitStack() as stack:
        proxies = consortium.proxies = {}
        for pair in (("node1", "node3"), ("node3", "node1")):
            proxies[pair] = Proxy(consortium.ports[pair[1]])
            stack.callback(proxies[pair].close)
            consortium.routes[pair] = proxies[pair].port
            consortium.write(pair[0], **PATIENT)
        yield whole(consortium.fork())


@pytest.fixture
def five(nodes):
    """The same, all of them running, however the drill before went."""
    gone = [name for name in nodes.names if nodes.processes[name].poll() is not None]
    return whole(nodes.fork(*gone)) if gone else nodes


@pytest.mark.parametrize(
    ("way", "how"),
    [
        ("solve", signal.SIGKILL),
        pytest.param("solve", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("rounds", signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("rounds", signal.SIGTERM, marks=pytest.mark.slow),
    ],
)
def test_a_peer_ends_while_a_batch_is_streaming(five, way, how, monkeypatch):
    number, size = BATCHES[way]
    monkeypatch.setattr(client, "BATCH", size)
    X = points(number * size)
    before, asked = rows_answered(five, "node0"), {name: queried(five, name) for name in five.names}
    with five.connect(way=way, **EXACT) as node, ThreadPoolExecutor(1) as thread:
        answering = thread.submit(node.consult, X)
        until(lambda: rows_answered(five, "node0") > before, "nothing is answered")
        assert five.kill("node3", how) == (0 if how == signal.SIGTERM else -signal.SIGKILL)
        answer = answering.result()
        assert set(missing(answer)) <= {"node3"}
        late = np.zeros(len(X), bool)
        for flag in answer.flags:
            late[flag.points] |= flag.reason.startswith(MISSING)
        assert not late.all()
        check(answer, five, X, [], ~late)
        if how == signal.SIGKILL or late.any():  # one that is told to stop may have answered to the end
            check(answer, five, X, ["node3"], late)
        right(node.consult(X[:40]), five, X[:40], ["node3"])
        five.fork("node3")
        whole(five)
        right(node.consult(X[:40]), five, X[:40])
    assert {name: queried(five, name) for name in five.names} == asked  # nothing was asked again


@pytest.mark.parametrize("way", ["solve", pytest.param("rounds", marks=pytest.mark.slow)])
def test_a_peer_that_is_stopped_is_waited_for_once(five, way):
    X = points()
    with five.connect(way=way, **EXACT) as node:
        five.kill("node2", signal.SIGSTOP)
        try:
            answer = node.consult(X)
            right(answer, five, X, ["node2"])
            assert missing(answer)["node2"] == "no answer within 3 seconds"
            asked = questions(five, "node0", "node2")
            for _ in range(3):
                right(node.consult(X), five, X, ["node2"])
            assert questions(five, "node0", "node2") == asked
        finally:
            five.kill("node2", signal.SIGCONT)
        whole(five)
        right(node.consult(X), five, X)
        assert questions(five, "node0", "node2") > asked


def test_a_model_is_swapped_while_it_serves(tmp_path):
    """Without a guard, which would hold what the new model says against what is known of the old one."""
    X, peers = points(), ["node0", "node1"]
    with Consortium(tmp_path, 3, settings="guard = false") as three:
        settings = {"settings": "guard = false"}
        whole(three.fork())
        old, home = three.collective().consult(X), three.folder / "node2"
        three.write("node2", may=["opinion", "ask"], **settings)  # so that nobody can score the new model yet
        until(lambda: "configuration taken in" in three.log("node2"), "the configuration is not taken in")
        *_, (_, _, slopes) = made_rows(9, 5)
        model = save_linear(home / "model.skops", slopes)
        until(lambda: "model taken in" in three.log("node2"), "the model is not taken in")
        three.agents[2] = Agent(model, *rows_of(three.agents[2]))
        new = three.collective().consult(X)
        with three.connect() as node:
            until(lambda: "must have the right 'query'" in node.members["node2"], lambda: node.members)
            stale = node.consult(X)
            assert [(flag.agent, flag.reason) for flag in stale.flags] == [("node2", f"{STALE} {', '.join(peers)}")]
            np.testing.assert_allclose(stale.trust[:, :2], old.trust[:, :2], rtol=1e-9)
            np.testing.assert_allclose(stale.trust[:, 2], new.trust[:, 2], rtol=1e-9)
            np.testing.assert_allclose(stale.beliefs, new.beliefs, rtol=1e-9)
        three.write("node2", **settings)
        whole(three)
        for way in WAYS:
            with three.connect(way=way, **EXACT) as node:
                answer = node.consult(X)
                assert not any(STALE in flag.reason for flag in answer.flags)
                right(answer, three, X)


@pytest.mark.parametrize("way", ["solve", pytest.param("rounds", marks=pytest.mark.slow)])
def test_a_node_that_is_told_to_stop_finishes_what_is_in_flight(five, way, monkeypatch):
    number, size = BATCHES[way]
    monkeypatch.setattr(client, "BATCH", size)
    X = points(number * size)
    before = rows_answered(five, "node1")
    with five.connect("node1", way=way, **EXACT) as node, ThreadPoolExecutor(1) as thread:
        answering = thread.submit(node.consult, X)
        until(lambda: rows_answered(five, "node1") > before, "nothing is answered")
        assert five.kill("node1", signal.SIGTERM) == 0
        assert rows_answered(five, "node1") == before + len(X)
        right(answering.result(), five, X)
        with pytest.raises(DeGrootError, match="Connection refused"):
            node.predict(X[:3])
    whole(five.fork("node1"))


@pytest.mark.slow
def test_the_way_between_two_of_five_is_cut(five):
    X = points()
    for proxy in five.proxies.values():
        proxy.cut()
    try:
        with five.connect("node0") as node:  # it hears everybody
            right(node.consult(X), five, X)
        for asked, other in (("node1", "node3"), ("node3", "node1")):
            with five.connect(asked) as node:
                right(node.consult(X), five, X, [other])
        for asked, lost in (("node0", {"node1", "node3"}), ("node1", {"node3"}), ("node3", {"node1"})):
            with five.connect(asked, way="rounds", **EXACT) as node:
                answer = node.consult(X)
                assert len(missing(answer)) == 1
                assert set(missing(answer)) <= lost
                right(answer, five, X, list(missing(answer)))
    finally:
        for proxy in five.proxies.values():
            proxy.heal()
    whole(five)
    for way in WAYS:
        with five.connect("node1", way=way, **EXACT) as node:
            right(node.consult(X), five, X)


def test_below_the_quorum_the_missing_are_named(five):
    X = points(3)
    gone = ["node1", "node2", "node4"]
    for name in gone:
        five.kill(name)
    for way in WAYS:
        with five.connect(way=way) as node, pytest.raises(DeGrootError) as raised:
            node.consult(X)
        assert str(raised.value).startswith("At least 3 agents must answer, the quorum; 2 can. Missing: node1: unreach")
        assert all(f"{name}: unreachable" in str(raised.value) for name in gone)
    five.fork("node2")
    five.ready("node0", "node2", "node3", among=["node0", "node2", "node3"])
    with five.connect() as node:
        right(node.consult(X), five, X, ["node1", "node4"])
    whole(five.fork("node1", "node4"))


def test_a_state_folder_belongs_to_one_process(five):
    assert "A state folder must belong to one running node" in complaint(five, "node0")
    with five.connect() as node:
        right(node.consult(points()), five, points())


EVIDENCE = ["pooled", pytest.param("own", marks=pytest.mark.slow)]


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_calibration_goes_on_where_it_was_killed(tmp_path, evidence):
    rows = list(made_rows(0, 2, n=2000))
    with Consortium(tmp_path, 2, rows=rows, limits="rows_per_second = 400", evidence=evidence) as consortium:
        consortium.fork().connect("node1").close()  # now there is a ledger
        for enough in (450, 1100):
            until(lambda: queried(consortium, "node1").get("node0", 0) >= enough, "no calibration")  # noqa: B023
            consortium.kill("node0")
            assert queried(consortium, "node1")["node0"] < 2000
            consortium.fork("node0")
        consortium.ready()
        assert 2000 <= queried(consortium, "node1")["node0"] <= 2000 + 2 * 50
        assert 2007 <= queried(consortium, "node0")["node1"] <= 2007 + 2 * 50
        with consortium.connect(caller="node0") as node:
            right(node.consult(points(5)), consortium, points(5))
            asked = queried(consortium, "node1")
            consortium.kill("node0")
            consortium.fork("node0").ready()
            right(node.consult(points(5)), consortium, points(5))
            assert queried(consortium, "node1") == asked


@pytest.mark.slow  # as with evidence of its own, in test_node_drills_own.py
def test_peers_join_and_leave_while_questions_are_answered(tmp_path):
    X, over, answers, errors = points(20), threading.Event(), [], []
    with Consortium(tmp_path, 4) as consortium:
        for name in ("node0", "node1", "node2"):
            consortium.write(name, [each for each in ("node0", "node1", "node2") if each != name])
        consortium.fork("node0", "node1", "node2").ready("node0", "node1", "node2", among=["node0", "node1", "node2"])

        def ask(way):
            with consortium.connect(way=way, **EXACT) as node:
                while not over.is_set():
                    try:
                        answers.append((way, node.consult(X)))
                    except DeGrootError as error:
                        errors.append((way, error))

        def come_to(members):
            for way in WAYS:
                seen = len(answers)
                until(lambda: any(w == way and present(a) == members for w, a in answers[seen:]), f"{way}: {members}")  # noqa: B023

        with ThreadPoolExecutor(2) as threads:
            asking = [threads.submit(ask, way) for way in WAYS]
            try:
                come_to({"node0", "node1", "node2"})
                for name in consortium.names:
                    consortium.write(name)
                consortium.fork("node3")
                come_to({"node0", "node1", "node2", "node3"})
                for name in ("node0", "node2", "node3"):
                    consortium.write(name, [each for each in ("node0", "node2", "node3") if each != name])
                come_to({"node0", "node2", "node3"})
                consortium.kill("node1")
                come_to({"node0", "node2", "node3"})
            finally:
                over.set()
            for each in asking:
                each.result()
        assert not errors
        for _, answer in answers:
            check(answer, consortium, X, sorted(set(consortium.names) - present(answer)))
            assert present(answer) | set(missing(answer)) >= {"node0", "node2"}
            assert "node0" in present(answer)


def present(answer):
    """Who took part."""
    return {name for k, name in enumerate(answer.names) if np.isfinite(answer.beliefs[:, k]).all()}


class Disk:
    """A small disk of one's own, where it can be had without rights: in a namespace that a process holds open."""

    def __init__(self, folder, size="8m"):
        folder.mkdir()
        script = f'mount -t tmpfs -o size={size} tmpfs "$0" && echo mounted && exec sleep 3600'
        command = ["unshare", "-rm", "sh", "-c", script, str(folder)]
        self._holder = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.there = self._holder.stdout.readline() == b"mounted\n"
        self.enter = ["nsenter", "-t", str(self._holder.pid), "-U", "-m", "--preserve-credentials"]
        self._filler = Path(f"/proc/{self._holder.pid}/root{folder}/filler")

    def fill(self):
        with self._filler.open("ab", buffering=0) as file:
            for size in (1 << 16, 1):
                with suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def make_room(self):
        self._filler.unlink()

    def close(self):
        self._holder.kill()
        self._holder.wait()
        self._holder.stdout.close()


def told(ask) -> str:
    """What an error says, if there is one."""
    try:
        ask()
    except DeGrootError as error:
        return str(error)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("evidence", EVIDENCE)
def test_a_full_disk_is_told_and_harms_nothing(tmp_path, evidence):
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        pytest.skip("unshare and nsenter are needed for a small disk")
    X, full = points(5), "No space left on device"
    limits = {"limits": "rows_per_second = 60", "evidence": evidence}

    def fill(node) -> None:
        """Fill the disk, and then the last block of the journal, which has room for some exchanges."""
        disk.fill()
        until(lambda: full in told(lambda: node.consult(X)), "the journal is not full")

    with Consortium(tmp_path, 3, **limits) as consortium, ExitStack() as stack:
        disk = Disk(tmp_path / "node0" / "state")
        stack.callback(disk.close)
        if not disk.there:
            pytest.skip("a small disk cannot be mounted in a namespace here")
        disk.fill()
        assert "No space left on device" in complaint(consortium, "node0", disk.enter, code=75)
        disk.make_room()
        consortium.fork("node1", "node2").start("node0", prefix=disk.enter)
        with consortium.connect("node0", caller="node0") as node:
            until(lambda: "calibrating, 33%" in node.members.values(), "no calibration")
            fill(node)
            with pytest.raises(DeGrootError, match=full):
                node.consult(X)
            assert node.members  # heartbeats are counted in memory, and go on
            consortium.kill("node0")
            disk.make_room()
            consortium.start("node0", prefix=disk.enter).ready()
            right(node.consult(X), consortium, X)
            fill(node)
            with pytest.raises(DeGrootError, match=full):
                node.consult(X)
            with consortium.connect("node1", caller="node1") as other:
                answer = until(lambda: "node0" in missing(a := other.consult(X)) and a, "node0 is not missing")
                right(answer, consortium, X, ["node0"])
                assert full in missing(answer)["node0"]
                disk.make_room()
                consortium.ready()
                right(node.consult(X), consortium, X)
                right(other.consult(X), consortium, X)
        for name in ("node1", "node2"):
            assert 120 <= queried(consortium, name)["node0"] <= 120 + 50  # what was scored was not lost


@pytest.mark.parametrize("evidence", EVIDENCE)
def test_changes_that_make_no_sense_are_not_taken_in(tmp_path, evidence):
    X = points()
    with Consortium(tmp_path, 2, evidence=evidence) as consortium:
        consortium.fork().ready()
        home = tmp_path / "node1"
        model, settings = (home / "model.skops").read_bytes(), (home / "node.toml").read_bytes()
        save_linear(home / "narrow.skops", [1.0, 2.0, 0.0])  # a model of two features, where there are three
        narrow = (home / "narrow.skops").read_bytes()
        with consortium.connect(caller="node0") as node:
            for file, content in (
                ("model.skops", narrow), ("model.skops", model[:100]), ("model.skops", b""), ("node.toml", b"name = "),
                ("node.toml", b"\0"), ("node.toml", settings.replace(b"[[peers]]", b"[[pears]]")),
                ("node.toml", b'queries = "on-demand"\n' + settings), ("model.skops", None), ("node.toml", None),
            ):  # fmt: skip
                refused = consortium.log("node1").count("change not taken in")
                if content is None:
                    (home / file).unlink()
                else:
                    (home / "new").write_bytes(content)
                    (home / "new").replace(home / file)
                until(lambda: consortium.log("node1").count("change not taken in") > refused, f"{file}: {content}")  # noqa: B023
                right(node.consult(X), consortium, X)
            consortium.write("node1")
            *_, (_, _, slopes) = made_rows(9, 2)
            consortium.agents[1] = Agent(save_linear(home / "model.skops", slopes), *rows_of(consortium.agents[1]))
            until(lambda: consortium.log("node1").count("model taken in"), "the model is not taken in")
            whole(consortium)
            right(node.consult(X), consortium, X)


def rows_of(agent):
    return agent.X, agent.y, agent.name
