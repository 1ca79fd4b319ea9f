"""Metrics: each node has its own, and names stay few. Where they are read is in `test_node_health`."""

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from degroot.node.answering import answering as answering_module
from degroot.node.answering.answer import NodeQuestion
from degroot.node.answering.answering import Answering
from degroot.node.protocol.codec import NodeAnswer
from degroot.node.records.ledger import Ledger, LedgerError
from degroot.node.records.metrics import NAMES, OTHER, UNKNOWN, Metrics


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def peers(metrics: Metrics) -> set[str]:
    samples = (sample for family in metrics.registry.collect() for sample in family.samples)
    return {sample.labels["peer"] for sample in samples if "peer" in sample.labels}


def test_what_the_ledger_records_is_counted(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    metrics = Metrics(ledger.totals)
    ledger.record("south", "opinion", "in", 10, 100, 1000)
    ledger.record_all(["west", "south"], "opinion", "in", 1, 2, 3)
    ledger.record("south", "opinion", "out", 5, 5, 5)
    ledger.close()
    with pytest.raises(LedgerError):
        ledger.record("south", "opinion", "in", 1, 1, 1)  # which does not take place
    labels = {"peer": "south", "kind": "opinion", "direction": "in"}
    names = ("exchanges", "rows", "sent_bytes", "received_bytes")
    totals = [value(metrics, f"degroot_{name}_total", **labels) for name in names]
    assert totals == [2, 11, 102, 1003]


def test_two_nodes_in_one_process_count_apart():
    north, south = Metrics(), Metrics()
    north.refused("west", "may not ask")
    labels = {"peer": "west", "reason": "may not ask"}
    assert value(north, "degroot_refusals_total", **labels) == 1
    assert value(south, "degroot_refusals_total", **labels) is None


def test_questions_are_timed_and_their_rounds_counted(monkeypatch):
    metrics, rounds = Metrics(), iter([0, 30])  # 0: it was solved

    async def answer(*_):
        return NodeAnswer(("north",), {}, (), next(rounds))

    async def own_view(*_):
        return NodeAnswer(("north",), {}, (), asker="north")

    monkeypatch.setattr(Answering, "_answer_with_quorum", answer)
    monkeypatch.setattr(answering_module, "consult_own_view", own_view)
    circle = SimpleNamespace(configuration=SimpleNamespace(has_consensus=True))
    answering, points = Answering(circle, metrics, None), np.zeros((1, 2))
    for view in ("consensus", "own", "consensus"):
        asyncio.run(answering.part(NodeQuestion(points, ["value"], guard=True, view=view), None))
    assert value(metrics, "degroot_question_seconds_count") == 3
    assert value(metrics, "degroot_question_rounds_sum") == 30
    assert value(metrics, "degroot_question_rounds_count") == 1


def test_states_are_as_last_said():
    metrics = Metrics()
    metrics.peers({"ready": 3, "away": 1})
    metrics.peers({"ready": 4})
    metrics.calibrated("south", 0.25)
    metrics.calibrated("south", 0.5)
    metrics.stale(["south", "west"])
    assert value(metrics, "degroot_peers", state="ready") == 4
    assert value(metrics, "degroot_peers", state="away") == 0
    assert value(metrics, "degroot_calibrated_ratio", peer="south") == 0.5
    assert value(metrics, "degroot_stale_models") == 2


def test_unknown_callers_have_one_name():
    metrics = Metrics()
    for _ in range(1000):
        metrics.refused(None, "not in the roster")
    assert peers(metrics) == {UNKNOWN}
    assert value(metrics, "degroot_refusals_total", peer=UNKNOWN, reason="not in the roster") == 1000


def test_names_are_bounded_and_nothing_goes_uncounted():
    metrics = Metrics({(f"peer{k}", "ask", "in"): [1, 1, 1, 1] for k in range(NAMES + 100)})
    assert len(peers(metrics)) == NAMES + 1
    assert value(metrics, "degroot_exchanges_total", peer=OTHER, kind="ask", direction="in") == 100
