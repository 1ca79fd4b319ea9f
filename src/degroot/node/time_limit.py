"""Time limits for the waits of a stream, one after the other."""

import asyncio
from types import TracebackType


class TimeLimit:
    """Limits how long each wait of a stream may take: ``with limit.within(seconds): await ...`` raises TimeoutError.

    `asyncio.timeout` sets a timer for every wait and cancels it again, which costs as much as all else that a node does
    before it reads a short message. This one has one timer. When that ends, it is set anew if the wait that is under
    way may still go on, and the task that waits is cancelled if not. One task at a time may wait.
    """

    __slots__ = ("_cancelling", "_deadline", "_expired", "_loop", "_task", "_timer", "_timer_at")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None  # which waits
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = self._timer_at = 0.0  # by the loop's clock
        self._cancelling, self._expired = 0, False

    def within(self, seconds: float) -> "TimeLimit":
        """Begin a wait of the current task, which may take so long; `with` ends it."""
        task = asyncio.current_task(self._loop)
        if task is None:
            raise RuntimeError("A time limit must be used inside a task.")
        self._deadline = self._loop.time() + seconds
        self._task, self._cancelling, self._expired = task, task.cancelling(), False
        if self._timer is None or self._timer_at > self._deadline:
            self._set_timer()
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        task, self._task = self._task, None
        is_ours = self._expired and task is not None and task.uncancel() <= self._cancelling
        if is_ours and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error

    @property
    def is_waiting(self) -> bool:
        """Whether a wait is under way."""
        return self._task is not None

    def shorten(self, seconds: float) -> None:
        """Let the wait that is under way, if any, take at most so much longer."""
        deadline = self._loop.time() + seconds
        if self._task is not None and self._deadline > deadline:
            self._deadline = deadline
            self._set_timer()

    def close(self) -> None:
        """Forget the timer: nothing waits any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        self.close()
        self._timer_at = self._deadline
        self._timer = self._loop.call_at(self._deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        """End the wait that is under way if it has taken too long; look again when it will have."""
        self._timer = None
        if self._task is None:
            return
        if self._loop.time() < self._deadline:
            self._set_timer()
        else:
            self._expired = True
            self._task.cancel()
