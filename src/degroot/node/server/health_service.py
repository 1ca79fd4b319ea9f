"""The health service of gRPC, `grpc.health.v1.Health`: whether the node can answer, for those in its roster."""

from collections.abc import Callable, Mapping
from typing import Any

import grpc
from grpc import StatusCode
from grpc_health.v1 import health_pb2

from degroot.node.protocol import version2
from degroot.node.protocol.codec import PROTOCOL
from degroot.node.server.access import Access, Visit
from degroot.node.server.health import Health
from degroot.node.server.model_service import SERVICE as MODEL_SERVICE

SERVICE = "grpc.health.v1.Health"
COLLECTIVE_SERVICE = f"degroot.v{PROTOCOL}.Collective"
HEALTH = "health"  # in ledgers
TROUBLES_KEY = "degroot-troubles-bin"  # behind a reply to the node's own people: what is the matter, a line each
WATCH_SECONDS = 1.0  # between looks at whether a caller who watches would still be let in


class HealthService:
    """One node's health. Who asks has to be in the roster, as for its description; no right is needed."""

    def __init__(self, name: str, health: Health, access: Access) -> None:
        self._name, self._access = name, access
        self._wait_for_change = health.wait_for_change
        self._troubles: Mapping[str, Callable[[], dict[str, str]]] = {
            "": health.find_troubles,
            COLLECTIVE_SERVICE: health.find_troubles,
            version2.SERVICE: health.find_troubles,
            MODEL_SERVICE: health.find_faults,  # which needs no quorum
        }

    async def check(self, request: Any, context: Any) -> Any:
        """How it stands with a service now."""
        async with self._access.admitted(context, None) as visit:
            visit.message(HEALTH, 0, request.ByteSize())
            if request.service not in self._troubles:
                known = ", ".join(map(repr, self._troubles))
                told = f"A service must be one of {known}; got {request.service[:100]!r}."
                visit.refuse("no such service", StatusCode.NOT_FOUND, told)
            if visit.name == self._name:
                troubles = "\n".join(self._troubles[request.service]().values())
                context.set_trailing_metadata(((TROUBLES_KEY, troubles.encode()),))
            return self._count(visit, self._find_status(request.service))

    async def watch(self, _requests: Any, context: Any) -> None:
        """How it stands with a service now, and whenever that changes, until the node stops."""
        async with self._access.admitted(context, None) as visit:
            request = await visit.next_message() or health_pb2.HealthCheckRequest()
            visit.message(HEALTH, 0, request.ByteSize())
            told = None
            while True:
                status = self._find_status(request.service)
                if status != told:
                    told = status
                    await context.write(self._count(visit, status))
                if self._access.closing.is_set():
                    return
                await self._wait_for_change(WATCH_SECONDS)
                visit.check_admission()

    def _find_status(self, service: str) -> int:
        known = health_pb2.HealthCheckResponse
        if service not in self._troubles:
            return int(known.SERVICE_UNKNOWN)
        return int(known.NOT_SERVING if self._troubles[service]() else known.SERVING)

    def _count(self, visit: Visit, status: int) -> Any:
        """A reply with that status, which is counted as a heartbeat is."""
        reply = health_pb2.HealthCheckResponse(status=status)
        visit.count(HEALTH, reply.ByteSize())
        return reply


def add_to(server: grpc.aio.Server, service: HealthService) -> None:
    """Let a server serve the node's health. Who watches is let in before the request is read, as with other streams."""
    request, response = health_pb2.HealthCheckRequest.FromString, health_pb2.HealthCheckResponse.SerializeToString
    handlers = {
        "Check": grpc.unary_unary_rpc_method_handler(service.check, request, response),
        "Watch": grpc.stream_stream_rpc_method_handler(service.watch, request, response),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
