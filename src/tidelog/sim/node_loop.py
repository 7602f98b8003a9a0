"""The event loop as one simulated process sees it.

Time and order are the world's; the callbacks are the process's own, so that they can be held while the process is
paused and dropped when it is killed, without anybody inside noticing.
"""

import asyncio
from collections import deque
from typing import Any

from tidelog.sim.base_loop import SimLoop, Withheld
from tidelog.sim.loop import VirtualLoop

# A coroutine that awaits while it is closed is closed again; nobody awaits in more finally blocks than this.
_MOST_CLOSES = 100


class NodeLoop(SimLoop):
    """One process's loop: alive, paused or dead."""

    def __init__(self, world: VirtualLoop, host: str) -> None:
        super().__init__(world.schedule, world.network, host)
        self.world = world
        self.unhandled: list[str] = []
        """What no code of the process caught; a healthy node leaves it empty."""
        self._graveyard: list[asyncio.Task[Any]] = []

    # --- fates --------------------------------------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        return self.withheld is not None and not self.dead

    def pause(self) -> None:
        """As SIGSTOP: no callback runs, sockets stay open, the kernel goes on to accept connections and bytes."""
        if self.withheld is None:
            self.withheld = deque()

    def resume(self) -> None:
        """What became ready meanwhile runs in the order it came, timers that are overdue among it."""
        if self.paused:
            held, self.withheld = self.withheld, None
            self.schedule.ready.extend(held)

    def kill(self) -> None:
        """As SIGKILL: no callback runs any more, no finally block either.

        Tasks are kept where they stopped: if the collector closed their coroutines it would run their finally blocks at
        a moment of its own.
        """
        if self.dead:
            return
        self.dead = True
        self.withheld = Withheld()
        self.schedule.drop_timers_of(self)
        self._graveyard = sorted(asyncio.all_tasks(self), key=lambda task: task.get_name())

    def bury(self) -> None:
        """Lets go of the tasks of a dead process. Finally blocks run now, when they reach neither disk nor network."""
        assert self.dead
        for task in self._graveyard:
            coroutine: Any = task.get_coro()
            for _ in range(_MOST_CLOSES):
                try:
                    coroutine.close()
                except BaseException:  # noqa: BLE001, S112 - a finally block of a dead process: nobody hears of it
                    continue
                break
        self._graveyard.clear()

    # --- the rest of the interface ------------------------------------------------------------------------------------

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.dead:
            return
        error = context.get("exception")
        self.unhandled.append(f"{context.get('message')}: {error!r}")
        super().call_exception_handler(context)

    def is_running(self) -> bool:
        return not self.dead

    def is_closed(self) -> bool:
        return self.dead

    def close(self) -> None:
        self.kill()
