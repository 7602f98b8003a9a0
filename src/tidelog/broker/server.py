"""Listeners: binds them, makes a `Connection` of every client, and closes all in order.

A listener may be several sockets (``localhost`` is 127.0.0.1 and ::1, no host is every interface of both families), all
with the same port, also when that is a free one.
"""

import asyncio
import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tidelog.broker.connection import Connection
from tidelog.broker.dispatch import Dispatch
from tidelog.broker.limits import ConnectionLimits
from tidelog.broker.links import Links
from tidelog.broker.network import Network

logger = logging.getLogger("tidelog.network")

_FREE_PORT_ATTEMPTS: Final = 20
# The machine has no IPv6 (or none on this interface): the listener is served by its other address.
_NO_SUCH_FAMILY: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL})


@dataclass(frozen=True, slots=True)
class Listener:
    """Where to listen. `host` is a literal (IPv6 without brackets), a name, or empty for every interface."""

    name: str
    host: str
    port: int

    def addresses(self) -> tuple[str, ...]:
        """The addresses to bind; the first must succeed, the others may not exist on this machine."""
        host = self.host.strip("[]")
        if host in ("", "::"):
            return ("0.0.0.0", "::")
        if host == "localhost":
            return ("127.0.0.1", "::1")
        return (host,)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class ListenError(Exception):
    """A listener cannot be bound; one line for whoever starts the node."""


class Server:
    """All listeners of a node, and their connections."""

    def __init__(
        self, limits: ConnectionLimits, *, loop: asyncio.AbstractEventLoop | None = None, links: Links | None = None
    ) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self.network = Network(self._loop, limits, links)
        self._servers: list[asyncio.Server] = []
        self._listeners: dict[str, Listener] = {}

    @property
    def listeners(self) -> dict[str, Listener]:
        """By name, with the ports that were really bound."""
        return dict(self._listeners)

    def update_limits(self, limits: ConnectionLimits) -> None:
        """For connections from now on (`max.connections` and its like are dynamic)."""
        self.network.limits = limits

    def port(self, listener_name: str) -> int:
        return self._listeners[listener_name].port

    async def listen(self, listener: Listener, dispatch: Dispatch) -> Listener:
        """Binds and accepts; returns the listener with its real port. ListenError says what stands in the way."""

        def connected() -> Connection:
            return Connection(self.network, dispatch, listener.name)

        bound, servers = await bind(self._loop, listener, connected, backlog=self.network.limits.listen_backlog)
        self._servers += servers
        self._listeners[listener.name] = bound
        logger.info("listening on %s", bound)
        return bound

    async def stop_accepting(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()

    async def stop(self, deadline_s: float) -> None:
        """Stops accepting, lets requests in flight be answered until the deadline, closes every connection."""
        await self.stop_accepting()
        await self.network.finish(deadline_s)


async def bind(
    loop: asyncio.AbstractEventLoop, listener: Listener, connected: Callable[[], asyncio.BaseProtocol], *, backlog: int
) -> tuple[Listener, list[asyncio.Server]]:
    """The sockets of a listener, and the listener with its real port. ListenError says what stands in the way."""
    attempts = _FREE_PORT_ATTEMPTS if listener.port == 0 else 1
    for attempt in range(1, attempts + 1):
        try:
            servers = await _bind(loop, listener, connected, backlog)
        except OSError as error:
            # A free port of one family may be taken in the other.
            if error.errno == errno.EADDRINUSE and attempt < attempts:
                continue
            raise ListenError(f"cannot listen on {listener}: {error.strerror or error}") from error
        break
    return Listener(listener.name, listener.host, servers[0].sockets[0].getsockname()[1]), servers


async def _bind(
    loop: asyncio.AbstractEventLoop, listener: Listener, connected: Callable[[], asyncio.BaseProtocol], backlog: int
) -> list[asyncio.Server]:
    servers: list[asyncio.Server] = []
    port = listener.port
    try:
        for address in listener.addresses():
            try:
                server = await loop.create_server(connected, address, port, backlog=backlog)
            except OSError as error:
                if servers and error.errno in _NO_SUCH_FAMILY:
                    continue
                raise
            servers.append(server)
            port = server.sockets[0].getsockname()[1]
    except OSError:
        for server in servers:
            server.close()
        raise
    return servers
