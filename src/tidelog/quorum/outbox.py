"""What a member wants sent, and what it still waits for."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Final, NamedTuple

from tidelog.quorum.raft_config import RaftConfig

# Backing off from a peer doubles up to this many times.
_MAX_DOUBLINGS: Final = 6


# To whom, from when on, what kind of request, and how to make it: most are not due and never made.
Wish = tuple[int, float, type[Any], Callable[[], Any]]


@dataclass(frozen=True, slots=True)
class Send:
    """A request (an object of `wire.messages`) for a member. It comes back with its response, the same object."""

    to: int
    request: Any


@dataclass(frozen=True, slots=True)
class Outbox:
    """`poll_at_s`: ask again no later than this, and after every input."""

    sends: tuple[Send, ...]
    poll_at_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Parked:
    """A request that is answered later, by `Raft.completed_fetches`; at the latest when `deadline_s` has come."""

    source: int
    request: Any
    deadline_s: float


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A change of the voters, answered once the record at `offset` is committed."""

    parked: Parked
    epoch: int
    offset: int


class Completed(NamedTuple):
    """The answer to a request that was parked."""

    parked: Parked
    response: Any


@dataclass(slots=True)
class _Waiting:
    request: Any
    until_s: float


class InFlight:
    """At most one request per peer and kind; a peer that fails or refuses is left alone for a moment."""

    def __init__(self, config: RaftConfig) -> None:
        self._config = config
        self._waiting: dict[tuple[int, type], _Waiting] = {}
        self._failures: dict[int, int] = {}
        self._not_before_s: dict[int, float] = {}

    def ready_at(self, peer: int, kind: type) -> float:
        """When this may be sent, as far as is known."""
        waiting = self._waiting.get((peer, kind))
        return self._not_before_s.get(peer, -inf) if waiting is None else waiting.until_s

    def sent(self, peer: int, request: Any, now_s: float) -> None:
        until_s = now_s + self._config.request_timeout_ms / 1000
        self._waiting[peer, type(request)] = _Waiting(request, until_s)

    def answered(self, peer: int, request: Any) -> bool:
        """Whether it was this answer that was waited for, and not an older one."""
        waiting = self._waiting.get((peer, type(request)))
        if waiting is None or waiting.request is not request:
            return False
        del self._waiting[peer, type(request)]
        return True

    def failed(self, peer: int, now_s: float) -> None:
        """A connection broke, or nothing came back: whatever was sent may or may not have arrived."""
        for key in [key for key in self._waiting if key[0] == peer]:
            del self._waiting[key]
        self.back_off(peer, now_s)

    def succeeded(self, peer: int) -> None:
        self._failures.pop(peer, None)
        self._not_before_s.pop(peer, None)

    def back_off(self, peer: int, now_s: float) -> None:
        failures = self._failures.get(peer, 0)
        self._failures[peer] = min(failures + 1, _MAX_DOUBLINGS)
        self._not_before_s[peer] = now_s + (self._config.retry_backoff_ms << failures) / 1000

    def expire(self, now_s: float) -> None:
        for peer in sorted({key[0] for key, waiting in self._waiting.items() if waiting.until_s <= now_s}):
            self.failed(peer, now_s)

    def abandon(self) -> None:
        """The role changed: what was asked in the old one is not waited for any more."""
        self._waiting.clear()

    def next_expiry_s(self) -> float:
        return min((waiting.until_s for waiting in self._waiting.values()), default=inf)
