"""What leaves a node: every message is recorded at both ends, and searched for what has to stay at home."""

import pickle
import signal
import time
from collections import Counter
from dataclasses import dataclass

import grpc
import numpy as np
import pytest
from grpc.aio import _channel, _server
from numpy.testing import assert_allclose
from support.consortium import PATIENCE, Consortium
from tritonclient.grpc import service_pb2 as v2

from degroot.exceptions import DeGrootError
from degroot.node.protocol.codec import tensor
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.records.ledger import summary
from degroot.trust import from_errors

RECORD = "messages"
INFER = "/inference.GRPCInferenceService/ModelInfer"
OPINION = "/degroot.v3.Collective/Opinion"
POOL = "/degroot.v3.Collective/Pool"
SENT, RECEIVED = "sent", "received"
K, M = 4, 4


# the recorder, in the node's process


class Recorder:
    """Appends (direction, method, side, bytes) of each message to a file, where gRPC turns messages into bytes."""

    def __init__(self, path):
        self._file = path.open("ab", buffering=0)

    def keep(self, direction, method, side, raw):
        pickle.dump((direction, method, side, bytes(raw)), self._file)

    def serialising(self, serialise, method, side):
        def wrapped(message):
            raw = serialise(message)
            self.keep(SENT, method, side, raw)
            return raw

        return wrapped

    def parsing(self, parse, method, side):
        def wrapped(raw):
            self.keep(RECEIVED, method, side, raw)
            return parse(raw)

        return wrapped


def install(folder):
    """Wrap what every message passes: the serialisers of all channels, and of all handlers of all servers."""
    recorder = Recorder(folder / RECORD)
    first = _channel.Channel.__init__

    def remembering(self, target, *rest, **more):
        self.recorded_target = target
        first(self, target, *rest, **more)

    def channel_kind(original):
        def wrapped(self, method, request_serializer=None, response_deserializer=None, *rest, **more):
            side = f"client of {self.recorded_target}"
            return original(
                self, method, recorder.serialising(request_serializer, method, side),
                recorder.parsing(response_deserializer, method, side), *rest, **more,
            )  # fmt: skip

        return wrapped

    for kind in ("unary_unary", "unary_stream", "stream_unary", "stream_stream"):
        setattr(_channel.Channel, kind, channel_kind(getattr(_channel.Channel, kind)))
    _channel.Channel.__init__ = remembering

    class Handlers(grpc.GenericRpcHandler):
        def __init__(self, handlers):
            self._handlers = handlers

        def service(self, details):
            for each in self._handlers:
                handler = each.service(details)
                if handler is not None:
                    return handler._replace(
                        request_deserializer=recorder.parsing(
                            handler.request_deserializer or bytes, details.method, "server"
                        ),
                        response_serializer=recorder.serialising(
                            handler.response_serializer or bytes, details.method, "server"
                        ),
                    )
            return None

    generic = _server.Server.add_generic_rpc_handlers

    def add_generic(self, handlers):
        generic(self, [Handlers(handlers)])

    _server.Server.add_generic_rpc_handlers = add_generic
    _server.Server.add_registered_method_handlers = lambda *_: None  # then all come by the generic handlers


# what was recorded


class Messages:
    """What all nodes recorded, since they had recorded so much."""

    def __init__(self, consortium, since=None):
        self.found, self.until = [], {}
        for name in consortium.names:
            with (consortium.folder / name / RECORD).open("rb") as file:
                file.seek((since or {}).get(name, 0))
                while True:
                    self.until[name] = file.tell()
                    try:
                        self.found.append((name, *pickle.load(file)))
                    except (EOFError, pickle.UnpicklingError):  # the last one may be on its way
                        break

    def sent(self, name=None, method=None, side=None):
        """What left a node, or all of them."""
        return [
            raw
            for node, direction, path, where, raw in self.found
            if direction == SENT and name in (None, node) and method in (None, path) and (side or "") in where
        ]

    def count(self, direction, side, method):
        return Counter(
            raw
            for _, where, path, at, raw in self.found
            if where == direction and at.startswith(side) and path == method
        )


def numbers(*arrays):
    """Numbers that cannot be in a message by chance: no zeros, and no round ones."""
    values = np.unique(np.concatenate([np.asarray(each, np.float64).ravel() for each in arrays]))
    values = values[(np.abs(values) > 1e-9) & (np.round(values, 3) != values)]
    assert len(values)
    return values


def holding(messages, values):
    """Which messages hold any of the numbers in 8 bytes, or two in a row in 4 bytes, in either order, at any place.

    Single numbers of 4 bytes are in millions of bytes by chance.
    """
    joined = np.frombuffer(b"".join([*messages, bytes(8)]), np.uint8)
    ends = np.cumsum([len(raw) for raw in messages])
    found = set()
    for kind in ("<f8", ">f8", "<f4", ">f4"):
        size = int(kind[-1])
        wanted = np.unique(values.astype(kind).view(f"<u{size}"))
        for start in range(size):
            stop = start + (len(joined) - start) // size * size
            here = joined[start:stop].view(f"<u{size}")
            there = wanted[np.searchsorted(wanted, here).clip(max=len(wanted) - 1)] == here
            if size == 4:
                there = there[:-1] & there[1:]
            hits = np.flatnonzero(there) * size + start
            found |= set(np.searchsorted(ends, hits, side="right").tolist())
    return sorted(each for each in found if each < len(messages))


