"""Links: what is sent to a peer is what is recorded, whatever becomes of the streams that are kept open."""

import asyncio
import socket

import grpc
import numpy as np
import pytest

from degroot.node.config import Limits, Peer
from degroot.node.config.reading import MESSAGE_BYTES
from degroot.node.copies.bundle import OVERHEAD_BYTES
from degroot.node.errors import BadReply, PeerRefused, PeerUnreachable
from degroot.node.peers.link import Link, LinkContext, cut_bundle
from degroot.node.peers.stream import write_first
from degroot.node.protocol.codec import tensor
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.protocol.v3 import collective_pb2_grpc
from degroot.node.records.ledger import Ledger, summary
from degroot.node.records.metrics import Metrics

POINTS = tensor(np.zeros((5, 2)))
QUESTIONS = {"opinion": wire.Question(points=POINTS), "prediction": wire.PredictRequest(points=POINTS)}


class Fickle(collective_pb2_grpc.CollectiveServicer):
    """Answers one question a stream: then it closes the stream, or does so when the next has come."""

    def __init__(self):
        self.came, self.waits = 0, False

    async def Opinion(self, _, context):  # noqa: N802
        async for reply in self._answer(context, wire.OpinionReply):
            yield reply

    async def Predict(self, _, context):  # noqa: N802
        async for reply in self._answer(context, wire.Prediction):
            yield reply

    async def _answer(self, context, reply):
        question = await context.read()
        self.came += 1
        yield reply(id=question.id)
        if self.waits:
            self.came += await context.read() is not grpc.aio.EOF
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "quiet for too long")


async def told_of_the_end(link):
    """Wait until it is known here that the peer has closed the stream."""
    async with asyncio.timeout(60):
        while not all(stream.over for free in link._free.values() for stream in free):
            await asyncio.sleep(0.01)


async def put(link, wiring, kind):
    wiring.record([link.name], kind, 5, QUESTIONS[kind].ByteSize())
    await link.ask(QUESTIONS[kind], kind)


