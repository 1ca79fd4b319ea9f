"""Forgetting: what came with a call that was refused is freed at once."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

Behaviour = Callable[[Any, Any], Awaitable[Any]]


class Forgetting(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Frees what refused calls have sent, outside of all other interceptors.

    gRPC keeps the exception that aborts a call, and the exception keeps every frame that it has passed, the call among
    what they hold: a circle, which stays until Python next collects garbage. With it stay the messages, or the pushed
    model, of as many megabytes as a caller may send.
    """

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        """The handler, whose refusals keep nothing."""
        handler = await continuation(details)
        if handler is None:
            return None
        codec = handler.request_deserializer, handler.response_serializer
        if handler.stream_unary is not None:
            return grpc.stream_unary_rpc_method_handler(_forget_refused(handler.stream_unary), *codec)
        if handler.stream_stream is not None:
            return grpc.stream_stream_rpc_method_handler(_forget_refused(handler.stream_stream), *codec)
        return handler


def _forget_refused(behaviour: Behaviour) -> Behaviour:
    async def answer(requests: Any, context: Any) -> Any:
        try:
            return await behaviour(requests, context)
        except grpc.aio.AbortError as error:
            del requests, context  # or this frame would be what keeps them
            error.__context__ = None
            raise error.with_traceback(None) from None  # the same one: gRPC looks for it

    return answer
