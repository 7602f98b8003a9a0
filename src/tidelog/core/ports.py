"""Ports to the world that are not the disk: the wall clock and the thread that may block.

Monotonic time and timers are the event loop's own (`loop.time()`, `loop.call_later`); deciding code gets `now` as an
argument. `Disk` stands in `storage.ports`.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class WallClock(Protocol):
    """Time as people and record timestamps know it; it may jump, so nothing but timestamps uses it."""

    def now_ms(self) -> int: ...


class Offload(Protocol):
    """Runs blocking work (an fsync, a big read) away from the event loop; inline under simulation."""

    def __call__(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...

    def run_all(self, work: Sequence[Callable[[], None]]) -> None:
        """Blocks until every piece of work has run, side by side where that helps; raises the first failure."""
        ...
