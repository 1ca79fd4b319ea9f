"""Failure drills where evidence stays at home: some models visit as copies, others are asked at their owners'.

Whose model is copied is not missing when it dies, is stopped or cannot be reached; whose model is asked is, and is
named. The rest answer as the collective in one process does for the asked node.
"""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest
from support.consortium import Consortium, made_rows, save_linear
from support.drills import MISSING, check, missing, points, queried, right, until
from support.proxy import Proxy

from degroot import Agent, DeGrootError
from degroot.node import client
from degroot.node.answering.answer import STALE
from degroot.node.records.ledger import IN, OUT, summary

ASKED, BOXED, IN_NODE, QUERIED = "node0", "node1", "node2", "node3"
COPIED = (BOXED, IN_NODE)  # a skops file, in a process of its own, and an ONNX file, in the asked node
GRANTS = {ASKED: ["query", "copy"], BOXED: ["query"], IN_NODE: ["query"], QUERIED: ["query"]}
PATIENT = {"timing": "shutdown_seconds = 60"}  # the machine may be busy


def save_onnx(consortium, name):
    """Let a node have its model as ONNX file."""
    from skl2onnx import to_onnx

    agent = next(each for each in consortium.agents if each.name == name)
    home = consortium.folder / name
    agent.model.intercept_ = np.float64(agent.model.intercept_)
    (home / "model.onnx").write_bytes(to_onnx(agent.model, agent.X[:1]).SerializeToString())
    (home / "node.toml").write_text((home / "node.toml").read_text().replace("model.skops", "model.onnx"))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Four nodes; the asked one reaches two of the others through proxies."""
    folder = tmp_path_factory.mktemp("apart")
    with Consortium(folder, 4, deadline=3.0, evidence="own", **PATIENT) as consortium, ExitStack() as stack:
        consortium.proxies = [Proxy(consortium.ports[name]) for name in (BOXED, QUERIED)]
        for name, proxy in zip((BOXED, QUERIED), consortium.proxies, strict=True):
            stack.callback(proxy.close)
            consortium.routes[ASKED, name] = proxy.port
        consortium.write(ASKED, **PATIENT)
        for name in COPIED:
            consortium.write(name, may=GRANTS, **PATIENT)
        save_onnx(consortium, IN_NODE)
        yield consortium.fork().ready()


@pytest.fixture
def four(nodes):
    """All of them running, however the drill before went."""
    gone = [name for name in nodes.names if nodes.processes[name].poll() is not None]
    return whole(nodes.fork(*gone)) if gone else nodes


def whole(nodes):
    """Wait until the asked node misses nobody, and has all models as they are now."""
    nodes.ready(ASKED)
    with nodes.connect(ASKED, caller=ASKED) as node:
        until(lambda: not any(each.kind in ("missing", "stale") for each in node.consult(points(1)).flags), "")
    return nodes


def sent_rows(nodes, name=ASKED):
    """How many rows left a node, by peer and kind."""
    lines = summary(nodes.configuration(name).ledger)
    return {(line.peer, line.kind): line.rows for line in lines if line.direction == OUT and line.rows}


def rows_answered(nodes, name=ASKED):
    lines = summary(nodes.configuration(name).ledger)
    return sum(line.rows for line in lines if (line.kind, line.direction) == ("consult", IN))


def test_answers_are_those_of_one_process_and_rows_go_to_owners_of_models_that_are_asked_only(four):
    X = points()
    with four.connect(ASKED, caller=ASKED) as node:
        before = sent_rows(four)
        right(node.consult(X), four, X)
    assert set(before) <= {(QUERIED, "model query"), (QUERIED, "prediction")}
    after = sent_rows(four)
    assert set(after) == {(QUERIED, "model query"), (QUERIED, "prediction")}
    assert after[QUERIED, "model query"] == four.agents[0].n_rows
    assert after[QUERIED, "prediction"] == before.get((QUERIED, "prediction"), 0) + len(X)


@pytest.mark.parametrize("dying", [BOXED, QUERIED])
def test_a_peer_ends_while_a_batch_is_streaming(four, dying, monkeypatch):
    number, size = 20, 500
    monkeypatch.setattr(client, "BATCH", size)
    X = points(number * size)
    before, asked = rows_answered(four), {name: queried(four, name) for name in four.names}
    with four.connect(ASKED, caller=ASKED) as node, ThreadPoolExecutor(1) as thread:
        answering = thread.submit(node.consult, X)
        until(lambda: rows_answered(four) > before, "nothing is answered")
        four.kill(dying)
        answer = answering.result()
        late = np.zeros(len(X), bool)
        for flag in answer.flags:
            late[flag.points] |= flag.reason.startswith(MISSING)
        assert set(missing(answer)) <= ({dying} if dying == QUERIED else set())
        assert not late.all()
        check(answer, four, X, [], ~late)
        if late.any():
            check(answer, four, X, [dying], late)
        right(node.consult(X[:40]), four, X[:40], [dying] if dying == QUERIED else [])
        whole(four.fork(dying))
        right(node.consult(X[:40]), four, X[:40])
    assert {name: queried(four, name) for name in four.names} == asked  # nothing was asked again


def test_a_peer_that_is_stopped_is_waited_for_once_and_its_copy_is_not(four):
    X = points()
    with four.connect(ASKED, caller=ASKED) as node:
        for name in (BOXED, QUERIED):
            four.kill(name, signal.SIGSTOP)
        try:
            answer = node.consult(X)
            right(answer, four, X, [QUERIED])
            assert missing(answer)[QUERIED] == "no answer within 3 seconds"
            sent = sent_rows(four)
            for _ in range(3):
                right(node.consult(X), four, X, [QUERIED])
            assert sent_rows(four) == sent
        finally:
            for name in (BOXED, QUERIED):
                four.kill(name, signal.SIGCONT)
        whole(four)
        right(node.consult(X), four, X)


def test_where_the_way_is_cut_the_copy_answers_and_who_is_asked_is_missing(four):
    X = points()
    with four.connect(ASKED, caller=ASKED) as node:
        for proxy in four.proxies:
            proxy.cut()
        try:
            right(node.consult(X), four, X, [QUERIED])
            for name in (BOXED, QUERIED):  # they hear everybody
                with four.connect(name, caller=name) as other:
                    right(other.consult(X), four, X)
        finally:
            for proxy in four.proxies:
                proxy.heal()
        whole(four)
        right(node.consult(X), four, X)


def test_without_everybody_copies_answer_also_after_a_restart_and_no_quorum_is_needed(four):
    X = points(10)
    for name in (BOXED, IN_NODE, QUERIED):
        four.kill(name)
    with four.connect(ASKED, caller=ASKED) as node:
        right(node.consult(X), four, X, [QUERIED])
        four.kill(ASKED)
        four.fork(ASKED)
        four.connect(ASKED).close()
        until(lambda: set(missing(node.consult(X))) == {QUERIED}, lambda: four.log(ASKED))  # copies are on disk
        right(node.consult(X), four, X, [QUERIED])
        assert node.members[BOXED] == node.members[IN_NODE] == "ready"
    whole(four.fork(BOXED, IN_NODE, QUERIED))


def test_models_are_swapped_while_they_serve(four):
    X = points()
    *_, (_, _, boxed), (_, _, other) = made_rows(9, 5)
    with four.connect(ASKED, caller=ASKED) as node:
        for name, slopes in ((BOXED, boxed), (QUERIED, other)):
            place, old = four.names.index(name), node.consult(X).value
            model = save_linear(four.folder / name / "model.skops", slopes)
            agent = four.agents[place]
            answers = []
            four.agents[place] = Agent(model, agent.X, agent.y, name)
            expected = four.collective().predict(X, asker=ASKED)

            def is_new(answers=answers, expected=expected):
                answers.append(node.consult(X))
                return np.allclose(answers[-1].value, expected, rtol=1e-9, atol=1e-9)

            until(is_new, f"{name}'s model is never taken in")
            whole(four)
            right(node.consult(X), four, X)
            for answer in answers:  # a copy is asked as it was scored; that its owner is ahead of it is told
                ahead = any(STALE in flag.reason for flag in answer.flags if flag.agent == name)
                known = any(np.allclose(answer.value, value, rtol=1e-9, atol=1e-9) for value in (old, expected))
                assert known or (ahead and name == QUERIED)


def test_a_node_that_is_told_to_stop_finishes_what_is_in_flight(four, monkeypatch):
    monkeypatch.setattr(client, "BATCH", 500)
    X, before = points(20 * 500), rows_answered(four)
    with four.connect(ASKED, caller=ASKED) as node, ThreadPoolExecutor(1) as thread:
        answering = thread.submit(node.consult, X)
        until(lambda: rows_answered(four) > before, "nothing is answered")
        assert four.kill(ASKED, signal.SIGTERM) == 0
        assert rows_answered(four) == before + len(X)
        right(answering.result(), four, X)
        with pytest.raises(DeGrootError, match="Connection refused"):
            node.predict(X[:3])
    whole(four.fork(ASKED))


@pytest.mark.parametrize("mover", [BOXED, QUERIED])
def test_peers_leave_and_join_while_questions_are_answered(four, mover):
    X, over, answers = points(20), threading.Event(), []
    others = [name for name in four.names if name not in (ASKED, mover)]

    def ask():
        with four.connect(ASKED, caller=ASKED) as node:
            while not over.is_set():
                answers.append(node.consult(X))

    def come_to(names):
        seen = len(answers)
        until(lambda: any(present(answer) == names for answer in answers[seen:]) or asking.done(), f"{names}")

    with ThreadPoolExecutor(1) as thread:
        asking = thread.submit(ask)
        try:
            come_to(set(four.names))
            four.write(ASKED, others, **PATIENT)
            come_to(set(four.names) - {mover})
            four.write(ASKED, **PATIENT)
            come_to(set(four.names))
        finally:
            over.set()
        asking.result()
    for answer in answers:
        check(answer, four, X, sorted(set(four.names) - present(answer)))
        assert {ASKED, *others} <= present(answer)


def present(answer):
    """Who took part."""
    return {name for k, name in enumerate(answer.names) if np.isfinite(answer.beliefs[:, k]).all()}
