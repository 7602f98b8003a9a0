"""Reads from the nodes, the supervisor and the group coordinators into a board, while a page is open.

Nodes and the supervisor push over unix sockets in the cluster's directory. Only consumer groups are polled.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from tidelog.client.client import Client
from tidelog.client.connection import ConnectionSettings
from tidelog.client.errors import ClientError
from tidelog.cluster import control_socket
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.layout import ClusterDir, ClusterLayout
from tidelog.web import groups
from tidelog.web.watching import Watching
from tidelog.wire.errors import ApiError

log = logging.getLogger("tidelog.web")

# How often to reconnect to a node that is down, and to check for stalled high watermarks.
_RETRY_S: Final = 0.2
_TICK_S: Final = 0.25
_GROUPS_S: Final = 2.0
_CONNECT_S: Final = 1.0
# The first line of a node holds all of its partitions.
_MOST_LINE_BYTES: Final = 64 * 1024 * 1024
_COMMAND_S: Final = 90.0
_SETTINGS: Final = ConnectionSettings(client_id="tidelog-page", connect_timeout_s=1.0, request_timeout_s=2.0)


class Sources:
    """The sources of one cluster. They call `changed` after every change of the board."""

    def __init__(
        self,
        directory: ClusterDir,
        layout: ClusterLayout,
        watching: Watching,
        *,
        now_ms: Callable[[], int],
        changed: Callable[[], None],
    ) -> None:
        self._directory = directory
        self._layout = layout
        self._watching = watching
        self._now_ms = now_ms
        self._changed = changed

    async def run(self) -> None:
        """Runs until it is cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._again(self._follow_supervisor))
                for node in self._layout.nodes:
                    tasks.create_task(self._again(partial(self._follow_node, node.id)))
                tasks.create_task(self._follow_groups())
                tasks.create_task(self._tick())
        finally:
            self._watching.page_closed()

    async def command(self, request: dict[str, Any]) -> None:
        """Sends a command to the supervisor. Raises ClusterError with the reason if the supervisor refuses."""
        try:
            async with asyncio.timeout(_COMMAND_S), _connected(self._directory.control_socket) as (reader, writer):
                writer.write(json.dumps(request).encode() + b"\n")
                line = await reader.readline()
        except TimeoutError as error:
            raise ClusterError(f"the supervisor did not answer within {_COMMAND_S:.0f} s") from error
        except OSError as error:
            raise ClusterError(f"the supervisor cannot be reached: {error.strerror or error}") from error
        answer = json.loads(line) if line else {"error": "the supervisor closed the connection"}
        if not answer.get("ok"):
            raise ClusterError(str(answer.get("error", "the supervisor gave no reason")))

    async def _again(self, follow: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await follow()
            except (OSError, ValueError) as error:
                # The node is down or starting; the supervisor reports its state.
                log.debug("connection lost, trying again: %s", error)
            await asyncio.sleep(_RETRY_S)

    async def _follow_supervisor(self) -> None:
        async with _connected(self._directory.control_socket) as (reader, writer):
            writer.write(b'{"command": "watch"}\n')
            async for line in reader:
                told = json.loads(line)
                if "nodes" in told:
                    self._watching.supervisor_line(told, self._now_ms())
                    self._changed()

    async def _follow_node(self, node: int) -> None:
        first = True
        try:
            async with _connected(self._directory.watch_socket(node)) as (reader, _):
                async for line in reader:
                    self._watching.node_line(json.loads(line), first=first, now_ms=self._now_ms())
                    first = False
                    self._changed()
        finally:
            self._watching.node_lost(node, self._now_ms())
            self._changed()

    async def _follow_groups(self) -> None:
        async with Client(self._layout.bootstrap, settings=_SETTINGS, retry_timeout_s=_GROUPS_S) as client:
            while True:
                try:
                    self._watching.board.put_groups(*await groups.look(client))
                    self._changed()
                except (ApiError, ClientError) as error:
                    log.debug("cannot read consumer groups: %s", error)
                await asyncio.sleep(_GROUPS_S)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            before = self._watching.board.version
            self._watching.tick(self._now_ms())
            if self._watching.board.version != before:
                self._changed()


@asynccontextmanager
async def _connected(path: Path) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    # In a thread: the kernel may block a connect to a stopped process.
    sock = await asyncio.to_thread(control_socket.connect, path, _CONNECT_S)
    reader, writer = await asyncio.open_unix_connection(sock=sock, limit=_MOST_LINE_BYTES)
    try:
        yield reader, writer
    finally:
        writer.close()
