"""What the kernel has in memory is told from what it would have to read."""

import os
from pathlib import Path

import pytest

from tidelog.storage.ports import DiskFile
from tidelog.storage.posix import PosixDisk


def is_cached(file: DiskFile, size: int, position: int) -> bool:
    """The kernel may also refuse because a page is being written back, and then says so only for a moment."""
    return any(file.is_cached(size, position) for _ in range(1000))


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="only Linux can tell")
def test_a_range_that_was_written_is_cached_and_one_that_was_dropped_is_not(tmp_path: Path) -> None:
    path = tmp_path / "file"
    disk = PosixDisk()
    file = disk.open(str(path), create=True)
    size = 8 << 20
    file.append(b"x" * size)
    assert is_cached(file, size, 0)
    file.fsync()
    with path.open("rb") as other:
        os.posix_fadvise(other.fileno(), 0, size, os.POSIX_FADV_DONTNEED)
    # Some file systems keep everything in memory, and then there is nothing to wait for.
    if file.is_cached(4096, size // 2):
        return
    assert not file.is_cached(size, 0)
    assert file.pread(size, 0) == b"x" * size
    assert is_cached(file, 4096, size // 2)
