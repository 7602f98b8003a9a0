"""The disk as the log sees it. Paths are `str`; every failure of the world is a `DiskError`.

What a caller may rely on after a crash: bytes for which `fsync` returned, and directory entries for which `fsync_dir`
(or an operation said to be durable) returned. Nothing else.
"""

import errno
from types import TracebackType
from typing import Protocol, Self

from tidelog.wire.buffers import Buffer


class DiskError(OSError):
    """The disk refused or failed; carries errno and path. A directory that raises one is not to be trusted."""

    def __init__(self, code: int, reason: str, path: str) -> None:
        super().__init__(code, reason, path)
        self.path = path

    @property
    def errno_name(self) -> str:
        """``ENOSPC``, ``EIO`` … for people."""
        return errno.errorcode.get(self.errno or 0, str(self.errno))

    def __str__(self) -> str:
        return f"{self.errno_name} on {self.path}: {self.strerror}"


class FileMissing(DiskError):
    """The path does not exist: an answer, not a broken disk."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ENOENT, "no such file or directory", path)


class AlreadyLocked(Exception):
    """Another process holds the lock of a log directory."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is locked by another process")
        self.path = path


class DiskFile(Protocol):
    """An open file. It may lose its descriptor to others at any time and reopens itself on the next use."""

    @property
    def path(self) -> str: ...

    def pread(self, length: int, offset: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        ...

    def is_cached(self, length: int, offset: int) -> bool:
        """Whether `pread` of this range would likely not wait for the device. True where nobody can tell."""
        ...

    def append(self, *buffers: Buffer) -> None:
        """All buffers at the end of the file, or DiskError (the end of the file is then unknown)."""
        ...

    def pwrite(self, data: Buffer, offset: int) -> None: ...

    def truncate(self, size: int) -> None: ...

    def fsync(self) -> None: ...

    def size(self) -> int: ...

    def moved_to(self, path: str) -> None:
        """The file was renamed: from now on it opens again there, and never what takes its old name."""
        ...

    def close(self) -> None:
        """Gives the descriptor back. The file can still be used: it opens again."""
        ...


class Lock(Protocol):
    """Held until `release`, or until the process ends."""

    def release(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Disk(Protocol):
    """A file system with its durability made explicit."""

    def open(self, path: str, create: bool = False) -> DiskFile:
        """The file at `path`; FileMissing if it is not there and `create` is false."""
        ...

    def read_bytes(self, path: str) -> bytes:
        """The whole file, or FileMissing."""
        ...

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Replaces the file durably: readers, and we after a crash, see the old bytes or the new, nothing else.

        With `durable=False` that holds for readers only; after a power cut it may be torn, and must be allowed to be.
        """
        ...

    def exists(self, path: str) -> bool: ...

    def is_dir(self, path: str) -> bool: ...

    def list_dir(self, path: str) -> list[str]:
        """Names in the directory, sorted; FileMissing if there is none."""
        ...

    def make_dirs(self, path: str) -> None:
        """The directory and its parents; no error if they exist. Durable once the parent is `fsync_dir`-ed."""
        ...

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        """Moves a file or directory over `target`; `durable=False` leaves the `fsync_dir` to the caller."""
        ...

    def remove(self, path: str) -> None:
        """Unlinks a file; no error if it is already gone. Durable after `fsync_dir`."""
        ...

    def remove_tree(self, path: str) -> None:
        """A directory and all in it; no error if it is already gone."""
        ...

    def fsync_dir(self, path: str) -> None: ...

    def file_size(self, path: str) -> int:
        """Bytes, or FileMissing."""
        ...

    def lock(self, path: str) -> Lock:
        """An exclusive lock on a file made for it, or AlreadyLocked."""
        ...

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int: ...