@dataclass(frozen=True)
class Heard:
    """A consortium that calibrated and was asked in all ways, and what was said when, with and without a guard.

    `everything`: what was said with one. `ports`: by whether there was one.
    """

    consortium: Consortium
    everything: Messages
    unguarded: Messages
    phases: dict
    points: np.ndarray
    ports: dict


@pytest.fixture(scope="module")
def heard(tmp_path_factory):
    rng, phases, said, ports = np.random.default_rng(9), {}, {}, {}
    for guard in (False, True):
        folder, settings = tmp_path_factory.mktemp("wire"), f"guard = {str(guard).lower()}"
        with Consortium(folder, K=K, seed=3, settings=settings) as consortium:
            consortium.fork(before=install).ready()
            if not phases:
                X = np.vstack([agent.X[:2] for agent in consortium.agents])[:M] + 0.01 * rng.normal(size=(M, 3))
            settled(consortium, X)
            expected = consortium.collective(guard=guard).predict(X)
            for way in ("solve", "rounds"):
                since = Messages(consortium).until
                with consortium.connect("node1", way=way, tolerance=1e-9, rounds=5000) as nodes:
                    assert_allclose(nodes.predict(X), expected, rtol=1e-6)
                phases[way, guard] = Messages(consortium, since)
            for name in consortium.names:
                consortium.kill(name, signal.SIGTERM)
            said[guard], ports[guard] = Messages(consortium), consortium.ports
    return Heard(consortium, said[True], said[False], phases, X, ports)


def settled(consortium, X, patience=PATIENCE):
    """Wait until rounds miss nobody."""
    until = time.monotonic() + patience
    with consortium.connect("node1", way="rounds") as nodes:
        while True:
            try:
                if not any(flag.reason.startswith("missing") for flag in nodes.consult(X, "value").flags):
                    return
            except DeGrootError:
                pass
            assert time.monotonic() < until
            time.sleep(0.1)


def rows_of(consortium):
    return numbers(*(agent.X for agent in consortium.agents))


# the recorder sees it all


@pytest.mark.parametrize("method", [INFER, OPINION, POOL])
def test_what_one_side_sends_the_other_receives(heard, method):
    for messages in (heard.everything, heard.unguarded):
        asked, served = messages.count(SENT, "client", method), messages.count(RECEIVED, "server", method)
        answered, got = messages.count(SENT, "server", method), messages.count(RECEIVED, "client", method)
        assert sum(asked.values()) >= K - 1
        assert served <= asked
        assert got <= answered
        if method != POOL:  # where streams are hung up on
            assert served == asked
            assert got == answered


def test_the_ledgers_tell_of_the_same_bytes(heard):
    for name in heard.consortium.names:
        lines = summary(heard.consortium.configuration(name).ledger)
        told = sum(line.sent for line in lines if line.kind == "model query")
        assert told == sum(len(raw) for raw in heard.everything.sent(name, INFER))


# what stays at home


def test_no_label_leaves(heard):
    labels = numbers(*(agent.y for agent in heard.consortium.agents))
    for messages in (heard.everything, heard.unguarded):
        assert holding(messages.sent(), labels) == []


def test_no_residual_leaves(heard):
    agents = heard.consortium.agents
    residuals = [model.predict(agent.X) - agent.y for agent in agents for model in agents]
    for messages in (heard.everything, heard.unguarded):
        assert holding(messages.sent(), numbers(*residuals)) == []
        assert holding(messages.sent(), numbers(*(each**2 for each in residuals))) == []


def test_no_parameter_of_a_model_leaves(heard):
    parameters = [(*agent.model.coef_, agent.model.intercept_) for agent in heard.consortium.agents]
    files = [(heard.consortium.folder / name / "model.skops").read_bytes() for name in heard.consortium.names]
    for messages in (heard.everything, heard.unguarded):
        assert holding(messages.sent(), numbers(*parameters)) == []
        assert not any(file[:64] in raw or file[-64:] in raw for file in files for raw in messages.sent())


@pytest.mark.parametrize("guard", [True, False])
def test_features_leave_only_in_queries_of_models(heard, guard):
    messages = heard.everything if guard else heard.unguarded
    sent = [entry for entry in messages.found if entry[1] == SENT]
    told = [sent[place] for place in holding([entry[-1] for entry in sent], rows_of(heard.consortium))]
    assert told
    assert {(method, side.split()[0]) for _, _, method, side, _ in told} == {(INFER, "client")}
    for agent in heard.consortium.agents:  # and nobody hands on what others sent
        others = [raw for name, _, _, _, raw in sent if name != agent.name]
        assert holding(others, numbers(agent.X)) == []


