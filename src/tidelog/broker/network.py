"""What the connections of a node share: limits, buffers, budget, and each other's number."""

import asyncio
import logging
from typing import Protocol

from tidelog.broker.budget import RequestBudget
from tidelog.broker.limits import ConnectionLimits
from tidelog.broker.links import Links
from tidelog.broker.logging_setup import BoundedLog
from tidelog.wire.frames import BufferPool

logger = logging.getLogger("tidelog.network")


class Member(Protocol):
    """A connection, as far as the others are concerned."""

    client_host: str

    def finish(self) -> None: ...

    def abort(self) -> None: ...


class Network:
    """Admits connections, and ends them all."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: ConnectionLimits, links: Links | None = None) -> None:
        self.loop = loop
        # To other nodes; None where nobody injects faults.
        self.links = links
        self.limits = limits
        self.pool = BufferPool()
        self.budget = RequestBudget(limits.max_queued_bytes)
        self.log = BoundedLog(logger, loop.time)
        self.connections: dict[Member, None] = {}
        self._by_host: dict[str, int] = {}
        self._all_gone: asyncio.Future[None] | None = None

    def admit(self, connection: Member) -> str | None:
        """Counts the connection in; or says why not."""
        host = connection.client_host
        count = self._by_host.get(host, 0)
        if len(self.connections) >= self.limits.max_connections:
            return f"max.connections={self.limits.max_connections} is reached"
        if count >= self.limits.connections_allowed(host):
            return f"max.connections.per.ip={self.limits.connections_allowed(host)} is reached"
        self.connections[connection] = None
        self._by_host[host] = count + 1
        return None

    def forget(self, connection: Member) -> None:
        if connection not in self.connections:
            return
        del self.connections[connection]
        host = connection.client_host
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
        if not self.connections and self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(None)

    async def finish(self, deadline_s: float) -> None:
        """Lets requests in flight be answered, then closes every connection; what is left at the deadline is cut."""
        self._all_gone = self.loop.create_future()
        if not self.connections:
            return
        for connection in list(self.connections):
            connection.finish()
        await asyncio.wait([self._all_gone], timeout=deadline_s)
        for connection in list(self.connections):
            connection.abort()
        await self._all_gone
