"""A recorder of all that nodes send and receive, and a search of it for numbers that have to stay at home.

`record_messages` runs in a node's process (``Consortium.fork(before=record_messages)``) and wraps what every message
passes: the serialisers of all channels and of all handlers. What is sent is recorded there with the name of the peer,
and so is the text of every refusal.
"""

import pickle
import re
from collections import Counter
from contextvars import ContextVar
from typing import NamedTuple

import grpc
import numpy as np
from grpc.aio import _channel

RECORD = "wire"  # the file in a node's folder
SENT, RECEIVED = "sent", "received"
KINDS = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
STATUS = " status"  # after a method: the text of a refusal
DESCRIBE = "/degroot.v3.Collective/Describe"
FORMATS = ("<f8", ">f8", "<f4", ">f4")
TOKEN = re.compile(rb"[-+]?\d{1,18}\.\d{1,18}(?:[eE][-+]?\d{1,3})?")
DIGITS = 5  # that a decimal must have to tell a number from others

_caller = ContextVar("caller", default="")


class Message(NamedTuple):
    """What one node sent or received."""

    node: str
    direction: str
    peer: str
    method: str
    raw: bytes


# in a node's process


class Recorder:
    """Appends messages to a file."""

    def __init__(self, path, node):
        self._file, self._node = path.open("ab", buffering=0), node

    def keep(self, direction, peer, method, raw):
        self._file.write(pickle.dumps(Message(self._node, direction, peer, method, bytes(raw))))

    def serialising(self, serialise, method, peer=None):
        def wrapped(message):
            raw = message if serialise is None else serialise(message)
            self.keep(SENT, peer or _caller.get(), method, raw)
            return raw

        return wrapped

    def parsing(self, parse, method, peer=None):
        def wrapped(raw):
            self.keep(RECEIVED, peer or _caller.get(), method, raw)
            return raw if parse is None else parse(raw)

        return wrapped


class WatchedContext:
    """The context of a call, with what it is refused with recorded."""

    def __init__(self, context, recorder, method):
        self._context, self._recorder, self._method = context, recorder, method

    def __getattr__(self, name):
        return getattr(self._context, name)

    async def abort(self, code, details="", *rest):
        self._recorder.keep(SENT, _caller.get(), self._method + STATUS, f"{code.name} {details}".encode())
        await self._context.abort(code, details, *rest)


class RecordingInterceptor(grpc.aio.ServerInterceptor):
    """Outside of all other interceptors: what it sees is what arrives and what leaves."""

    def __init__(self, recorder):
        self._recorder = recorder

    async def intercept_service(self, continuation, details):
        handler, method, recorder = await continuation(details), details.method, self._recorder
        if handler is None:
            return None
        kind = next(each for each in KINDS if getattr(handler, each) is not None)
        behave = getattr(handler, kind)

        async def recorded(requests, context):
            names = context.auth_context().get("x509_common_name", ())
            _caller.set(names[0].decode() if names else "nobody")
            return await behave(requests, WatchedContext(context, recorder, method))

        return handler._replace(
            **{kind: recorded}, request_deserializer=recorder.parsing(handler.request_deserializer, method),
            response_serializer=recorder.serialising(handler.response_serializer, method),
        )  # fmt: skip


def record_messages(folder):
    """Record from now on all that this process sends and receives by gRPC, in the node's folder."""
    recorder, server, first = Recorder(folder / RECORD, folder.name), grpc.aio.server, _channel.Channel.__init__

    def serving(*rest, interceptors=(), **more):
        return server(*rest, interceptors=[RecordingInterceptor(recorder), *interceptors], **more)

    def remembering(self, target, options, *rest, **more):
        self.recorded_peer = dict(options).get("grpc.ssl_target_name_override", target)
        first(self, target, options, *rest, **more)

    def calling(original):
        def wrapped(self, method, request_serializer=None, response_deserializer=None, *rest, **more):
            peer = self.recorded_peer
            return original(
                self, method, recorder.serialising(request_serializer, method, peer),
                recorder.parsing(response_deserializer, method, peer), *rest, **more,
            )  # fmt: skip

        return wrapped

    grpc.aio.server = serving
    _channel.Channel.__init__ = remembering
    for kind in KINDS:
        setattr(_channel.Channel, kind, calling(getattr(_channel.Channel, kind)))


