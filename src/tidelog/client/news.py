"""Waking somebody for what happened, and for what happens right after it."""

import asyncio


class News:
    """For one who waits: what comes within `gather_s` of the first is told together.

    Counted from when it came and not from when the waiter has its turn. On a busy event loop that is late already, and
    a timer would make it wait for several turns more.
    """

    def __init__(self, gather_s: float) -> None:
        self._gather_s = gather_s
        self._loop = asyncio.get_running_loop()
        self._came = asyncio.Event()
        self._since_s = 0.0

    def tell(self) -> None:
        if not self._came.is_set():
            self._since_s = self._loop.time()
            self._came.set()

    async def wait(self) -> None:
        """Until there is some and it is gathered. Whoever stops waiting knows of all that came."""
        try:
            await self._came.wait()
            left_s = self._since_s + self._gather_s - self._loop.time()
            if left_s > 0:
                await asyncio.sleep(left_s)
        finally:
            self._came.clear()
