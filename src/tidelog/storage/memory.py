"""A disk in memory that keeps what a power cut would keep: for the simulator and for tests.

Every file has volatile bytes (what a process sees) and durable bytes (what an fsync promised); every directory has
volatile and durable entries. `crash` throws away what was never promised: per file, in any order across files.
"""

import errno
import posixpath
import random
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from tidelog.storage.ports import AlreadyLocked, DiskError, FileMissing
from tidelog.wire.buffers import Buffer

# What a fault hook sees: the operation ("append", "fsync", "open" …) and the path.
FaultHook = Callable[[str, str], int | None]
# What a reader gets of a damaged file instead of the bytes from an offset on.
Misread = Callable[[int, bytes], bytes]

INJECTED: Final = "injected on"
"""Begins what an error says that a fault hook caused."""


_ENDLESS: Final = 1 << 62


class _Inode:
    """Invariant: data[:dirty_from] == durable[:dirty_from], but for the ranges that were `dropped`.

    `dropped`: what a failed fsync was to write. The kernel has marked those pages clean, so that they are read as they
    were written, no later fsync writes them, and they are gone with the page cache. Here a page has one byte.
    """

    __slots__ = ("cut_to", "data", "dirty_from", "dropped", "durable", "misread")

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = bytearray()
        self.dirty_from = 0
        # Sorted, disjoint and within `data`.
        self.dropped: list[tuple[int, int]] = []
        # The shortest that the file was since it was synced: what grows again behind it begins as zeros.
        self.cut_to = _ENDLESS
        self.misread: Misread | None = None

    @property
    def safe_to(self) -> int:
        """Up to there a power cut leaves every byte."""
        return min(self.dirty_from, self.dropped[0][0]) if self.dropped else self.dirty_from

    def unsynced(self) -> int:
        """How many bytes a power cut may take."""
        lost = sum(min(end, self.dirty_from) - start for start, end in self.dropped if start < self.dirty_from)
        return len(self.data) - self.dirty_from + lost

    def read(self, start: int, end: int | None) -> bytes:
        found = bytes(self.data[start:end])
        return found if self.misread is None else self.misread(start, found)

    def touch(self, start: int, end: int) -> None:
        """These bytes were written over. Where the disk has the same ones already there is nothing to lose."""
        if self.dropped:
            self._undrop(start, end)
        there = min(end, len(self.durable), self.cut_to)
        while start < there and self.data[start] == self.durable[start]:
            start += 1
        if start < end:
            self.dirty_from = min(self.dirty_from, start)

    def cut_off(self, size: int) -> None:
        self.dirty_from = min(self.dirty_from, size)
        self.cut_to = min(self.cut_to, size)
        if self.dropped:
            self._undrop(size, _ENDLESS)

    def _undrop(self, start: int, end: int) -> None:
        kept: list[tuple[int, int]] = []
        for first, last in self.dropped:
            kept += [(first, min(last, start)), (max(first, end), last)]
        self.dropped = [(first, last) for first, last in kept if first < last]

    def drop_dirty(self) -> None:
        """An fsync has failed."""
        start, end = self.dirty_from, len(self.data)
        if start < end:
            # What was dropped behind `start` before has not been written since either.
            self.dropped = [*((first, min(last, start)) for first, last in self.dropped if first < start), (start, end)]
        self.dirty_from = end

    def sync(self) -> None:
        start = self.dirty_from
        if self.dropped:
            self.durable = self._as_written()
        else:
            self.durable[start:] = memoryview(self.data)[start:]
        self.dirty_from, self.cut_to = len(self.data), _ENDLESS

    def _as_written(self) -> bytearray:
        """The file on the disk, once all that is dirty is written there: what was dropped is what stood there before,
        and zeros where nothing did.
        """
        found, there = bytearray(self.data), min(len(self.durable), self.cut_to)
        for start, end in self.dropped:
            before = self.durable[start : min(end, there)]
            found[start:end] = before + bytes(end - start - len(before))
        if self.dropped and self.dropped[-1][1] == len(found):
            # Nothing was written behind it that would have made the file so long.
            start, end = self.dropped[-1]
            del found[max(start, min(end, there)) :]
        return found

    def lose_unsynced(self, rng: random.Random) -> None:
        """Keeps a random part of what was not synced, whole or torn at any byte."""
        start, end = self.dirty_from, len(self.data)
        kind = rng.random()
        if start == end and len(self.durable) == end and not self.dropped:
            return
        if self.dropped:
            # An fsync that fails may have written some of it before; the last byte is where it failed.
            self.dropped = [
                (rng.randrange(start, end) if rng.random() < 0.5 else start, end) for start, end in self.dropped
            ]
        if kind < 0.3:
            self.data = bytearray(self.durable)
        else:
            if kind < 0.8 and end > start:
                keep = rng.randint(start, end)
                torn_zeros = rng.random() < 0.2
                # The size can reach the disk before the bytes do: zeros stand where data was to be.
                # What was only written over has the bytes from before.
                before = self.durable[keep : min(end, self.cut_to)]
                self.data[keep:] = before + (bytes(max(0, end - keep - len(before))) if torn_zeros else b"")
                self._undrop(len(self.data), _ENDLESS)
            if self.dropped:
                self.data = self._as_written()
        self.dropped = []
        self.durable = bytearray(self.data)
        self.dirty_from, self.cut_to = len(self.data), _ENDLESS


