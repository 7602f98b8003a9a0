"""Tells watchers how this node stands, as it happens: JSON lines over a unix socket that a supervisor handed in.

<- {"node": 1, "time": 1700000000000, "events": […], "metadata": […], "replicas": […], …}

A line has only what changed since the line before; the first one has everything. Events and metadata go out at once,
offsets ten times a second. Nothing is queued for a watcher but a bounded number of events: what it is told next is the
difference between what it was told last and what is so now. Without a watcher none of this costs anything.
"""

import asyncio
import json
import socket
import time
from collections import deque
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Final

from tidelog.broker.watch_changes import Changes
from tidelog.client.news import News
from tidelog.core.events import Event
from tidelog.core.ports import WallClock

if TYPE_CHECKING:
    from tidelog.broker.node import Node

# How often offsets are looked at, and the share of a core that a watcher may cost: with thousands of partitions that
# move they are looked at less often, but so that whoever watches can tell slow from stalled.
OFFSETS_S: Final = 0.1
LEAST_OFTEN_S: Final = 1.0
SHARE: Final = 0.01
# Events close to each other travel in one line.
GATHER_S: Final = 0.005
MOST_EVENTS: Final = 5_000
MOST_WATCHERS: Final = 8
_BUFFER_BYTES: Final = 64 * 1024


class Watch:
    """`on_event` is a sink for everything the node tells; `serve` lets watchers in until it is cancelled."""

    def __init__(self, wall_clock: WallClock) -> None:
        self._wall_clock = wall_clock
        self._watchers: set[_Watcher] = set()

    def on_event(self, event: Event, text: str) -> None:
        if self._watchers:
            told = {**event.as_dict(), "time": self._wall_clock.now_ms(), "text": text}
            for watcher in self._watchers:
                watcher.tell(told)

    async def serve(self, node: "Node", fd: int) -> None:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(self._watchers) >= MOST_WATCHERS:
                writer.close()
                return
            watcher = _Watcher(node, self._wall_clock, writer)
            self._watchers.add(watcher)
            try:
                await watcher.run(reader)
            finally:
                self._watchers.discard(watcher)
                writer.close()

        server = await asyncio.start_unix_server(accept, sock=socket.socket(fileno=fd))
        async with server:
            await server.serve_forever()


class _Watcher:
    def __init__(self, node: "Node", wall_clock: WallClock, writer: asyncio.StreamWriter) -> None:
        self._node = node
        self._wall_clock = wall_clock
        self._writer = writer
        self._changes = Changes()
        self._events: deque[dict[str, Any]] = deque()
        self._dropped = 0
        self._news = News(GATHER_S)
        # When offsets were looked at, and how long not to: what has been spent since then, by the share it may take.
        self._looked_at_s = -inf
        self._rest_s = 0.0

    def tell(self, event: dict[str, Any]) -> None:
        if len(self._events) >= MOST_EVENTS:
            self._events.popleft()
            self._dropped += 1
        self._events.append(event)
        self._news.tell()

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Until the watcher hangs up; whatever it says is its end."""
        gone = asyncio.create_task(reader.read(1))
        gone.add_done_callback(lambda _: self._news.tell())
        self._writer.transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        try:
            loop = asyncio.get_running_loop()
            while not gone.done():
                began_s = time.thread_time()
                if (line := self._line(loop.time())) is not None:
                    self._writer.write(line)
                self._rest_s += (time.thread_time() - began_s) / SHARE
                # Here a watcher that does not read stays: no more is made for it.
                await self._writer.drain()
                await self._until_due()
        except ConnectionError:
            # It hung up while we were telling it something: nobody is left to be told.
            return
        finally:
            gone.cancel()

    async def _until_due(self) -> None:
        """Until something happened, or offsets are to be looked at."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._offsets_due_s()):
                await self._news.wait()

    def _offsets_due_s(self) -> float:
        return self._looked_at_s + min(max(OFFSETS_S, self._rest_s), LEAST_OFTEN_S)

    def _line(self, now_s: float) -> bytes | None:
        node, changes = self._node, self._changes
        told: dict[str, Any] = {}
        if self._events:
            told["events"] = list(self._events)
            self._events.clear()
        if self._dropped:
            told["dropped"] = self._dropped
            self._dropped = 0
        if node.control is not None:
            told |= changes.metadata(node.control.image)
            told |= changes.quorum(node.control.raft)
        if now_s >= self._offsets_due_s():
            self._looked_at_s, self._rest_s = now_s, 0.0
            if node.broker is not None:
                told |= changes.replicas(node.broker.replicas)
        if not told:
            return None
        whole = {"node": node.config.node_id, "time": self._wall_clock.now_ms(), **told}
        return json.dumps(whole, separators=(",", ":")).encode() + b"\n"
