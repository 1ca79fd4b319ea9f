"""Conversations: questions to one peer and its opinions, over one open stream."""

import asyncio
from typing import Any

import grpc

from degroot.node.v1 import collective_pb2 as v1


class Conversation:
    """Many questions may be open at a time; opinions find theirs by number."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._open: dict[int, asyncio.Future[v1.OpinionReply]] = {}
        self._writing = asyncio.Lock()
        self._failure: BaseException | None = None
        self._listening = asyncio.create_task(self._listen())

    @property
    def over(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._listening.done()

    async def ask(self, question: v1.Question) -> v1.OpinionReply:
        """Put a question with a number of its own, and wait for the opinion."""
        number = question.id
        waiting: asyncio.Future[v1.OpinionReply] = asyncio.get_running_loop().create_future()
        self._open[number] = waiting
        try:
            async with self._writing:
                await self._call.write(question)
            return await waiting
        except asyncio.InvalidStateError:  # the stream ended before it could be written to
            await self._listening
            raise self._failure or _ended() from None
        finally:
            self._open.pop(number, None)

    def end(self) -> None:
        """Ask nothing more."""
        self._call.cancel()

    async def _listen(self) -> None:
        try:
            while (reply := await self._call.read()) is not grpc.aio.EOF:
                waiting = self._open.get(reply.id)
                if waiting is not None and not waiting.done():
                    waiting.set_result(reply)
            await self._call.code()
            self._failure = _ended()
        except (grpc.RpcError, asyncio.CancelledError) as error:
            self._failure = error if isinstance(error, grpc.RpcError) else _ended()
        for waiting in self._open.values():
            if not waiting.done():
                waiting.set_exception(self._failure)


def _ended() -> grpc.RpcError:
    return grpc.aio.AioRpcError(
        grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), details="connection lost"
    )
