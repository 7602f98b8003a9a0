"""The network in memory: who listens where, the links between hosts and what is wrong with them."""

import asyncio
import errno
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Self

from tidelog.sim.links import Cut, Delay, Link
from tidelog.sim.transport import MemoryTransport

Address = tuple[str, int]
ProtocolFactory = Callable[[], asyncio.BaseProtocol]

LOOPBACK: Final = "127.0.0.1"
CONNECT_TIMEOUT_S: Final = 127.0
"""When a kernel gives up on a host that answers nothing."""
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
        self._factory = factory
        self._address = address
        self._serving = True

    @property
    def sockets(self) -> tuple[ListeningSocket, ...]:
        return (ListeningSocket(self._address),) if self._serving else ()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.loop

    def is_serving(self) -> bool:
        return self._serving

    def accept(self, transport: MemoryTransport) -> None:
        """The process takes what its kernel has connected, unless it is closed by now."""
        if transport.lost:
            return
        if not self._serving:
            transport.abort()
            return
        protocol = self._factory()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        transport.start()

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
    """All hosts. Ports are per address; free ones are handed out in order, so that runs are alike.

    Without a `delay` bytes arrive at once. Each link draws its delays from randomness of its own, named by `seed` and
    the link: what happens on one changes nothing on the others, so that a run with a fault left out stays alike.
    """

    def __init__(self, *, delay: Delay | None = None, seed: str = "0") -> None:
        self._delay = delay
        self._seed = seed
        self._world: asyncio.AbstractEventLoop | None = None
        self._listeners: dict[Address, MemoryServer] = {}
        self._links: dict[tuple[str, str, int], Link] = {}
        self._cuts: list[Cut] = []
        self._slow: dict[str, Delay] = {}
        # Both sides of every connection that is open, in the order they were made.
        self._open: dict[MemoryTransport, None] = {}
        self._next_port = _FIRST_FREE_PORT

    def use(self, world: asyncio.AbstractEventLoop) -> None:
        """Whose time it is that bytes take."""
        self._world = world

    # --- listening and connecting -------------------------------------------------------------------------------------

    def listen(self, loop: asyncio.AbstractEventLoop, factory: ProtocolFactory, host: str, port: int) -> MemoryServer:
        host = _seen_from(loop, host)
        address = (host, port or self._free_port(host))
        if address in self._listeners:
            raise OSError(errno.EADDRINUSE, f"address {address} is in use")
        server = MemoryServer(self, loop, factory, address)
        self._listeners[address] = server
        return server

    def unlisten(self, address: Address) -> None:
        del self._listeners[address]

    async def connect(
        self,
        loop: asyncio.AbstractEventLoop,
        factory: ProtocolFactory,
        host: str,
        port: int,
        local_host: str,
    ) -> tuple[MemoryTransport, asyncio.BaseProtocol]:
        target = _seen_from(loop, host)
        there, back = self.link(local_host, target, port), self.link(target, local_host, port)
        if there.direct and back.direct:
            near = self._handshake(loop, host, target, port, local_host)
        else:
            near = await self._handshake_over(there, back, loop, host, target, port, local_host)
        if near is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"no listener on {host}:{port}")
        protocol: Any = factory()
        near.set_protocol(protocol)
        protocol.connection_made(near)
        loop.call_soon(near.start)
        return near, protocol

    async def _handshake_over(
        self,
        there: Link,
        back: Link,
        loop: asyncio.AbstractEventLoop,
        host: str,
        target: str,
        port: int,
        local_host: str,
    ) -> MemoryTransport | None:
        near: MemoryTransport | None = None
        answered = False
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await there.travel(loop)
                near = self._handshake(loop, host, target, port, local_host)
                await back.travel(loop)
                answered = True
        except TimeoutError as error:
            raise TimeoutError(errno.ETIMEDOUT, f"{host}:{port} did not answer") from error
        finally:
            if near is not None and not answered:
                # Given up: the other side has a connection of which this one wants to know nothing.
                near.vanish(silently=False)
        if near is not None and near.lost:
            raise ConnectionResetError(errno.ECONNRESET, f"{host}:{port} reset the connection")
        return near

    def _handshake(
        self, loop: asyncio.AbstractEventLoop, host: str, target: str, port: int, local_host: str
    ) -> MemoryTransport | None:
        """At the other host. None when nobody listens there."""
        server = self._find(_candidates(host, target, port))
        if server is None:
            return None
        local, remote = (local_host, self._free_port(local_host)), (target, port)
        world = self._world
        assert world is not None
        near = MemoryTransport(loop, world, local, remote, self.link(local_host, target, port), self._forget)
        far = MemoryTransport(server.loop, world, remote, local, self.link(target, local_host, port), self._forget)
        near.attach(far)
        far.attach(near)
        self._open[near] = self._open[far] = None
        server.loop.call_soon(server.accept, far)
        return near

    def _forget(self, transport: MemoryTransport) -> None:
        self._open.pop(transport, None)

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

    # --- links and faults ---------------------------------------------------------------------------------------------

    def link(self, source: str, target: str, port: int) -> Link:
        found = self._links.get((source, target, port))
        if found is None:
            delay = None if source == target else self._slow.get(source) or self._slow.get(target) or self._delay
            found = self._links[source, target, port] = Link(source, target, port, delay, self._seed)
            for cut in self._cuts:
                if cut.blocks(source, target, port):
                    found.block()
        return found

    def apply(self, cut: Cut) -> Cut:
        """Silence: bytes stop, nobody is told, new connections hang. Ends with `heal`."""
        self._cuts.append(cut)
        for link in self._links.values():
            if cut.blocks(link.source, link.target, link.port):
                link.block()
        return cut

    def heal(self, cut: Cut) -> None:
        """What waited because of this fault alone goes on."""
        self._cuts.remove(cut)
        for link in self._links.values():
            if cut.blocks(link.source, link.target, link.port):
                link.unblock()

    def heal_all(self) -> None:
        for cut in list(self._cuts):
            self.heal(cut)

    @property
    def cuts(self) -> tuple[Cut, ...]:
        return tuple(self._cuts)

    def slow_down(self, host: str, delay: Delay | None) -> None:
        """Everything from and to this host takes so long; None makes it as fast as the others again."""
        if delay is None:
            self._slow.pop(host, None)
        else:
            self._slow[host] = delay
        for link in self._links.values():
            if link.source != link.target and host in (link.source, link.target):
                link.set_delay(self._slow.get(link.source) or self._slow.get(link.target) or self._delay)

    def connections(self, one: str, other: str) -> list[MemoryTransport]:
        """One side of each open connection between two hosts: the side of `one`."""
        return [side for side in self._open if side.local_host == one and side.remote_host == other]

    def break_off(self, one: str, other: str) -> int:
        """Resets every connection between two hosts; how many there were."""
        found = self.connections(one, other) or self.connections(other, one)
        for side in found:
            side.break_off()
        return len(found)

    def half_open(self, one: str, other: str) -> int:
        """Every connection between two hosts goes dead and neither side is told: a box between them forgot it."""
        found = [*self.connections(one, other), *self.connections(other, one)]
        for side in found:
            nowhere = Link(side.local_host, side.remote_host, 0, None, self._seed)
            nowhere.block()
            side.sever(nowhere)
        return len(found) // 2

    def process_gone(self, loop: asyncio.AbstractEventLoop, *, silently: bool) -> None:
        """Its listeners refuse from now on and its connections are reset; silently if the machine went with it."""
        for address in [address for address, server in self._listeners.items() if server.loop is loop]:
            del self._listeners[address]
        for side in [side for side in self._open if side.loop is loop]:
            side.vanish(silently=silently)


def _seen_from(loop: asyncio.AbstractEventLoop, host: str) -> str:
    """Names for "this machine" mean the machine of whoever says them."""
    own = getattr(loop, "host", LOOPBACK)
    if own != LOOPBACK and (host in _WILDCARDS or host in ("localhost", LOOPBACK, "::1")):
        return str(own)
    return LOOPBACK if host == "localhost" else host


def _candidates(host: str, target: str, port: int) -> list[Address]:
    """Where to look for a listener: the address itself, the other loopback for a name, the wildcard of its family."""
    hosts = [LOOPBACK, "::1"] if host == "localhost" and target == LOOPBACK else [target]
    wildcards = _WILDCARDS if host == "localhost" else (("::",) if ":" in host else ("0.0.0.0",))
    return [(name, port) for name in (*hosts, *wildcards)]
