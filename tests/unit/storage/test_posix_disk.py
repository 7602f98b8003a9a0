"""The real disk: bounded descriptors, explicit durability, errors that name their file."""

import errno
import os
import resource
import threading
from pathlib import Path

import pytest

from tidelog.storage.ports import AlreadyLocked, DiskError, FileMissing
from tidelog.storage.posix import PosixDisk, raise_nofile_limit


@pytest.fixture
def posix() -> PosixDisk:
    return PosixDisk(max_open_files=4)


def test_descriptors_are_bounded_and_files_reopen_themselves(posix: PosixDisk, tmp_path: Path) -> None:
    files = [posix.open(f"{tmp_path}/{number}", create=True) for number in range(20)]
    for round_number in range(3):
        for number, file in enumerate(files):
            file.append(b"%d" % round_number, b",%02d;" % number)
            assert posix.open_files <= 4
    for number, file in enumerate(files):
        expected = b"".join(b"%d,%02d;" % (round_number, number) for round_number in range(3))
        assert file.pread(100, 0) == expected
        assert file.size() == len(expected)
        assert Path(f"{tmp_path}/{number}").read_bytes() == expected


def test_a_descriptor_in_use_is_not_taken_away(posix: PosixDisk, tmp_path: Path) -> None:
    files = [posix.open(f"{tmp_path}/{number}", create=True) for number in range(8)]
    for number, file in enumerate(files):
        file.append(b"%d" % number * 4096)
    wrong: list[int] = []

    def read(number: int) -> None:
        for _ in range(300):
            if files[number].pread(4096, 0) != b"%d" % number * 4096:
                wrong.append(number)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_truncate_then_append_goes_on_at_the_cut(posix: PosixDisk, tmp_path: Path) -> None:
    file = posix.open(f"{tmp_path}/log", create=True)
    file.append(b"0123456789")
    file.truncate(4)
    file.append(b"abc")
    file.pwrite(b"Z", 0)
    file.fsync()
    file.close()
    assert posix.open_files == 0
    assert file.pread(100, 0) == b"Z123abc"
    assert posix.open(f"{tmp_path}/log").size() == 7


def test_a_missing_file_is_told_apart_from_a_broken_disk(posix: PosixDisk, tmp_path: Path) -> None:
    with pytest.raises(FileMissing):
        posix.open(f"{tmp_path}/nothing")
    with pytest.raises(FileMissing):
        posix.read_bytes(f"{tmp_path}/nothing")
    with pytest.raises(FileMissing):
        posix.list_dir(f"{tmp_path}/nothing")
    assert not posix.exists(f"{tmp_path}/nothing")
    posix.remove(f"{tmp_path}/nothing")
    posix.remove_tree(f"{tmp_path}/nothing")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_an_error_with_errno_and_path(posix: PosixDisk) -> None:
    with pytest.raises(DiskError) as caught:
        posix.open("/dev/full").append(b"x")
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.errno_name == "ENOSPC"
    assert "/dev/full" in str(caught.value)


def test_write_atomic_replaces_and_leaves_no_temporary(posix: PosixDisk, tmp_path: Path) -> None:
    posix.write_atomic(f"{tmp_path}/checkpoint", b"one")
    posix.write_atomic(f"{tmp_path}/checkpoint", b"two")
    assert posix.read_bytes(f"{tmp_path}/checkpoint") == b"two"
    assert posix.list_dir(str(tmp_path)) == ["checkpoint"]


def test_directories(posix: PosixDisk, tmp_path: Path) -> None:
    posix.make_dirs(f"{tmp_path}/a/b")
    posix.make_dirs(f"{tmp_path}/a/b")
    posix.rename(f"{tmp_path}/a/b", f"{tmp_path}/c")
    assert posix.is_dir(f"{tmp_path}/c")
    assert not posix.is_dir(f"{tmp_path}/a/b")
    posix.open(f"{tmp_path}/c/file", create=True).append(b"12345")
    assert posix.file_size(f"{tmp_path}/c/file") == 5
    posix.remove_tree(f"{tmp_path}/c")
    assert posix.list_dir(str(tmp_path)) == ["a"]
    assert 0 < posix.free_bytes(str(tmp_path)) <= posix.total_bytes(str(tmp_path))


def test_the_lock_has_one_holder(posix: PosixDisk, tmp_path: Path) -> None:
    path = f"{tmp_path}/.lock"
    with posix.lock(path):
        with pytest.raises(AlreadyLocked) as caught:
            PosixDisk(max_open_files=1).lock(path)
        assert str(caught.value) == f"{path} is locked by another process"
    posix.lock(path).release()


def test_the_soft_limit_of_descriptors_is_raised() -> None:
    limit = raise_nofile_limit()
    assert limit == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_an_fsync_that_fails_fails_for_everybody_who_syncs_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells of lost pages once: whoever syncs meanwhile, or later, must not take them for written."""
    file = PosixDisk(64).open(str(tmp_path / "log"), create=True)
    file.append(b"record")
    in_kernel, go_on = threading.Event(), threading.Event()

    def fsync(fd: int) -> None:
        if not in_kernel.is_set():
            in_kernel.set()
            go_on.wait(30)
            raise OSError(errno.EIO, "lost")

    monkeypatch.setattr(os, "fsync", fsync)
    told: list[DiskError] = []

    def sync() -> None:
        try:
            file.fsync()
        except DiskError as error:
            told.append(error)

    first, second = threading.Thread(target=sync), threading.Thread(target=sync)
    first.start()
    assert in_kernel.wait(30)
    second.start()
    go_on.set()
    first.join()
    second.join()
    sync()
    assert len(told) == 3


def test_a_file_that_is_closed_while_it_is_synced_gives_its_descriptor_back_afterwards(
    posix: PosixDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the log of a topic that is deleted during a flush: its room on disk is taken as long as it is open."""
    file = posix.open(f"{tmp_path}/log", create=True)
    file.append(b"0123456789")
    fsync = os.fsync

    def closed_meanwhile(fd: int) -> None:
        file.close()
        # Somebody is still using it.
        assert os.pread(fd, 4, 0) == b"0123"
        fsync(fd)

    monkeypatch.setattr(os, "fsync", closed_meanwhile)
    file.fsync()
    assert posix.open_files == 0
    assert file.pread(4, 0) == b"0123"
    assert posix.open_files == 1


def test_connections_that_take_every_descriptor_leave_files_theirs(tmp_path: Path) -> None:
    """A directory that met EMFILE would be offline for good, however soon clients are gone again."""
    disk = PosixDisk(max_open_files=64)
    files = [disk.open(f"{tmp_path}/{number}", create=True) for number in range(8)]
    for file in files:
        file.append(b"x")
    rarely = disk.open(f"{tmp_path}/rarely", create=True)
    rarely.close()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 4, hard))
    taken: list[int] = []
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        rarely.append(b"record")
        disk.write_atomic(f"{tmp_path}/checkpoint", b"0")
        assert disk.read_bytes(f"{tmp_path}/checkpoint") == b"0"
        assert "rarely" in disk.list_dir(str(tmp_path))
        assert rarely.pread(100, 0) == b"record"
        with disk.lock(f"{tmp_path}/.lock"):
            assert disk.open_files > 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in taken:
            os.close(fd)


def test_a_file_says_so_when_no_descriptor_can_be_given_up_for_it(
    posix: PosixDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = posix.open(f"{tmp_path}/log", create=True)
    file.append(b"x")

    def none_left(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", none_left)
    with pytest.raises(DiskError, match="EMFILE"):
        posix.write_atomic(f"{tmp_path}/checkpoint", b"0")
    assert posix.open_files == 0
