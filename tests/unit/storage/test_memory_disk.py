"""The disk that forgets: what a power cut may and may not take."""

import errno
import random
from pathlib import Path

import pytest

from tidelog.storage.memory import MemoryDisk
from tidelog.storage.ports import AlreadyLocked, Disk, DiskError, FileMissing
from tidelog.storage.posix import PosixDisk

SEEDS = range(200)


def _disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dirs("/d")
    disk.fsync_dir("/")
    return disk


def test_synced_bytes_survive_and_the_rest_is_a_prefix_or_torn() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = _disk()
        file = disk.open("/d/log", create=True)
        file.append(b"synced")
        file.fsync()
        disk.fsync_dir("/d")
        file.append(b"volatile")
        disk.crash(random.Random(seed), lose_entries=True)
        survived = disk.read_bytes("/d/log")
        assert survived.startswith(b"synced")
        assert b"syncedvolatile".startswith(survived.rstrip(b"\0"))
        outcomes.add(survived)
    assert {b"synced", b"syncedvolatile"} < outcomes
    assert any(outcome.endswith(b"\0") for outcome in outcomes)


def test_a_cut_that_was_not_synced_may_be_undone() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = _disk()
        file = disk.open("/d/log", create=True)
        file.append(b"0123456789")
        file.fsync()
        file.truncate(3)
        disk.crash(random.Random(seed))
        outcomes.add(disk.read_bytes("/d/log"))
    assert outcomes == {b"0123456789", b"012"}


def test_names_live_only_once_their_directory_is_synced() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = _disk()
        disk.open("/d/old", create=True).append(b"x")
        disk.open("/d/old").fsync()
        disk.fsync_dir("/d")
        disk.rename("/d/old", "/d/new", durable=False)
        disk.crash(random.Random(seed), lose_entries=True)
        outcomes.add(tuple(disk.list_dir("/d")))
        assert outcomes
    assert ("new",) in outcomes
    assert ("old",) in outcomes
    disk = _disk()
    disk.open("/d/old", create=True)
    disk.rename("/d/old", "/d/new")
    disk.crash(random.Random(1), lose_entries=True)
    assert disk.list_dir("/d") == ["new"]


def test_write_atomic_is_durable() -> None:
    for seed in SEEDS:
        disk = _disk()
        disk.write_atomic("/d/checkpoint", b"one")
        disk.write_atomic("/d/checkpoint", b"two")
        disk.crash(random.Random(seed), lose_entries=True)
        assert disk.read_bytes("/d/checkpoint") == b"two"


def test_the_same_seed_crashes_the_same_way() -> None:
    def crashed(seed: int) -> list[bytes]:
        disk = _disk()
        for name in "abcdef":
            disk.open(f"/d/{name}", create=True).append(b"0123456789")
        disk.crash(random.Random(seed), lose_entries=True)
        return [disk.read_bytes(f"/d/{name}") for name in disk.list_dir("/d")]

    assert crashed(5) == crashed(5)


def test_a_full_disk_takes_part_of_a_write() -> None:
    disk = MemoryDisk(capacity=10)
    disk.make_dirs("/d")
    file = disk.open("/d/log", create=True)
    file.append(b"12345678")
    with pytest.raises(DiskError) as caught:
        file.append(b"abcdef")
    assert caught.value.errno_name == "ENOSPC"
    assert file.pread(100, 0) == b"12345678ab"
    assert disk.free_bytes("/d") == 0


def test_faults_are_injected_by_operation_and_path() -> None:
    disk = _disk()
    file = disk.open("/d/log", create=True)
    disk.fault = lambda operation, path: errno.EIO if operation == "fsync" and path == "/d/log" else None
    file.append(b"x")
    with pytest.raises(DiskError) as caught:
        file.fsync()
    assert caught.value.errno == errno.EIO
    disk.fault = None
    file.fsync()


def _failed_fsync(disk: MemoryDisk) -> None:
    """Of six synced bytes and eight that are not, on a disk that fails once."""
    file = disk.open("/d/log", create=True)
    file.append(b"synced")
    file.fsync()
    disk.fsync_dir("/d")
    file.append(b"volatile")
    disk.fault = lambda operation, path: errno.EIO if operation == "fsync" else None
    with pytest.raises(DiskError):
        file.fsync()
    disk.fault = None


def test_what_a_failed_fsync_was_to_write_is_written_by_no_later_one() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = _disk()
        _failed_fsync(disk)
        disk.open("/d/log").fsync()
        # As after a kill: it is in the page cache.
        assert disk.read_bytes("/d/log") == b"syncedvolatile"
        disk.crash(random.Random(seed), lose_entries=True)
        outcomes.add(disk.read_bytes("/d/log"))
    assert {b"synced", b"syncedvolatil"} < outcomes <= {b"syncedvolatile"[:size] for size in range(6, 14)}


