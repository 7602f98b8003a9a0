"""What is to happen, in which order and when: shared by every loop of one simulated world."""

import asyncio
import contextvars
from collections import deque
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any

_copy_context = contextvars.copy_context


class SimHandle(asyncio.Handle):
    """asyncio's handle without its questions about debug mode: handles are most of what a simulation makes."""

    __slots__ = ()

    def __init__(self, callback: Any, args: Any, loop: Any, context: contextvars.Context | None) -> None:
        self._context = _copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class SimTimer(asyncio.TimerHandle):
    """The same of a timer."""

    __slots__ = ()

    def __init__(self, when: float, callback: Any, args: Any, loop: Any, context: contextvars.Context | None) -> None:
        self._context = _copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = True

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._callback, self._args = None, ()
            self._loop.schedule.timer_cancelled()


class Schedule:
    """Callbacks that are ready, in the order they came, and timers by time and then by the order they were set."""

    __slots__ = ("_cancelled", "_sequence", "_timers", "next_s", "now", "ready")

    def __init__(self, start_s: float) -> None:
        self.now = start_s
        self.ready: deque[asyncio.Handle] = deque()
        self.next_s = inf
        """No timer is due before."""
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._cancelled = 0
        self._sequence = 0

    def add_timer(self, timer: asyncio.TimerHandle, when: float) -> None:
        self._sequence += 1
        heappush(self._timers, (when, self._sequence, timer))
        if when < self.next_s:
            self.next_s = when

    def advance(self) -> bool:
        """Jumps to the next timer; False when there is none."""
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if not timers:
            return False
        when = timers[0][0]
        if when > self.now:
            self.now = when
        self.collect_due()
        return True

    def collect_due(self) -> None:
        timers, now = self._timers, self.now
        while timers and timers[0][0] <= now:
            self.ready.append(heappop(timers)[2])
        self.next_s = timers[0][0] if timers else inf

    def timer_cancelled(self) -> None:
        """Cancelled timers are dropped when they come up, or all at once when they are most."""
        self._cancelled += 1
        if self._cancelled > 100 and self._cancelled * 2 > len(self._timers):
            self._keep([timer for timer in self._timers if not timer[2]._cancelled])

    def drop_timers_of(self, loop: asyncio.AbstractEventLoop) -> None:
        def is_left(timer: Any) -> bool:
            return timer._loop is not loop and not timer._cancelled

        self._keep([timer for timer in self._timers if is_left(timer[2])])

    def clear(self) -> None:
        self.ready.clear()
        self._keep([])

    def _keep(self, timers: list[tuple[float, int, asyncio.TimerHandle]]) -> None:
        heapify(timers)
        self._timers = timers
        self._cancelled = 0
