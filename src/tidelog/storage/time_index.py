"""``.timeindex``: sparse map from timestamp to offset, 12 bytes an entry (timestamp, relative offset)."""

from array import array
from collections.abc import Sequence
from struct import Struct

from tidelog.storage.sparse_index import Columns, SparseIndex


class TimeIndex(SparseIndex):
    """An entry (t, o) says: no record up to offset o is later than t, and the batch ending at o holds one at t.

    The last entry of a closed segment is the largest timestamp in it.
    """

    __slots__ = ()

    ENTRY = Struct(">qi")

    @staticmethod
    def _unpack_columns(data: bytes) -> Columns:
        pairs = list(TimeIndex.ENTRY.iter_unpack(data))
        return array("q", (pair[0] for pair in pairs)), array("i", (pair[1] for pair in pairs))

    def maybe_append(self, timestamp: int, last_offset: int) -> None:
        """Timestamps may go back; the index does not follow them."""
        last = self.last
        if timestamp >= 0 and (last is None or timestamp > last[0]):
            self._append(timestamp, last_offset - self.base_offset)

    def extend_later(self, entries: Sequence[tuple[int, int]]) -> None:
        """As `maybe_append` for each; their timestamps do not go back."""
        known = -1 if self.last is None else self.last[0]
        later = []
        for timestamp, last_offset in entries:
            if timestamp > known:
                known = timestamp
                later.append((timestamp, last_offset - self.base_offset))
        self._extend(later)

    def offset_before(self, timestamp: int) -> int:
        """An offset up to which nothing is as late as `timestamp`: a search may start there."""
        count = self.count_not_above(0, timestamp - 1)
        return self.base_offset + self.entry(count - 1)[1] if count else self.base_offset

    def truncate_to(self, offset: int) -> None:
        """Keeps what speaks of offsets below `offset`."""
        self.keep(self.count_not_above(1, offset - self.base_offset - 1))

    def is_full(self, max_bytes: int) -> bool:
        # One entry is always left for the closing one.
        return self.entries >= max_bytes // self.ENTRY.size - 1

    def problem(self, file_bytes: int) -> str | None:
        """Why the file on disk cannot be trusted, or None."""
        if file_bytes % self.ENTRY.size:
            return f"{file_bytes} bytes are not a whole number of entries"
        if self.last is None:
            return None
        timestamp, relative = self.last
        if timestamp < 0 or relative < 0 or timestamp < self.entry(0)[0]:
            return f"its last entry ({timestamp}, {relative}) is impossible"
        return None
