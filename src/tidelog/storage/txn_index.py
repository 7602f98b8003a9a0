"""The ``.txnindex`` of a segment: transactions whose abort marker lies in it, for readers of committed data.

Kafka's format: 34-byte entries, ascending by last offset. Most segments have none, and then no file.
"""

from struct import Struct
from typing import Final, NamedTuple

from tidelog.storage.ports import Disk, DiskFile, FileMissing

VERSION: Final = 0
_ENTRY: Final = Struct(">hqqqq")
ENTRY_SIZE: Final = _ENTRY.size


class CorruptTxnIndex(Exception):
    """An index that cannot be what its segment says; it is rebuilt from the log."""


class AbortedTxn(NamedTuple):
    """Records of `producer_id` in [first_offset, last_offset] are to be skipped.

    `last_stable_offset`, as of the abort, ends a search: no transaction aborted later began before it.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Invariant: `size` bytes of whole entries, their last offsets ascending; the file exists once there is one."""

    __slots__ = ("_file", "_last_offset", "_size", "base_offset", "disk", "path")

    def __init__(self, disk: Disk, path: str, base_offset: int) -> None:
        self.disk = disk
        self.path = path
        self.base_offset = base_offset
        self._file: DiskFile | None = None
        self._last_offset = -1
        self._size = 0
        try:
            self._size = disk.file_size(path)
        except FileMissing:
            return
        self._file = disk.open(path)

    def __len__(self) -> int:
        return self._size // ENTRY_SIZE

    @property
    def last_offset(self) -> int:
        """Of the newest entry's marker, -1 if there is none; read from the file once."""
        if self._last_offset < 0 and self._size:
            self._last_offset = self.entries()[-1].last_offset
        return self._last_offset

    def append(self, txn: AbortedTxn) -> None:
        """Before the transaction is completed in the producer state."""
        if txn.last_offset <= self.last_offset:
            raise ValueError(f"{txn} after one that ends at {self.last_offset} in {self.path}")
        if self._file is None:
            self._file = self.disk.open(self.path, create=True)
        self._file.append(_ENTRY.pack(VERSION, *txn))
        self._size += ENTRY_SIZE
        self._last_offset = txn.last_offset

    def entries(self) -> list[AbortedTxn]:
        """All of them, checked; CorruptTxnIndex if they make no sense."""
        if self._file is None or not self._size:
            return []
        data = self._file.pread(self._size, 0)
        if len(data) != self._size or self._size % ENTRY_SIZE:
            raise CorruptTxnIndex(f"{self.path}: {len(data)} bytes are not a whole number of entries")
        found: list[AbortedTxn] = []
        previous = self.base_offset - 1
        for version, *fields in _ENTRY.iter_unpack(data):
            txn = AbortedTxn._make(fields)
            if version != VERSION or txn.last_offset <= previous or txn.first_offset > txn.last_offset:
                raise CorruptTxnIndex(f"{self.path}: version {version}, {txn} after {previous}")
            previous = txn.last_offset
            found.append(txn)
        return found

    def collect(self, start_offset: int, upper_bound: int) -> tuple[list[AbortedTxn], bool]:
        """Those that touch [start_offset, upper_bound), and whether later segments can hold no more of them."""
        found: list[AbortedTxn] = []
        for txn in self.entries():
            if txn.last_offset >= start_offset and txn.first_offset < upper_bound:
                found.append(txn)
            if txn.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Drop every entry whose marker is at or past `offset`."""
        if self._file is None or not self._size:
            return
        kept = [txn for txn in self.entries() if txn.last_offset < offset]
        self._truncate(len(kept) * ENTRY_SIZE, kept[-1].last_offset if kept else -1)

    def reset(self) -> None:
        """Drop everything, before the log is replayed into the index."""
        if self._file is not None:
            self._truncate(0, -1)

    def flush(self) -> None:
        if self._file is not None:
            self._file.fsync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _truncate(self, size: int, last_offset: int) -> None:
        assert self._file is not None
        self._file.truncate(size)
        self._size = size
        self._last_offset = last_offset
