"""What is refused, and how it is said."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import grpc
import pytest

from degroot import InvalidInput


def complaint(act: Callable[[], object]) -> str:
    """The one line in which `act` is refused."""
    with pytest.raises(InvalidInput) as caught:
        act()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@contextmanager
def refused(code: grpc.StatusCode, said: str = "") -> Iterator[None]:
    """What a node refuses with a status and one line."""
    with pytest.raises(grpc.RpcError) as caught:
        yield
    assert caught.value.code() is code, caught.value
    details = caught.value.details()
    assert said in details, details
    assert "\n" not in details
    assert len(details) < 1000
