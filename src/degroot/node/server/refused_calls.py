"""Refused calls: what came with them is freed at once."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

Behaviour = Callable[[Any, Any], Awaitable[Any]]


class RefusedCallCleanup(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Breaks the reference cycle that a refused call leaves. It has to be the first interceptor.

    gRPC keeps the exception that aborts a call; its traceback keeps the frames, and these keep the call and its
    messages, or a pushed model, until the garbage collector runs. Calls with one message are streams here too: the
    interceptor `Reading` makes them that.
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
