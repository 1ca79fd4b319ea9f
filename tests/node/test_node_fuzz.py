"""Whatever arrives, decoders either take it or refuse it by one of two errors, and little room is taken."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as v2

from degroot.answers.answer import Consensus
from degroot.consultation.consult import Opinion
from degroot.guard.forecast import AnswerForecast, GuardStandards
from degroot.node.answering.terms import merge_batches
from degroot.node.pooling.rounds import GuardBounds, PoolingTerms
from degroot.node.pooling.session import Session
from degroot.node.protocol.codec import (
    PROTOCOL,
    Malformed,
    Model,
    UnknownMembers,
    array,
    beliefs_of,
    check_protocol,
    decode_answer,
    tensor,
)
from degroot.node.protocol.opinions import PeerOpinion, decode_opinion, encode_opinion
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.server import model_service
from degroot.rules.evidence import Evidence

M, K, Q, D = 3, 2, 2, 4  # of all valid messages here
NAMES = ("a", "b")

LONG = "x" * 2000

fuzzed = settings(deadline=None, max_examples=300)


def told(work, *arguments):
    """What a decoder gives, or that it was refused: nothing else may come."""
    try:
        return work(*arguments)
    except (Malformed, UnknownMembers) as error:
        line = str(error)
        assert line
        assert "\n" not in line
        assert len(line) < 1000  # it goes into a header
        return None


def parsed(kind, raw):
    """A message, or None where protobuf refuses."""
    try:
        return kind.FromString(raw)
    except DecodeError:
        return None


# valid messages, to be mutated


def an_opinion(moments=False, guard=True):
    said = AnswerForecast(np.ones((M, K, Q)), np.ones((M, K)), np.ones((M, K)), np.ones(M))
    errors, known = (np.empty((0, 1, K)), np.ones((M, 1, 3))) if moments else (np.ones((M, 1, K)), None)
    measured = Evidence(errors, known, np.ones((M, 1)), np.ones((M, 1)))
    opinion = Opinion(np.ones((M, Q)), measured)
    if guard:
        opinion = replace(opinion, forecast=said, standards=GuardStandards(1.0, np.zeros(Q), np.ones(Q)))
    return PeerOpinion("1", tuple(Model(name, "1") for name in NAMES), opinion)


def a_query():
    return model_service.request("a", "1", np.ones((M, D)))


def typed_query():
    query = a_query()
    query.ClearField("raw_input_contents")
    query.inputs[0].contents.fp64_contents.extend([1.0] * (M * D))
    return query


def predictions():
    return model_service.response(a_query(), "1", np.ones((M, Q)))


def bounds():
    return GuardBounds(np.ones((M, K), bool), np.ones((M, K)), np.ones((M, K)), np.ones(M)).encode().bounds


def begin():
    return PoolingTerms("s", NAMES, True, 1e-9, 100).begin(np.ones((M, D))).begin


def answer():
    fields = {"value": tensor(np.ones((M, Q))), "weights": tensor(np.ones((M, K)))}
    made = wire.Answer(names=NAMES, fields=fields, outputs=Q)
    made.flags.add(agent="a", reason="why", points=[0])
    return made


def merged(message):
    return merge_batches([decode_answer(message, ["value", "weights"], Q)], Q, NAMES)


DECODERS = {
    "array": (lambda: tensor(np.ones((M, D))), lambda message: array(message, (None, D), "points")),
    "any array": (lambda: tensor(np.ones((M, D))), lambda message: array(message, (None, None), "points")),
    "beliefs": (lambda: tensor(np.ones((M, Q))), lambda message: beliefs_of(message, M, Q)),
    "opinion": (lambda: encode_opinion(an_opinion(), 1), lambda message: decode_opinion(message, M, Q)),
    "moments": (
        lambda: encode_opinion(an_opinion(moments=True, guard=False), 1),
        lambda message: decode_opinion(message, M, Q),
    ),
    "query": (a_query, lambda message: model_service.points_in(message, D)),
    "typed query": (typed_query, lambda message: model_service.points_in(message, D)),
    "predictions": (predictions, lambda message: model_service.predictions_in(message, M, Q)),
    "bounds": (bounds, lambda message: GuardBounds.decode(message, M, K)),
    "begin": (begin, lambda message: PoolingTerms.told(message, "a", NAMES, "b")),
    "answer": (answer, merged),
}

everything = pytest.mark.parametrize("name", DECODERS)


def check(name, result):
    """What was taken is what the decoder promises."""
    if result is None:
        return
    if name in ("array", "query", "typed query"):
        assert result.shape[1:] == (D,)
    if name in ("array", "any array", "query", "typed query", "predictions", "beliefs"):
        assert result.dtype == np.float64
        assert np.isfinite(result).all()
    if name in ("opinion", "moments"):
        assert result.opinion.beliefs.shape == (M, Q)
    if name == "bounds":
        assert result.kept.shape == result.low.shape == result.high.shape == (M, K)
    if name == "begin":
        assert "a" in result.members
        assert 0.0 <= result.tolerance < 1.0
    if name == "answer":
        assert isinstance(result, Consensus)


@everything
def test_valid_messages_are_taken(name):
    made, decoder = DECODERS[name]
    result = decoder(made())
    assert result is not None
    check(name, result)


@everything
@fuzzed
@given(raw=st.binary(max_size=300))
def test_random_bytes(name, raw):
    made, decoder = DECODERS[name]
    message = parsed(type(made()), raw)
    if message is not None:
        check(name, told(decoder, message))


@everything
@fuzzed
@given(data=st.data())
def test_valid_bytes_with_some_changed(name, data):
    made, decoder = DECODERS[name]
    raw = bytearray(made().SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw) - 1))
        if data.draw(st.booleans()):
            raw[place] = data.draw(st.integers(0, 255))
        else:
            del raw[place : place + data.draw(st.integers(1, 16))]
            raw = raw or bytearray(1)
    message = parsed(type(made()), bytes(raw))
    if message is not None:
        check(name, told(decoder, message))


sizes = st.lists(st.one_of(st.integers(-3, 5), st.sampled_from([2**31, 2**62, 2**63 - 1, -(2**63)])), max_size=5)
tensors = st.builds(
    lambda shape, data, cut: wire.Tensor(shape=shape, data=np.array(data, "<f8").tobytes()[: -cut or None]),
    sizes, st.lists(st.floats(width=64), max_size=24), st.integers(0, 7),
)  # fmt: skip


def mutated(message, data):
    """The message with some fields, at any depth, replaced, removed or repeated."""
    for field in message.DESCRIPTOR.fields:
        action = data.draw(st.sampled_from(["keep", "keep", "keep", "clear", "change"]))
        if action == "keep":
            continue
        if action == "clear":
            message.ClearField(field.name)
        elif field.message_type is not None and field.message_type.name == "Tensor" and not repeated(field):
            getattr(message, field.name).CopyFrom(data.draw(tensors))
        elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
            inner = getattr(message, field.name)
            for each in inner if repeated(field) else [inner]:
                mutated(each, data)
            if repeated(field) and len(inner) and data.draw(st.booleans()):
                inner.add().CopyFrom(inner[0])
        elif field.message_type is None:
            _scalar(message, field, data)
    return message


def repeated(field):
    return field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def _scalar(message, field, data):
    kinds = {
        field.CPPTYPE_INT64: st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-4, 9)),
        field.CPPTYPE_UINT64: st.integers(0, 2**64 - 1),
        field.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
        field.CPPTYPE_UINT32: st.integers(0, 2**32 - 1),
        field.CPPTYPE_DOUBLE: st.floats(width=64),
        field.CPPTYPE_FLOAT: st.floats(width=32),
        field.CPPTYPE_BOOL: st.booleans(),
    }
    text = st.one_of(st.text(max_size=20), st.sampled_from([LONG, "FP32", "FP64", "INT64", "points", "a"]))
    values = kinds.get(field.cpp_type, text if field.type == field.TYPE_STRING else st.binary(max_size=64))
    if repeated(field):
        message.ClearField(field.name)
        getattr(message, field.name).extend(data.draw(st.lists(values, max_size=5)))
    else:
        setattr(message, field.name, data.draw(values))


@everything
@fuzzed
@given(data=st.data())
def test_valid_messages_with_fields_changed(name, data):
    made, decoder = DECODERS[name]
    check(name, told(decoder, mutated(made(), data)))


@fuzzed
@given(message=tensors, shape=st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=5), finite=st.booleans())
def test_arrays_have_the_wanted_shape(message, shape, finite):
    found = told(lambda: array(message, shape, "it", finite=finite))
    if found is not None:
        assert found.shape == tuple(message.shape)
        assert all(wanted in (None, size) for wanted, size in zip(shape, found.shape, strict=True))
        assert found.astype("<f8").tobytes() == message.data
        assert not finite or np.isfinite(found).all()


@given(st.lists(st.floats(width=64), max_size=30), st.integers(1, 4))
def test_arrays_survive_the_wire(values, columns):
    given_ = np.array(values[: len(values) // columns * columns], np.float64).reshape(-1, columns)
    sent = wire.Tensor.FromString(tensor(given_).SerializeToString())
    np.testing.assert_array_equal(array(sent, (None, columns), "it", finite=False), given_)


@fuzzed
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2**32 - 1)), max_size=20))
def test_a_session_keeps_little_whatever_rounds_are_told(messages):
    session = Session()
    taken = 0
    for sender, number in messages:
        try:
            session.receive(sender, wire.Beliefs(round=number))
            taken += 1
        except Malformed:
            pass
    assert taken <= 2 * 3  # two rounds of three members


@given(st.integers(0, 2**32 - 1).filter(lambda version: version not in (PROTOCOL, PROTOCOL - 1)))
def test_other_protocols_are_refused(version):
    from degroot.node.protocol.codec import UnknownVersion

    spoken = f"version {PROTOCOL} or {PROTOCOL - 1} of degroot"
    with pytest.raises(UnknownVersion, match=f"{spoken}; got version {version}"):
        check_protocol(version)


HUGE = [2**62, 2**63 - 1, 10**12]


@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize("place", [0, 1])
def test_sizes_that_are_only_claimed_take_no_room(size, place):
    shape = [M, D]
    shape[place] = size
    query = a_query()
    query.inputs[0].shape[:] = shape
    claims = [
        (lambda: array(wire.Tensor(shape=shape, data=bytes(96)), (None, None), "it")),
        (lambda: array(wire.Tensor(shape=[0, *shape]), (None, None, None), "it")),
        (lambda: model_service.points_in(query, D)),
        (lambda: GuardBounds.decode(wire.Bounds(kept=wire.Tensor(shape=shape)), *shape)),
    ]
    tracemalloc.start()
    for claim in claims:
        told(claim)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 23


def test_many_models_that_are_only_named_take_no_room():
    reply = encode_opinion(an_opinion(), 1)
    reply.scored.extend(wire.Model(name=f"m{k}") for k in range(5000))
    reply.ClearField("errors")
    reply.moments.CopyFrom(tensor(np.ones((M, 3))))
    tracemalloc.start()
    assert told(decode_opinion, reply, M, Q) is None
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 23


def test_requests_of_the_model_service_parse_only_what_is_sent():
    """A message of nested lengths that lie is refused by protobuf itself."""
    with pytest.raises(DecodeError):
        v2.ModelInferRequest.FromString(b"\x2a\xff\xff\xff\xff\x0fabc")
