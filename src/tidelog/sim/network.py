"""Who listens where, in memory: addresses, ports, and connecting one protocol with another."""

import asyncio
import errno
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Self

from tidelog.sim.transport import MemoryTransport, connect_pair

Address = tuple[str, int]
ProtocolFactory = Callable[[], asyncio.BaseProtocol]

_FIRST_FREE_PORT: Final = 32768
_LAST_PORT: Final = 65535
_WILDCARDS: Final = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class ListeningSocket:
    """What `server.sockets` shows of a listener."""

    address: Address

    def getsockname(self) -> Address:
        return self.address


class MemoryServer(asyncio.AbstractServer):
    """A listener."""

    def __init__(
        self, network: "Network", loop: asyncio.AbstractEventLoop, factory: ProtocolFactory, address: Address
    ) -> None:
        self._network = network
        self.loop = loop
        self.factory = factory
        self._address = address
        self._serving = True

    @property
    def sockets(self) -> tuple[ListeningSocket, ...]:
        return (ListeningSocket(self._address),) if self._serving else ()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.loop

    def is_serving(self) -> bool:
        return self._serving

    def close(self) -> None:
        """Stops listening; connections live on."""
        if self._serving:
            self._serving = False
            self._network.unlisten(self._address)

    async def start_serving(self) -> None:
        """It serves from the beginning."""

    async def serve_forever(self) -> None:
        await self.loop.create_future()

    async def wait_closed(self) -> None:
        await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()


class Network:
    """All listeners. Ports are per address; free ones are handed out in order, so that runs are alike."""

    def __init__(self) -> None:
        self._listeners: dict[Address, MemoryServer] = {}
        self._next_port = _FIRST_FREE_PORT

    def listen(self, loop: asyncio.AbstractEventLoop, factory: ProtocolFactory, host: str, port: int) -> MemoryServer:
        host = _canonical(host)
        address = (host, port or self._free_port(host))
        if address in self._listeners:
            raise OSError(errno.EADDRINUSE, f"address {address} is in use")
        server = MemoryServer(self, loop, factory, address)
        self._listeners[address] = server
        return server

    def unlisten(self, address: Address) -> None:
        del self._listeners[address]

    def connect(
        self,
        loop: asyncio.AbstractEventLoop,
        factory: ProtocolFactory,
        host: str,
        port: int,
        local_host: str,
    ) -> tuple[MemoryTransport, asyncio.BaseProtocol]:
        server = self._find(_candidates(host, port))
        if server is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on {host}:{port}")
        local = (local_host, self._free_port(local_host))
        remote = (_canonical(host), port)
        protocol: Any = factory()
        near, far = connect_pair(loop, server.loop, local, remote)
        near.set_protocol(protocol)
        # The client's side first, as when a real connect() returns before the server accepts.
        protocol.connection_made(near)
        accepted: Any = server.factory()
        far.set_protocol(accepted)
        server.loop.call_soon(accepted.connection_made, far)
        server.loop.call_soon(far.start)
        loop.call_soon(near.start)
        return near, protocol

    def _find(self, addresses: Iterable[Address]) -> MemoryServer | None:
        for address in addresses:
            server = self._listeners.get(address)
            if server is not None:
                return server
        return None

    def _free_port(self, host: str) -> int:
        for _ in range(_LAST_PORT - _FIRST_FREE_PORT + 1):
            port = self._next_port
            self._next_port = _FIRST_FREE_PORT if port == _LAST_PORT else port + 1
            if (host, port) not in self._listeners:
                return port
        raise OSError(errno.EADDRINUSE, f"no free port on {host}")


def _canonical(host: str) -> str:
    return "127.0.0.1" if host == "localhost" else host


def _candidates(host: str, port: int) -> list[Address]:
    """Where to look for a listener: the address itself, the other loopback for a name, the wildcard of its family."""
    hosts = ["127.0.0.1", "::1"] if host == "localhost" else [host]
    wildcards = _WILDCARDS if host == "localhost" else (("::",) if ":" in host else ("0.0.0.0",))
    return [(name, port) for name in (*hosts, *wildcards)]
