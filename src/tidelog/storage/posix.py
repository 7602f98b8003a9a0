"""The real disk. Descriptors come from a bounded pool; writes go to explicit positions, never through buffers.

Calls may come from the event loop and from offload threads at once: a descriptor in use is never closed under its user.
"""

import contextlib
import errno
import fcntl
import os
import resource
import shutil
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from tidelog.storage.ports import AlreadyLocked, DiskError, FileMissing
from tidelog.wire.buffers import Buffer

# Descriptors kept for sockets, listeners, lock files and the libraries' own needs.
RESERVED_DESCRIPTORS = 1024

# Linux can say "this would block" instead of reading from the device.
_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)
_PROBE: Final = [bytearray(1)]
_READ_TOGETHER: Final = 128 * 1024
_NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)
_CAN_PROBE: Final = bool(_NOWAIT) and hasattr(os, "preadv")

T = TypeVar("T")


def raise_nofile_limit() -> int:
    """Lifts the soft RLIMIT_NOFILE to the hard one; returns the limit now in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    target = 1_048_576 if hard == resource.RLIM_INFINITY else hard
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    except (ValueError, OSError):
        return soft  # a container may forbid what getrlimit promised; the pool shrinks to what we have
    return target


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _as_disk_error(error, path) from error


def _as_disk_error(error: OSError, path: str) -> DiskError:
    if isinstance(error, DiskError):
        return error
    if error.errno == errno.ENOENT:
        return FileMissing(path)
    return DiskError(error.errno or errno.EIO, error.strerror or str(error), path)


class _Pool:
    """Open descriptors, least recently used first. Invariant: a file is in `files` iff its `fd` >= 0."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.lock = threading.Lock()
        self.files: OrderedDict[int, PosixFile] = OrderedDict()

    def evict(self) -> bool:
        """Closes the oldest descriptor that nobody is using; whether there was one. The lock is held."""
        for key, file in self.files.items():
            if file.users == 0:
                del self.files[key]
                os.close(file.fd)
                file.fd = -1
                return True
        return False

    def give_one_up(self) -> bool:
        with self.lock:
            return self.evict()


def _with_a_descriptor(work: Callable[[], T], give_one_up: Callable[[], bool]) -> T:
    """Connections may have taken all the process may have: a directory is not given up for that, as long as there is
    a file that can be opened again later.
    """
    while True:
        try:
            return work()
        except OSError as error:
            if error.errno not in _NO_DESCRIPTOR or not give_one_up():
                raise


