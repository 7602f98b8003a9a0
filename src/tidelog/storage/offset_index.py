"""``.index``: sparse map from offset to file position, 8 bytes an entry (relative offset, position)."""

import sys
from array import array
from collections.abc import Sequence
from struct import Struct
from typing import Final

from tidelog.storage.sparse_index import Columns, SparseIndex

MAX_RELATIVE_OFFSET: Final = 2**31 - 1


class OffsetIndex(SparseIndex):
    """An entry names the last offset of a batch and the position at which that batch starts."""

    __slots__ = ()

    ENTRY = Struct(">ii")

    @staticmethod
    def _unpack_columns(data: bytes) -> Columns:
        words = array("i", data)
        if sys.byteorder == "little":
            words.byteswap()
        return words[0::2], words[1::2]

    def append(self, last_offset: int, position: int) -> None:
        relative = last_offset - self.base_offset
        last = self.last
        assert last is None or (relative > last[0] and position > last[1]), (self.path, last, relative, position)
        self._append(relative, position)

    def extend(self, entries: Sequence[tuple[int, int]]) -> None:
        """As `append` for each."""
        if entries:
            base_offset, last = self.base_offset, self.last
            relative = [(last_offset - base_offset, position) for last_offset, position in entries]
            assert last is None or (relative[0][0] > last[0] and relative[0][1] > last[1]), (self.path, last, relative)
            self._extend(relative)

    def position_for(self, offset: int) -> int:
        """Where to start scanning for the batch that holds `offset`: at it or before it."""
        count = self.count_not_above(0, offset - self.base_offset)
        return self.entry(count - 1)[1] if count else 0

    def boundary_before(self, position: int) -> int:
        """The nearest known start of a batch at or before `position`."""
        count = self.count_not_above(1, position)
        return self.entry(count - 1)[1] if count else 0

    def truncate_to_position(self, position: int) -> None:
        """Keeps what points below `position`."""
        self.keep(self.count_not_above(1, position - 1))

    def is_full(self, max_bytes: int) -> bool:
        return self.entries >= max_bytes // self.ENTRY.size

    def problem(self, file_bytes: int, log_bytes: int) -> str | None:
        """Why the file on disk cannot be trusted, or None."""
        if file_bytes % self.ENTRY.size:
            return f"{file_bytes} bytes are not a whole number of entries"
        if self.last is None:
            return None
        relative, position = self.last
        if relative < 0 or position < 0 or position >= log_bytes or (self.entries > 1 and relative == 0):
            return f"its last entry ({relative}, {position}) lies outside the segment of {log_bytes} bytes"
        return None
