"""One segment of a log: ``<base offset>.log`` with its offset index and time index.

The segment knows bytes and batch headers, never records. A batch is *noted* (indexed, counted) only after its bytes
were written, so what is in memory never runs ahead of the file.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Final

from tidelog.storage.offset_index import MAX_RELATIVE_OFFSET, OffsetIndex
from tidelog.storage.ports import Disk, DiskFile
from tidelog.storage.time_index import TimeIndex
from tidelog.storage.txn_index import TransactionIndex
from tidelog.wire.buffers import Buffer
from tidelog.wire.errors import WireError
from tidelog.wire.records.batch import (
    BATCH_OVERHEAD,
    LOG_OVERHEAD,
    MIN_BATCH_LENGTH,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
)

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"

# Base offset, batch length, last offset delta: all that walking from batch to batch needs.
_WALK: Final = Struct(">qi11xi")
_LENGTH: Final = Struct(">i")
# One pread covers an index interval of small batches.
_WINDOW: Final = 8192
# Batches at the end of an active segment whose position is remembered: tail readers then need no search.
_RECENT: Final = 64


def file_name(offset: int, suffix: str) -> str:
    """Kafka's name: twenty digits, so that names sort as offsets do."""
    return f"{offset:020d}{suffix}"


class CorruptSegment(Exception):
    """No batch where one must stand, below the recovery point: nothing there is dropped silently."""


