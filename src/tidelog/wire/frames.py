"""Frames out of a stream: an int32 length, then that many bytes.

A length is only believed so far as bytes arrive: buffers grow by doubling what was received, never to what was
declared. They come from a pool shared by all connections, so that a connection between two requests holds none.
"""

import struct
from typing import Final

from tidelog.wire.errors import WireError

_LENGTH: Final = struct.Struct(">i")
LENGTH_BYTES: Final = _LENGTH.size

READ_BYTES: Final = 256 * 1024
"""Room for one read of a socket."""
SMALL_BYTES: Final = 4 * 1024
LARGEST_POOLED_BYTES: Final = 1024 * 1024


class BadFrameLength(WireError):
    """A length that no Kafka client sends; the message guesses who did."""


class BufferPool:
    """Receive buffers for reuse: keeps at most `max_kept_bytes`, is `crowded` above `comfortable_bytes` lent."""

    __slots__ = ("_comfortable_bytes", "_kept", "_kept_bytes", "_max_kept_bytes", "lent_bytes")

    def __init__(self, *, max_kept_bytes: int = 4 * 1024 * 1024, comfortable_bytes: int = 64 * 1024 * 1024) -> None:
        self._max_kept_bytes = max_kept_bytes
        self._comfortable_bytes = comfortable_bytes
        self._kept: dict[int, list[bytearray]] = {}
        self._kept_bytes = 0
        self.lent_bytes = 0

    @property
    def crowded(self) -> bool:
        return self.lent_bytes > self._comfortable_bytes

    def take(self, at_least: int) -> bytearray:
        """A buffer of the next power of two (of exactly `at_least` bytes above the pooled sizes)."""
        size = at_least
        if at_least <= LARGEST_POOLED_BYTES:
            size = max(SMALL_BYTES, 1 << (at_least - 1).bit_length())
        self.lent_bytes += size
        kept = self._kept.get(size)
        if kept:
            self._kept_bytes -= size
            return kept.pop()
        return bytearray(size)

    def give(self, buffer: bytearray) -> None:
        size = len(buffer)
        self.lent_bytes -= size
        if size <= LARGEST_POOLED_BYTES and self._kept_bytes + size <= self._max_kept_bytes:
            self._kept_bytes += size
            self._kept.setdefault(size, []).append(buffer)


class FrameReader:
    """Cuts one connection's stream into frames.

    `writable()` is where the next bytes go, `received(n)` says how many came, `next_frame()` is called until it returns
    None, then `settle()` gives back or moves the buffer. A frame is a view of that buffer: valid until `settle()`.

    Invariant: 0 <= start <= end <= len(buffer); bytes in [start, end) are not consumed yet.
    """

    __slots__ = ("_buffer", "_end", "_max_frame_bytes", "_need", "_pool", "_recent", "_start", "_view")

    def __init__(self, pool: BufferPool, max_frame_bytes: int) -> None:
        self._pool = pool
        self._max_frame_bytes = max_frame_bytes
        self._buffer: bytearray | None = None
        self._view = memoryview(b"")
        self._start = 0
        self._end = 0
        # Bytes that the unfinished frame takes, its length included.
        self._need = LENGTH_BYTES
        # The size of recent frames, decaying: what the next buffer is worth. Learned from frames that came whole.
        self._recent = 0

    @property
    def pending(self) -> int:
        """Bytes received and not handed out yet."""
        return self._end - self._start

    @property
    def capacity(self) -> int:
        """Bytes of buffer held."""
        return len(self._view)

    @property
    def must_grow(self) -> bool:
        """The unfinished frame fills its buffer: the next read needs a bigger one."""
        return self._buffer is not None and self._start == 0 and self._end == len(self._buffer)

    def writable(self) -> memoryview:
        """Where the next bytes are to be written; never empty."""
        buffer = self._buffer
        if buffer is None:
            worth = READ_BYTES
            if self._recent > READ_BYTES and not self._pool.crowded:
                worth = min(self._recent, LARGEST_POOLED_BYTES)
            self._adopt(self._pool.take(worth))
        elif self._end == len(buffer):
            if self._start:
                self._compact()
            else:
                self._move_to(min(2 * len(buffer), max(self._need, len(buffer) + READ_BYTES)))
        return self._view[self._end :]

    def received(self, count: int) -> None:
        self._end += count

    def next_frame(self) -> memoryview | None:
        """The next whole frame without its length; None when more bytes are needed."""
        start = self._start
        have = self._end - start
        if have < LENGTH_BYTES:
            self._need = LENGTH_BYTES
            return None
        (length,) = _LENGTH.unpack_from(self._view, start)
        if length < 0 or length > self._max_frame_bytes:
            raise BadFrameLength(self._explain(length))
        stop: int = start + LENGTH_BYTES + length
        if stop > self._end:
            self._need = LENGTH_BYTES + length
            return None
        self._start = stop
        if length > self._recent:
            self._recent = length
        return self._view[start + LENGTH_BYTES : stop]

    def unread(self, frame: memoryview) -> None:
        """Puts the frame that `next_frame` gave last back."""
        self._start -= LENGTH_BYTES + len(frame)

    def settle(self) -> None:
        """After the frames: gives back an empty buffer, makes room in one that holds the beginning of a frame."""
        buffer = self._buffer
        if buffer is None:
            return
        kept = self._end - self._start
        if kept == 0:
            self._recent -= self._recent >> 4
            self.release()
            return
        size = len(buffer)
        if self._pool.crowded and size > SMALL_BYTES and size > 4 * kept:
            self._move_to(2 * kept)
        elif self._start and (self._start + self._need > size or self._start > size // 2):
            self._compact()

    def release(self) -> None:
        """Gives the buffer back, with whatever it holds."""
        if self._buffer is not None:
            self._pool.give(self._buffer)
            self._buffer = None
            self._view = memoryview(b"")
            self._start = self._end = 0

    def _adopt(self, buffer: bytearray) -> None:
        self._buffer = buffer
        self._view = memoryview(buffer)

    def _compact(self) -> None:
        assert self._buffer is not None
        kept = self._end - self._start
        # Same length on both sides: never a resize, which views of the buffer would forbid.
        self._buffer[:kept] = self._buffer[self._start : self._end]
        self._start, self._end = 0, kept

    def _move_to(self, at_least: int) -> None:
        old, view, start, end = self._buffer, self._view, self._start, self._end
        assert old is not None
        self._adopt(self._pool.take(at_least))
        self._view[: end - start] = view[start:end]
        self._start, self._end = 0, end - start
        self._pool.give(old)

    def _explain(self, length: int) -> str:
        guess = guess_protocol(bytes(self._view[self._start : self._start + 8]))
        text = f"a frame of {length} bytes"
        if length > self._max_frame_bytes:
            text += f", more than socket.request.max.bytes={self._max_frame_bytes}"
        return f"{text}; {guess}" if guess else text


_HTTP_METHODS: Final = (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"DELE", b"PATC", b"CONN", b"PRI ")


def guess_protocol(first: bytes) -> str | None:
    """What the first bytes of a connection look like when they are not Kafka's."""
    if first[:2] == b"\x16\x03":
        return "this looks like a TLS handshake: the client uses SSL, this listener does not"
    if first[:4] in _HTTP_METHODS:
        return "this looks like an HTTP request"
    if first[:4] == b"SSH-":
        return "this looks like an SSH client"
    return None
