"""An asyncio event loop whose time is virtual: when nothing is ready it jumps to the next timer.

Callbacks run in the order they were scheduled, timers by time and then by the order they were set; no thread, no
socket, no clock takes part. A program that waits for something that cannot happen ends with `Deadlock`.

Several processes share one such loop: each has a `NodeLoop` of its own over the same schedule, and a callback runs with
its own process's loop as the running one.
"""

import asyncio
import contextvars
from asyncio import events
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack, cast

from tidelog.sim.base_loop import SimLoop
from tidelog.sim.network import Network
from tidelog.sim.schedule import Schedule, SimHandle

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set, but what was to be run is not finished."""


class Spinning(RuntimeError):
    """So much has happened without any time passing that none will."""


MOST_AT_ONCE: Final = 1_000_000
"""Callbacks at one moment. A seed has a hundred or so at most, a test without delays more; so many take seconds."""


class VirtualLoop(SimLoop):
    """The loop. `network` is where its servers listen; share one between loops only if they run in turn."""

    def __init__(self, *, start_s: float = 0.0, network: Network | None = None, host: str = "127.0.0.1") -> None:
        super().__init__(Schedule(start_s), network or Network(), host)
        self.network.use(self)
        self._stopping = False
        self._running = False
        self._closed = False
        self.steps = 0
        """Callbacks run so far: a cheap fingerprint of what happened."""

    def run_forever(self) -> None:
        self._check_usable()
        if self._running or events._get_running_loop() is not None:
            raise RuntimeError("an event loop is running already")
        self._running = True
        events._set_running_loop(self)
        try:
            self._go()
        finally:
            self._stopping = False
            self._running = False
            events._set_running_loop(None)

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        self._check_usable()
        task = asyncio.ensure_future(cast(Awaitable[T], future), loop=self)
        task.add_done_callback(self._stop_when_done)
        try:
            self.run_forever()
        finally:
            task.remove_done_callback(self._stop_when_done)
        return task.result()

    def run_for(self, seconds: float) -> None:
        """Lets virtual time pass; for tests that drive protocols without a coroutine."""
        self.call_later(seconds, self.stop)
        self.run_forever()

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        if self._running:
            raise RuntimeError("cannot close a running event loop")
        self._closed = True
        self.schedule.clear()

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if self._closed:
            self._check_usable()
        handle = SimHandle(callback, args, self, context)
        self.schedule.ready.append(handle)
        return handle

    def _stop_when_done(self, task: object) -> None:
        self.stop()

    def _go(self) -> None:
        """Turn after turn until it is stopped. In one function: a turn is seldom more than one callback."""
        schedule = self.schedule
        ready, set_running_loop = schedule.ready, events._set_running_loop
        current: Any = self
        handle: Any = None
        moment, bound = schedule.now, self.steps + MOST_AT_ONCE
        while not self._stopping:
            if not ready:
                if not schedule.advance():
                    raise Deadlock(f"every task is waiting and no timer is left at {schedule.now:.6f} s")
                if schedule.now > moment:
                    moment, bound = schedule.now, self.steps + MOST_AT_ONCE
            # Once a turn: one turn runs what was ready before it, which is not much.
            if self.steps > bound:
                raise Spinning(
                    f"{MOST_AT_ONCE} callbacks at {moment:.6f} s without progress of time; "
                    f"the last was {_told(handle)}, the next is {_told(ready[0] if ready else None)}"
                )
            # Only what is ready now: what these callbacks schedule comes after the timers that are due by then.
            for _ in range(len(ready)):
                handle = ready.popleft()
                if handle._cancelled:
                    continue
                loop = handle._loop
                if loop.withheld is not None:
                    loop.withheld.append(handle)
                    continue
                if loop is not current:
                    set_running_loop(loop)
                    current = loop
                self.steps += 1
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - told as asyncio's own handles tell it
                    loop.call_exception_handler(
                        {"message": f"Exception in callback {handle!r}", "exception": error, "handle": handle}
                    )
            if schedule.next_s <= schedule.now:
                schedule.collect_due()

    def _check_usable(self) -> None:
        if self._closed:
            raise RuntimeError("Event loop is closed")


def _told(handle: Any) -> str:
    """Which code a callback is, and of whom: a step of a task is told by the task's coroutine."""
    if handle is None or handle._callback is None:
        return "none"
    owner = getattr(handle._callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        coroutine = getattr(owner.get_coro(), "__qualname__", "?")
        # A name that nobody gave is a number of this process: in another one the seed would tell something else.
        given = "" if owner.get_name().startswith("Task-") else f"{owner.get_name()} "
        name = f"task {given}({coroutine})"
    else:
        name = getattr(handle._callback, "__qualname__", type(handle._callback).__name__)
    return f"{name} on {handle._loop.host}"


def run(main: Coroutine[Any, Any, T], *, loop: VirtualLoop | None = None) -> T:
    """As `asyncio.run`, in virtual time: what `main` leaves running is cancelled and awaited."""
    loop = loop or VirtualLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        left = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.close()
