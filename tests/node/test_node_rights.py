"""What each caller may do and see at a node that keeps its evidence, and how much: every refusal is one line."""

import time

import grpc
import pytest
from grpc import StatusCode
from numpy.testing import assert_allclose
from support.consortium import CLIENT, Consortium
from support.drills import missing, points, until
from support.refusals import refused
from tritonclient.grpc import service_pb2_grpc

from degroot import InvalidInput
from degroot.answers.answer import ASKER_FIELDS
from degroot.node.config import GRANTS
from degroot.node.errors import PeerRefused
from degroot.node.pooling.rounds import PoolingTerms
from degroot.node.protocol.codec import PROTOCOL, tensor
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.records.ledger import OUT, summary
from degroot.node.server import model_service
from degroot.node.tls import authority

TARGET, STINTED, TRUSTED = "node0", "node1", "node2"
VIEWER, COUNTED, QUERIER, BLIND = "viewer", "counted", "querier", "blind"
ROSTER = f"""
[[clients]]
name = "{VIEWER}"
fields = {list(GRANTS)}
[[clients]]
name = "{COUNTED}"
may = ["ask", "query"]
rows_per_day = 50
[[clients]]
name = "{QUERIER}"
may = ["query"]
[[clients]]
name = "{BLIND}"
fields = []
"""
DAY, MARGIN = 86_400, 300.0
X = points(5)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Three nodes with evidence at home. At the first, one peer may ask about few rows, the other may ask for answers
    and copy the model; clients may see more or less.
    """
    if time.time() % DAY > DAY - MARGIN:  # budgets begin anew at midnight: not in the midst of these tests
        time.sleep(MARGIN)
    folder = tmp_path_factory.mktemp("rights")
    with Consortium(folder, 3, evidence="own", use=["query"]) as nodes:
        for name in (VIEWER, COUNTED, QUERIER, BLIND):
            authority.issue(folder / "keys", name, 30)
        may = {STINTED: ["query"], TRUSTED: ["query", "copy", "ask"]}
        nodes.write(TARGET, may=may, fields=["value", "weights"], clients=())
        path = folder / TARGET / "node.toml"
        stinted = f'name = "{STINTED}"\naddress = '
        text = path.read_text().replace(stinted, f"rows_per_day = 60\n{stinted}")
        path.write_text(f'{text}[[clients]]\nname = "{CLIENT}"\n{ROSTER}')
        nodes.fork().ready(TARGET)
        yield nodes


def stub_of(nodes, caller, name=TARGET):
    """A connection of a caller, for messages made by hand."""
    return nodes.connect(name, caller=caller)


def request(points=X, **changes):
    return wire.ConsultRequest(**{"protocol": PROTOCOL, "points": tensor(points), "fields": ["value"], **changes})


def ask(node, points=X, **changes):
    return node._stub.Ask(request(points, **changes), timeout=120)


def first(stream):
    return next(iter(stream))


def predict(node, points=X):
    return first(node._stub.Predict(iter([wire.PredictRequest(protocol=PROTOCOL, points=tensor(points))]), timeout=120))


def infer(node, points=X):
    stub = service_pb2_grpc.GRPCInferenceServiceStub(node._channel)
    return stub.ModelInfer(model_service.request(TARGET, "", points), timeout=120)


def fetch(node):
    return first(node._stub.FetchCopy(iter([wire.FetchCopyRequest(protocol=PROTOCOL)]), timeout=120))


# fields


@pytest.mark.parametrize(
    ("caller", "granted"),
    [
        (TARGET, set(GRANTS)),
        (VIEWER, set(GRANTS)),
        (CLIENT, {"value", "interval"}),
        (TRUSTED, {"value", "weights"}),
        (BLIND, set()),
    ],
)
def test_callers_see_the_fields_that_they_were_granted_and_no_others(nodes, caller, granted):
    grant_of = {"influence": "beliefs", "correction": "weights"}
    expected = nodes.collective().consult(X, asker=TARGET)
    with stub_of(nodes, caller) as node:
        assert node.granted == granted
        for field in ASKER_FIELDS:
            grant = grant_of.get(field, field)
            if grant in granted:
                assert_allclose(getattr(node.consult(X, field), field), getattr(expected, field), rtol=1e-9, atol=1e-9)
                continue
            may = ", ".join(map(repr, sorted(granted))) or "nothing"
            said = f"{caller!r} must be granted {grant!r} at {TARGET!r}; it may see: {may}."
            with refused(StatusCode.PERMISSION_DENIED, said):
                ask(node, fields=[field])
            with pytest.raises(InvalidInput) as told:  # as people who ask with `connect` see it
                node.consult(X, field)
            assert str(told.value) == said
        unasked = node.consult(X)  # as much as there is to see
        shown = {field for field in ASKER_FIELDS if getattr(unasked, field) is not None}
        assert shown == {field for field in ASKER_FIELDS if grant_of.get(field, field) in granted}
        assert (unasked.choice is not None) == ("weights" in granted)  # it tells of errors on the node's rows


@pytest.mark.parametrize(("caller", "granted"), [(CLIENT, True), (VIEWER, True), (TRUSTED, False), (BLIND, False)])
def test_intervals_are_a_field_too(nodes, caller, granted):
    with stub_of(nodes, caller) as node:
        if granted:
            found = node.consult(X, "value", coverage=0.8)
            assert_allclose(found.upper, nodes.collective().consult(X, asker=TARGET, coverage=0.8).upper, rtol=1e-9)
        else:
            with refused(StatusCode.PERMISSION_DENIED, f"{caller!r} must be granted 'interval' at {TARGET!r}"):
                ask(node, fields=[], coverage=0.8)


def test_a_stream_of_questions_has_the_same_rights(nodes):
    with stub_of(nodes, CLIENT) as node:
        answers = node._stub.Consult(iter([request(), request(fields=["weights"])]), timeout=120)
        with refused(StatusCode.PERMISSION_DENIED, "must be granted 'weights'"):
            for answer in answers:
                assert set(answer.fields) == {"value"}


@pytest.mark.parametrize("caller", [CLIENT, VIEWER, TRUSTED])
def test_corrected_answers_are_for_the_node_itself(nodes, caller):
    with stub_of(nodes, caller) as node, refused(StatusCode.PERMISSION_DENIED, f"asked for by {TARGET!r} itself."):
        ask(node, correct=True)
    with stub_of(nodes, TARGET) as node:
        expected = nodes.collective().predict(X, asker=TARGET, correct=True)
        assert_allclose(node.predict(X, correct=True), expected, rtol=1e-9)


def test_the_guard_is_nothing_that_a_caller_can_ask_for():
    assert "guard" not in wire.ConsultRequest.DESCRIPTOR.fields_by_name


# rights


def test_a_peer_that_was_not_granted_it_gets_no_answers_from_the_own_rows(nodes):
    said = f"{STINTED!r} must have the right 'ask' at {TARGET!r}; it may: 'query'."
    with stub_of(nodes, STINTED) as node:
        for attempt in (
            lambda: ask(node),
            lambda: first(node._stub.Consult(iter([request()]), timeout=120)),
        ):
            with refused(StatusCode.PERMISSION_DENIED, said):
                attempt()


@pytest.mark.parametrize("caller", [STINTED, CLIENT, VIEWER, QUERIER])
def test_who_may_not_copy_the_model_does_not_get_it(nodes, caller):
    with (
        stub_of(nodes, caller) as node,
        refused(StatusCode.PERMISSION_DENIED, f"{caller!r} must have the right 'copy' at {TARGET!r}; it may: "),
    ):
        fetch(node)


def test_who_may_copy_the_model_gets_it(nodes):
    """A control."""
    with stub_of(nodes, TRUSTED) as node:
        assert (nodes.folder / TARGET / "model.skops").read_bytes() in fetch(node).content


def test_who_has_no_node_cannot_push_a_model(nodes):
    with (
        stub_of(nodes, VIEWER) as node,
        refused(StatusCode.PERMISSION_DENIED, "A copy must come from a peer; 'viewer'"),
    ):
        node._stub.PushCopy(iter([wire.CopyChunk(protocol=PROTOCOL, content=b"x")]), timeout=120)


# evidence stays at home


@pytest.mark.parametrize("caller", [TARGET, STINTED, TRUSTED, CLIENT])
def test_no_opinion_leaves_and_nothing_is_pooled(nodes, caller):
    begin = PoolingTerms("s", (TARGET, STINTED), False, 1e-6, 10).begin(X)
    join = wire.PoolMessage(join=wire.Join(protocol=PROTOCOL, session="s"))
    question = wire.Question(protocol=PROTOCOL, id=1, points=tensor(X))
    said = f"{TARGET!r} keeps its evidence to itself: `evidence` in its file is not 'pooled'."
    with stub_of(nodes, caller) as node:
        for attempt in (
            lambda: first(node._stub.Opinion(iter([question]), timeout=120)),
            lambda: first(node._stub.Pool(iter([begin]), timeout=120)),
            lambda: first(node._stub.Pool(iter([join]), timeout=120)),
        ):
            with refused(StatusCode.FAILED_PRECONDITION, said):
                attempt()


@pytest.mark.parametrize("caller", [TARGET, TRUSTED, CLIENT])
@pytest.mark.parametrize("way", [{}, {"way": "rounds", "tolerance": 1e-6, "rounds": 10}])
def test_there_is_no_consensus(nodes, caller, way):
    said = (
        "The consensus needs everybody's evidence, in the file of every node that answers: evidence = 'maps', as "
        "private maps, or evidence = 'pooled', which lets members recover each other's labels; "
        f"{TARGET!r} has 'own'."
    )
    with stub_of(nodes, caller) as node, refused(StatusCode.FAILED_PRECONDITION, said):
        ask(node, view="consensus", **way)
    with nodes.connect(TARGET, caller=caller, view="consensus") as node, pytest.raises(InvalidInput) as told:
        node.predict(X)
    assert str(told.value) == said


@pytest.mark.parametrize("caller", [TARGET, TRUSTED, VIEWER])
def test_a_question_for_another_member_is_sent_to_its_own_node(nodes, caller):
    for name in (STINTED, TRUSTED):
        said = (
            f"A node answers for itself only, and this is {TARGET!r}; for {name!r} ask its own node, at "
            f"127.0.0.1:{nodes.ports[name]}."
        )
        with stub_of(nodes, caller) as node, refused(StatusCode.INVALID_ARGUMENT, said):
            ask(node, asker=name)
    with (
        stub_of(nodes, caller) as node,
        refused(StatusCode.INVALID_ARGUMENT, f"`asker` must be the asked node, {TARGET!r}; got 'nobody'."),
    ):
        ask(node, asker="nobody")


def test_the_version_before_is_told_which_one_is_spoken(nodes):
    with stub_of(nodes, CLIENT) as node:
        for method in ("Describe", "Ask", "Consult", "Opinion", "Pool"):
            call = node._channel.stream_stream(f"/degroot.v1.Collective/{method}")
            said = "This node speaks degroot.v3 and degroot.v2; 'degroot.v1.Collective' was asked for."
            with refused(StatusCode.UNIMPLEMENTED, said):
                first(call(iter([b""]), timeout=120))


# how much


def test_rows_of_a_day_are_counted_together_and_after_a_restart_too(nodes):
    said = "At most 50 rows a day are allowed (rows_per_day); {} came before, and {} more."
    with stub_of(nodes, COUNTED) as node:
        ask(node, points(20))
        infer(node, points(10))
        predict(node, points(15))  # 45 in all
        for attempt in (
            lambda: ask(node, points(6)),
            lambda: infer(node, points(6)),
            lambda: predict(node, points(6)),
            lambda: first(node._stub.Consult(iter([request(points(6))]), timeout=120)),
        ):
            with refused(StatusCode.RESOURCE_EXHAUSTED, said.format(45, 6)):
                attempt()
        ask(node, points(2))  # what was refused does not count
    nodes.kill(TARGET)
    nodes.fork(TARGET)
    with stub_of(nodes, COUNTED) as node:
        with refused(StatusCode.RESOURCE_EXHAUSTED, said.format(47, 4)):
            ask(node, points(4))
        ask(node, points(3))
        with refused(StatusCode.RESOURCE_EXHAUSTED, said.format(50, 1)):
            predict(node, points(1))
        assert node.members  # who the node is, it is told all the same
        with pytest.raises(PeerRefused, match=r"\(rows_per_day\); 50 came before, and 1 more"):
            node.predict(points(1))
    with stub_of(nodes, VIEWER) as node:  # others are not concerned
        ask(node, points(60))


def model_queries(nodes):
    """How often, and with how many rows, the stinted peer has queried the model."""
    lines = summary(nodes.configuration(STINTED).ledger)
    (line,) = [line for line in lines if (line.peer, line.kind, line.direction) == (TARGET, "model query", OUT)]
    return line.exchanges, line.rows


def test_a_peer_over_its_budget_does_not_try_for_ever_and_says_why(nodes):
    """It has 127 rows, which go in chunks of 50: the second is over the budget."""
    said = "At most 60 rows a day are allowed (rows_per_day); 50 came before, and 50 more."
    until(lambda: said in nodes.log(STINTED), lambda: nodes.log(STINTED))
    for _ in range(20):  # in which it looks after its peers ten times or so
        assert model_queries(nodes) == (2, 100)
        time.sleep(0.1)
    with nodes.connect(STINTED, caller=STINTED) as node:
        found = node.consult(points(20))
    assert TARGET in missing(found)
    assert "(rows_per_day)" in missing(found)[TARGET] or "not scored yet" in missing(found)[TARGET]
    expected = nodes.collective(without=[TARGET]).consult(points(20), asker=STINTED)
    assert_allclose(found.value, expected.value, rtol=1e-9)


# own rows that others ask about


def test_replies_are_the_same_whether_or_not_rows_are_the_nodes_own_and_its_people_are_told(nodes):
    own = nodes.agents[0].X[:40]
    others = own + 1e-3

    def ask_all(node):
        return [predict(node, own[:9]).SerializeToString(), infer(node, own[:9]).SerializeToString()]

    with stub_of(nodes, QUERIER) as node:
        before = ask_all(node)
        sizes = [predict(node, each).ByteSize() for each in (own, others)]  # now there are many
        assert sizes[0] == sizes[1]
        told = until(lambda: "own rows were asked about" in nodes.log(TARGET) and nodes.log(TARGET), "nothing is told")
        assert ask_all(node) == before
        statuses = [node._stub.Predict(iter([]), timeout=120).code() for _ in range(2)]
        assert set(statuses) == {grpc.StatusCode.OK}
    line = next(line for line in told.splitlines() if "own rows were asked about" in line)
    assert QUERIER in line
    assert "40" in line
