"""One supervisor a directory: a lock that its holder's death releases, however it dies."""

import fcntl
import os
from pathlib import Path

from tidelog.cluster.errors import ClusterError


class DirectoryLock:
    """An flock on `DIR/supervisor.lock`, with the holder's process id inside for people."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def take(cls, path: Path) -> "DirectoryLock":
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_at(fd, path):
                # A start that failed has removed the file in the meantime.
                os.close(fd)
                return cls.take(path)
        except BlockingIOError as error:
            holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise ClusterError(
                f"a cluster is already running in {path.parent} (supervisor pid {holder or 'unknown'})"
            ) from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        return cls(fd)

    @classmethod
    def refuse_if_held(cls, path: Path) -> None:
        """ClusterError if a supervisor lives; creates nothing where there is no lock file yet."""
        if path.exists():
            cls.take(path).release()

    def release(self) -> None:
        # Not only closed: a process that the user forked may hold a copy of the descriptor, and with it the lock.
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        os.close(self._fd)


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