def test_behind_it_the_file_goes_on() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = _disk()
        _failed_fsync(disk)
        file = disk.open("/d/log")
        file.append(b"more")
        file.fsync()
        assert file.pread(100, 0) == b"syncedvolatilemore"
        file.append(b"!")
        disk.crash(random.Random(seed), lose_entries=True)
        survived = disk.read_bytes("/d/log").rstrip(b"!")
        assert survived.startswith(b"synced")
        assert survived.rstrip(b"\0").endswith(b"more")
        outcomes.add(survived.rstrip(b"\0"))
    assert b"synced\0\0\0\0\0\0\0\0more" in outcomes
    assert b"syncedvolatilemore" not in outcomes


def test_what_is_written_again_is_durable_with_the_next_fsync() -> None:
    for seed in SEEDS:
        disk = _disk()
        _failed_fsync(disk)
        file = disk.open("/d/log")
        file.pwrite(b"volatile", 6)
        file.fsync()
        disk.crash(random.Random(seed), lose_entries=True)
        assert disk.read_bytes("/d/log") == b"syncedvolatile"
        disk = _disk()
        _failed_fsync(disk)
        file = disk.open("/d/log")
        file.truncate(6)
        file.append(b"again")
        file.fsync()
        disk.crash(random.Random(seed), lose_entries=True)
        assert disk.read_bytes("/d/log") == b"syncedagain"


def test_a_file_does_not_get_shorter_by_being_written_over() -> None:
    outcomes = set()
    for seed in SEEDS:
        disk = _disk()
        file = disk.open("/d/log", create=True)
        file.append(b"0123456789")
        file.fsync()
        file.pwrite(b"012x456", 0)
        disk.crash(random.Random(seed))
        outcomes.add(disk.read_bytes("/d/log"))
    assert outcomes == {b"0123456789", b"012x456789"}


def test_bytes_that_were_cut_off_do_not_come_back_in_the_place_of_those_that_failed() -> None:
    for seed in SEEDS:
        disk = _disk()
        file = disk.open("/d/log", create=True)
        file.append(b"0123456789")
        file.fsync()
        file.truncate(3)
        file.append(b"abc")
        disk.fault = lambda operation, path: errno.EIO if operation == "fsync" else None
        with pytest.raises(DiskError):
            file.fsync()
        disk.fault = None
        file.append(b"de")
        file.fsync()
        disk.crash(random.Random(seed))
        survived = disk.read_bytes("/d/log")
        assert survived in (b"012\0\0\0de", b"012a\0\0de", b"012ab\0de")


def test_names_that_could_not_be_synced_are_there_when_it_succeeds() -> None:
    for seed in SEEDS:
        disk = _disk()
        file = disk.open("/d/log", create=True)
        file.fsync()
        disk.fault = lambda operation, path: errno.EIO if operation == "fsync_dir" else None
        with pytest.raises(DiskError):
            disk.fsync_dir("/d")
        disk.fault = None
        disk.fsync_dir("/d")
        disk.crash(random.Random(seed), lose_entries=True)
        assert disk.list_dir("/d") == ["log"]


def test_directories_and_locks() -> None:
    disk = _disk()
    disk.make_dirs("/d/t-0")
    disk.open("/d/t-0/log", create=True).append(b"x")
    disk.rename("/d/t-0", "/d/t-0.x-delete")
    assert disk.list_dir("/d/t-0.x-delete") == ["log"]
    disk.remove_tree("/d/t-0.x-delete")
    assert disk.list_dir("/d") == []
    with pytest.raises(FileMissing):
        disk.open("/gone/log", create=True)
    with disk.lock("/d/.lock"), pytest.raises(AlreadyLocked):
        disk.lock("/d/.lock")
    disk.lock("/d/.lock")
    disk.crash(random.Random(0))
    disk.lock("/d/.lock")


@pytest.mark.parametrize("is_real", [False, True], ids=["memory", "posix"])
def test_a_file_that_was_closed_opens_again_by_its_name(tmp_path: Path, is_real: bool) -> None:
    """Whatever stands there by then: a file that was renamed or removed has to be told so."""
    disk: Disk = PosixDisk(max_open_files=4) if is_real else MemoryDisk()
    root = str(tmp_path)
    disk.make_dirs(root)
    file, held = (disk.open(f"{root}/log", create=True) for _ in range(2))
    file.append(b"old")
    assert held.pread(10, 0) == b"old"
    file.close()
    disk.rename(f"{root}/log", f"{root}/log.deleted")
    with pytest.raises(FileMissing):
        file.pread(10, 0)
    disk.open(f"{root}/log", create=True).append(b"new")
    assert file.pread(10, 0) == b"new"
    file.close()
    file.moved_to(f"{root}/log.deleted")
    assert file.pread(10, 0) == b"old"
    # Who has it open keeps it, also when it is removed.
    disk.remove(f"{root}/log.deleted")
    assert held.pread(10, 0) == file.pread(10, 0) == b"old"
