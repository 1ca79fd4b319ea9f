"""Conversations: questions to one peer and its opinions over an open stream, one at a time."""

import asyncio
from typing import Any

import grpc

from degroot.node.v1 import collective_pb2 as v1


class Conversation:
    """An open stream. After a failure, or when nobody waited for the reply, it has to be ended."""

    def __init__(self, call: Any) -> None:
        self._call = call

    @property
    def over(self) -> bool:
        """Whether the peer has closed it: nothing can be sent any more."""
        return bool(self._call.done())

    async def ask(self, question: v1.Question) -> v1.OpinionReply:
        """Put a question, and wait for the opinion."""
        try:
            await self._call.write(question)
            reply: v1.OpinionReply = await self._call.read()
        except asyncio.InvalidStateError:  # the stream ended before it was written to
            raise await self._ending() from None
        if reply is grpc.aio.EOF:
            raise await self._ending()
        return reply

    def end(self) -> None:
        """Ask nothing more."""
        self._call.cancel()

    async def _ending(self) -> grpc.RpcError:
        code, details = await self._call.code(), await self._call.details()
        if code is grpc.StatusCode.OK:
            code, details = grpc.StatusCode.UNAVAILABLE, "connection lost"
        return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)