class Segment:
    """Invariant: `size` bytes of whole batches; offsets within [base_offset, base_offset + 2^31 - 1], increasing."""

    __slots__ = (
        "_first_timestamp",
        "_log",
        "_recent_offsets",
        "_recent_positions",
        "_txn_index",
        "base_offset",
        "bytes_since_index_entry",
        "created_ms",
        "disk",
        "jitter_ms",
        "max_timestamp",
        "offset_index",
        "offset_of_max_timestamp",
        "path",
        "size",
        "time_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        now_ms: int,
        *,
        size: int = 0,
        index_bytes: int = 0,
        time_index_bytes: int = 0,
        jitter_ms: int = 0,
        suffix: str = "",
    ) -> None:
        """A segment over files of the given sizes; `Segment.create` makes a new one."""
        stem = f"{directory}/{base_offset:020d}"
        self.disk = disk
        self.path = stem + LOG_SUFFIX + suffix
        self.base_offset = base_offset
        self.size = size
        self.created_ms = now_ms
        self.jitter_ms = jitter_ms
        self.offset_index = OffsetIndex(disk, stem + INDEX_SUFFIX + suffix, base_offset, index_bytes)
        self.time_index = TimeIndex(disk, stem + TIME_INDEX_SUFFIX + suffix, base_offset, time_index_bytes)
        self.bytes_since_index_entry = 0
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        if (last := self.time_index.last) is not None:
            self.max_timestamp = last[0]
            self.offset_of_max_timestamp = base_offset + last[1]
        self._first_timestamp: int | None = None
        self._log: DiskFile | None = None
        self._recent_offsets: array[int] | None = None
        self._recent_positions: array[int] | None = None
        self._txn_index: TransactionIndex | None = None

    @classmethod
    def create(
        cls, disk: Disk, directory: str, base_offset: int, now_ms: int, jitter_ms: int = 0, *, suffix: str = ""
    ) -> "Segment":
        """A new, empty segment; `suffix` while it is not yet part of the log. Left-overs of its name must be gone."""
        segment = cls(disk, directory, base_offset, now_ms, jitter_ms=jitter_ms, suffix=suffix)
        segment._log = disk.open(segment.path, create=True)
        # A descriptor is for those who read or write: most partitions of a large cluster are idle.
        segment._log.close()
        return segment

    @property
    def log(self) -> DiskFile:
        if self._log is None:
            self._log = self.disk.open(self.path)
        return self._log

    @property
    def txn_index(self) -> TransactionIndex:
        if self._txn_index is None:
            path = self.path.removesuffix(LOG_SUFFIX) + TXN_INDEX_SUFFIX
            self._txn_index = TransactionIndex(self.disk, path, self.base_offset)
        return self._txn_index

    # -- appending

    def write(self, data: Buffer) -> None:
        """The bytes, at the end. On DiskError the end of the file is unknown and the log must not be used on."""
        self.log.append(data)

    def note_batch(
        self, base_offset: int, last_offset: int, size: int, max_timestamp: int, index_interval: int
    ) -> None:
        """Accounts for one batch that now stands at the end of the file."""
        position = self.size
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self.bytes_since_index_entry > index_interval:
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
            self.bytes_since_index_entry = 0
        self.bytes_since_index_entry += size
        if position == 0:
            self._first_timestamp = max_timestamp
        self.size = position + size
        offsets, positions = self._recent_offsets, self._recent_positions
        if offsets is None or positions is None:
            offsets = self._recent_offsets = array("q")
            positions = self._recent_positions = array("q")
        elif len(offsets) >= 2 * _RECENT:
            del offsets[:_RECENT]
            del positions[:_RECENT]
        offsets.append(base_offset)
        positions.append(position)

    def note_batches(self, batches: Sequence[tuple[int, BatchHeader]], index_interval: int) -> None:
        """As `note_batch` for each of one write, with fewer calls: a follower catches up by thousands of them."""
        position, since = self.size, self.bytes_since_index_entry
        latest, latest_at = self.max_timestamp, self.offset_of_max_timestamp
        entries: list[tuple[int, int]] = []
        times: list[tuple[int, int]] = []
        positions = []
        for _, header in batches:
            positions.append(position)
            size = LOG_OVERHEAD + header.batch_length
            if header.max_timestamp > latest:
                latest, latest_at = header.max_timestamp, header.base_offset + header.last_offset_delta
            if since > index_interval:
                entries.append((header.base_offset + header.last_offset_delta, position))
                times.append((latest, latest_at))
                since = 0
            since += size
            position += size
        if self.size == 0 and batches:
            self._first_timestamp = batches[0][1].max_timestamp
        self.size, self.bytes_since_index_entry = position, since
        self.max_timestamp, self.offset_of_max_timestamp = latest, latest_at
        self.offset_index.extend(entries)
        self.time_index.extend_later(times)
        if self._recent_offsets is None or self._recent_positions is None:
            self._recent_offsets, self._recent_positions = array("q"), array("q")
        self._recent_offsets.extend([header.base_offset for _, header in batches])
        self._recent_positions.extend(positions)
        if len(self._recent_offsets) > 2 * _RECENT:
            del self._recent_offsets[:-_RECENT]
            del self._recent_positions[:-_RECENT]

    def has_room_for(self, last_offset: int) -> bool:
        return last_offset - self.base_offset <= MAX_RELATIVE_OFFSET

    def is_index_full(self, max_bytes: int) -> bool:
        return self.offset_index.is_full(max_bytes) or self.time_index.is_full(max_bytes)

    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch: what rolling by time counts from; -1 if empty or unknown."""
        if self._first_timestamp is None:
            if self.size < BATCH_OVERHEAD:
                return NO_TIMESTAMP
            try:
                self._first_timestamp = read_header(self.log.pread(BATCH_OVERHEAD, 0)).max_timestamp
            except WireError:
                # Who reads that batch is told that it is damaged; what is appended behind it has nothing to do with it.
                self._first_timestamp = NO_TIMESTAMP
        return self._first_timestamp

    def waited_for_roll_ms(self, now_ms: int, message_timestamp: int) -> int:
        """How long this segment has been growing, by its records' own clock where they have one."""
        first = self.first_timestamp()
        return message_timestamp - first if first >= 0 else now_ms - self.created_ms

    def largest_timestamp(self) -> int:
        """What retention by time goes by; records without timestamps count from when we met the segment."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.created_ms

    def become_inactive(self) -> None:
        """No more appends: the closing time entry is made, entries leave memory."""
        if self.size == 0:
            return
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self.offset_index.retire()
        self.time_index.retire()
        self._recent_offsets = self._recent_positions = None

    # -- finding

    def position_of(self, offset: int) -> int | None:
        """Where the first batch that ends at or after `offset` starts; None if every batch ends before it."""
        offsets = self._recent_offsets
        if offsets and offset >= offsets[0]:
            positions = self._recent_positions
            assert positions is not None
            number = bisect_right(offsets, offset) - 1
            if offset == offsets[number]:
                return positions[number]
            # Inside that batch, or in a gap behind it: one header tells.
            return self._walk_to(offset, positions[number])
        return self._walk_to(offset, self.offset_index.position_for(offset))

    def _walk_to(self, offset: int, position: int) -> int | None:
        end, unpack = self.size, _WALK.unpack_from
        window, start = b"", position
        while position < end:
            relative = position - start
            if relative + _WALK.size > len(window):
                window, start, relative = self.log.pread(_WINDOW, position), position, 0
                if len(window) < _WALK.size:
                    raise self._corrupt(position, "the file ends inside a batch header")
            base, length, delta = unpack(window, relative)
            if length < MIN_BATCH_LENGTH:
                raise self._corrupt(position, f"batch length {length}")
            if base + delta >= offset:
                return position
            position += LOG_OVERHEAD + length
        return None

    def batch_size_at(self, position: int) -> int:
        """Size of the batch that starts at `position`."""
        found = self.log.pread(_LENGTH.size, position + 8)
        length = _LENGTH.unpack(found)[0] if len(found) == _LENGTH.size else 0
        if length < MIN_BATCH_LENGTH:
            raise self._corrupt(position, f"batch length {length}")
        return LOG_OVERHEAD + int(length)

    def boundary_before(self, limit: int, position: int) -> int:
        """The last batch boundary not beyond `limit`, where `position` <= limit is one."""
        if limit >= self.size:
            return self.size
        positions = self._recent_positions
        if positions and limit >= positions[0]:
            return max(position, positions[bisect_right(positions, limit) - 1])
        position = max(position, self.offset_index.boundary_before(limit))
        window, start = b"", position
        while True:
            relative = position - start
            if relative + LOG_OVERHEAD > len(window):
                window, start, relative = self.log.pread(_WINDOW, position), position, 0
                if len(window) < LOG_OVERHEAD:
                    raise self._corrupt(position, "the file ends inside a batch header")
            (length,) = _LENGTH.unpack_from(window, relative + 8)
            if length < MIN_BATCH_LENGTH:
                raise self._corrupt(position, f"batch length {length}")
            if position + LOG_OVERHEAD + length > limit:
                return position
            position += LOG_OVERHEAD + length

    def headers(self, position: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch in [position, end); records are skipped, not read."""
        end = self.size if end is None else end
        window, start = b"", position
        while position < end:
            relative = position - start
            if relative + BATCH_OVERHEAD > len(window):
                window, start, relative = self.log.pread(_WINDOW, position), position, 0
            try:
                header = read_header(window, relative)
            except WireError as error:
                raise self._corrupt(position, str(error)) from error
            if header.size_in_bytes > end - position:
                raise self._corrupt(position, f"a batch of {header.size_in_bytes} bytes reaches beyond the end {end}")
            yield position, header
            position += header.size_in_bytes

    def _corrupt(self, position: int, problem: str) -> CorruptSegment:
        return CorruptSegment(f"{self.path} at {position}: {problem}")

    # -- truncation, rebuilding, the end

    def truncate_to(self, offset: int) -> int:
        """Cuts before the batch that holds `offset`; how many bytes."""
        position = self.position_of(offset)
        if position is None:
            return 0
        removed = self.size - position
        self.cut(position)
        self.offset_index.truncate_to_position(position)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self.find_max_timestamp()
        return removed

    def cut(self, position: int) -> None:
        """Cuts the file alone, durably: bytes cut must not come back behind new ones after a crash."""
        self.log.truncate(position)
        self.log.fsync()
        self.size = position
        self.bytes_since_index_entry = 0
        self._recent_offsets = self._recent_positions = None
        if position == 0:
            self._first_timestamp = None

    def find_max_timestamp(self) -> None:
        """Sets the largest timestamp from the last time entry and the headers after it."""
        self.max_timestamp, self.offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        position = 0
        if (last := self.time_index.last) is not None:
            self.max_timestamp, self.offset_of_max_timestamp = last[0], self.base_offset + last[1]
            position = self.offset_index.position_for(self.offset_of_max_timestamp)
        for _, header in self.headers(position):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp, self.offset_of_max_timestamp = header.max_timestamp, header.last_offset

    def start_rebuild(self) -> None:
        """Empty in memory and without indexes, the file untouched: `note_batch` then counts its batches again."""
        self.offset_index.reset()
        self.time_index.reset()
        self._forget_batches()

    def _forget_batches(self) -> None:
        self.size = 0
        self.bytes_since_index_entry = 0
        self.max_timestamp, self.offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        self._first_timestamp = None
        self._recent_offsets = self._recent_positions = None

    def rebuild_indexes(self, index_interval: int) -> None:
        """Both indexes of a closed segment again, from the headers of a file that is otherwise trusted.

        They are trusted, too, as soon as they are there: so each appears whole, closing entry and all, however this
        process or its machine ends.
        """
        end = self.size
        self.offset_index.start_anew()
        self.time_index.start_anew()
        self._forget_batches()
        for _, header in self.headers(0, end):
            self.note_batch(
                header.base_offset, header.last_offset, header.size_in_bytes, header.max_timestamp, index_interval
            )
        self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self.offset_index.replace_file()
        self.time_index.replace_file()

    def last_header(self) -> BatchHeader | None:
        """The header of the last batch, None if empty."""
        found: BatchHeader | None = None
        for _, header in self.headers(self.offset_index.last[1] if self.offset_index.last else 0):
            found = header
        return found

    def last_offset(self) -> int | None:
        """The offset of the last record, None if empty."""
        last = self.last_header()
        return None if last is None else last.last_offset

    def syncs(self, *, active: bool) -> list[Callable[[], None]]:
        """The fsyncs that must succeed before the recovery point may pass this segment.

        Indexes of the active segment are rebuilt after a crash and need none.
        """
        return [self.log.fsync] if active else [self.log.fsync, *self.index_syncs()]

    def index_syncs(self) -> list[Callable[[], None]]:
        """The fsyncs that must succeed before the indexes may be trusted."""
        syncs = self.offset_index.syncs() + self.time_index.syncs()
        if len(self.txn_index):
            syncs.append(self.txn_index.flush)
        return syncs

    def moved_to(self, path: str) -> None:
        """The log file was renamed; slices handed out before are read under the new name."""
        self.path = path
        if self._log is not None:
            self._log.moved_to(path)

    def close_files(self) -> None:
        """Gives descriptors back; the segment can be read on."""
        if self._log is not None:
            self._log.close()
        self.offset_index.forget_file()
        self.time_index.forget_file()
        if self._txn_index is not None:
            self._txn_index.close()

    def paths(self) -> list[str]:
        """Every file of this segment that may exist, the log first."""
        stem = self.path.removesuffix(LOG_SUFFIX)
        return [self.path, self.offset_index.path, self.time_index.path, stem + TXN_INDEX_SUFFIX]
