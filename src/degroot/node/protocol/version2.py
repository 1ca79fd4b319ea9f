"""Version 2 of the protocol, which is spoken beside the present one: members are upgraded one after the other.

Version 3 adds fields to `DescribeRequest` and `Description`. All else is alike but for the name of the service and the
number of the protocol in requests, so that the messages of version 3 hold those of version 2. This module goes when
there is a version 4.
"""

from typing import Any

import grpc

from degroot.node.protocol.v3 import collective_pb2 as wire

NUMBER = 2
SERVICE = f"degroot.v{NUMBER}.Collective"
ADDED = {  # fields that version 2 does not have
    "DescribeRequest": ("roster", "instance"),
    "Description": ("roster", "signed_roster", "instance", "duplicate", "software"),
}
METHODS = wire.DESCRIPTOR.services_by_name["Collective"].methods


def encode(message: Any) -> bytes:
    """A message as version 2 writes it."""
    kind = message.DESCRIPTOR.name
    inner = message.WhichOneof("kind") if kind == "PoolMessage" else None
    numbered = message if inner is None else getattr(message, inner)
    if not getattr(numbered, "protocol", 0):  # it says nothing of the version: a reply, or a message that follows
        return bytes(message.SerializeToString())
    restated = type(message)()
    restated.CopyFrom(message)
    (restated if inner is None else getattr(restated, inner)).protocol = NUMBER
    for field in ADDED.get(kind, ()):
        restated.ClearField(field)
    return bytes(restated.SerializeToString())


class CollectiveStub:
    """The methods of a node that speaks version 2, over a channel."""

    def __init__(self, channel: Any) -> None:
        for method in METHODS:
            call = getattr(channel, _name_kind(method))(
                f"/{SERVICE}/{method.name}",
                request_serializer=encode,
                response_deserializer=getattr(wire, method.output_type.name).FromString,
            )
            setattr(self, method.name, call)


def add_to(server: grpc.aio.Server, service: Any) -> None:
    """Let a server answer members that speak version 2, by the methods of the present service."""
    handlers = {
        method.name: getattr(grpc, f"{_name_kind(method)}_rpc_method_handler")(
            getattr(service, method.name),
            request_deserializer=getattr(wire, method.input_type.name).FromString,
            response_serializer=encode,
        )
        for method in METHODS
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])


def _name_kind(method: Any) -> str:
    """How gRPC calls a method with so many messages on either side."""
    asked, answered = ("stream" if many else "unary" for many in (method.client_streaming, method.server_streaming))
    return f"{asked}_{answered}"