def test_queries_hold_features_only_each_row_once_and_shuffled(heard):
    for agent in heard.consortium.agents:
        for peer in heard.consortium.names:
            queries = heard.everything.sent(agent.name, INFER, f":{heard.consortium.ports[peer]}")
            assert bool(queries) == (peer != agent.name)
            rows = [np.frombuffer(v2.ModelInferRequest.FromString(raw).raw_input_contents[0]) for raw in queries]
            if not rows:
                continue
            asked = np.concatenate(rows).reshape(-1, agent.n_features)
            places = [int(np.flatnonzero((row == agent.X).all(axis=1))[0]) for row in asked]
            assert sorted(places) == list(range(agent.n_rows))
            assert places != sorted(places)


def test_points_that_are_asked_about_go_to_peers_and_not_back(heard):
    """A control: what is told is found."""
    points = numbers(heard.points)
    for messages in heard.phases.values():
        assert holding(messages.sent("node1", side="client"), points)
        assert holding(messages.sent("node1", side="server"), points) == []


# rounds


def errors_told(heard):
    """The errors, (M, K) each, from which trust comes when no guard bounds them."""
    replies = heard.phases["solve", False].sent(method=OPINION, side="server")
    found = [wire.OpinionReply.FromString(raw) for raw in replies]
    return [np.frombuffer(reply.errors.data).reshape(M, K) for reply in found if reply.HasField("errors")]


def test_by_solving_errors_are_told(heard):
    """A control: from what the peers tell, the asked node has their trust."""
    told, trust = errors_told(heard), heard.consortium.collective(guard=False).consult(heard.points, "trust").trust
    assert len(told) == K - 1
    for errors in told:
        mine = from_errors(errors)
        assert any(np.allclose(mine, trust[:, place]) for place in range(K))
    assert holding(heard.phases["solve", False].sent(), numbers(*told))


@pytest.mark.parametrize("guard", [True, False])
def test_by_rounds_no_trust_and_no_errors_that_it_comes_from_leave(heard, guard):
    """They are in no message. What a member trusts can still be worked out by whoever sees its beliefs in two rounds:
    the runs without each member in turn, which the error bars are made of, differ by just that.
    """
    sent = heard.phases["rounds", guard].sent()
    assert sum(len(raw) for raw in sent) > 1000
    trust = heard.consortium.collective(guard=guard).consult(heard.points, "trust").trust
    assert holding(sent, numbers(trust)) == []
    assert holding(sent, numbers(*errors_told(heard))) == []
    kinds = {wire.PoolMessage.FromString(raw).WhichOneof("kind") for raw in _pooled(heard, guard, "client")}
    assert kinds == {"begin", "join", "beliefs"} | ({"bounds"} if guard else set())
    assert not heard.phases["rounds", guard].sent(method=OPINION)


def _pooled(heard, guard, side):
    return heard.phases["rounds", guard].sent(method=POOL, side=side)


def test_by_rounds_each_member_is_told_its_own_share_only(heard):
    """What i hands on to j in the first round is its trust in j over K: j sees that, and not i's trust in others."""
    trust = heard.consortium.collective(guard=False).consult(heard.points, "trust").trust
    names, ports = heard.consortium.names, heard.ports[False]
    for i, sender in enumerate(names):
        for j, receiver in enumerate(names):
            sent = heard.phases["rounds", False].sent(sender, POOL, f":{ports[receiver]}")
            messages = [wire.PoolMessage.FromString(raw) for raw in sent]
            shares = [np.frombuffer(each.beliefs.share.data) for each in messages if each.HasField("beliefs")]
            if i == j:
                assert not shares
                continue
            assert_allclose(shares[0] * K, trust[:, i, j])
            others = [trust[:, i, k] / K for k in range(K) if k != j]
            assert holding(sent, numbers(*others)) == []


# the search finds what there is


@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", ">f4"])
@pytest.mark.parametrize("before", [0, 3])
def test_the_search_finds_what_is_planted(heard, kind, before):
    sent = heard.everything.sent()[:50]
    labels = heard.consortium.agents[2].y[5 : 6 if "8" in kind else 7]
    planted = bytes(before) + labels.astype(kind).tobytes()
    sent[7] = sent[7] + planted + sent[7]
    assert holding(sent, numbers(heard.consortium.agents[2].y)) == [7]


def test_the_search_finds_a_residual_in_an_opinion(heard):
    agents = heard.consortium.agents
    residuals = agents[1].predict(agents[0].X) - agents[0].y
    raw = next(raw for raw in heard.everything.sent(method=OPINION, side="server"))
    reply = wire.OpinionReply.FromString(raw)
    reply.spread.CopyFrom(tensor(residuals[3:4]))
    assert holding([raw, reply.SerializeToString()], numbers(residuals)) == [1]
