"""The codec between protobuf messages and what they say: arrays, models, predictions, answers.

Whatever arrives is checked here: it has the right shapes, or it is `Malformed`.
"""

import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from degroot.answers.choice import Mixture
from degroot.answers.flags import MISSING, Flag
from degroot.compute.compiled import Array
from degroot.compute.tables import LARGEST, find_largest_magnitude, is_finite
from degroot.exceptions import InvalidInput
from degroot.node.protocol import version2
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.records.chain import Origin

PROTOCOL = 3
SPOKEN = (PROTOCOL, version2.NUMBER)
LITTLE = np.dtype("<f8")
LARGEST_EMPTY = 1 << 40
OF_CANDIDATES = ("shares", "errors", "differences", "standard_errors")  # of a mixture


class Malformed(InvalidInput):
    """A message does not say what it has to."""


class UnknownVersion(InvalidInput):
    """A message is of a protocol that is not spoken here."""


class UnknownMembers(InvalidInput):
    """A session has members that are not in the roster here."""


def tensor(array: Array) -> wire.Tensor:
    """An array, ready to be sent."""
    return wire.Tensor(shape=array.shape, data=np.ascontiguousarray(array, LITTLE).tobytes())


def array(message: wire.Tensor, shape: Sequence[int | None], name: str, *, finite: bool = True) -> Array:
    """The array in a message, if it has that shape (None: any length) and, unless told otherwise, is finite.

    Examples
    --------
    >>> array(tensor(np.array([[1.0, 2.0]])), (None, 2), "points")
    array([[1., 2.]])
    >>> array(tensor(np.array([1.0])), (2,), "weights")
    Traceback (most recent call last):
    degroot.node.protocol.codec.Malformed: `weights` must have the shape (2,); got (1,).
    """
    told, data = tuple(message.shape), message.data
    if not _fits(told, shape):
        raise Malformed(f"`{name}` must have the shape {_format_shape(shape)}; got {_format_shape(told[:8])}.")
    size = math.prod(told)  # Python's numbers, which do not overflow
    if size * LITTLE.itemsize != len(data):
        raise Malformed(f"`{name}` must hold {size} numbers of 8 bytes; it holds {len(data)} bytes.")
    if size == 0 and math.prod(filter(None, told)) > LARGEST_EMPTY:  # which not even an array without numbers can have
        raise Malformed(f"`{name}` must hold numbers; it holds none, and has the shape {_format_shape(told[:8])}.")
    values = np.frombuffer(data, LITTLE).astype(np.float64)
    if finite and not is_finite(values):
        raise Malformed(f"`{name}` must be finite; some of it is not.")
    return values.reshape(told)


def _fits(told: Sequence[int], shape: Sequence[int | None]) -> bool:
    """Whether a shape is the wanted one, up to what may have any length."""
    if len(told) != len(shape):
        return False
    for size, wanted in zip(told, shape, strict=True):  # quicker than `all`
        if size < 0 or (wanted is not None and size != wanted):
            return False
    return True


def check_protocol(protocol: int) -> None:
    """Refuse what this node does not speak."""
    if protocol not in SPOKEN:
        spoken = " or ".join(map(str, SPOKEN))
        raise UnknownVersion(f"The protocol must be version {spoken} of degroot; got version {protocol}.")


LONGEST_NAME, LONGEST_PURPOSE, LONGEST_PLACES = 100, 200, 600  # characters
QUESTION = re.compile(r"([0-9a-f]{16})?")
SALT_BYTES = 16


def draw_question() -> str:
    """The number of a new question."""
    return os.urandom(8).hex()


def clean_instance(told: str) -> str:
    r"""The number of a peer's process, which it draws like that of a question; empty: none, or something else.

    Examples
    --------
    >>> clean_instance("0123456789abcdef"), clean_instance("0123"), clean_instance("0123456789abcdef\n")
    ('0123456789abcdef', '', '')
    """
    return told if QUESTION.fullmatch(told) is not None else ""


def clean_places(told: str) -> str:
    r"""Where a peer has seen processes: so much of it as two addresses can be, without what cannot be printed.

    Examples
    --------
    >>> clean_places("10.0.0.7\nand 10.0.0.8:7443")
    '10.0.0.7?and 10.0.0.8:7443'
    """
    return "".join(each if each.isprintable() else "?" for each in told[:LONGEST_PLACES])


def encode_origin(origin: Origin) -> wire.Origin:
    """Where a request comes from, with a salt of its own, ready to be sent."""
    question, asker, purpose = origin
    return wire.Origin(question=question, asker=asker, purpose=purpose, salt=os.urandom(SALT_BYTES))


def decode_origin(message: wire.Origin, caller: str) -> Origin:
    """Where a request comes from; who does not say so asks for itself."""
    asker = message.asker or caller
    if len(asker) > LONGEST_NAME or not asker.isprintable() or not asker[:1].isalnum():
        raise Malformed(
            f"An asker must have a name of at most {LONGEST_NAME} printable characters that begins with a letter or a "
            "digit; got another."
        )
    if message.question and len(message.salt) != SALT_BYTES:
        raise Malformed(f"What is asked must have a salt of {SALT_BYTES} bytes; got {len(message.salt)}.")
    try:
        return Origin(check_question(message.question), asker, check_purpose(message.purpose))
    except InvalidInput as error:
        raise Malformed(str(error)) from error


def check_question(question: str) -> str:
    """The number of a question, if it is one."""
    if QUESTION.fullmatch(question) is None:
        raise Malformed(f"A question must be numbered by 16 hexadecimal digits; got {question[:40]!r}.")
    return question


