"""Other versions of the protocol: refused clearly."""

from typing import Any

import grpc
from grpc import StatusCode

OURS = "degroot.v1"


class OtherVersions(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Answers calls of services that this node does not have."""

    def service(self, details: Any) -> Any:
        """A handler that refuses, if the service is ours in another version."""
        path = details.method
        if not path.startswith("/degroot.") or path.startswith(f"/{OURS}."):
            return None

        async def refuse(_requests: Any, context: Any) -> None:
            asked = path[1:].rsplit("/", 1)[0][:100]
            await context.abort(StatusCode.UNIMPLEMENTED, f"This node speaks {OURS}; {asked!r} was asked for.")

        return grpc.stream_stream_rpc_method_handler(refuse)
