"""Instances: which processes speak under a member's name. Two at a time are a duplicate: somebody has copied a node."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from degroot.node.protocol.codec import clean_instance

DUPLICATE_SECONDS = 60.0  # after which one of the two that falls silent is forgotten
MAX_EARLIER = 64  # instances of a name that are remembered


@dataclass(slots=True)
class Instances:
    """The processes of one name: the one that spoke last, and earlier ones. One that has ended never speaks again."""

    latest: str = ""
    earlier: dict[str, str] = field(default_factory=dict)  # instance -> where it was
    where: str = ""  # of the latest
    duplicate_until: float = 0.0  # as `time.monotonic` counts


class InstanceWatch:
    """What peers' processes tell of themselves when they ask and are asked.

    A node draws a number when it starts. After a restart another number is heard, and the one before never again; a
    number that is heard again after another shows that both processes run.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, Instances] = {}

    def note(self, name: str, instance: str, where: str) -> bool:
        """Take in that a process spoke under a name; whether that shows a duplicate that was not known.

        What is no number of a process is not kept: it can be as large as a message.
        """
        instance = clean_instance(instance)
        known = self._known.setdefault(name, Instances())
        if not instance or instance == known.latest:
            return False
        was_known, returned = self.is_duplicate(name), instance in known.earlier
        if known.latest:
            known.earlier.pop(known.latest, None)
            known.earlier[known.latest] = known.where
            while len(known.earlier) > MAX_EARLIER:
                del known.earlier[next(iter(known.earlier))]
        known.latest, known.where = instance, where
        if returned:
            known.duplicate_until = self._clock() + DUPLICATE_SECONDS
        return returned and not was_known

    def is_duplicate(self, name: str) -> bool:
        """Whether two processes speak under a name now."""
        known = self._known.get(name)
        return known is not None and self._clock() < known.duplicate_until

    def describe(self, name: str, instance: str = "") -> str:
        """Where the processes of a name were last, but for the `instance`; empty: there is no duplicate."""
        if not self.is_duplicate(name):
            return ""
        known = self._known[name]
        places = {known.latest: known.where, **dict(list(known.earlier.items())[-1:])}
        return " and ".join(sorted({where for each, where in places.items() if each != instance}))

    def forget(self, name: str) -> None:
        """A member has left the roster."""
        self._known.pop(name, None)
