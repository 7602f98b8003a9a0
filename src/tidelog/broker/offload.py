"""Blocking work away from the event loop: a bounded thread pool, or nothing at all under simulation."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# Threads that wait for fsyncs at a shutdown: the file system commits many of them together.
SIDE_BY_SIDE = 16


class ThreadOffload:
    """`core.ports.Offload` of production. At most `max_queued` pieces of work are with the threads; more callers wait.

    A caller that is cancelled does not stop work that has begun: a write is finished, only nobody hears of it.
    """

    def __init__(self, *, workers: int = 4, max_queued: int = 256) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="tidelog-offload")
        self._max_queued = max_queued
        self._queued = 0
        self._waiting: asyncio.Semaphore | None = None

    def __call__(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return self._run(partial(function, *args, **kwargs))

    async def _run(self, work: Callable[[], T]) -> T:
        if self._waiting is None:
            self._waiting = asyncio.Semaphore(self._max_queued)
        async with self._waiting:
            self._queued += 1
            try:
                return await asyncio.get_running_loop().run_in_executor(self._pool, work)
            finally:
                self._queued -= 1

    def run_all(self, work: Sequence[Callable[[], None]]) -> None:
        """Side by side: for work that waits for the disk. Called from a thread that may block."""
        with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="tidelog-run-all") as pool:
            futures = [pool.submit(piece) for piece in work]
        for future in futures:
            future.result()

    @property
    def queued(self) -> int:
        return self._queued

    def close(self) -> None:
        """Waits for what has begun; drops what has not."""
        self._pool.shutdown(wait=True, cancel_futures=True)


class InlineOffload:
    """Runs the work where it is asked for: simulation, and tools that have nothing else to do."""

    def __call__(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        return self._run(partial(function, *args, **kwargs))

    async def _run(self, work: Callable[[], T]) -> T:
        return work()

    def run_all(self, work: Sequence[Callable[[], None]]) -> None:
        for piece in work:
            piece()
