"""Brings what nodes, supervisor and coordinators tell to a board, while somebody looks at it.

Nodes and supervisor tell by themselves over unix sockets in the cluster's directory; only groups are asked for.
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

# A node that is down is tried again so often, and high watermarks that stand still are looked at.
_RETRY_S: Final = 0.2
_TICK_S: Final = 0.25
_GROUPS_S: Final = 2.0
_CONNECT_S: Final = 1.0
# The first line of a node has all of its partitions.
_MOST_LINE_BYTES: Final = 64 * 1024 * 1024
_COMMAND_S: Final = 90.0
_SETTINGS: Final = ConnectionSettings(client_id="tidelog-page", connect_timeout_s=1.0, request_timeout_s=2.0)


class Sources:
    """Of one cluster. `changed` is called after every change of the board."""

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
        """Until it is cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._again(self._follow_supervisor))
                for node in self._layout.nodes:
                    tasks.create_task(self._again(partial(self._follow_node, node.id)))
                tasks.create_task(self._follow_groups())
                tasks.create_task(self._tick())
        finally:
            self._watching.nobody_looks()

    async def command(self, request: dict[str, Any]) -> None:
        """Has the supervisor do something; ClusterError with its reason if it does not."""
        try:
            async with asyncio.timeout(_COMMAND_S), _connected(self._directory.control_socket) as (reader, writer):
                writer.write(json.dumps(request).encode() + b"\n")
                line = await reader.readline()
        except TimeoutError as error:
            raise ClusterError("the supervisor did not answer in time") from error
        except OSError as error:
            raise ClusterError(f"the supervisor cannot be reached: {error.strerror or error}") from error
        answer = json.loads(line) if line else {"error": "the supervisor ended"}
        if not answer.get("ok"):
            raise ClusterError(str(answer.get("error", "no reason given")))

    async def _again(self, follow: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await follow()
            except (OSError, ValueError) as error:
                # Down, or on its way: its state is told by the supervisor.
                log.debug("%s", error)
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
                    self._watching.board.put_groups(await groups.look(client))
                    self._changed()
                except (ApiError, ClientError) as error:
                    log.debug("groups: %s", error)
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
    # In a thread: with a process that is stopped the kernel may make us wait.
    sock = await asyncio.to_thread(control_socket.connect, path, _CONNECT_S)
    reader, writer = await asyncio.open_unix_connection(sock=sock, limit=_MOST_LINE_BYTES)
    try:
        yield reader, writer
    finally:
        writer.close()
