"""The thin shell around one member of the metadata quorum: timers, peers and the flushing thread drive `Raft`.

Every input (a request, an answer, a timer, a flush that is done) is handed to `Raft` at once and followed by a turn:
what is to be sent goes out, what is not durable is flushed off the loop, one flush at a time, parked requests are
answered, and whoever watches looks for what has changed. Many inputs may share a turn.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol

from tidelog.broker.dispatch import CloseConnection
from tidelog.client.errors import ClientError, ConnectionRefused
from tidelog.client.tasks import ended
from tidelog.core.ports import Offload, WallClock
from tidelog.quorum.errors import QuorumError
from tidelog.quorum.raft import Parked, Raft, Send
from tidelog.storage.ports import DiskError
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.fetch_snapshot import FetchSnapshotRequest

log = logging.getLogger("tidelog.quorum")

# A leader that stops tells the others; whoever does not hear it finds out by itself.
_RESIGN_S: Final = 1.0
_FETCHING: Final = "quorum-fetch"
_DECIDING: Final = "quorum"


class Transport(Protocol):
    """How members are reached; raises ClientError, and ConnectionRefused where nobody listens."""

    async def request(
        self, node: int, request: Any, *, lane: str = ..., version: int | None = ..., timeout_s: float
    ) -> Any: ...


class QuorumShell:
    """Invariant: between two callbacks of the loop a turn is scheduled if anything may be left to do."""

    def __init__(
        self,
        raft: Raft,
        transport: Transport,
        *,
        offload: Offload,
        wall_clock: WallClock,
        request_timeout_s: float,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.raft = raft
        self._transport = transport
        self._offload = offload
        self._wall_clock = wall_clock
        self._request_timeout_s = request_timeout_s
        self._on_fatal = on_fatal
        self._loop = asyncio.get_running_loop()
        self._watchers: list[Callable[[], None]] = []
        self._parked: dict[Parked, asyncio.Future[Any]] = {}
        # What waits for others may be given up; what writes may not, the files are in use.
        # In the order they began: the order in which they are ended is seen by others.
        self._exchanges: dict[asyncio.Task[None], None] = {}
        self._writing: dict[asyncio.Task[None], None] = {}
        self._next_turn: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._flushing = False
        self._started = False
        self._closed = False
        self.failure: BaseException | None = None

    # --- life ---

    def watch(self, watcher: Callable[[], None]) -> None:
        """Called after every turn, in the order of the calls here. What it raises ends the node."""
        self._watchers.append(watcher)

    def start(self) -> None:
        """From now on it takes part."""
        self._started = True
        self._turn()

    async def stop(self) -> None:
        """Resigns if it leads, lets what was appended become durable, closes the log."""
        if self._closed:
            return
        if self._started and self.failure is None:
            self.raft.begin_shutdown()
            resigned = self._wait_for(lambda: self.raft.is_shut_down)
            self.wake()
            await asyncio.wait([resigned], timeout=_RESIGN_S)
            resigned.cancel()
        self._closed = True
        for handle in (self._next_turn, self._timer):
            if handle is not None:
                handle.cancel()
        for task in self._exchanges:
            task.cancel()
        await ended([*self._exchanges, *self._writing])
        self._refuse_parked()
        if self.failure is None:
            try:
                self.raft.close(self._wall_clock.now_ms())
            except DiskError as error:
                # The directory is broken: the next start recovers what was committed, or refuses.
                log.warning("the metadata log was not closed cleanly: %s", error)

    def _wait_for(self, condition: Callable[[], bool]) -> "asyncio.Future[None]":
        reached: asyncio.Future[None] = self._loop.create_future()

        def look() -> None:
            if not reached.done() and condition():
                reached.set_result(None)

        self.watch(look)
        reached.add_done_callback(lambda _: self._watchers.remove(look))
        return reached

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for a turn after which `condition` holds; QuorumError if the metadata log fails before."""
        if self.failure is None:
            reached = self._wait_for(lambda: condition() or self.failure is not None)
            self.wake()
            await reached
        if self.failure is not None:
            raise QuorumError(str(self.failure)) from self.failure

    # --- inputs ---

    async def receive(self, source: int, request: Any) -> Any:
        """The answer to a request of the quorum's; a fetch that finds nothing waits for news."""
        if self.failure is not None or self._closed or not self._started:
            raise CloseConnection("this member of the metadata quorum is not running")
        try:
            answer = self.raft.receive(source, request, self._loop.time())
        except (QuorumError, DiskError) as error:
            self.fail(error)
            raise CloseConnection("the metadata log failed") from error
        self.wake()
        if not isinstance(answer, Parked):
            return answer
        self._parked[answer] = later = self._loop.create_future()
        return await later

    def append(self, values: Sequence[bytes], now_ms: int) -> int:
        """As the leader: one batch; its last offset. Committed once `raft.high_watermark` is beyond it."""
        last_offset = self.raft.append(values, now_ms)
        self.wake()
        return last_offset

    def wake(self) -> None:
        """A turn soon; many calls come to one."""
        if self._next_turn is None and not self._closed and self._started:
            self._next_turn = self._loop.call_soon(self._turn)

    def fail(self, error: BaseException) -> None:
        """The metadata log, or what follows from it, can no longer be trusted (C10)."""
        if self.failure is not None:
            return
        self.failure = error
        self._refuse_parked()
        # Whoever waits for the quorum looks once more, and sees that it failed.
        for watcher in list(self._watchers):
            watcher()
        self._on_fatal(error)

    def _refuse_parked(self) -> None:
        parked, self._parked = self._parked, {}
        for later in parked.values():
            if not later.done():
                later.set_exception(CloseConnection("this member of the metadata quorum is stopping"))

    # --- turns ---

    def _turn(self) -> None:
        self._next_turn = None
        if self._closed or self.failure is not None:
            return
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - whatever it is, going on would serve what nobody agreed on
            self.fail(error)

    def _work(self) -> None:
        now_s = self._loop.time()
        outbox = self.raft.poll(now_s)
        if self.raft.needs_flush and not self._flushing:
            self._flushing = True
            self.run(self._flush())
        for parked, response in self.raft.completed_fetches(now_s):
            later = self._parked.pop(parked, None)
            if later is not None and not later.done():
                later.set_result(response)
        for send in outbox.sends:
            self._keep(self._exchanges, self._exchange(send))
        for note in self.raft.take_notes():
            log.warning("%s", note)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if outbox.poll_at_s == float("inf") else self._loop.call_at(outbox.poll_at_s, self._turn)
        for watcher in list(self._watchers):
            watcher()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Work on the files of the metadata log: a stop waits for it, and if it fails, so does the node."""
        self._keep(self._writing, work)

    def _keep(self, tasks: dict[asyncio.Task[None], None], work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        tasks[task] = None

        def done(task: asyncio.Task[None]) -> None:
            tasks.pop(task, None)
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self.fail(error)

        task.add_done_callback(done)

    async def _flush(self) -> None:
        task = self.raft.begin_flush()
        await self._offload(task.run)
        self._flushing = False
        self.raft.on_flushed(task, self._wall_clock.now_ms())
        # At once and not with the next turn: a commit waits for nothing else.
        self._turn_now()

    async def _exchange(self, send: Send) -> None:
        lane = _FETCHING if isinstance(send.request, FetchRequest | FetchSnapshotRequest) else _DECIDING
        try:
            response = await self._transport.request(
                send.to, send.request, lane=lane, timeout_s=self._request_timeout_s
            )
        except ClientError as error:
            if not self._closed and self.failure is None:
                self.raft.on_disconnect(send.to, isinstance(error, ConnectionRefused), self._loop.time())
                self._turn_now()
            return
        if self._closed or self.failure is not None:
            return
        self.raft.on_response(send.to, send.request, response, self._loop.time())
        self._turn_now()

    def _turn_now(self) -> None:
        if self._next_turn is not None:
            self._next_turn.cancel()
        self._turn()
