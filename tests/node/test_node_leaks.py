"""What leaves a node whose evidence stays at home: `benchmarks/leaks.py` in small."""

import time

import grpc
import numpy as np
import pytest
from grpc import StatusCode
from support.consortium import Consortium, made_rows
from support.crafted import make_linear
from support.leak_attacks import average_neighbours, call_as, measure_advantage, recover_labels
from support.recorder import (
    FORMATS,
    SENT,
    find_numbers,
    find_unmatched,
    read_messages,
    record_messages,
    select_private,
)

from degroot.node.protocol.codec import PROTOCOL, array, tensor
from degroot.node.protocol.v3 import collective_pb2 as wire

COPIES, QUERIES = "node0", "node1"  # a node that uses copies only, and one that queries
INFER, PREDICT = "/inference.GRPCInferenceService/ModelInfer", "/degroot.v3.Collective/Predict"
ROWS = 60


@pytest.fixture(scope="module")
def consortium(tmp_path_factory):
    rows, folder = list(made_rows(5, 2, n=ROWS)), tmp_path_factory.mktemp("leaks")
    with Consortium(folder, 2, rows=rows, evidence="own", may=["query", "copy"], use=["query"]) as consortium:
        consortium.write(COPIES, use=["copy"])
        for name, (_, _, slopes) in zip(consortium.names, rows, strict=True):
            home = consortium.folder / name
            (home / "model.onnx").write_bytes(make_linear(slopes[:-1], slopes[-1]))
            text = (home / "node.toml").read_text()
            (home / "node.toml").write_text(text.replace("model.skops", "model.onnx"))
        yield consortium.fork(before=record_messages).ready()


@pytest.fixture(scope="module")
def asked(consortium):
    points = np.random.default_rng(6).normal(size=(10, 3))
    for name, some in zip(consortium.names, np.split(points, 2), strict=True):
        with consortium.connect(name, caller=name) as node:
            node.consult(some, coverage=0.8)
    return dict(zip(consortium.names, np.split(points, 2), strict=True))


@pytest.fixture(scope="module")
def messages(consortium, asked):
    first = read_messages(consortium)
    time.sleep(1.0)
    later = read_messages(consortium)
    assert find_unmatched(first, later, consortium.names) == ([], [])
    return [each for each in later if each.direction == SENT and each.peer != each.node]


def private_numbers(consortium, name):
    agent = next(each for each in consortium.agents if each.name == name)
    residuals = [model.predict(agent.X) - agent.y for model in consortium.agents]
    return select_private(agent.X), select_private(agent.y, *residuals, *(each**2 for each in residuals))


def test_with_copies_nothing_leaves(consortium, asked, messages):
    features, labels = private_numbers(consortium, COPIES)
    raw = [each.raw for each in messages]
    assert len(raw) > 4
    for numbers in (features, labels, select_private(asked[COPIES])):
        assert find_numbers(raw, numbers) == []


def test_with_queries_features_go_to_owners_of_models_and_labels_nowhere(consortium, asked, messages):
    features, labels = private_numbers(consortium, QUERIES)
    raw = [each.raw for each in messages]
    assert find_numbers(raw, labels) == []
    for numbers, method in ((features, INFER), (select_private(asked[QUERIES]), PREDICT)):
        found = {messages[place][2:4] for place in find_numbers(raw, numbers)}
        assert found == {(COPIES, method)}


def test_the_search_finds_numbers_in_every_format():
    numbers = select_private(np.random.default_rng(0).normal(size=50))
    two = numbers[-2:]
    planted = [b"\x08" + two.astype(kind).tobytes() for kind in FORMATS]
    planted += [f"{two[0]!r}".encode(), b"x=%.6f;" % two[1], b'"%g"' % two[0]]
    assert find_numbers([*planted, b"0.5 127.0.0.1 12.34"], numbers) == list(range(len(planted)))


@pytest.mark.parametrize("victim", [COPIES, QUERIES])
def test_a_member_gets_predictions_and_no_more(consortium, victim):
    other = COPIES if victim == QUERIES else QUERIES
    agent = next(each for each in consortium.agents if each.name == victim)
    points = tensor(agent.X)
    question = wire.ConsultRequest(protocol=PROTOCOL, points=points, fields=["value"])
    with call_as(consortium, other, victim) as (collective, _):
        for call in (
            lambda: next(collective.Opinion(iter([wire.Question(protocol=PROTOCOL, id=1, points=points)]))),
            lambda: next(collective.Pool(iter([wire.PoolMessage()]))),
            lambda: collective.Ask(question),
            lambda: next(collective.Consult(iter([question]))),
        ):
            with pytest.raises(grpc.RpcError) as refused:
                call()
            assert refused.value.code() in (StatusCode.PERMISSION_DENIED, StatusCode.FAILED_PRECONDITION)
        reply = next(collective.Predict(iter([wire.PredictRequest(protocol=PROTOCOL, id=1, points=points)])))
    told = np.asarray(array(reply.predictions, (agent.n_rows, 1), "predictions"))[:, 0]
    said = np.stack([model.predict(agent.X) for model in consortium.agents], axis=1)
    best = min(said.T, key=lambda each: ((each - agent.y) ** 2).mean())
    for estimate in (told, said.mean(axis=1)):
        assert measure_advantage(estimate, best, agent.y) <= 2.0


@pytest.mark.parametrize("N", [2, 6, 20])
def test_exact_averages_give_the_labels_away(N):
    """A control: what an opinion would tell is enough for the attack."""
    random = np.random.default_rng(7)
    X, y = random.normal(size=(ROWS, 3)), random.normal(size=ROWS)
    said = y[:, None] + random.normal(size=(ROWS, 4))
    means = average_neighbours(X, X, N)
    found = recover_labels(means, said, means @ (said - y[:, None]) ** 2)
    assert np.abs(found - y).max() < 1e-6
