"""An event loop in a thread of its own, so that plain synchronous tests can drive asynchronous code."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """A daemon thread that lives until `close`: nodes die with the thread that started them."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T], *, on_interrupt: Callable[[], object] | None = None) -> T:
        """Runs `work` there and waits for it here, until it has ended.

        Ctrl-C here cancels it there, or calls `on_interrupt` there. A second one ends the wait.
        """
        tasks: list[asyncio.Task[T]] = []

        async def run() -> T:
            tasks.append(asyncio.create_task(work))
            return await tasks[0]

        async def interrupt() -> None:
            # `run` has made its first step, unless ctrl-C came before it was handed over.
            if tasks:
                (on_interrupt or tasks[0].cancel)()
                await asyncio.wait(tasks)

        try:
            return asyncio.run_coroutine_threadsafe(run(), self._loop).result()
        except KeyboardInterrupt:
            asyncio.run_coroutine_threadsafe(interrupt(), self._loop).result()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
