"""Work that comes round: checkpoints, retention, heartbeats. A round that fails is logged, and the next one comes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tidelog.client.tasks import ended

log = logging.getLogger("tidelog.periodic")


class Periodic:
    """Runs `work` every `interval_s`, counted from the end of the last run, until stopped."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        name: str,
        interval_s: float,
        work: Callable[[], Awaitable[None]],
        *,
        initial_delay_s: float | None = None,
    ) -> None:
        self._name = name
        # A new value counts from the next round on.
        self.interval_s = interval_s
        self._work = work
        first = interval_s if initial_delay_s is None else initial_delay_s
        self._task = loop.create_task(self._run(first), name=name)

    async def _run(self, delay_s: float) -> None:
        while True:
            await asyncio.sleep(delay_s)
            delay_s = self.interval_s
            try:
                await self._work()
            except Exception:
                log.exception("%s failed", self._name)

    async def stop(self) -> None:
        self._task.cancel()
        await ended([self._task])
