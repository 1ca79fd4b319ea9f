"""What is refused, and how it is said."""

from collections.abc import Callable

import pytest

from degroot import InvalidInput


def complaint(act: Callable[[], object]) -> str:
    """The one line in which `act` is refused."""
    with pytest.raises(InvalidInput) as caught:
        act()
    assert "\n" not in str(caught.value)
    return str(caught.value)
