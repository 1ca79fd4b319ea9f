"""Sessions: what the members of one pooling have sent, until it is taken in."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from degroot.exceptions import DeGrootError
from degroot.node.protocol.codec import Malformed
from degroot.node.protocol.v3 import collective_pb2 as wire
from degroot.node.server.access import Exceeded

MOST, EARLY = 256, 8  # sessions at the same time; of one sender, that have not begun here
FORGOTTEN = 60.0  # seconds after which a session that never began is dropped
HUNG_UP = "hung up"


class MembersLost(DeGrootError):
    """Members fell silent, broke the rules, or are not as they described themselves: pooling has to start again.

    Parameters
    ----------
    losses : who was lost, and why
    witness : who says so, if not this node
    mismatched : whose roster lacks members, and what they said
    unscored : who has not scored whom
    """

    def __init__(
        self,
        losses: Mapping[str, str],
        witness: str | None = None,
        *,
        mismatched: Mapping[str, str] | None = None,
        unscored: Iterable[tuple[str, str]] = (),
    ) -> None:
        super().__init__(losses, witness)
        self.losses, self.witness = losses, witness
        self.mismatched, self.unscored = mismatched or {}, frozenset(unscored)


class Session:
    """The inbox of one member. Nobody is more than a round ahead, so it stays small."""

    def __init__(self) -> None:
        self.opened_at = time.monotonic()
        self.joined: list[str] = []  # who sends here
        self.members: frozenset[str] | None = None  # None: it has not begun here
        self._round = 0
        self._inbox: dict[int, dict[str, wire.Beliefs]] = defaultdict(dict)
        self._gone: dict[str, str] = {}
        self._news = asyncio.Event()

    def receive(self, sender: str, message: wire.Beliefs) -> None:
        """Keep what a member sent; before it has begun here nobody can have come to the second round."""
        if self.members is not None and sender not in self.members:
            raise Malformed(f"Beliefs must come from a member of the session; got some from {sender!r}.")
        ahead = message.round - self._round
        if ahead not in ((0, 1) if self.members is not None else (0,)) or sender in self._inbox[message.round]:
            raise Malformed(f"Round {self._round} or the next must be told, once; got round {message.round}.")
        self._inbox[message.round][sender] = message
        self._news.set()

    def lose(self, sender: str, reason: str) -> None:
        """A member hung up before the end."""
        self._gone[sender] = reason
        self._news.set()

    async def round(self, number: int, members: Sequence[str], patience: float) -> Mapping[str, wire.Beliefs]:
        """What all `members` say in a round, if it comes within so many seconds."""
        until = asyncio.get_running_loop().time() + patience
        while True:
            missing = [name for name in members if name not in self._inbox[number]]
            if not missing:
                self._round = number + 1
                return self._inbox.pop(number)
            gone = {name: self._gone[name] for name in missing if name in self._gone}
            if gone:
                raise MembersLost(gone)
            self._news.clear()
            try:
                async with asyncio.timeout_at(until):
                    await self._news.wait()
            except TimeoutError:
                raise MembersLost(dict.fromkeys(missing, f"silent for {patience:g} seconds")) from None


class Sessions:
    """All poolings that a node takes part in."""

    def __init__(self) -> None:
        self._open: dict[str, Session] = {}

    def begun(self, name: str, members: Sequence[str]) -> Session:
        """The session of that name, which begins here now."""
        session = self._of(name)
        if session.members is not None:
            raise Malformed("A session must begin once; this one has begun.")
        session.members = frozenset(members)
        return session

    def joined(self, name: str, sender: str) -> Session:
        """The session of that name, to which `sender` will send; made if it is early."""
        early = sum(sender in session.joined for session in self._open.values() if session.members is None)
        if early >= EARLY:
            raise Exceeded("sessions", f"At most {EARLY} sessions may be joined before they begin; one more came.")
        session = self._of(name)
        session.joined.append(sender)
        return session

    def left(self, name: str, session: Session, sender: str) -> None:
        """Nothing more comes from `sender`; a session that has not begun is forgotten with the last of them."""
        session.joined.remove(sender)
        if not session.joined and session.members is None and self._open.get(name) is session:
            del self._open[name]

    def close(self, name: str) -> None:
        """Forget a session."""
        self._open.pop(name, None)

    def _of(self, name: str) -> Session:
        if name not in self._open:
            self._drop_forgotten()
            if len(self._open) >= MOST:
                raise Exceeded("sessions", f"At most {MOST} sessions are allowed at a time; one more came.")
            self._open[name] = Session()
        return self._open[name]

    def _drop_forgotten(self) -> None:
        now = time.monotonic()
        for name, session in list(self._open.items()):
            if session.members is None and now - session.opened_at > FORGOTTEN:
                del self._open[name]
