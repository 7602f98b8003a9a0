"""The disk of a simulated machine: outlives its processes, and can be damaged behind their backs.

What a power cut does (unsynced bytes lost per file in any order, torn, entries lost) is `MemoryDisk.crash`; errors of
operations are a fault hook, `DiskFaults`. Here is what happens to bytes at rest.
"""

import posixpath
import random
from collections.abc import Callable, Container
from typing import Final, NoReturn

from tidelog.storage.memory import MemoryDisk, _Inode
from tidelog.wire.buffers import Buffer

KEPT_VERSIONS: Final = 4
"""How many older contents of a small file a disk can fall back to."""
_HISTORY_FILE_BYTES: Final = 64 * 1024


class ProcessGone(BaseException):
    """Raised into the code of a process that is dead already; nothing it does now reaches anything."""


class Torn(ProcessGone):
    """The process died inside a write; half of it is there."""


class SimDisk(MemoryDisk):
    """A disk in memory that can be taken out of a dead process's hands, rots, and remembers older small files."""

    def __init__(self, capacity: int = 1 << 40) -> None:
        super().__init__(capacity)
        self._older: dict[str, list[bytes]] = {}
        self.on_write: Callable[[str], None] | None = None
        """Hears of every append and cut (about to be made) and of every small file (written)."""
        self.on_rename: Callable[[str], None] | None = None
        """Hears under which name a file stands now, for good if the next sync of its directory is not lost."""

    # --- processes come and go ----------------------------------------------------------------------------------------

    def hand_over(self) -> "SimDisk":
        """The same contents for the next process; whatever still holds this object can change nothing any more."""
        heir = SimDisk(self.capacity)
        heir._files, self._files = self._files, {}
        heir._dirs, self._dirs = self._dirs, set()
        heir._durable_files, self._durable_files = self._durable_files, {}
        heir._durable_dirs, self._durable_dirs = self._durable_dirs, set()
        heir._renamed, self._renamed = self._renamed, {}
        heir._older, self._older = self._older, {}
        heir.fault = self.fault
        heir.on_write, heir.on_rename = self.on_write, self.on_rename
        heir.all_cached = self.all_cached
        heir.fsyncs = self.fsyncs
        self.fault = _gone
        return heir

    def settle(self) -> None:
        """All there is becomes durable, as when nothing happens for a minute."""
        for inode in self._files.values():
            inode.sync()
        self._durable_files = dict(self._files)
        self._durable_dirs = set(self._dirs)
        self._renamed.clear()

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        super().write_atomic(path, data, durable=durable)
        if len(data) <= _HISTORY_FILE_BYTES:
            versions = self._older.setdefault(path, [])
            versions.append(bytes(data))
            del versions[: -KEPT_VERSIONS - 1]
        if self.on_write is not None:
            self.on_write(path)

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        super().rename(source, target, durable=durable)
        if self.on_rename is not None:
            self.on_rename(target)

    def _fault(self, operation: str, path: str) -> None:
        if self.on_write is not None and operation == "truncate":
            self.on_write(path)
        super()._fault(operation, path)

    def _admit(self, operation: str, path: str, inode: _Inode, offset: int, data: Buffer) -> None:
        if self.on_write is not None and operation == "append":
            self.on_write(path)
        try:
            super()._admit(operation, path, inode, offset, data)
        except Torn:
            if operation == "append":
                inode.data += memoryview(data)[: len(data) // 2]
            raise

    # --- what is there ------------------------------------------------------------------------------------------------

    def files(self, under: str = "/", suffix: str = "") -> list[str]:
        """Paths of files, sorted."""
        inside = under.rstrip("/") + "/"
        return sorted(path for path in self._files if path.startswith(inside) and path.endswith(suffix))

    def has(self, path: str) -> bool:
        """As `exists` of a file, for an onlooker."""
        return path in self._files

    def has_dir(self, path: str) -> bool:
        return path in self._dirs

    def contents(self) -> dict[str, bytes]:
        """Everything a process would read; no fault concerns it."""
        return {path: bytes(self._files[path].data) for path in sorted(self._files)}

    def peek(self, path: str, start: int, end: int) -> bytes:
        """Bytes as a process would read them, for an onlooker: no fault concerns it. Empty if there is no such file."""
        inode = self._files.get(path)
        return b"" if inode is None else bytes(inode.data[start:end])

    def durable_bytes(self, path: str) -> int:
        """How many bytes from its beginning a power cut would leave of a file: none, if it can take its name."""
        inode = self._files.get(path)
        return 0 if inode is None or self._durable_files.get(path) is not inode else inode.safe_to

    def unsynced_bytes(self) -> int:
        return sum(inode.unsynced() for inode in self._files.values())

    # --- damage -------------------------------------------------------------------------------------------------------

    def rot(self, path: str, rng: random.Random, *, unsynced: bool = False, spared: Container[int] = ()) -> int | None:
        """Flips one bit of a file for good, only of what was not synced if asked; returns where, None if nowhere.

        Positions that are spared stay as they are; they must not be all.
        """
        inode = self._files[path]
        start = inode.dirty_from if unsynced else 0
        if start >= len(inode.data):
            return None
        position, bit = rng.randrange(start, len(inode.data)), 1 << rng.randrange(8)
        while position in spared:
            position = rng.randrange(start, len(inode.data))
        inode.data[position] ^= bit
        if position < len(inode.durable):
            inode.durable[position] ^= bit
        return position

    def misread(
        self, path: str, batch: range, position: int, bit: int, on_read: Callable[[], None]
    ) -> Callable[[], None]:
        """Whoever reads this byte gets another, as long as the batch around it stands there; returns what repairs it.

        The bytes themselves stay what they are, so that an onlooker sees what was written.
        """
        inode = self._files[path]
        written = bytes(inode.data[batch.start : batch.stop])

        def read(start: int, found: bytes) -> bytes:
            at = position - start
            if not 0 <= at < len(found) or inode.data[batch.start : batch.stop] != written:
                return found
            if start <= batch.start and batch.stop <= start + len(found):
                # Or somebody looks at a header, and at what stands beside it for nothing.
                on_read()
            return b"".join((found[:at], bytes([found[at] ^ bit]), found[at + 1 :]))

        def repair() -> None:
            inode.misread = None

        inode.misread = read
        return repair

    def lose(self, path: str) -> None:
        """The file is not there any more, and never was as far as the disk knows."""
        del self._files[path]
        self._durable_files.pop(path, None)

    def stale_versions(self, path: str) -> int:
        """To how many older contents this file could fall back."""
        return len(self._stale(path))

    def make_stale(self, path: str, rng: random.Random) -> bool:
        """An older content of a small file comes back, durably, also if it was removed; False if there was none."""
        older = self._stale(path)
        if not older or posixpath.dirname(path) not in self._dirs:
            return False
        # Behind the back of every fault.
        hook, self.fault = self.fault, None
        super().write_atomic(path, rng.choice(older), durable=True)
        self.fault = hook
        return True

    def _stale(self, path: str) -> list[bytes]:
        now = self._files.get(path)
        return [content for content in self._older.get(path, ()) if now is None or content != now.data]


def _gone(operation: str, path: str) -> NoReturn:
    raise ProcessGone(f"{operation} of {path} by a process that has ended")
