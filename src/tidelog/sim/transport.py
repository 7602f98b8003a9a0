"""A byte stream between two protocols of virtual loops, with the manners of a socket.

Bytes written on one side arrive on the other in order, as the link between the hosts has it; what the other side does
not read piles up and the writer is told to stop (`pause_writing`). Closing sends what was written and then an end of
file; aborting resets. Nothing but bytes, ends of file and resets that arrive tells one side about the other.
"""

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from tidelog.sim.links import Link

Address = tuple[str, int]

READ_BYTES: Final = 64 * 1024
"""Most that one read delivers."""
DEFAULT_HIGH_BYTES: Final = 64 * 1024
SOCKET_BUFFER_BYTES: Final = 256 * 1024
"""What the kernel takes over from a writer: a transport with no more than this to send is closed at once."""


class _Mark(enum.Enum):
    """Packets that are not bytes."""

    END = "end of file"
    RESET = "reset"


Packet = memoryview | _Mark


class MemoryTransport(asyncio.Transport):
    """One side of a connection.

    `_inbox` holds what has arrived and this side has not read; `_wire` what this side has written and has not arrived.
    Both are bounded by the sender's manners only, as everywhere in asyncio.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        world: asyncio.AbstractEventLoop,
        local: Address,
        remote: Address,
        link: Link,
        on_lost: "Callable[[MemoryTransport], None]",
    ) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self.loop: Final = loop
        self.local_host: Final = local[0]
        self.remote_host: Final = remote[0]
        # What the kernels and the wire do, they do whatever the processes are doing.
        self._world = world
        self._link = link
        self._on_lost = on_lost
        self._protocol: Any = None
        self._is_buffered = False
        self._other: MemoryTransport = self
        self._wire: deque[tuple[float, Packet]] = deque()
        self._wire_bytes = 0
        self._last_arrival = 0.0
        self._sending: asyncio.Handle | None = None
        self._inbox: deque[memoryview] = deque()
        self._inbox_bytes = 0
        self._inbox_eof = False
        self._eof_seen = False
        self._eof_sent = False
        self._started = False
        self._reading = True
        self._closing = False
        self._lost = False
        self._delivery: asyncio.Handle | None = None
        self._high = DEFAULT_HIGH_BYTES
        self._low = DEFAULT_HIGH_BYTES // 4
        self._writing_paused = False

    def attach(self, other: "MemoryTransport") -> None:
        self._other = other

    def start(self) -> None:
        """Begins to deliver; the protocol has heard of its connection."""
        self._started = True
        self._schedule()

    # --- protocol and state -------------------------------------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._is_buffered = isinstance(protocol, asyncio.BufferedProtocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def is_closing(self) -> bool:
        return self._closing

    @property
    def lost(self) -> bool:
        return self._lost

    # --- reading ------------------------------------------------------------------------------------------------------

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._schedule()

    def _schedule(self) -> None:
        if (
            self._delivery is None
            and (self._inbox or (self._inbox_eof and not self._eof_seen))
            and self._started
            and self._reading
            and not self._lost
        ):
            self._delivery = self.loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        """One read: as many bytes as a read takes, or the end of file."""
        self._delivery = None
        if not self._reading or self._lost or self._closing:
            return
        if self._inbox:
            self._read_once()
            other = self._other
            if other._writing_paused or other._closing:
                other._read_by_other()
            if not self._inbox and not self._inbox_eof:
                return
        elif self._inbox_eof and not self._eof_seen:
            self._eof_seen = True
            if not self._protocol.eof_received():
                self.close()
        self._schedule()

    def _read_once(self) -> None:
        protocol = self._protocol
        if self._is_buffered:
            room = memoryview(protocol.get_buffer(READ_BYTES)).cast("B")
            data = self._take(min(READ_BYTES, len(room)))
            size = len(data)
            room[:size] = data
            protocol.buffer_updated(size)
        else:
            protocol.data_received(bytes(self._take(READ_BYTES)))

    def _take(self, limit: int) -> bytes | memoryview:
        inbox = self._inbox
        if len(inbox) == 1 and len(inbox[0]) <= limit:
            # Nearly always: one message, one read.
            self._inbox_bytes = 0
            return inbox.popleft()
        parts: list[memoryview] = []
        left = limit
        while left and inbox:
            chunk = inbox.popleft()
            if len(chunk) > left:
                inbox.appendleft(chunk[left:])
                chunk = chunk[:left]
            parts.append(chunk)
            left -= len(chunk)
        data = b"".join(parts)
        self._inbox_bytes -= len(data)
        return data

    # --- writing ------------------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or not len(data):
            return
        if self._eof_sent:
            raise RuntimeError("cannot write after the end of file")
        # Copied now: the writer may reuse its buffer.
        self._send(memoryview(bytes(data)))
        unread_bytes = self._wire_bytes + self._other._inbox_bytes
        if unread_bytes > self._high and not self._writing_paused and not self._closing:
            self._writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if not self._eof_sent:
            self._eof_sent = True
            self._send(_Mark.END)

    def can_write_eof(self) -> bool:
        return True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = DEFAULT_HIGH_BYTES if low is None else 4 * low
        self._high = high
        self._low = high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self._wire_bytes + self._other._inbox_bytes

    def _read_by_other(self) -> None:
        """The other side has read, or will never read: a full buffer may have room now."""
        if (self._writing_paused or self._closing) and not self._lost:
            self.loop.call_soon(self._drained)

    def _drained(self) -> None:
        if self._lost:
            return
        unread_bytes = self.get_write_buffer_size()
        if self._writing_paused and unread_bytes <= self._low:
            self._writing_paused = False
            self._protocol.resume_writing()
        if self._closing and unread_bytes <= SOCKET_BUFFER_BYTES:
            self._lose(None)

    # --- the wire -----------------------------------------------------------------------------------------------------

    def _send(self, packet: Packet) -> None:
        link = self._link
        if link.direct and not self._wire:
            self._other._arrive(packet)
            return
        if link.blocked and packet is _Mark.RESET:
            # Nobody sends a reset again: it is lost, and the other side keeps a connection to nobody.
            return
        arrival = self._world.time() + link.draw_delay_s()
        if arrival < self._last_arrival:
            arrival = self._last_arrival
        self._last_arrival = arrival
        self._wire.append((arrival, packet))
        if isinstance(packet, memoryview):
            self._wire_bytes += len(packet)
        if self._sending is None:
            self._keep_sending()

    def _keep_sending(self) -> None:
        if not self._wire or self._sending is not None:
            return
        if self._link.blocked:
            self._link.wait_to_send(self)
        else:
            self._sending = self._world.call_at(self._wire[0][0], self._carry)

    def _carry(self) -> None:
        self._sending = None
        wire, now = self._wire, self._world.time()
        while wire and wire[0][0] <= now and not self._link.blocked:
            packet = wire.popleft()[1]
            if isinstance(packet, memoryview):
                self._wire_bytes -= len(packet)
            self._other._arrive(packet)
        if wire:
            self._keep_sending()

    def resume_sending(self) -> None:
        """The link works again: what waited goes out together."""
        if self._wire:
            arrival = self._last_arrival = self._world.time() + self._link.draw_delay_s()
            self._wire = deque((arrival, packet) for _, packet in self._wire)
            self._keep_sending()

    def _arrive(self, packet: Packet) -> None:
        if packet is _Mark.RESET:
            self._reset()
        elif packet is _Mark.END:
            self._inbox_eof = True
            self._schedule()
        elif self._closing:
            # This side has closed its socket: its kernel answers bytes with a reset, a moment later.
            self._world.call_soon(self._send, _Mark.RESET)
        else:
            self._inbox.append(packet)
            self._inbox_bytes += len(packet)
            self._schedule()

    # --- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Reads no more; lost once the kernel has what was written."""
        if self._closing:
            return
        self._closing = True
        self._forget_inbox()
        if not self._eof_sent:
            self._send(_Mark.END)
        if self._other._lost or self.get_write_buffer_size() <= SOCKET_BUFFER_BYTES:
            self._lose(None)

    def abort(self) -> None:
        if self._lost:
            return
        self._closing = True
        self._forget_inbox()
        self._forget_wire()
        self._lose(None)
        self._send(_Mark.RESET)

    def vanish(self, *, silently: bool) -> None:
        """The process is gone: what it had written arrives, then a reset. Silently: its machine is gone as well."""
        if silently:
            self._forget_wire()
        if self._lost:
            return
        self._closing = self._lost = True
        self._forget_inbox()
        self._on_lost(self)
        if not silently:
            self._send(_Mark.RESET)

    def sever(self, link: Link) -> None:
        """Bytes go over another link from now on; one that is blocked for good leaves the connection half-open."""
        self._link = link

    def break_off(self) -> None:
        """Something between the hosts resets the connection: both sides hear of it, bytes on the way are lost."""
        for side in (self, self._other):
            side._forget_wire()
            side._reset()

    def _reset(self) -> None:
        if not self._lost:
            self._closing = True
            self._forget_inbox()
            self._forget_wire()
            self._lose(ConnectionResetError("the connection was reset by the other side"))

    def _forget_inbox(self) -> None:
        self._inbox.clear()
        self._inbox_bytes = 0
        self._other._read_by_other()

    def _forget_wire(self) -> None:
        self._wire.clear()
        self._wire_bytes = 0

    def _lose(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._on_lost(self)
            if self._protocol is not None:
                self.loop.call_soon(self._protocol.connection_lost, error)
