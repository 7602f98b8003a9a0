"""What every loop of a simulated world does alike: scheduling, futures, tasks, sockets in memory."""

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple, Unpack, cast

from tidelog.sim.network import MemoryServer, Network
from tidelog.sim.schedule import Schedule, SimHandle, SimTimer

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
ExceptionHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]

logger = logging.getLogger("tidelog.sim")

if TYPE_CHECKING:
    # Typeshed calls every method of AbstractEventLoop abstract; what a node never calls stays unimplemented here.
    _Loop = asyncio.BaseEventLoop
else:
    _Loop = asyncio.AbstractEventLoop


class Withheld:
    """Where callbacks go that are not to run: kept in order, or for good."""

    def append(self, handle: asyncio.Handle) -> None:
        """Dropped: nobody will ever run it."""


class SimLoop(_Loop):
    """One process's view of the schedule. `host` is the address its connections come from."""

    def __init__(self, schedule: Schedule, network: Network, host: str) -> None:
        self.schedule: Final = schedule
        self.network: Final = network
        self.host: Final = host
        self.dead = False
        """A dead process schedules nothing."""
        self.withheld: Any = None
        """Where callbacks go instead of being run; None when they run."""
        self._exception_handler: ExceptionHandler | None = None
        self._task_factory: Any = None
        self._tasks_made = 0

    # --- scheduling ---------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.schedule.now

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = SimHandle(callback, args, self, context)
        if not self.dead:
            self.schedule.ready.append(handle)
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
        when = self.schedule.now + delay
        timer = SimTimer(when, callback, args, self, context)
        if not self.dead:
            self.schedule.add_timer(timer, when)
        return timer

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = SimTimer(when, callback, args, self, context)
        if not self.dead:
            self.schedule.add_timer(timer, when)
        return timer

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
        local_host = self.host if local_addr is None else local_addr[0]
        return await self.network.connect(self, protocol_factory, host, port, local_host)

    # --- the rest of the interface ------------------------------------------------------------------------------------

    async def shutdown_asyncgens(self) -> None:
        """Generators left open are closed by the collector; the loop tracks none."""

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is no executor: work runs inline."""

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Nothing here asks: what debug mode looks for (threads, slow callbacks) does not exist."""

    def set_exception_handler(self, handler: ExceptionHandler | None) -> None:
        self._exception_handler = handler

    def get_exception_handler(self) -> ExceptionHandler | None:
        return self._exception_handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        logger.error("unhandled in the virtual loop: %s", context.get("message"), exc_info=context.get("exception"))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._exception_handler is not None:
            self._exception_handler(self, context)
        else:
            self.default_exception_handler(context)
