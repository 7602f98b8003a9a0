"""Faults between this node and other nodes, for clusters whose supervisor may ask for them.

A cut is silent: bytes stop in one direction or both, no FIN and no RST goes out, a connection that is being made hangs.
What was said meanwhile is held and flows when the cut is healed, as with a network that is back within TCP's patience.
Clients are not concerned. A node that was started without a supervisor has no `Links` at all.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

from tidelog.wire.buffers import Buffer

_NODE_PREFIX: Final = "tidelog-node-"
# What is held of one connection before its writer is told to wait.
_HELD_BYTES: Final = 1 << 20


def node_client_id(node_id: int) -> str:
    """By what a node's own connections are told from a client's."""
    return f"{_NODE_PREFIX}{node_id}"


def node_of_client_id(client_id: str | None) -> int | None:
    """The node behind a connection, if it is one."""
    if client_id is None or not client_id.startswith(_NODE_PREFIX):
        return None
    digits = client_id[len(_NODE_PREFIX) :]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 10 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """`deaf`: what these nodes send does not arrive here. `mute`: what is sent to them does not leave."""

    deaf: frozenset[int] = field(default_factory=frozenset)
    mute: frozenset[int] = field(default_factory=frozenset)
    delay_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {"deaf": sorted(self.deaf), "mute": sorted(self.mute), "delay_ms": round(self.delay_s * 1000)}

    @classmethod
    def from_json(cls, data: Any) -> "LinkState":
        """ValueError if it is not what `to_json` made."""
        if not isinstance(data, dict):
            raise ValueError("the state of links is a JSON object")
        return cls(deaf=_ids(data.get("deaf")), mute=_ids(data.get("mute")), delay_s=_delay(data.get("delay_ms")))


def _ids(value: Any) -> frozenset[int]:
    if not isinstance(value, list) or not all(isinstance(each, int) for each in value):
        raise ValueError(f"node ids are a list of numbers, not {value!r}")
    return frozenset(value)


def _delay(value: Any) -> float:
    if not isinstance(value, int | float) or value < 0:
        raise ValueError(f"a delay is a number of milliseconds, not {value!r}")
    return value / 1000


class LinkedProtocol(Protocol):
    """A connection to or from another node."""

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...


class Links:
    """The links of one node. Changes apply to connections that are there and to those that come."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._state = LinkState()
        self._changed = asyncio.Event()
        self._transports: dict[LinkTransport, None] = {}
        # Ended here while nobody could be told; told when the cut is healed.
        self._unsaid: list[tuple[int, asyncio.Transport]] = []

    @property
    def state(self) -> LinkState:
        return self._state

    def is_deaf(self, node: int) -> bool:
        return node in self._state.deaf

    def is_mute(self, node: int) -> bool:
        return node in self._state.mute

    def is_cut(self, node: int) -> bool:
        """No connection can be made: that takes both directions."""
        return self.is_deaf(node) or self.is_mute(node)

    @property
    def delay_s(self) -> float:
        return self._state.delay_s

    def set(self, state: LinkState) -> None:
        self._state = state
        for transport in list(self._transports):
            transport.apply()
        said, self._unsaid = self._unsaid, []
        for node, ended in said:
            if self.is_mute(node):
                self._unsaid.append((node, ended))
            else:
                ended.abort()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until_whole(self, node: int) -> None:
        """A connect through a cut hangs."""
        while self.is_cut(node):
            await self._changed.wait()

    def through(
        self,
        node: int,
        transport: asyncio.BaseTransport,
        protocol: LinkedProtocol,
        hear: Callable[[bool], None] | None = None,
    ) -> asyncio.Transport:
        """The transport of a connection with `node`, as the links let it be.

        `hear` tells the protocol whether to read; without it the transport just does not.
        """
        for gone in [each for each in self._transports if each.is_closing()]:
            self.forget(gone)
        linked = LinkTransport(self, self._loop, node, cast(asyncio.Transport, transport), protocol, hear)
        self._transports[linked] = None
        linked.apply()
        return cast(asyncio.Transport, linked)

    def forget(self, transport: "LinkTransport") -> None:
        self._transports.pop(transport, None)

    def ended_unsaid(self, node: int, transport: asyncio.Transport) -> None:
        """The connection is over here, and the peer cannot know."""
        transport.pause_reading()
        transport.set_protocol(_Deaf())
        self._unsaid.append((node, transport))


class _Deaf(asyncio.Protocol):
    """Of a connection that nobody holds any more."""


class LinkTransport:
    """A transport between two nodes. Invariant: bytes leave in the order in which they were written."""

    def __init__(
        self,
        links: Links,
        loop: asyncio.AbstractEventLoop,
        node: int,
        transport: asyncio.Transport,
        protocol: LinkedProtocol,
        hear: Callable[[bool], None] | None,
    ) -> None:
        self._links = links
        self._loop = loop
        self._node = node
        self._transport = transport
        self._protocol = protocol
        self._hear = hear or self._read
        self._held: deque[tuple[float, Iterable[Buffer]]] = deque()
        self._held_bytes = 0
        self._writer_waits = False
        self._timer: asyncio.TimerHandle | None = None
        self._heard = True
        self._closing: Callable[[], None] | None = None
        self._gone = False

    def apply(self) -> None:
        """The links may have changed."""
        heard = not self._links.is_deaf(self._node)
        if heard != self._heard:
            self._heard = heard
            if not self.is_closing():
                self._hear(heard)
        self._send_due()

    def _read(self, heard: bool) -> None:
        if heard:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # --- what a protocol calls ---

    def write(self, data: Buffer) -> None:
        self.writelines([data])

    def writelines(self, buffers: Collection[Buffer]) -> None:
        if not self._held and not self._links.is_mute(self._node) and not self._links.delay_s:
            self._transport.writelines(buffers)
            return
        self._held.append((self._loop.time() + self._links.delay_s, buffers))
        self._held_bytes += sum(map(len, buffers))
        if self._held_bytes > _HELD_BYTES and not self._writer_waits:
            self._writer_waits = True
            self._protocol.pause_writing()
        self._send_due()

    def close(self) -> None:
        self._end(self._transport.close)

    def abort(self) -> None:
        self._held.clear()
        self._end(self._transport.abort)

    def is_closing(self) -> bool:
        return self._gone or self._closing is not None or self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._heard:
            self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    # --- what is held ---

    def _send_due(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._links.is_mute(self._node) or self._gone:
            return
        if self._transport.is_closing():
            # The peer has closed the connection: the held bytes cannot arrive, and uvloop refuses to write them.
            self._held.clear()
            self._held_bytes = 0
        now_s = self._loop.time()
        while self._held and self._held[0][0] <= now_s:
            _, buffers = self._held.popleft()
            buffers = list(buffers)
            self._held_bytes -= sum(map(len, buffers))
            self._transport.writelines(buffers)
        if self._held:
            self._timer = self._loop.call_at(self._held[0][0], self._send_due)
            return
        if self._writer_waits:
            self._writer_waits = False
            self._protocol.resume_writing()
        if self._closing is not None:
            self._finish(self._closing)

    def _end(self, end: Callable[[], None]) -> None:
        if self._gone:
            return
        if self._links.is_mute(self._node):
            # Over for whoever holds it, and nothing leaves this node.
            self._gone = True
            self._links.forget(self)
            self._links.ended_unsaid(self._node, self._transport)
            self._loop.call_soon(self._protocol.connection_lost, None)
        elif self._held:
            self._closing = end
        else:
            self._finish(end)

    def _finish(self, end: Callable[[], None]) -> None:
        self._gone = True
        self._links.forget(self)
        end()
