"""What the offset index and the time index share: sorted pairs of integers, appended at one end, searched by bisection.

While a segment grows, its entries are *resident*: two compact arrays, and the packed bytes not yet written. Those of a
segment that is closed, or was loaded and not written to since, stay in the file and are bisected with `pread`, so ten
thousand logs cost nothing while nobody reads them. The file is never preallocated and can always be rebuilt from
the log, so nothing here is fsynced but on request.
"""

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from struct import Struct
from typing import ClassVar, TypeAlias

from tidelog.storage.ports import Disk, DiskFile

# Bisecting a file stops at this many entries: they are read at once.
_PAGE_ENTRIES = 512
# Packed entries are handed to the file in pieces of this size.
_PENDING_BYTES = 4096

Pair = tuple[int, int]
# `array` is generic for type checkers only (until Python 3.12).
Columns: TypeAlias = "tuple[array[int], array[int]]"


class SparseIndex(ABC):
    """Invariant: the file holds entries [0, entries - len(pending) / entry size); both columns increase."""

    __slots__ = (
        "_changes",
        "_columns",
        "_disk",
        "_file",
        "_is_held_back",
        "_pending",
        "_synced",
        "base_offset",
        "entries",
        "last",
        "path",
    )

    ENTRY: ClassVar[Struct]

    def __init__(self, disk: Disk, path: str, base_offset: int, file_bytes: int = 0) -> None:
        """`file_bytes` is the size of an existing file, 0 if there is none."""
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self._file: DiskFile | None = None
        self._columns: Columns | None = None
        self._pending = bytearray()
        # While it is made again nothing of it goes to the file: see `start_anew`.
        self._is_held_back = False
        # How often the file changed, and how many of these changes are durable.
        self._changes = self._synced = 0
        self.entries = file_bytes // self.ENTRY.size
        # The last entry, or None for an empty index.
        self.last: Pair | None = self.entry(self.entries - 1) if self.entries else None

    @staticmethod
    @abstractmethod
    def _unpack_columns(data: bytes) -> Columns: ...

    def _open(self) -> DiskFile:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True)
        return self._file

    def _resident(self) -> Columns:
        if self._columns is None:
            length = self.entries * self.ENTRY.size
            self._columns = self._unpack_columns(self._open().pread(length, 0) if length else b"")
        return self._columns

    # -- reading

    @property
    def size_bytes(self) -> int:
        return self.entries * self.ENTRY.size

    def entry(self, number: int) -> Pair:
        if self._columns is not None:
            return self._columns[0][number], self._columns[1][number]
        size = self.ENTRY.size
        first, second = self.ENTRY.unpack(self._open().pread(size, number * size))
        return first, second

    def count_not_above(self, column: int, target: int) -> int:
        """How many entries have a value <= target in that column: the entry before is the one to start from."""
        if self._columns is not None:
            return bisect_right(self._columns[column], target)
        low, high = 0, self.entries
        while high - low > _PAGE_ENTRIES:
            middle = (low + high) // 2
            if self.entry(middle)[column] <= target:
                low = middle + 1
            else:
                high = middle
        if low == high:
            return low
        size, unpack_from = self.ENTRY.size, self.ENTRY.unpack_from
        first = low
        page = self._open().pread((high - low) * size, low * size)
        while low < high:
            middle = (low + high) // 2
            if unpack_from(page, (middle - first) * size)[column] <= target:
                low = middle + 1
            else:
                high = middle
        return low

    # -- writing

    def _append(self, first: int, second: int) -> None:
        firsts, seconds = self._resident()
        firsts.append(first)
        seconds.append(second)
        self._pending += self.ENTRY.pack(first, second)
        self.entries += 1
        self.last = (first, second)
        if len(self._pending) >= _PENDING_BYTES and not self._is_held_back:
            self.flush()

    def _extend(self, pairs: Sequence[Pair]) -> None:
        if not pairs:
            return
        firsts, seconds = self._resident()
        firsts.extend([first for first, _ in pairs])
        seconds.extend([second for _, second in pairs])
        pack = self.ENTRY.pack
        self._pending += b"".join([pack(*pair) for pair in pairs])
        self.entries += len(pairs)
        self.last = pairs[-1]
        if len(self._pending) >= _PENDING_BYTES and not self._is_held_back:
            self.flush()

    def keep(self, entries: int) -> None:
        """Drops every entry from number `entries` on."""
        if entries >= self.entries:
            return
        self.flush()
        self._open().truncate(entries * self.ENTRY.size)
        self._changes += 1
        if self._columns is not None:
            for column in self._columns:
                del column[entries:]
        self.entries = entries
        self.last = self.entry(entries - 1) if entries else None

    def flush(self) -> None:
        """Hands pending entries to the file."""
        if self._pending:
            self._open().append(self._pending)
            self._pending = bytearray()
            self._changes += 1

    def syncs(self) -> list[Callable[[], None]]:
        """The fsync of the file, for any thread, if it changed since the last that succeeded."""
        self.flush()
        if self._changes == self._synced:
            return []
        file, changes = self._open(), self._changes

        def sync() -> None:
            file.fsync()
            # Only now: whoever asks in between has to sync it too, or would trust a file that is not durable yet.
            self._synced = max(self._synced, changes)

        return [sync]

    def retire(self) -> None:
        """The segment will not grow: entries go to the file, made even if there are none, and out of memory."""
        self.flush()
        if not self.entries:
            self._changes += self._file is None
            self._open()
        self._columns = None

    def reset(self) -> None:
        """Empty again, on disk too."""
        self._forget_entries()
        self._disk.remove(self.path)
        self._is_held_back = False

    def start_anew(self) -> None:
        """Empty again in memory, while the file stays as it is until `replace_file`: half an index may look sane."""
        self._forget_entries()
        self._is_held_back = True

    def _forget_entries(self) -> None:
        self.forget_file()
        self._columns = None
        self._pending = bytearray()
        self.entries = 0
        self.last = None

    def replace_file(self) -> None:
        """All that was appended since `start_anew`, whole and durable when this returns, or not there at all."""
        self._disk.write_atomic(self.path, bytes(self._pending))
        self._pending = bytearray()
        self._is_held_back = False
        self._synced = self._changes

    def forget_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
