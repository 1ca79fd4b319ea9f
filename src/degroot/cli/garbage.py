"""Python's garbage collector in short commands: to look for garbage among modules takes a quarter of their time."""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

USUAL = gc.get_threshold()
NEW_OBJECTS = 50_000  # after which it looks at the youngest


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Let it look rarely meanwhile, and not once more at everything when the process ends."""
    atexit.register(gc.freeze)
    gc.set_threshold(NEW_OBJECTS, *USUAL[1:])
    try:
        yield
    finally:
        collect_as_usual()


def collect_as_usual() -> None:
    """Let it look as often as by default, for what runs long."""
    gc.set_threshold(*USUAL)
