"""Temporary directories of clusters whose process was killed: kept for a day for inspection, then removed.

A temporary cluster marks its directory while it holds the directory's lock. The kernel frees the lock when the process
ends, however it ends. So a directory that is marked and not locked belongs to no running cluster. The mark goes away
when a failed test keeps its data: that directory is never removed.
"""

import functools
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

from tidelog.cluster.directory_lock import DirectoryLock
from tidelog.cluster.errors import ClusterError
from tidelog.cluster.layout import ClusterDir

PREFIX: Final = "tidelog-"
MARK: Final = "temporary"
KEPT_S: Final = 24 * 3600.0
# A start should not wait for long. The others are removed by the processes after this one.
_AT_ONCE: Final = 10


def mark(directory: Path) -> None:
    """The directory is to be removed if nothing else does; its lock must be held."""
    (directory / MARK).touch()


def unmark(directory: Path) -> None:
    (directory / MARK).unlink(missing_ok=True)


@functools.cache
def remove_old_once() -> None:
    """At the first temporary cluster of this process."""
    remove_old()


def remove_old(parent: Path | None = None, *, older_than_s: float = KEPT_S) -> list[Path]:
    """Removes directories that killed processes of this user left; returns their paths."""
    parent = parent if parent is not None else Path(tempfile.gettempdir())
    before_s = time.time() - older_than_s  # noqa: TID251 - compared with the time stamps of files
    removed: list[Path] = []
    for directory in sorted(parent.glob(f"{PREFIX}*")):
        if len(removed) == _AT_ONCE:
            break
        if _is_old(directory, before_s) and _remove(directory):
            removed.append(directory)
    return removed


def _is_old(directory: Path, before_s: float) -> bool:
    try:
        owner = directory.lstat().st_uid
        marked_s = (directory / MARK).lstat().st_mtime
    except OSError:
        # Not readable for this user, not marked, or just removed by another process.
        return False
    return owner == os.getuid() and not directory.is_symlink() and marked_s < before_s


def _remove(directory: Path) -> bool:
    try:
        lock = DirectoryLock.take(ClusterDir(directory).lock_file)
    except (ClusterError, OSError):
        # A cluster runs in it, or another process removes it now.
        return False
    try:
        shutil.rmtree(directory, ignore_errors=True)
    finally:
        lock.release()
    return not directory.exists()
