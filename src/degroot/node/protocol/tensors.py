"""Arrays on the wire: float64 with a shape, and the checks that whatever arrives has to pass."""

import math
from collections.abc import Sequence

import numpy as np

from degroot.compute.compiled import Array
from degroot.exceptions import InvalidInput
from degroot.node.protocol.v1 import collective_pb2 as v1

PROTOCOL = 1
LITTLE = np.dtype("<f8")
LARGEST_EMPTY = 1 << 40


class Malformed(InvalidInput):
    """A message does not say what it has to."""


class UnknownVersion(InvalidInput):
    """A message is of a protocol that is not spoken here."""


class UnknownMembers(InvalidInput):
    """A session has members that are not in the roster here."""


def tensor(array: Array) -> v1.Tensor:
    """An array, ready to be sent."""
    return v1.Tensor(shape=array.shape, data=np.ascontiguousarray(array, LITTLE).tobytes())


def array(message: v1.Tensor, shape: Sequence[int | None], name: str, *, finite: bool = True) -> Array:
    """The array in a message, if it has that shape (None: any length) and, unless told otherwise, is finite.

    Examples
    --------
    >>> array(tensor(np.array([[1.0, 2.0]])), (None, 2), "points")
    array([[1., 2.]])
    >>> array(tensor(np.array([1.0])), (2,), "weights")
    Traceback (most recent call last):
    degroot.node.protocol.tensors.Malformed: `weights` must have the shape (2,); got (1,).
    """
    told = tuple(message.shape)
    if told != shape and not _fits(told, shape):
        raise Malformed(f"`{name}` must have the shape {_written(shape)}; got {_written(told[:8])}.")
    size = math.prod(told)  # Python's numbers, which do not overflow
    if size * LITTLE.itemsize != len(message.data):
        raise Malformed(f"`{name}` must hold {size} numbers of 8 bytes; it holds {len(message.data)} bytes.")
    if size == 0 and math.prod(filter(None, told)) > LARGEST_EMPTY:  # which not even an array without numbers can have
        raise Malformed(f"`{name}` must hold numbers; it holds none, and has the shape {_written(told[:8])}.")
    values = np.frombuffer(message.data, LITTLE).astype(np.float64).reshape(told)
    if finite and not np.isfinite(values).all():
        raise Malformed(f"`{name}` must be finite; some of it is not.")
    return values


def _fits(told: Sequence[int], shape: Sequence[int | None]) -> bool:
    """Whether a shape is the wanted one, up to what may have any length."""
    if len(told) != len(shape):
        return False
    return all(size >= 0 and (wanted is None or size == wanted) for size, wanted in zip(told, shape, strict=True))


def check_protocol(protocol: int) -> None:
    """Refuse what this node does not speak."""
    if protocol != PROTOCOL:
        raise UnknownVersion(f"The protocol must be version {PROTOCOL} of degroot; got version {protocol}.")


def _written(shape: Sequence[int | None]) -> str:
    sizes = ["any" if size is None else str(size) for size in shape]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