@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_question_after_a_stream_was_closed_is_recorded_as_often_as_it_was_sent(tmp_path, kind):
    async def scene():
        server, peer = grpc.aio.server(), Fickle()
        collective_pb2_grpc.add_CollectiveServicer_to_server(peer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        wiring = LinkContext("north", None, Limits(), 60.0, Ledger(tmp_path / "ledger.sqlite"), Metrics())
        link = Link(Peer("south", f"127.0.0.1:{port}"), wiring)
        for waits in (False, False, False, True, True):
            peer.waits = waits
            await put(link, wiring, kind)
            if not waits:
                await told_of_the_end(link)
        await link.close()
        await server.stop(None)
        wiring.ledger.close()
        return peer.came

    came = asyncio.run(scene())
    (line,) = summary(tmp_path / "ledger.sqlite")
    assert came == 6
    assert line.kind == kind
    assert (line.exchanges, line.rows) == (came, 5 * came)


class Talkative(collective_pb2_grpc.CollectiveServicer):
    """Answers each question twice."""

    async def Predict(self, _, context):  # noqa: N802
        while (question := await context.read()) is not grpc.aio.EOF:
            for _ in range(2):
                yield wire.Prediction(id=question.id)


def test_what_nobody_asked_for_ends_a_stream_and_nothing_goes_on_when_a_link_is_closed(tmp_path):
    async def scene():
        before, server = asyncio.all_tasks(), grpc.aio.server()
        collective_pb2_grpc.add_CollectiveServicer_to_server(Talkative(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        wiring = LinkContext("north", None, Limits(), 60.0, Ledger(tmp_path / "ledger.sqlite"), Metrics())
        link = Link(Peer("south", f"127.0.0.1:{port}"), wiring)
        for number in range(3):
            reply = await link.ask(wire.PredictRequest(id=number, points=POINTS), "prediction")
            assert reply.id == number
            (stream,) = link._free["prediction"]
            await told_of_the_end(link)
            assert stream.over
            assert stream._reply is None  # what came is not kept
        await link.close()
        await server.stop(None)
        wiring.ledger.close()
        async with asyncio.timeout(60):
            while asyncio.all_tasks() - before:
                await asyncio.sleep(0.01)

    asyncio.run(scene())


class Strict(collective_pb2_grpc.CollectiveServicer):
    """Refuses all streams as soon as they are open."""

    async def Predict(self, _, context):  # noqa: N802
        await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not in the roster")
        yield


def test_a_refusal_while_a_question_is_sent_is_told_as_one_or_as_a_stream_that_ended(tmp_path):
    """grpc.aio loses the status of some of these streams, and then says that it has failed itself."""

    async def scene():
        server = grpc.aio.server()
        collective_pb2_grpc.add_CollectiveServicer_to_server(Strict(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        wiring = LinkContext("north", None, Limits(), 60.0, Ledger(tmp_path / "ledger.sqlite"), Metrics())
        links = [Link(Peer("south", f"127.0.0.1:{port}"), wiring) for _ in range(4)]
        asked = [link.ask(QUESTIONS["prediction"], "prediction") for _ in range(100) for link in links]
        ends = await asyncio.gather(*asked, return_exceptions=True)
        for link in links:
            await link.close()
        await server.stop(None)
        wiring.ledger.close()
        return ends

    ends = asyncio.run(scene())
    refused = [end for end in ends if isinstance(end, PeerRefused)]
    assert {end.reason for end in refused} == {"refused: not in the roster"}
    ended = "unreachable (it ended the stream while a message was sent)"
    assert {end.reason for end in ends if not isinstance(end, PeerRefused)} <= {ended}
    assert all(isinstance(end, PeerRefused | PeerUnreachable) for end in ends)


class Generous(collective_pb2_grpc.CollectiveServicer):
    """Sends so many bytes as a copy of its model."""

    def __init__(self, size):
        self.size = size

    async def FetchCopy(self, _, context):  # noqa: N802
        for chunk in cut_bundle(bytes(self.size)):
            yield chunk


@pytest.mark.parametrize("limits", [Limits(), Limits(message_bytes=MESSAGE_BYTES[0])])  # copies come in parts
@pytest.mark.parametrize("beyond", [0, 1])
def test_a_copy_over_the_limit_is_refused_with_the_setting_and_its_value(tmp_path, beyond, limits):
    async def scene():
        server = grpc.aio.server()
        size = 100 + OVERHEAD_BYTES + beyond
        collective_pb2_grpc.add_CollectiveServicer_to_server(Generous(size), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        wiring = LinkContext("north", None, limits, 60.0, Ledger(tmp_path / "ledger.sqlite"), Metrics())
        link = Link(Peer("south", f"127.0.0.1:{port}"), wiring)
        try:
            if beyond:
                with pytest.raises(BadReply) as caught:
                    await link.fetch_copy(100)
                assert caught.value.reason == "its model has more than 100 bytes (limits.copy_bytes)"
            else:
                assert await link.fetch_copy(100) == bytes(size)
        finally:
            await link.close()
            await server.stop(0)
            wiring.ledger.close()

    asyncio.run(scene())


def test_a_stream_that_is_not_open_yet_ends_when_the_peer_leaves(tmp_path):
    async def scene(port):
        wiring = LinkContext("north", None, Limits(), 10.0, Ledger(tmp_path / "ledger.sqlite"), Metrics())
        link = Link(Peer("south", f"127.0.0.1:{port}"), wiring)
        writing = asyncio.create_task(write_first(link.pool(), wire.PoolMessage()))
        await asyncio.sleep(0)
        await link.close()
        await asyncio.wait([writing], timeout=60.0)
        wiring.ledger.close()
        return writing.cancelled()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert asyncio.run(scene(silent.getsockname()[1]))


class Babbling(grpc.GenericRpcHandler):
    """Answers every question with bytes that are no message."""

    def service(self, details):
        async def babble(_, context):
            while await context.read() is not grpc.aio.EOF:
                await context.write(b"\xff\xff")

        return grpc.stream_stream_rpc_method_handler(babble) if details.method.endswith("Predict") else None


def test_what_is_no_message_is_a_bad_reply_of_the_peer(tmp_path):
    async def scene():
        server = grpc.aio.server()
        server.add_generic_rpc_handlers([Babbling()])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        wiring = LinkContext("north", None, Limits(), 60.0, Ledger(tmp_path / "ledger.sqlite"), Metrics())
        link = Link(Peer("south", f"127.0.0.1:{port}"), wiring)
        for number in (1, 2):
            with pytest.raises(BadReply, match=f"answers with no message of the protocol, not question {number}"):
                await link.ask(wire.PredictRequest(id=number, points=POINTS), "prediction")
            assert not link._free["prediction"]
        await link.close()
        await server.stop(None)
        wiring.ledger.close()

    asyncio.run(scene())


class Patient(collective_pb2_grpc.CollectiveServicer):
    """Answers when it is told to, and counts how many wait."""

    def __init__(self):
        self.waiting, self.most, self.go = 0, 0, asyncio.Event()

    async def Predict(self, _, context):  # noqa: N802
        while (question := await context.read()) is not grpc.aio.EOF:
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            await self.go.wait()
            self.waiting -= 1
            yield wire.Prediction(id=question.id)


async def with_patient_peer(tmp_path, seconds, work):
    server, peer = grpc.aio.server(), Patient()
    collective_pb2_grpc.add_CollectiveServicer_to_server(peer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    limits = Limits(concurrent_calls=6)
    wiring = LinkContext("north", None, limits, seconds, Ledger(tmp_path / "ledger.sqlite"), Metrics())
    link = Link(Peer("south", f"127.0.0.1:{port}"), wiring)
    link.fault = None
    try:
        await work(link, peer)
    finally:
        await link.close()
        await server.stop(None)
        wiring.ledger.close()


def questions(link, count):
    return [
        asyncio.create_task(link.ask(wire.PredictRequest(id=number, points=POINTS), "prediction"))
        for number in range(count)
    ]


def test_no_more_questions_are_under_way_than_half_the_calls_and_all_are_answered(tmp_path):
    async def work(link, peer):
        asked = questions(link, 20)
        async with asyncio.timeout(60):
            while peer.waiting < 3:
                await asyncio.sleep(0.01)
        peer.go.set()
        assert [(await each).id for each in asked] == list(range(20))
        assert peer.most == 3
        assert not link._turns.locked()

    asyncio.run(with_patient_peer(tmp_path, 60.0, work))


def test_who_is_late_is_named_for_those_who_wait_for_a_turn_too_and_answers_again_later(tmp_path):
    async def work(link, peer):
        told = await asyncio.gather(*questions(link, 5), return_exceptions=True)
        assert {str(each) for each in told} == {"Peer 'south': no answer within 0.2 seconds"}
        assert link.trouble == "no answer within 0.2 seconds"
        assert not link._turns.locked()
        peer.go.set()
        async with asyncio.timeout(60):
            while True:  # it may take longer than 0.2 seconds on a busy machine
                (reply,) = await asyncio.gather(*questions(link, 1), return_exceptions=True)
                if not isinstance(reply, Exception):
                    break
        assert reply.id == 0

    asyncio.run(with_patient_peer(tmp_path, 0.2, work))
