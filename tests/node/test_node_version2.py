"""Version 2 of the protocol: its own messages are read and written, and nodes that speak it are answered."""

import grpc
import pytest
from google.protobuf import unknown_fields
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from support.authority import identity_files
from support.consortium import CLIENT, Consortium
from support.drills import points, until
from support.version_before import load_messages

from degroot.node.protocol import version2
from degroot.node.protocol.codec import PROTOCOL, array
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.tls.contents import channel_credentials

KINDS = sorted(wire.DESCRIPTOR.message_types_by_name)


def draw_value(random, field):
    """A value of a field that is no message."""
    kind = field.cpp_type
    if kind in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64):
        return random.randint(0, 2**32 - 1)
    if kind in (field.CPPTYPE_INT32, field.CPPTYPE_INT64):
        return random.randint(-(2**31), 2**31 - 1)
    if kind == field.CPPTYPE_BOOL:
        return random.random() < 0.5
    if kind in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return random.randint(-1000, 1000) / 8
    if kind == field.CPPTYPE_ENUM:
        return random.choice(field.enum_type.values).number
    text = "".join(random.choice("abc") for _ in range(random.randint(0, 5)))
    return text.encode() if field.type == field.TYPE_BYTES else text


def fill(message, random, depth=3):
    """Set fields of a message at random."""
    for field in message.DESCRIPTOR.fields:
        if random.random() < 0.3 or (field.message_type is not None and depth == 0):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        times = random.randint(0, 3) if field.is_repeated else 1
        for _ in range(times):
            if field.message_type is not None:
                holder = getattr(message, field.name)
                inner = holder.add() if field.is_repeated else holder
                inner.SetInParent()
                fill(inner, random, depth - 1)
            elif field.is_repeated:
                getattr(message, field.name).append(draw_value(random, field))
            else:
                setattr(message, field.name, draw_value(random, field))
    return message


def list_fields(message):
    """What a message holds, without the names of packages."""
    return [
        (field.name, [list_fields(each) for each in value] if field.is_repeated and field.message_type else
         list_fields(value) if field.message_type else list(value) if field.is_repeated else value)
        for field, value in message.ListFields()
    ]  # fmt: skip


def list_unknown(message):
    """Fields, at any depth, that the reader's version does not have."""
    found = list(unknown_fields.UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                found += list_unknown(each)
    return found


def get_numbered(message):
    """The message, or the one inside, that holds the number of the protocol."""
    inner = message.WhichOneof("kind") if message.DESCRIPTOR.name == "PoolMessage" else None
    return message if inner is None else getattr(message, inner)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5)
@given(random=st.randoms(use_true_random=False))
def test_every_message_is_written_as_version_2_reads_it(kind, random):
    before = load_messages()
    message = fill(getattr(wire, kind)(), random)
    numbered = get_numbered(message)
    if "protocol" in numbered.DESCRIPTOR.fields_by_name:
        numbered.protocol = PROTOCOL
    encoded = version2.encode(message)
    read = getattr(before, kind).FromString(encoded)
    if getattr(numbered, "protocol", 0):
        assert get_numbered(read).protocol == version2.NUMBER
        get_numbered(read).protocol = PROTOCOL
        assert numbered.protocol == PROTOCOL  # the message itself is left as it was
    added = version2.ADDED.get(kind, ())
    assert list_fields(read) == [each for each in list_fields(message) if each[0] not in added]
    assert getattr(numbered, "protocol", 1) == 0 or not list_unknown(read)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5)
@given(random=st.randoms(use_true_random=False))
def test_every_message_of_version_2_is_read_as_it_was_written(kind, random):
    before = load_messages()
    if not hasattr(before, kind):
        pytest.skip(f"version 2 has no {kind}")
    message = fill(getattr(before, kind)(), random)
    read = getattr(wire, kind).FromString(message.SerializeToString())
    assert list_fields(read) == list_fields(message)
    assert not list_unknown(read)
    if getattr(get_numbered(message), "protocol", 0):
        get_numbered(message).protocol = version2.NUMBER
        read = getattr(wire, kind).FromString(message.SerializeToString())
        assert version2.encode(read) == message.SerializeToString()  # digests of both ends agree


