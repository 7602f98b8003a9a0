"""An asyncio event loop whose time is virtual: when nothing is ready it jumps to the next timer.

Callbacks run in the order they were scheduled, timers by time and then by the order they were set; no thread, no
socket, no clock takes part. A program that waits for something that cannot happen ends with `Deadlock`.
"""

import asyncio
import contextvars
import heapq
import logging
from asyncio import events
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack, cast

from tidelog.sim.network import MemoryServer, Network

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

logger = logging.getLogger("tidelog.sim")


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set, but what was to be run is not finished."""


if TYPE_CHECKING:
    # Typeshed calls every method of AbstractEventLoop abstract; what a node never calls stays unimplemented here.
    _Loop = asyncio.BaseEventLoop
else:
    _Loop = asyncio.AbstractEventLoop


class VirtualLoop(_Loop):
    """The loop. `network` is where its servers listen; share one between loops only if they run in turn."""

    def __init__(self, *, start_s: float = 0.0, network: Network | None = None) -> None:
        self._now = start_s
        self.network = network or Network()
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._cancelled_timers = 0
        self._sequence = 0
        self._stopping = False
        self._running = False
        self._closed = False
        self._debug = False
        self._exception_handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._task_factory: Any = None
        self._tasks_made = 0
        self.steps = 0
        """Callbacks run so far: a cheap fingerprint of what happened."""

    # --- running ------------------------------------------------------------------------------------------------------

    def run_forever(self) -> None:
        self._check_usable()
        if self._running or events._get_running_loop() is not None:
            raise RuntimeError("an event loop is running already")
        self._running = True
        events._set_running_loop(self)
        try:
            while not self._stopping:
                if not self._ready and not self._advance():
                    raise Deadlock(f"nothing left to happen at {self._now:.6f} s")
                self._run_ready()
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
        self._ready.clear()
        self._timers.clear()

    async def shutdown_asyncgens(self) -> None:
        """Generators left open are closed by the collector; the loop tracks none."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is no executor: work runs inline."""

    def _stop_when_done(self, task: object) -> None:
        self.stop()

    def _run_ready(self) -> None:
        # Only what is ready now: what these callbacks schedule comes after the timers that are due by then.
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle.cancelled():
                self.steps += 1
                handle._run()
        self._collect_due()

    def _advance(self) -> bool:
        """Jumps to the next timer; False when there is none."""
        self._drop_cancelled()
        if not self._timers:
            return False
        self._now = max(self._now, self._timers[0][0])
        self._collect_due()
        return True

    def _collect_due(self) -> None:
        while self._timers and self._timers[0][0] <= self._now:
            self._ready.append(heapq.heappop(self._timers)[2])

    def _drop_cancelled(self) -> None:
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)

    # --- scheduling ---------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        self._check_usable()
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        # Nothing here runs in another thread.
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        self._check_usable()
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._sequence += 1
        heapq.heappush(self._timers, (when, self._sequence, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """asyncio's own hook. Cancelled timers are dropped when they come up, or all at once when they are most."""
        self._cancelled_timers += 1
        if self._cancelled_timers > 100 and self._cancelled_timers * 2 > len(self._timers):
            self._timers = [timer for timer in self._timers if not timer[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: contextvars.Context | None = None,
        **kwargs: Any,
    ) -> asyncio.Task[T]:
        self._check_usable()
        self._tasks_made += 1
        # asyncio numbers unnamed tasks per process; per loop, a trace that prints names is the same twice.
        title = str(name) if name is not None else f"Task-{self._tasks_made}"
        if self._task_factory is not None:
            made: asyncio.Task[T] = self._task_factory(self, coro, name=title, context=context)
            return made
        return asyncio.Task(cast(Coroutine[Any, Any, T], coro), loop=self, name=title, context=context)

    def set_task_factory(self, factory: Any) -> None:
        self._task_factory = factory

    def get_task_factory(self) -> Any:
        return self._task_factory

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Runs it here and now: threads would bring an order that nobody chose."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - handed to whoever awaits, as an executor does
            future.set_exception(error)
        return future

    # --- network ------------------------------------------------------------------------------------------------------

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int = 0,
        **options: Any,
    ) -> MemoryServer:
        return self.network.listen(self, protocol_factory, host or "0.0.0.0", port)

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        local_addr: tuple[str, int] | None = None,
        **options: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        if options.get("ssl"):
            raise NotImplementedError("the network in memory has no TLS")
        # Connecting takes a turn of the loop, as it does anywhere.
        await asyncio.sleep(0)
        return self.network.connect(self, protocol_factory, host, port, (local_addr or ("127.0.0.1", 0))[0])

    # --- the rest of the interface ------------------------------------------------------------------------------------

    def get_debug(self) -> bool:
        return self._debug

    def set_debug(self, enabled: bool) -> None:
        self._debug = enabled

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        self._exception_handler = handler

    def get_exception_handler(
        self,
    ) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None:
        return self._exception_handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        logger.error("unhandled in the virtual loop: %s", context.get("message"), exc_info=context.get("exception"))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._exception_handler is not None:
            self._exception_handler(self, context)
        else:
            self.default_exception_handler(context)

    def _check_usable(self) -> None:
        if self._closed:
            raise RuntimeError("Event loop is closed")


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
