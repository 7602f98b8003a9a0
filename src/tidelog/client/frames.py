"""Length-prefixed frames out of a byte stream, without copying the large ones twice."""

import struct
from collections.abc import Callable
from typing import Final

from tidelog.wire.errors import WireError

_LENGTH: Final = struct.Struct(">i")
# Most connections see small answers only; the first that fills the buffer makes it a large one.
_FIRST_BYTES: Final = 4 * 1024
_SCRATCH_BYTES: Final = 64 * 1024
# Buffers of so much together are kept for the next large frames: more than a whole answer to a follower.
KEPT_BYTES: Final = 16 * 1024 * 1024


class FrameReader:
    """Lends the transport a buffer and hands on whole frames.

    Small frames are copied out of one reused scratch buffer; a frame that does not fit gets a buffer of its own, which
    the transport then fills directly. A frame handed on is not written to again while anybody has a view of it.
    """

    def __init__(self, max_frame_bytes: int, on_frame: Callable[[memoryview], None]) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._on_frame = on_frame
        self._scratch = memoryview(bytearray(_FIRST_BYTES))
        self._scratch_filled = 0
        self._frame: memoryview | None = None
        self._frame_filled = 0
        self._spares: list[bytearray] = []

    def buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._frame is not None:
            return self._frame[self._frame_filled :]
        return self._scratch[self._scratch_filled :]

    def advance(self, count: int) -> None:
        """`count` bytes have arrived in `buffer()`; WireError for a length no frame may have."""
        if self._frame is not None:
            self._frame_filled += count
            if self._frame_filled == len(self._frame):
                frame, self._frame = self._frame, None
                self._on_frame(frame)
            return
        self._scratch_filled += count
        start = 0
        end = self._scratch_filled
        while end - start >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._scratch, start)
            if not 0 < size <= self._max_frame_bytes:
                raise WireError(f"a frame of {size} bytes (the limit is {self._max_frame_bytes})")
            body = start + _LENGTH.size
            if end - body >= size:
                self._on_frame(memoryview(bytes(self._scratch[body : body + size])))
                start = body + size
            elif size + _LENGTH.size > _SCRATCH_BYTES:
                frame = self._take(size)
                frame[: end - body] = self._scratch[body:end]
                self._frame, self._frame_filled = frame, end - body
                start = end
            else:
                break
        grows = end == len(self._scratch) < _SCRATCH_BYTES
        if start or grows:
            # Overlaps when little was consumed; going through bytes keeps the move right.
            left = bytes(self._scratch[start:end])
            if grows:
                self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
            self._scratch[: len(left)] = left
            self._scratch_filled = len(left)

    def trim(self) -> None:
        """Gives up the buffers of large frames; nothing is under way that would need them."""
        self._spares.clear()

    def let_go(self) -> None:
        """Of every large buffer, as nothing more arrives: whoever still has a frame keeps that one. A connection that
        is gone is part of a cycle of references and may wait for the collector for a long time.
        """
        self._frame = None
        self._spares.clear()

    def _take(self, size: int) -> memoryview:
        """An old one, if nobody has a view of it: a new one is cleared first, which takes as long as filling it."""
        for spare in self._spares:
            if len(spare) >= size and not _is_viewed(spare):
                return memoryview(spare)[:size]
        buffer = bytearray(size)
        if size <= KEPT_BYTES:
            self._spares.append(buffer)
            # The oldest go: frames have become larger, or somebody holds on to them.
            while sum(map(len, self._spares)) > KEPT_BYTES:
                del self._spares[0]
        return memoryview(buffer)


def _is_viewed(buffer: bytearray) -> bool:
    """Whether a memoryview of it is alive: only then does it refuse to change its size."""
    try:
        buffer.append(buffer.pop())
    except BufferError:
        return True
    return False
