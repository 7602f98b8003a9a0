"""Where requests wait for an event: Kafka's purgatory, without threads and without polling.

An operation is watched under keys. Whatever may complete it calls `check(key)`; the operation's own `try_complete`
looks and says whether it is done. A timer (handed in, so that this stays free of any event loop) ends the wait.
An operation completes exactly once.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Protocol

CancelTimer = Callable[[], object]
# (delay in seconds, callback) -> how to cancel it
StartTimer = Callable[[float, Callable[[], None]], CancelTimer]


class DelayedOperation(Protocol):
    """One waiting request."""

    def try_complete(self) -> bool:
        """Looks whether the wait is over; if so, answers and returns True. Must not answer when it returns False."""
        ...

    def expire(self) -> None:
        """Answers with whatever there is now that time is up."""
        ...


class _Watch:
    __slots__ = ("cancel_timer", "done", "keys", "operation", "trying")

    def __init__(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> None:
        self.operation = operation
        self.keys = keys
        self.done = False
        self.trying = False
        self.cancel_timer: CancelTimer | None = None


class Purgatory:
    """Operations that wait, by key. The number waiting is bounded by whoever admits requests."""

    def __init__(self, start_timer: StartTimer) -> None:
        self._start_timer = start_timer
        # dicts, not sets: completion order is arrival order, on every run
        self._watches: dict[Hashable, dict[_Watch, None]] = {}
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def watched_keys(self) -> int:
        return len(self._watches)

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable], timeout_s: float
    ) -> Callable[[], None] | None:
        """Completes at once if it can, else waits; returns how to drop it (a client that left), or None if done."""
        if operation.try_complete():
            return None
        watch = _Watch(operation, tuple(dict.fromkeys(keys)))
        self._waiting += 1
        for key in watch.keys:
            self._watches.setdefault(key, {})[watch] = None
        watch.cancel_timer = self._start_timer(max(0.0, timeout_s), lambda: self._expire(watch))
        return lambda: self._forget(watch)

    def check(self, key: Hashable) -> int:
        """Something happened to `key`: completes what it can and returns how many."""
        return self.check_all((key,))

    def check_all(self, keys: Iterable[Hashable]) -> int:
        """Something happened to all of `keys`: what waits for many of them is looked at once."""
        completed = 0
        for watch in {watch: None for key in keys for watch in self._watches.get(key, ())}:
            # An operation that wakes others on its way may come back to itself: it is looked at already.
            if watch.done or watch.trying:
                continue
            watch.trying = True
            try:
                done = watch.operation.try_complete()
            finally:
                watch.trying = False
            if done:
                self._forget(watch)
                completed += 1
        return completed

    def _expire(self, watch: _Watch) -> None:
        if watch.done:
            return
        self._forget(watch)
        watch.operation.expire()

    def _forget(self, watch: _Watch) -> None:
        if watch.done:
            return
        watch.done = True
        self._waiting -= 1
        if watch.cancel_timer is not None:
            watch.cancel_timer()
        for key in watch.keys:
            watches = self._watches[key]
            del watches[watch]
            if not watches:
                del self._watches[key]
