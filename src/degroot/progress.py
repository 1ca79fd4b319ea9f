"""Progress: a bar for what takes long, on a terminal only."""

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import Protocol, TypeVar

Item = TypeVar("Item", covariant=True)
PATIENCE = 1.0  # seconds before a bar appears


class Countable(Sized, Iterable[Item], Protocol[Item]):
    """Items whose number is known."""


def track(items: Countable[Item], label: str) -> Iterator[Item]:
    """Go through `items`; if it takes more than a second and somebody watches, show how far it has come."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import Progress

    begun = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=len(items), visible=False)
        for item in items:
            yield item
            bar.update(task, advance=1, visible=time.monotonic() - begun > PATIENCE)
