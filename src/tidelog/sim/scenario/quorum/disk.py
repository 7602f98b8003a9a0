"""A disk that can say what it has promised: what a power cut leaves at the very least."""

import random
from collections.abc import Iterator
from typing import NamedTuple

from tidelog.storage.memory import MemoryDisk
from tidelog.storage.segment import LOG_SUFFIX
from tidelog.wire.errors import WireError
from tidelog.wire.records.batch import crc_ok, iter_headers


class Batch(NamedTuple):
    """One batch of the metadata log, by what tells it from any other."""

    base_offset: int
    last_offset: int
    epoch: int
    crc: int


class WatchedDisk(MemoryDisk):
    """`promises` counts everything that may change what is durable, so that nobody looks twice."""

    def __init__(self) -> None:
        super().__init__()
        self.promises = 0

    def _fault(self, operation: str, path: str) -> None:
        if operation in ("fsync", "fsync_dir", "truncate", "remove", "rename"):
            self.promises += 1
        super()._fault(operation, path)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self.promises += 1
        super().write_atomic(path, data, durable=durable)

    def crash(self, rng: random.Random, *, lose_entries: bool = False) -> None:
        self.promises += 1
        super().crash(rng, lose_entries=lose_entries)

    def durable_bytes(self, path: str) -> bytes | None:
        """The start of a file that survives whatever happens; None if the file itself may be gone."""
        inode = self._durable_files.get(path)
        if inode is None or self._files.get(path) is not inode or path.rpartition("/")[0] not in self._durable_dirs:
            return None
        return bytes(inode.durable[: inode.safe_to])

    def durable_batches(self, directory: str) -> list[Batch]:
        """The metadata log as a power cut would leave it at least."""
        inside = directory + "/"
        found: list[Batch] = []
        for path in sorted(self._files):
            if not (path.startswith(inside) and path.endswith(LOG_SUFFIX)):
                continue
            for batch in _sound_batches(self.durable_bytes(path) or b""):
                if found and batch.base_offset != found[-1].last_offset + 1:
                    return found
                found.append(batch)
        return found


def _sound_batches(data: bytes) -> Iterator[Batch]:
    """Up to the first that is torn."""
    try:
        for position, header in iter_headers(data, partial_tail=True):
            if not crc_ok(data, header, position):
                return
            yield Batch(header.base_offset, header.last_offset, header.partition_leader_epoch, header.crc)
    except WireError:
        return