def check_purpose(purpose: str) -> str:
    """A purpose that can be recorded: a line of text, which no spreadsheet takes for a formula.

    Examples
    --------
    >>> check_purpose("triage, ward 7")
    'triage, ward 7'
    """
    if not isinstance(purpose, str):
        raise InvalidInput(f"A purpose must be text; got {type(purpose).__name__}.")
    if purpose and (len(purpose) > LONGEST_PURPOSE or not purpose.isprintable() or not purpose[0].isalnum()):
        raise InvalidInput(
            f"A purpose must be a line of at most {LONGEST_PURPOSE} printable characters that begins with a letter or "
            f"a digit; got {purpose[:60]!r}."
        )
    return purpose


def _format_shape(shape: Sequence[int | None]) -> str:
    sizes = ["any" if size is None else str(size) for size in shape]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"


class Model(NamedTuple):
    """One organisation's model."""

    name: str
    version: str


def encode_models(known: Iterable[Model]) -> list[wire.Model]:
    """Models, ready to be sent."""
    return [wire.Model(name=name, version=version) for name, version in known]


def decode_models(told: Sequence[wire.Model]) -> tuple[Model, ...]:
    """The models that a message lists, each once."""
    known = tuple(Model(each.name, each.version) for each in told)
    if len({each.name for each in known}) < len(known):
        raise Malformed(f"A message must name each model once; got {len(known)} names, some of them twice.")
    return known


class PeerPrediction(NamedTuple):
    """What one node's model says of M points, and which version of it."""

    version: str
    beliefs: Array  # (M, Q)


def encode_prediction(told: PeerPrediction, number: int) -> wire.Prediction:
    """A prediction, ready to be sent in reply to a request."""
    return wire.Prediction(id=number, model_version=told.version, predictions=tensor(told.beliefs))


def decode_prediction(reply: wire.Prediction, points: int, outputs: int) -> PeerPrediction:
    """What a peer's model said of so many points."""
    return PeerPrediction(reply.model_version, beliefs_of(reply.predictions, points, outputs))


def beliefs_of(message: wire.Tensor, points: int, outputs: int, abstains: NDArray[np.bool_] | None = None) -> Array:
    """Beliefs (M, Q), none of them too large; NaN where the model `abstains`, (M,), and nowhere else."""
    beliefs = array(message, (points, outputs), "beliefs", finite=False)
    if abstains is not None:
        beliefs[abstains] = np.nan
    largest = find_largest_magnitude(beliefs if abstains is None else beliefs[~abstains])
    if not math.isfinite(largest):
        raise Malformed("`beliefs` must be finite; some of it is not.")
    if largest > LARGEST:
        raise Malformed(f"`beliefs` must not exceed {LARGEST:g} in size; they reach {largest:g}.")
    return beliefs


@dataclass(frozen=True, slots=True)
class NodeAnswer:
    """What the collective answers: fields of a `Consensus` with a place for everybody in the roster."""

    names: tuple[str, ...]
    fields: dict[str, Array]  # with an axis of outputs
    flags: tuple[Flag, ...]
    rounds: int = 0
    asker: str | None = None  # whose view it is; None: the consensus
    choice: Mixture | None = None  # of a view: what was mixed

    @property
    def missing(self) -> tuple[str, ...]:
        """Who took no part."""
        return tuple(flag.agent for flag in self.flags if flag.kind == MISSING)


def encode_answer(answered: NodeAnswer, outputs: int | None) -> wire.Answer:
    """An answer, ready to be sent. `outputs`: how many numbers a value is; None: one, as (M,)."""
    message = wire.Answer(
        names=answered.names, rounds=answered.rounds, outputs=outputs or 0, asker=answered.asker,
        choice=None if answered.choice is None else encode_mixture(answered.choice),
    )  # fmt: skip
    for name, values in answered.fields.items():
        message.fields[name].CopyFrom(tensor(values))
    for flag in answered.flags:
        message.flags.add(agent=flag.agent, reason=flag.reason, points=flag.points.tolist())
    return message


def decode_answer(message: wire.Answer, fields: Sequence[str], outputs: int | None) -> NodeAnswer:
    """The answer in a message, if it has these fields in the right shapes; it may have others, which are not read."""
    K, Q = len(message.names), outputs or 1
    of_agents = {"weights": (None, K), "trust": (None, K, K), "beliefs": (None, K, Q), "influence": (None, K, Q)}
    found = {name: array(message.fields[name], of_agents.get(name, (None, Q)), name, finite=False) for name in fields}
    flags = tuple(Flag(flag.agent, flag.reason, np.array(flag.points, np.intp)) for flag in message.flags)
    choice = decode_mixture(message.choice, message.asker) if message.HasField("choice") else None
    return NodeAnswer(tuple(message.names), found, flags, message.rounds, message.asker or None, choice)


def encode_mixture(mixed: Mixture) -> wire.Mixture:
    """What was mixed, ready to be sent."""
    return wire.Mixture(
        candidates=mixed.candidates, rows=mixed.rows, folds=mixed.folds,
        **{name: tensor(getattr(mixed, name)) for name in OF_CANDIDATES},
    )  # fmt: skip


def decode_mixture(message: wire.Mixture, asker: str) -> Mixture:
    """What a node says was mixed for it."""
    shape = (len(message.candidates),)
    found = {name: array(getattr(message, name), shape, name, finite=False) for name in OF_CANDIDATES}
    return Mixture(asker, tuple(message.candidates), **found, rows=message.rows, folds=message.folds)
