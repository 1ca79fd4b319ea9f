"""Streams to a peer, on which questions are asked one after the other."""

import asyncio
from typing import Any

import grpc

from degroot.node.time_limit import TimeLimit


async def write_first(call: Any, message: Any) -> None:
    """Send the first message of a stream.

    gRPC's own `write` waits for ever if the stream is cancelled before it is open, as it is when the channel is closed;
    this raises `CancelledError` then, as all else does for a stream that is cancelled.
    """
    opening = asyncio.ensure_future(call.wait_for_connection())
    call.add_done_callback(lambda _: opening.cancel())
    await asyncio.gather(opening, return_exceptions=True)
    if call.cancelled():
        raise asyncio.CancelledError
    if call.done():
        raise await read_ending(call)
    await call.write(message)


async def read_ending(call: Any) -> grpc.RpcError:
    """Why a stream has ended to which something was to be written."""
    code, details = await call.code(), await call.details()
    if code is grpc.StatusCode.OK:
        code, details = grpc.StatusCode.UNAVAILABLE, "connection lost"
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)


class QuestionStream:
    """An open stream, on which one question at a time is asked.

    A read is always outstanding, so that a reply is taken in while this node computes.
    """

    def __init__(self, call: Any) -> None:
        self._call, self._limit, self._loop = call, TimeLimit(), asyncio.get_running_loop()
        self._reading: asyncio.Task[None] | None = None
        self._reply: asyncio.Future[Any] | None = None  # to the question that is asked

    @property
    def over(self) -> bool:
        """Whether it has ended: nothing can be sent any more."""
        return bool(self._call.done())

    async def ask(self, question: Any, seconds: float) -> Any:
        """Put a question, and wait for the reply, so long at most; after a failure the stream is ended."""
        try:
            with self._limit.within(seconds):
                if self._reading is None:
                    await write_first(self._call, question)
                    reply = self._reply = self._loop.create_future()
                    self._reading = self._loop.create_task(self._read())
                else:
                    reply = self._reply = self._loop.create_future()
                    await self._call.write(question)
                return await reply
        except asyncio.InvalidStateError:  # the stream ended before it was written to
            ending = await read_ending(self._call)
            self.end()
            raise ending from None
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Ask nothing more."""
        self._limit.close()
        self._call.cancel()
        if self._reading is not None:
            self._reading.cancel()
        if self._reply is not None:
            self._reply.cancel()  # or asyncio would log a failure that nobody waited for

    async def _read(self) -> None:
        """Hand over replies as they come, until the stream ends; one that nobody waits for ends it, and is not kept."""
        failure: BaseException | None = None
        try:
            while (reply := await self._call.read()) is not grpc.aio.EOF:
                if self._reply is None or self._reply.done():
                    break
                self._reply.set_result(reply)
                self._reply = None
            else:
                failure = await read_ending(self._call)
        except grpc.RpcError as error:
            failure = error
        finally:
            self._call.cancel()
            if self._reply is not None and not self._reply.done():
                if failure is None:
                    self._reply.cancel()
                else:
                    self._reply.set_exception(failure)