# what was recorded


def read_messages(consortium):
    """All that the nodes have recorded so far."""
    found = []
    for name in consortium.names:
        with (consortium.folder / name / RECORD).open("rb") as file:
            while True:
                try:
                    found.append(pickle.load(file))
                except (EOFError, pickle.UnpicklingError):  # the last one may be on its way
                    break
    return found


def find_unmatched(before, after, names):
    """Messages between nodes that one end has in `before` and the other not even in `after`, which was read later.

    Questions who somebody is are left out: some were sent before the other was there, and some by a node that was not
    recorded yet, since it was about to start.
    """
    nodes = set(names)

    def count(messages, direction):
        return Counter(
            (node, peer, method, raw) if direction == SENT else (peer, node, method, raw)
            for node, way, peer, method, raw in messages
            if way == direction and {node, peer} <= nodes and node != peer and not method.endswith(STATUS)
        )

    lost = count(before, SENT) - count(after, RECEIVED)
    strange = count(before, RECEIVED) - count(after, SENT)
    return [key for key in lost if key[2] != DESCRIBE], [key for key in strange if key[2] != DESCRIBE]


def select_private(*arrays):
    """Numbers to search for, with their negatives: no zeros, and no round ones, which are in messages by chance."""
    values = np.unique(np.concatenate([np.asarray(each, np.float64).ravel() for each in arrays]))
    values = values[(np.abs(values) > 1e-9) & (np.round(values, 3) != values)]
    return np.unique(np.concatenate([values, -values]))


def find_numbers(messages, values):
    """The places of messages that hold any of the numbers: in 8 bytes, two in a row in 4 bytes, or as decimals.

    In either order of bytes and at any place. Single numbers of 4 bytes are in millions of bytes by chance.
    """
    return sorted(find_binary(messages, values) | find_decimals(messages, values))


def find_binary(messages, values):
    """The places of messages that hold any of the numbers as bytes."""
    joined = np.frombuffer(b"".join([*messages, bytes(8)]), np.uint8)
    ends = np.cumsum([len(raw) for raw in messages])
    found = set()
    for kind in FORMATS:
        size = int(kind[-1])
        wanted = np.unique(values.astype(kind).view(f"<u{size}"))
        for start in range(size):
            stop = start + (len(joined) - start) // size * size
            here = joined[start:stop].view(f"<u{size}")
            there = wanted[np.searchsorted(wanted, here).clip(max=len(wanted) - 1)] == here
            if size == 4:
                there = there[:-1] & there[1:]
            found |= set(np.searchsorted(ends, np.flatnonzero(there) * size + start, side="right").tolist())
    return {each for each in found if each < len(messages)}


def find_decimals(messages, values):
    """The places of messages that hold any of the numbers as text, rounded to as many places as are written."""
    known, found = np.sort(np.abs(values)), set()
    for place, raw in enumerate(messages):
        tokens = [each for each in TOKEN.findall(raw) if _count_digits(each) >= DIGITS]
        if tokens:
            told = np.abs(np.array([float(each) for each in tokens]))
            at = np.searchsorted(known, told).clip(1, len(known) - 1)
            off = np.minimum(np.abs(known[at] - told), np.abs(known[at - 1] - told))
            if (off <= 0.51 * np.array([_find_last_place(each) for each in tokens])).any():
                found.add(place)
    return found


def _count_digits(token):
    return len(re.split(rb"[eE]", token)[0].strip(b"+-").replace(b".", b"").lstrip(b"0"))


def _find_last_place(token):
    """What a 1 in the last place of a decimal is worth."""
    mantissa, *exponent = re.split(rb"[eE]", token)
    return 10.0 ** (int(exponent[0]) if exponent else 0) * 10.0 ** -len(mantissa.partition(b".")[2])
