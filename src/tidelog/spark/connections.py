"""Clients that a Python worker keeps between tasks and micro-batches, with their connections and metadata (S9).

A worker runs one task after another, so a kept client has one user at a time. All of them live on one event loop in a
thread of its own. It reads while no task runs, and so learns at once when a broker closes a connection.
"""

import asyncio
import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from tidelog.client.client import Client
from tidelog.client.errors import RETRIABLE_OF_KNOWN_TOPIC
from tidelog.core.ids import TopicPartition
from tidelog.spark.access import ClusterAccess

R = TypeVar("R")

# Of all clusters and settings together. A client has a connection for each broker that it has asked.
MOST_KEPT: Final = 8
# After so much time without a task, a connection is tried before it is used: a network that drops idle connections, or
# a broker that hangs, would otherwise cost the request timeout.
TRUSTED_S: Final = 5.0
# For that trial.
_TRIAL_S: Final = 2.0
_MOST_SIZES: Final = 1024


@dataclass(eq=False)
class KeptClient:
    """`sizes` are the bytes for each offset of partitions, as seen last."""

    access: ClusterAccess
    client: Client
    metadata_since_s: float
    sizes: OrderedDict[TopicPartition, float] = field(default_factory=OrderedDict)
    released_s: float = 0.0
    expiry: asyncio.TimerHandle | None = None

    def remember_size(self, tp: TopicPartition, bytes_per_offset: float) -> None:
        self.sizes[tp] = bytes_per_offset
        self.sizes.move_to_end(tp)
        if len(self.sizes) > _MOST_SIZES:
            self.sizes.popitem(last=False)


class Running:
    """Work on the loop, from the thread that started it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
        self._loop = loop
        self._task: asyncio.Task[None] | None = None
        self._ended = threading.Event()
        loop.call_soon_threadsafe(self._start, work)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(lambda _: self._ended.set())

    def stop(self) -> None:
        """Returns when the work has ended, and given back what it used."""
        self._loop.call_soon_threadsafe(self._cancel)
        self._ended.wait()

    def _cancel(self) -> None:
        assert self._task is not None, "calls are made in order"
        self._task.cancel()


class Connections:
    """Invariants: clients are touched on `_loop` only; `_kept` has those without a user, the one released last at the
    end, `MOST_KEPT` at most.
    """

    def __init__(self) -> None:
        self._kept: list[KeptClient] = []
        self._used: set[KeptClient] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    # --- from the thread of a task ---

    def start(self, work: Coroutine[Any, Any, None]) -> Running:
        return Running(self._loop_running(), work)

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Until it has ended. What interrupts the wait cancels the work."""
        outcome: Future[R] = Future()

        async def noted() -> None:
            try:
                outcome.set_result(await work)
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
                outcome.set_exception(error)

        running = self.start(noted())
        try:
            return outcome.result()
        finally:
            running.stop()

    def _loop_running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="tidelog-connections", daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """Ends all connections that no task uses, and the thread."""
        with self._starting:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._close_kept(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    # --- on the loop ---

    @asynccontextmanager
    async def client(self, access: ClusterAccess) -> AsyncIterator[KeptClient]:
        """For one task. Kept afterwards, also if the task failed: what it was waiting for is given up."""
        kept = self._take(access)
        self._used.add(kept)
        try:
            await self._refreshed(kept)
            yield kept
        finally:
            self._used.discard(kept)
            self._release(kept)

    def _take(self, access: ClusterAccess) -> KeptClient:
        for kept in reversed(self._kept):
            if kept.access == access:
                self._kept.remove(kept)
                if kept.expiry is not None:
                    kept.expiry.cancel()
                return kept
        client = Client(
            access.bootstrap,
            settings=access.connection,
            retry_timeout_s=access.question_timeout_s,
            passing=RETRIABLE_OF_KNOWN_TOPIC,
            # The driver has reached the cluster.
            reached_before=True,
            asks_around=True,
        )
        return KeptClient(access, client, asyncio.get_running_loop().time())

    async def _refreshed(self, kept: KeptClient) -> None:
        now_s = asyncio.get_running_loop().time()
        if kept.released_s and now_s - kept.released_s > TRUSTED_S:
            await kept.client.try_connections(_TRIAL_S)
        if now_s - kept.metadata_since_s > kept.access.metadata_age_s:
            kept.client.forget_leaders()
            kept.metadata_since_s = now_s

    def _release(self, kept: KeptClient) -> None:
        loop = asyncio.get_running_loop()
        kept.client.rest()
        kept.released_s = loop.time()
        self._kept.append(kept)
        if kept.access.idle_s != float("inf"):
            kept.expiry = loop.call_later(kept.access.idle_s, self._end, kept)
        if len(self._kept) > MOST_KEPT:
            self._end(self._kept[0])

    def _end(self, kept: KeptClient) -> None:
        self._kept.remove(kept)
        if kept.expiry is not None:
            kept.expiry.cancel()
        task = asyncio.get_running_loop().create_task(kept.client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close_kept(self) -> None:
        for kept in list(self._kept):
            self._end(kept)
        await asyncio.gather(*self._closing)

    # --- after a fork ---

    def abandon(self) -> list[Any]:
        """In a forked child, whose thread and loop are gone: the sockets and the loop belong to the parent. What this
        returns has to be kept for ever, since its finalizers would reach them.
        """
        held: list[Any] = [self._loop, self._thread, self._kept, self._used]
        everyone = [*self._kept, *self._used]
        nowhere = os.open(os.devnull, os.O_RDWR)
        for kept in everyone:
            for number in kept.client.filenos():
                # The number stays taken, and refers to nothing that the parent has.
                with suppress(OSError):
                    os.dup2(nowhere, number)
        os.close(nowhere)
        self.__init__()  # type: ignore[misc]
        return held


CONNECTIONS: Final = Connections()
"""Of this process."""
_ABANDONED: Final[list[Any]] = []


def _after_fork() -> None:
    _ABANDONED.append(CONNECTIONS.abandon())


os.register_at_fork(after_in_child=_after_fork)
atexit.register(CONNECTIONS.close)