class PosixFile:
    """One file; see `DiskFile`. The size is kept here: this process is the file's only writer (flock)."""

    __slots__ = ("_is_closing", "_length", "_lost", "_pool", "_syncing", "fd", "path", "users")

    def __init__(self, pool: _Pool, path: str) -> None:
        self._pool = pool
        self.path = path
        self.fd = -1
        self.users = 0
        # Closed while somebody was using it: the last one of them gives the descriptor back.
        self._is_closing = False
        self._length = -1
        # The kernel tells of a lost page once: whoever syncs at the same time, or later, hears of it from here.
        self._syncing = threading.Lock()
        self._lost: DiskError | None = None

    def __del__(self) -> None:
        # The pool holds every open file, so this runs only once the descriptor is gone or the pool itself dies.
        if self.fd >= 0:
            os.close(self.fd)

    def _take(self) -> int:
        pool = self._pool
        with pool.lock:
            fd = self.fd
            if fd < 0:
                fd = self._open(os.O_RDWR)
            else:
                pool.files.move_to_end(id(self))
            self.users += 1
            return fd

    def _open(self, flags: int) -> int:
        pool = self._pool
        if len(pool.files) >= pool.capacity:
            pool.evict()
        with _told(self.path):
            self.fd = _with_a_descriptor(lambda: os.open(self.path, flags | os.O_CLOEXEC, 0o644), pool.evict)
            if self._length < 0:
                self._length = os.fstat(self.fd).st_size
        pool.files[id(self)] = self
        return self.fd

    def create(self, flags: int) -> None:
        with self._pool.lock:
            self._open(flags)

    def _give(self) -> None:
        with self._pool.lock:
            self.users -= 1
            if self._is_closing:
                self._close_unused()

    def pread(self, length: int, offset: int) -> bytes:
        fd = self._take()
        try:
            data = os.pread(fd, length, offset)
            if len(data) == length or not data:
                return data
            # Rare: a signal or the 2 GiB limit of one call, or simply the end of the file.
            parts = [data]
            done = len(data)
            while done < length and (data := os.pread(fd, length - done, offset + done)):
                parts.append(data)
                done += len(data)
            return parts[0] if len(parts) == 1 else b"".join(parts)
        except OSError as error:
            raise _as_disk_error(error, self.path) from error
        finally:
            self._give()

    def is_cached(self, length: int, offset: int) -> bool:
        if not _CAN_PROBE:
            return True
        fd = self._take()
        try:
            # The ends and the middle: what was written or read ahead together is cached together.
            os.preadv(fd, _PROBE, offset, _NOWAIT)
            if length > _READ_TOGETHER:
                os.preadv(fd, _PROBE, offset + length // 2, _NOWAIT)
                os.preadv(fd, _PROBE, offset + length - 1, _NOWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in (errno.EOPNOTSUPP, errno.EINVAL):
                return True
            raise _as_disk_error(error, self.path) from error
        finally:
            self._give()
        return True

    def append(self, *buffers: Buffer) -> None:
        fd = self._take()
        end = self._length
        try:
            for buffer in buffers:
                size = len(buffer)
                written = os.pwrite(fd, buffer, end)
                if written != size:
                    _write_rest(fd, memoryview(buffer)[written:], end + written)
                end += size
        except OSError as error:
            raise _as_disk_error(error, self.path) from error
        finally:
            self._give()
        self._length = end

    def pwrite(self, data: Buffer, offset: int) -> None:
        fd = self._take()
        try:
            _write_rest(fd, memoryview(data), offset)
        except OSError as error:
            raise _as_disk_error(error, self.path) from error
        finally:
            self._give()
        self._length = max(self._length, offset + len(data))

    def truncate(self, size: int) -> None:
        fd = self._take()
        try:
            os.ftruncate(fd, size)
        except OSError as error:
            raise _as_disk_error(error, self.path) from error
        finally:
            self._give()
        self._length = size

    def fsync(self) -> None:
        fd = self._take()
        try:
            with self._syncing:
                if self._lost is not None:
                    raise self._lost
                try:
                    os.fsync(fd)
                except OSError as error:
                    self._lost = _as_disk_error(error, self.path)
                    raise self._lost from error
        finally:
            self._give()

    def size(self) -> int:
        if self._length < 0:
            self._take()
            self._give()
        return self._length

    def moved_to(self, path: str) -> None:
        # Under the lock: an open that has begun by the old name is done before that name is given away.
        with self._pool.lock:
            self.path = path

    def close(self) -> None:
        with self._pool.lock:
            self._is_closing = True
            self._close_unused()

    def _close_unused(self) -> None:
        """The lock is held."""
        if self.users:
            return
        self._is_closing = False
        if self.fd >= 0:
            del self._pool.files[id(self)]
            os.close(self.fd)
            self.fd = -1


def _write_rest(fd: int, view: memoryview, offset: int) -> None:
    """Writes to the last byte: a short write (a full disk, a signal) goes on until the kernel says why."""
    while len(view) > 0:
        written = os.pwrite(fd, view, offset)
        if written == 0:
            raise OSError(errno.ENOSPC, "the kernel wrote 0 bytes")
        view = view[written:]
        offset += written


class PosixLock:
    """flock on a file of its own; the kernel drops it when the process ends, however it ends."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._path = path

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class PosixDisk:
    """Linux (macOS at best effort). One per process: its descriptor pool is the process's budget."""

    def __init__(self, max_open_files: int | None = None) -> None:
        if max_open_files is None:
            limit = raise_nofile_limit()
            max_open_files = max(64, min(limit - RESERVED_DESCRIPTORS, limit // 2))
        self._pool = _Pool(max_open_files)

    @property
    def open_files(self) -> int:
        return len(self._pool.files)

    def _open(self, path: str, flags: int) -> int:
        return self._with_a_descriptor(lambda: os.open(path, flags | os.O_CLOEXEC, 0o644))

    def _with_a_descriptor(self, work: Callable[[], T]) -> T:
        return _with_a_descriptor(work, self._pool.give_one_up)

    def open(self, path: str, create: bool = False) -> PosixFile:
        file = PosixFile(self._pool, path)
        if create:
            file.create(os.O_RDWR | os.O_CREAT)
        elif not self.exists(path):
            raise FileMissing(path)
        return file

    def read_bytes(self, path: str) -> bytes:
        with _told(path):
            return self._with_a_descriptor(Path(path).read_bytes)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        with _told(path):
            fd = self._open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            try:
                _write_rest(fd, memoryview(data), 0)
                if durable:
                    os.fsync(fd)
            finally:
                os.close(fd)
            Path(temporary).replace(path)
        if durable:
            self.fsync_dir(os.path.dirname(path) or ".")

    def exists(self, path: str) -> bool:
        return self._mode(path) is not None

    def is_dir(self, path: str) -> bool:
        mode = self._mode(path)
        return mode is not None and stat.S_ISDIR(mode)

    def _mode(self, path: str) -> int | None:
        # os.path.exists would answer "no" for a disk that fails with EIO.
        try:
            return os.stat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _as_disk_error(error, path) from error

    def list_dir(self, path: str) -> list[str]:
        with _told(path):
            return sorted(self._with_a_descriptor(lambda: os.listdir(path)))

    def make_dirs(self, path: str) -> None:
        with _told(path):
            os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        with _told(source):
            Path(source).replace(target)
        if durable:
            parent = os.path.dirname(target) or "."
            self.fsync_dir(parent)
            if (old_parent := os.path.dirname(source) or ".") != parent:
                self.fsync_dir(old_parent)

    def remove(self, path: str) -> None:
        with _told(path):
            Path(path).unlink(missing_ok=True)

    def remove_tree(self, path: str) -> None:
        with _told(path), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def fsync_dir(self, path: str) -> None:
        with _told(path):
            fd = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def file_size(self, path: str) -> int:
        with _told(path):
            return os.stat(path).st_size

    def lock(self, path: str) -> PosixLock:
        with _told(path):
            fd = self._open(path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                os.close(fd)
                raise AlreadyLocked(path) from error
            except OSError:
                os.close(fd)
                raise
        return PosixLock(fd, path)

    def free_bytes(self, path: str) -> int:
        with _told(path):
            usage = os.statvfs(path)
        return usage.f_bavail * usage.f_frsize

    def total_bytes(self, path: str) -> int:
        with _told(path):
            usage = os.statvfs(path)
        return usage.f_blocks * usage.f_frsize
