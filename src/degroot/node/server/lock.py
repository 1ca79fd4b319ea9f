"""Locks: a state folder belongs to one running node at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from degroot.exceptions import InvalidInput
from degroot.files.lock import try_lock

LOCK = "lock"  # in a state folder


@contextmanager
def lock_state(state: Path) -> Iterator[None]:
    """The state folder, for this process alone."""
    with (state / LOCK).open("a") as file:
        try:
            is_free = try_lock(file)
        except OSError as error:
            raise InvalidInput(
                f"A state folder must be where files can be locked; {state}: {error.strerror}."
            ) from error
        if not is_free:
            raise InvalidInput(f"A state folder must belong to one running node; {state} is in use.")
        yield


def is_locked(state: Path) -> bool:
    """Whether a node is running on the folder; to look leaves nothing there."""
    try:
        with (state / LOCK).open("r+") as file:
            return not try_lock(file)
    except OSError:  # there is no such file, it is somebody else's, or files cannot be locked there
        return False
