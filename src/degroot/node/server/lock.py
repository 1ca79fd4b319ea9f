"""Locks: a state folder belongs to one running node at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from degroot.exceptions import InvalidInput
from degroot.files.lock import try_lock


@contextmanager
def lock_state(state: Path) -> Iterator[None]:
    """The state folder, for this process alone."""
    with (state / "lock").open("a") as file:
        if not try_lock(file):
            raise InvalidInput(f"A state folder must belong to one running node; {state} is in use.")
        yield


def is_locked(state: Path) -> bool:
    """Whether a node is running on the folder."""
    try:
        with lock_state(state):
            return False
    except InvalidInput:
        return True
    except OSError:  # there is no such folder, or it cannot be written
        return False