def test_version_2_has_the_same_methods_and_messages_but_for_the_fields_that_were_added():
    before = load_messages().DESCRIPTOR
    service, now = before.services_by_name["Collective"], wire.DESCRIPTOR.services_by_name["Collective"]
    assert service.full_name == version2.SERVICE

    def describe(each):
        names = each.input_type.name, each.output_type.name
        return each.name, *names, each.client_streaming, each.server_streaming

    assert [describe(each) for each in service.methods] == [describe(each) for each in now.methods]
    for kind, message in wire.DESCRIPTOR.message_types_by_name.items():
        old = {field.name: (field.number, field.type) for field in before.message_types_by_name[kind].fields}
        new = {field.name: (field.number, field.type) for field in message.fields}
        assert {name for name in new if name not in old} == set(version2.ADDED.get(kind, ()))
        assert {name: new[name] for name in old} == old


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    load_messages()
    with Consortium(tmp_path_factory.mktemp("node"), 2) as consortium:
        yield consortium.fork().ready()


@pytest.fixture
def call(node):
    """Calls of a node by a member or client that speaks version 2, with its own messages."""
    messages, channels = load_messages(), []

    def make(caller, method, *requests):
        options = [("grpc.ssl_target_name_override", "node0")]
        credentials = channel_credentials(identity_files(node.folder / "keys", caller))
        channels.append(grpc.secure_channel(f"127.0.0.1:{node.ports['node0']}", credentials, options))
        found = messages.DESCRIPTOR.services_by_name["Collective"].methods_by_name[method]
        kind = "_".join("stream" if many else "unary" for many in (found.client_streaming, found.server_streaming))
        made = getattr(channels[-1], kind)(
            f"/degroot.v2.Collective/{method}",
            request_serializer=getattr(messages, found.input_type.name).SerializeToString,
            response_deserializer=getattr(messages, found.output_type.name).FromString,
        )
        replied = made(iter(requests) if found.client_streaming else requests[0], timeout=300)
        return list(replied) if found.server_streaming else replied

    yield make
    for channel in channels:
        channel.close()


def tensor_of(messages, X):
    return messages.Tensor(shape=X.shape, data=X.astype("<f8").tobytes())


def test_a_member_that_speaks_version_2_is_told_of_nothing_that_it_does_not_know(node, call):
    messages = load_messages()
    description = call("node1", "Describe", messages.DescribeRequest(protocol=2, schema=True))
    assert (description.protocol, description.name) == (2, "node0")
    assert not list_unknown(description)
    assert [each.name for each in description.members] == ["node1"]


def test_a_member_that_speaks_version_2_gets_predictions_and_opinions(node, call):
    messages, X = load_messages(), points(4)
    request = messages.PredictRequest(protocol=2, id=7, points=tensor_of(messages, X))
    (reply,) = call("node1", "Predict", request)
    assert reply.id == 7
    expected = node.agents[0].model.predict(X)
    read = wire.Prediction.FromString(reply.SerializeToString())
    assert_allclose(array(read.predictions, (None, None), "predictions")[:, 0], expected)
    (opinion,) = call("node1", "Opinion", messages.Question(protocol=2, id=8, points=tensor_of(messages, X)))
    assert (opinion.id, opinion.fault) == (8, "")


def test_a_client_that_speaks_version_2_is_answered_as_others_are(node, call):
    messages, X = load_messages(), points(5)
    asked = messages.ConsultRequest(
        protocol=2, points=tensor_of(messages, X), fields=["value"], view="consensus", way="solve"
    )
    answers = call(CLIENT, "Consult", asked, asked)
    assert len(answers) == 2
    one = call(CLIENT, "Ask", asked)
    with node.connect(way="solve") as collective:
        expected = collective.consult(X).value
    for answer in (*answers, one):
        read = wire.Answer.FromString(answer.SerializeToString())
        assert_allclose(array(read.fields["value"], (None, None), "value")[:, 0], expected)


@pytest.mark.parametrize("protocol", [0, 1, 4, 99])
def test_other_versions_are_refused_in_one_line_that_names_them(node, call, protocol):
    messages = load_messages()
    with pytest.raises(grpc.RpcError) as caught:
        call("node1", "Describe", messages.DescribeRequest(protocol=protocol))
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert caught.value.details() == f"The protocol must be version 3 or 2 of degroot; got version {protocol}."


def test_a_member_of_the_version_before_that_has_an_older_service_only_is_told_which_ones_there_are(node):
    credentials = channel_credentials(identity_files(node.folder / "keys", "node1"))
    options = [("grpc.ssl_target_name_override", "node0")]
    address, told = f"127.0.0.1:{node.ports['node0']}", "This node speaks degroot.v3 and degroot.v2"
    with grpc.secure_channel(address, credentials, options) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/degroot.v1.Collective/Describe")(b"", timeout=300)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert caught.value.details() == f"{told}; 'degroot.v1.Collective' was asked for."
    until(lambda: '"reason": "method"' in node.log("node0"), "it was not logged")
