"""The committed code of the protocol is what its description gives."""

import importlib.resources
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from tritonclient.grpc import service_pb2  # noqa: F401  # both must fit into one process

from degroot.node.protocol import v3
from degroot.node.protocol.v3 import collective_pb2, collective_pb2_grpc

protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools makes the code; it is not installed")

FOLDER = Path(next(iter(v3.__path__)))
PROTO = FOLDER / "collective.proto"


def described(path, folder, *options):
    """The description of a protocol as a message, without comments."""
    out = folder / "described"
    included = importlib.resources.files("grpc_tools") / "_proto"
    code = protoc.main(
        ["protoc", f"-I{path.parent}", f"-I{included}", f"--descriptor_set_out={out}", *options, str(path)]
    )
    assert code == 0
    return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file[0]


def committed():
    held = descriptor_pb2.FileDescriptorProto()
    collective_pb2.DESCRIPTOR.CopyToProto(held)
    return held


def alike(file):
    """All that matters: the file may have been made from another folder, and JSON names are derived."""
    file.name = PROTO.name
    file.ClearField("source_code_info")
    for message in file.message_type:
        _without_json_names(message)
    return file


def _without_json_names(message):
    for field in message.field:
        field.ClearField("json_name")
    for nested in message.nested_type:
        _without_json_names(nested)


def test_the_committed_messages_are_current(tmp_path):
    assert alike(described(PROTO, tmp_path)) == alike(committed())


def test_a_change_would_be_seen(tmp_path):
    changed = tmp_path / PROTO.name
    changed.write_text(PROTO.read_text().replace("uint64 id = 2;", "uint32 id = 2;", 1))
    assert alike(described(changed, tmp_path)) != alike(committed())


def test_the_committed_service_has_all_methods(tmp_path):
    (service,) = described(PROTO, tmp_path).service
    for method in service.method:
        kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
        assert _stubbed(f"/degroot.v3.{service.name}/{method.name}") == kind
        assert hasattr(collective_pb2_grpc.CollectiveServicer, method.name)


def _stubbed(path):
    """Which kind of call the committed code makes of a method."""
    made = {}

    class Channel:
        def __getattr__(self, kind):
            return lambda path, **_: made.setdefault(path, kind)

    collective_pb2_grpc.CollectiveStub(Channel())
    return made[path]


def test_the_version_of_the_protocol_is_in_the_package_and_in_every_request():
    from degroot.node.protocol.codec import PROTOCOL

    assert committed().package == f"degroot.v{PROTOCOL}"
    for name in ("DescribeRequest", "Question", "Begin", "Join", "ConsultRequest"):
        field = getattr(collective_pb2, name).DESCRIPTOR.fields_by_name["protocol"]
        assert field.number == 1  # where every later version finds it
