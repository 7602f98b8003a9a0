"""Connections from this node to other nodes: at most one per node and lane, opened when needed.

A node answers the requests of a connection one after the other, so a parked fetch would hold up a vote: what must not
wait for each other goes by different lanes, and each lane is a connection of its own.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tidelog.broker.links import Links, node_client_id
from tidelog.client.addresses import Address
from tidelog.client.connection import Connection, ConnectionSettings
from tidelog.client.errors import ClientError, ConnectionFailed, RequestTimedOut
from tidelog.core.config.node import NodeConfig
from tidelog.wire.errors import ApiError
from tidelog.wire.registry import APIS
from tidelog.wire.schema import spec_of

_CLOSING: Final = "this node is closing"
# Of an answer to a follower: all that is not records, some hundred bytes a partition.
_BESIDE_RECORDS_BYTES: Final = 16 * 1024 * 1024
# What the length of a frame can say.
_LONGEST_FRAME: Final = 2**31 - 1


def replication_settings(config: NodeConfig) -> ConnectionSettings:
    """For connections to the leaders that this broker follows."""
    return ConnectionSettings(
        connect_timeout_s=config.replica_socket_timeout_ms / 1000, max_response_bytes=longest_fetch_answer(config)
    )


def longest_fetch_answer(config: NodeConfig) -> int:
    """What a leader may have to send: what was asked for, and one batch however large it is.

    That came in a request, or has been compressed anew after it was read. A leader is taken to have the same bounds:
    if an answer were refused, so would be every other from then on, and nothing more be replicated from that leader.
    """
    batch = max(config.socket_request_max_bytes, config.tidelog_decompression_max_bytes)
    return min(batch + config.replica_fetch_response_max_bytes + _BESIDE_RECORDS_BYTES, _LONGEST_FRAME)


@dataclass(slots=True)
class _Lane:
    # Whoever has the lock opens; the others find the connection made, or try after it.
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: Connection | None = None

    def ready(self, address: Address | None) -> Connection | None:
        """The connection to there, if nobody has to open one first."""
        connection = self.connection
        if connection is None or connection.closed or connection.address != address or self.opening.locked():
            return None
        return connection

    def abort(self, reason: str) -> None:
        if self.connection is not None:
            self.connection.abort(reason)
            self.connection = None


class Peers:
    """`address_of` is asked before every request: a connection to where a node no longer is, is not used again."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        node_id: int,
        *,
        address_of: Callable[[int], Address | None],
        settings: ConnectionSettings | None = None,
        client_id: str | None = None,
        links: Links | None = None,
    ) -> None:
        self.node_id = node_id
        self._loop = loop
        self._address_of = address_of
        self._settings = replace(settings or ConnectionSettings(), client_id=client_id or node_client_id(node_id))
        self._links = links
        self._lanes: dict[tuple[int, str], _Lane] = {}
        self._closed = False

    async def request(
        self, node: int, request: Any, *, lane: str = "", version: int | None = None, timeout_s: float
    ) -> Any:
        """The answer, in the newest version that both sides speak, or in `version` if that is older.

        ConnectionFailed: there is none, and unless it is ConnectionRefused nobody knows whether the node acted on the
        request. RequestTimedOut (one of these) closes the connection: what else waits on this lane fails with it.
        """
        deadline_s = self._loop.time() + timeout_s
        known = self._lanes.get((node, lane))
        connection = None if known is None else known.ready(self._address_of(node))
        if connection is None:
            try:
                async with asyncio.timeout_at(deadline_s):
                    connection = await self._connection(node, lane)
            except TimeoutError as error:
                raise RequestTimedOut(f"no connection to node {node} within {timeout_s:g} s") from error
        try:
            chosen = connection.version_of(type(request), at_most=version)
        except ClientError as error:
            raise ConnectionFailed(f"node {node}: {error}") from error
        response = APIS[spec_of(type(request)).api_key].response
        left_s = max(deadline_s - self._loop.time(), 0.0)
        return await connection.request(request, response, version=chosen, timeout_s=left_s)

    def drop(self, node: int, lane: str | None = None) -> None:
        """Closes its connections, or that of one lane; requests under way fail, and the next one opens anew."""
        for (owner, name), each in self._lanes.items():
            if owner == node and lane in (None, name):
                each.abort("the connection was closed")

    async def close(self) -> None:
        """For good."""
        self._closed = True
        open_ones = [lane.connection for lane in self._lanes.values() if lane.connection is not None]
        self._lanes.clear()
        for connection in open_ones:
            connection.abort(_CLOSING)
            await connection.close()

    async def _connection(self, node: int, lane_name: str) -> Connection:
        lane = self._lanes.setdefault((node, lane_name), _Lane())
        async with lane.opening:
            address = self._address_of(node)
            connection = lane.connection
            if connection is not None and not connection.closed and connection.address == address:
                return connection
            lane.abort(f"node {node} moved to another address")
            self._check_open()
            if address is None:
                raise ConnectionFailed(f"the address of node {node} is unknown")
            try:
                connection = await self._open(node, address)
            except ApiError as error:
                raise ConnectionFailed(f"node {node}: {error}") from error
            try:
                self._check_open()
            except ConnectionFailed:
                connection.abort(_CLOSING)
                raise
            lane.connection = connection
            return connection

    async def _open(self, node: int, address: Address) -> Connection:
        links = self._links
        if links is None:
            return await Connection.open(address, self._settings)
        await links.until_whole(node)

        def through(transport: asyncio.BaseTransport, connection: Connection) -> asyncio.Transport:
            return links.through(node, transport, connection)

        return await Connection.open(address, replace(self._settings, through=through))

    def _check_open(self) -> None:
        if self._closed:
            raise ConnectionFailed(_CLOSING)