class MemoryFile:
    """See `DiskFile`."""

    __slots__ = ("_disk", "_opened", "path")

    def __init__(self, disk: "MemoryDisk", path: str, inode: _Inode) -> None:
        self._disk = disk
        # None while it is closed: the next use opens it again, by its path, whatever stands there by then.
        self._opened: _Inode | None = inode
        self.path = path

    @property
    def _inode(self) -> _Inode:
        if self._opened is None:
            self._opened = self._disk._files.get(self.path)
            if self._opened is None:
                raise FileMissing(self.path)
        return self._opened

    def pread(self, length: int, offset: int) -> bytes:
        self._disk._fault("pread", self.path)
        return self._inode.read(offset, offset + length)

    def is_cached(self, length: int, offset: int) -> bool:
        return self._disk.all_cached

    def append(self, *buffers: Buffer) -> None:
        inode = self._inode
        for buffer in buffers:
            self._disk._admit("append", self.path, inode, len(inode.data), buffer)
            inode.data += buffer

    def pwrite(self, data: Buffer, offset: int) -> None:
        inode = self._inode
        self._disk._admit("pwrite", self.path, inode, offset, data)
        if offset > len(inode.data):
            inode.data += bytes(offset - len(inode.data))
        inode.data[offset : offset + len(data)] = data
        inode.touch(offset, offset + len(data))

    def truncate(self, size: int) -> None:
        self._disk._fault("truncate", self.path)
        inode = self._inode
        if size < len(inode.data):
            del inode.data[size:]
        else:
            inode.data += bytes(size - len(inode.data))
        inode.cut_off(size)

    def fsync(self) -> None:
        try:
            self._disk._fault("fsync", self.path)
        except DiskError:
            # And the next one succeeds, as on Linux: the pages that could not be written count as clean.
            self._inode.drop_dirty()
            raise
        self._inode.sync()

    def size(self) -> int:
        return len(self._inode.data)

    def moved_to(self, path: str) -> None:
        self.path = path

    def close(self) -> None:
        self._opened = None


