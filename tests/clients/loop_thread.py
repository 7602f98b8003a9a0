"""An event loop that runs in a thread of its own, with calls into it from outside."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
CALL_SECONDS = 20.0


class LoopThread:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T], seconds: float = CALL_SECONDS) -> T:
        return self.submit(coroutine).result(seconds)

    def call(self, function: Callable[..., T], *args: Any) -> T:
        async def on_loop() -> T:
            return function(*args)

        return self.run(on_loop())

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
