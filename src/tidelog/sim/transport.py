"""A byte stream between two protocols of virtual loops, with the manners of a socket.

Bytes written on one side arrive on the other in order, some turns later; what the other side does not read piles up and
the writer is told to stop (`pause_writing`). Closing sends what was written and then an end of file; aborting resets.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

Address = tuple[str, int]

READ_BYTES: Final = 64 * 1024
"""Most that one read delivers."""
DEFAULT_HIGH_BYTES: Final = 64 * 1024


class MemoryTransport(asyncio.Transport):
    """One side of a connection.

    `_inbox` holds what the other side sent and this side has not read: the kernel's buffers and the wire in one. It is
    bounded by the sender's manners only, as everywhere in asyncio.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, local: Address, remote: Address) -> None:
        super().__init__({"sockname": local, "peername": remote})
        self._loop = loop
        self._protocol: Any = None
        self._other: MemoryTransport = self
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

    # --- protocol and state ---------------------------------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def is_closing(self) -> bool:
        return self._closing

    # --- reading ----------------------------------------------------------------------------------------------------

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._schedule()

    def _schedule(self) -> None:
        able = self._delivery is None and self._started and self._reading and not self._lost
        if able and (self._inbox or (self._inbox_eof and not self._eof_seen)):
            self._delivery = self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        """One read: as many bytes as a read takes, or the end of file."""
        self._delivery = None
        if not self._reading or self._lost or self._closing:
            return
        if self._inbox:
            self._read_once()
            self._other._drained(self._inbox_bytes)
        elif self._inbox_eof and not self._eof_seen:
            self._eof_seen = True
            if not self._protocol.eof_received():
                self.close()
        self._schedule()

    def _read_once(self) -> None:
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            room = memoryview(self._protocol.get_buffer(READ_BYTES)).cast("B")
            data = self._take(min(READ_BYTES, len(room)))
            room[: len(data)] = data
            self._protocol.buffer_updated(len(data))
        else:
            self._protocol.data_received(self._take(READ_BYTES))

    def _take(self, limit: int) -> bytes:
        parts: list[memoryview] = []
        left = limit
        while left and self._inbox:
            chunk = self._inbox.popleft()
            if len(chunk) > left:
                self._inbox.appendleft(chunk[left:])
                chunk = chunk[:left]
            parts.append(chunk)
            left -= len(chunk)
        data = b"".join(parts)
        self._inbox_bytes -= len(data)
        return data

    # --- writing ----------------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._eof_sent:
            raise RuntimeError("cannot write after the end of file")
        if self._closing or not len(data):
            return
        other = self._other
        if other._lost or other._closing:
            # The other side has closed its socket: its kernel answers with a reset, a moment later.
            self._loop.call_soon(self._reset)
            return
        # Copied now: the writer may reuse its buffer.
        other._inbox.append(memoryview(bytes(data)))
        other._inbox_bytes += len(data)
        other._schedule()
        if other._inbox_bytes > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if not self._eof_sent:
            self._eof_sent = True
            self._other._receive_eof()

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
        return self._other._inbox_bytes

    def _drained(self, unread_bytes: int) -> None:
        """The other side has read."""
        if self._writing_paused and unread_bytes <= self._low and not self._lost:
            self._writing_paused = False
            self._protocol.resume_writing()
        if self._closing and not unread_bytes:
            self._lose(None)

    # --- the end ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Reads no more; lost once the other side has read what was written."""
        if self._closing:
            return
        self._closing = True
        self._forget_inbox()
        self._other._receive_eof()
        if not self._other._inbox_bytes or self._other._lost:
            self._lose(None)

    def abort(self) -> None:
        if self._lost:
            return
        self._closing = True
        self._forget_inbox()
        other = self._other
        other._forget_inbox()
        self._lose(None)
        other._reset()

    def _receive_eof(self) -> None:
        self._inbox_eof = True
        self._schedule()

    def _reset(self) -> None:
        if not self._lost:
            self._closing = True
            self._forget_inbox()
            self._lose(ConnectionResetError("the connection was reset by the other side"))

    def _forget_inbox(self) -> None:
        self._inbox.clear()
        self._inbox_bytes = 0
        self._other._loop.call_soon(self._other._drained, 0)

    def _lose(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._loop.call_soon(self._protocol.connection_lost, error)


def connect_pair(
    near_loop: asyncio.AbstractEventLoop,
    far_loop: asyncio.AbstractEventLoop,
    near_address: Address,
    far_address: Address,
) -> tuple[MemoryTransport, MemoryTransport]:
    """Both sides of a new connection, not started yet."""
    near = MemoryTransport(near_loop, near_address, far_address)
    far = MemoryTransport(far_loop, far_address, near_address)
    near.attach(far)
    far.attach(near)
    return near, far