class MemoryLock:
    """One holder per path among those that share this disk."""

    def __init__(self, disk: "MemoryDisk", path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        self._disk._locks.discard(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class MemoryDisk:
    """See `Disk`. `capacity` bytes give ENOSPC; `fault` may name an errno for any operation."""

    def __init__(self, capacity: int = 1 << 40) -> None:
        self.capacity = capacity
        self.fault: FaultHook | None = None
        # False makes every read look as if it had to wait for the device.
        self.all_cached = True
        self.fsyncs = 0
        self._files: dict[str, _Inode] = {}
        self._dirs: set[str] = {"/", "."}
        self._durable_files: dict[str, _Inode] = {}
        self._durable_dirs: set[str] = {"/", "."}
        self._locks: set[str] = set()
        # Files renamed and not synced since, new name -> old: both names survive a crash as before, or both as after.
        self._renamed: dict[str, str] = {}

    # -- faults and crashes

    def _fault(self, operation: str, path: str) -> None:
        if operation == "fsync":
            self.fsyncs += 1
        if self.fault is not None and (code := self.fault(operation, path)) is not None:
            raise DiskError(code, f"{INJECTED} {operation}", path)

    def _admit(self, operation: str, path: str, inode: _Inode, offset: int, data: Buffer) -> None:
        """Refuses a write as a real disk does: part of it may already be there."""
        error: DiskError | None = None
        room = self.capacity - self.used_bytes()
        grows = max(0, offset + len(data) - len(inode.data))
        if self.fault is not None and (code := self.fault(operation, path)) is not None:
            error, room = DiskError(code, f"{INJECTED} {operation}", path), len(data) // 2
        elif grows > room:
            error = DiskError(errno.ENOSPC, "no space left on device", path)
        if error is not None:
            if operation == "append":
                inode.data += memoryview(data)[: max(0, room)]
            raise error

    def used_bytes(self) -> int:
        return sum(len(inode.data) for inode in self._files.values()) if self.capacity < 1 << 40 else 0

    def crash(self, rng: random.Random, *, lose_entries: bool = False) -> None:
        """Power fails: locks and unsynced bytes are gone; with `lose_entries`, so may be unsynced directory entries."""
        self._locks.clear()
        if lose_entries:
            self._lose_entries(rng)
        for path in sorted(self._files):
            self._files[path].lose_unsynced(rng)
        self._durable_files = dict(self._files)
        self._durable_dirs = set(self._dirs)
        self._renamed.clear()

    def _lose_entries(self, rng: random.Random) -> None:
        lost: dict[str, bool] = {}
        for path in sorted(self._files.keys() | self._durable_files.keys()):
            now, promised = self._files.get(path), self._durable_files.get(path)
            if now is promised:
                continue
            fate = self._first_name(path)
            if fate not in lost:
                lost[fate] = rng.random() < 0.5
            if not lost[fate]:
                continue
            if promised is None:
                del self._files[path]
            else:
                self._files[path] = promised
        for path in sorted(self._dirs - self._durable_dirs):
            if rng.random() < 0.5 and path in self._dirs:
                self._drop_tree(path)
        # An entry that came back needs its parents back.
        for path in sorted(self._files):
            self._dirs.update(_parents(path))

    def _first_name(self, path: str) -> str:
        """One name for all that must share a fate: a rename is atomic, and so is a chain of them."""
        while path in self._renamed:
            path = self._renamed[path]
        return path

    def _drop_tree(self, path: str) -> None:
        inside = path + "/"
        self._dirs = {name for name in self._dirs if name != path and not name.startswith(inside)}
        self._files = {name: inode for name, inode in self._files.items() if not name.startswith(inside)}

    # -- Disk

    def open(self, path: str, create: bool = False) -> MemoryFile:
        self._fault("open", path)
        inode = self._files.get(path)
        if inode is None:
            if not create or posixpath.dirname(path) not in self._dirs:
                raise FileMissing(path)
            self._fault("create", path)
            inode = self._files[path] = _Inode()
        return MemoryFile(self, path, inode)

    def read_bytes(self, path: str) -> bytes:
        self._fault("read_bytes", path)
        if (inode := self._files.get(path)) is None:
            raise FileMissing(path)
        return inode.read(0, None)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        inode = _Inode()
        self._admit("write_atomic", path, inode, 0, data)
        if posixpath.dirname(path) not in self._dirs:
            raise FileMissing(path)
        inode.data += data
        self._files[path] = inode
        if durable:
            inode.sync()
            self._durable_files[path] = inode

    def exists(self, path: str) -> bool:
        self._fault("stat", path)
        return path in self._files or path in self._dirs

    def is_dir(self, path: str) -> bool:
        self._fault("stat", path)
        return path in self._dirs

    def list_dir(self, path: str) -> list[str]:
        self._fault("list_dir", path)
        if path not in self._dirs:
            raise FileMissing(path)
        inside = path.rstrip("/") + "/"
        start = len(inside)
        names = (name[start:] for name in (*self._files, *self._dirs) if name.startswith(inside))
        return sorted(name for name in names if name and "/" not in name)

    def make_dirs(self, path: str) -> None:
        self._fault("make_dirs", path)
        self._dirs.update((*_parents(path), path))

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        self._fault("rename", source)
        if source in self._files:
            self._files[target] = self._files.pop(source)
            first, last = self._first_name(source), self._first_name(target)
            if first != last:
                self._renamed[last] = first
        elif source in self._dirs:
            self._rename_dir(source, target)
        else:
            raise FileMissing(source)
        if durable:
            self.fsync_dir(posixpath.dirname(target))
            self.fsync_dir(posixpath.dirname(source))

    def _rename_dir(self, source: str, target: str) -> None:
        inside = source + "/"

        def moved(name: str) -> str:
            return target + name[len(source) :] if name == source or name.startswith(inside) else name

        # What is inside moves with the directory itself, promised or not.
        self._files = {moved(name): inode for name, inode in self._files.items()}
        self._dirs = {moved(name) for name in self._dirs}
        self._durable_files = {moved(name): inode for name, inode in self._durable_files.items()}
        self._durable_dirs = {moved(name) for name in self._durable_dirs}

    def remove(self, path: str) -> None:
        self._fault("remove", path)
        self._files.pop(path, None)

    def remove_tree(self, path: str) -> None:
        self._fault("remove_tree", path)
        self._drop_tree(path)

    def fsync_dir(self, path: str) -> None:
        # Other than a file's pages, names that could not be synced stay to be synced: they are part of the file
        # system's journal (ext4, XFS, btrfs), which either commits them later or stops the file system for good. There
        # is no success without them, so that a second try is no lie.
        self._fault("fsync_dir", path)
        self._renamed = {new: old for new, old in self._renamed.items() if posixpath.dirname(new) != path}
        for name in [name for name in self._durable_files if posixpath.dirname(name) == path]:
            if name not in self._files:
                del self._durable_files[name]
        for name, inode in self._files.items():
            if posixpath.dirname(name) == path:
                self._durable_files[name] = inode
        self._durable_dirs = {
            name for name in self._durable_dirs if posixpath.dirname(name) != path or name in self._dirs
        }
        self._durable_dirs.update(name for name in self._dirs if posixpath.dirname(name) == path)

    def file_size(self, path: str) -> int:
        self._fault("stat", path)
        if (inode := self._files.get(path)) is None:
            raise FileMissing(path)
        return len(inode.data)

    def lock(self, path: str) -> MemoryLock:
        if path in self._locks:
            raise AlreadyLocked(path)
        if path not in self._files:
            self.open(path, create=True)
        self._locks.add(path)
        return MemoryLock(self, path)

    def free_bytes(self, path: str) -> int:
        return max(0, self.capacity - self.used_bytes())

    def total_bytes(self, path: str) -> int:
        return self.capacity


def _parents(path: str) -> list[str]:
    found: list[str] = []
    while (parent := posixpath.dirname(path)) != path and parent:
        found.append(parent)
        path = parent
    return found
