"""Reading: the one message of a call is waited for as a stream's next is, not before the caller is known."""

from typing import Any

import grpc
from grpc import StatusCode

from degroot.node.access import Access


class Reading(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Lets callers in before their message is read: one who sends none holds a call of its own, and not for long."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """A handler that reads the message itself, for calls with one message and one answer."""
        handler = await continuation(details)
        if handler is None or handler.request_streaming or handler.response_streaming:
            return handler

        async def answer(_requests: Any, context: Any) -> Any:
            async with self._access.admitted(context, None) as visit:
                request = await visit.next_message()
                if request is None:
                    told = "A call must have a message; none came."
                    await visit.refuse("malformed", StatusCode.INVALID_ARGUMENT, told)
            return await handler.unary_unary(request, context)

        return grpc.stream_unary_rpc_method_handler(answer, handler.request_deserializer, handler.response_serializer)
