"""Disks that fail while they work and rot while they do not."""

import asyncio
import errno
import random

import pytest

from tidelog.sim.disk import KEPT_VERSIONS, SimDisk
from tidelog.sim.disk_faults import DiskFaults
from tidelog.sim.faults.storage import unprotected
from tidelog.sim.links import Delay
from tidelog.sim.loop import VirtualLoop, run
from tidelog.sim.offload import SimOffload
from tidelog.storage.ports import DiskError, FileMissing
from tidelog.wire.records.plain import Record, encode_batch


def disk_with(**files: bytes) -> tuple[SimDisk, DiskFaults]:
    disk, faults = SimDisk(), DiskFaults()
    disk.make_dirs("/d")
    for name, content in files.items():
        file = disk.open(f"/d/{name}", create=True)
        file.append(content)
    disk.settle()
    disk.fault = faults
    return disk, faults


def code_of(error: pytest.ExceptionInfo[DiskError]) -> int | None:
    return error.value.errno


def test_a_power_cut_takes_unsynced_bytes_file_by_file() -> None:
    outcomes: set[tuple[int, int]] = set()
    for seed in range(60):
        disk, _ = disk_with(a=b"kept", b=b"kept")
        for name in ("/d/a", "/d/b"):
            disk.open(name).append(b"maybe")
        assert disk.unsynced_bytes() == 10
        disk.crash(random.Random(seed))
        a, b = disk.read_bytes("/d/a"), disk.read_bytes("/d/b")
        assert a.startswith(b"kept")
        assert b.startswith(b"kept")
        outcomes.add((len(a), len(b)))
    # Each file has its own fate: whole and gone, gone and whole, and torn in between.
    assert {(9, 4), (4, 9), (4, 4), (9, 9)} <= outcomes
    assert any(4 < a < 9 for a, _ in outcomes)


def test_onlookers_hear_of_appends_cuts_and_small_files() -> None:
    disk, _ = disk_with(log=bytes(100))
    heard: list[str] = []
    disk.on_write = heard.append
    file = disk.open("/d/log")
    file.append(b"more")
    file.truncate(10)
    file.fsync()
    disk.write_atomic("/d/small", b"state")
    assert heard == ["/d/log", "/d/log", "/d/small"]


def test_rot_flips_one_bit_for_good() -> None:
    disk, _ = disk_with(log=bytes(100))
    position = disk.rot("/d/log", random.Random(1))
    assert position is not None
    rotten = disk.read_bytes("/d/log")
    assert sum(byte.bit_count() for byte in rotten) == 1
    assert rotten[position]
    disk.crash(random.Random(2))
    assert disk.read_bytes("/d/log") == rotten
    disk.open("/d/empty", create=True)
    assert disk.rot("/d/empty", random.Random(1)) is None


def test_rot_hits_what_a_crc_covers() -> None:
    """A base offset and a leader epoch are covered by none: a node that takes them as they stand does nothing wrong."""
    batch = bytes(encode_batch([Record(timestamp=0, key=None, value=b"value")]))
    spared = unprotected(batch + batch + batch[:70])
    heads = (*range(8), *range(12, 16))
    assert spared == {number * len(batch) + position for number in range(3) for position in heads}
    for seed in range(200):
        disk, _ = disk_with(log=batch)
        position = disk.rot("/d/log", random.Random(seed), spared=spared)
        assert position is not None
        assert position not in spared


def test_small_files_are_lost_or_fall_back() -> None:
    disk, _ = disk_with()
    path = "/d/checkpoint"
    assert not disk.make_stale(path, random.Random(1))
    for number in range(10):
        disk.write_atomic(path, b"%d" % number)
    assert disk.stale_versions(path) == KEPT_VERSIONS
    assert disk.make_stale(path, random.Random(1))
    assert int(disk.read_bytes(path)) in range(9 - KEPT_VERSIONS, 9)
    disk.remove(path)
    assert disk.make_stale(path, random.Random(1))
    disk.lose(path)
    disk.crash(random.Random(1), lose_entries=True)
    with pytest.raises(FileMissing):
        disk.read_bytes(path)


def test_operations_fail_where_and_when_it_was_said() -> None:
    disk, faults = disk_with(a=b"", b=b"")
    faults.fail(errno.EIO, "append", path_part="/a", skip=1)
    a, b = disk.open("/d/a"), disk.open("/d/b")
    a.append(b"first")
    b.append(b"first")
    with pytest.raises(DiskError) as failed:
        a.append(b"half")
    assert code_of(failed) == errno.EIO
    a.append(b"third")
    assert a.pread(99, 0) == b"firsthathird"
    faults.fsync_error()
    with pytest.raises(DiskError):
        b.fsync()
    b.fsync()


def test_a_full_disk_still_reads_and_one_that_is_gone_does_nothing() -> None:
    disk, faults = disk_with(a=b"content")
    full = faults.full()
    with pytest.raises(DiskError) as failed:
        disk.write_atomic("/d/b", b"")
    assert code_of(failed) == errno.ENOSPC
    assert disk.read_bytes("/d/a") == b"content"
    faults.remove(full)
    disk.write_atomic("/d/b", b"")
    faults.gone("/d")
    with pytest.raises(DiskError):
        disk.read_bytes("/d/a")
    disk.make_dirs("/other")
    faults.clear()
    assert disk.read_bytes("/d/a") == b"content"


def test_faults_outlive_the_process_and_its_contents_too() -> None:
    disk, faults = disk_with()
    disk.write_atomic("/d/a", b"content")
    disk.write_atomic("/d/a", b"new")
    faults.full()
    heir = disk.hand_over()
    with pytest.raises(DiskError):
        heir.write_atomic("/d/a", b"newer")
    faults.clear()
    assert heir.contents() == {"/d/a": b"new"}
    assert heir.files("/d") == ["/d/a"]
    assert heir.make_stale("/d/a", random.Random(0))
    assert heir.read_bytes("/d/a") == b"content"


def test_slow_work_takes_effect_within_its_time() -> None:
    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        offload = SimOffload(random.Random(3), Delay(1.0, 0.0))
        done: list[float] = []
        for _ in range(20):
            before = loop.time()
            at = await offload(loop.time)
            assert loop.time() - before == pytest.approx(1.0)
            done.append(at - before)
        offload.delay = None
        assert await offload(loop.time) == loop.time()
        return done

    done = run(story(), loop=VirtualLoop())
    assert 0 <= min(done) < 0.3
    assert 0.7 < max(done) <= 1


def test_a_byte_is_misread_as_long_as_its_batch_stands_there() -> None:
    disk, _ = disk_with(log=b"01234567")
    read: list[None] = []
    repair = disk.misread("/d/log", range(2, 6), 3, 1, lambda: read.append(None))
    file = disk.open("/d/log")
    assert (file.pread(2, 0), file.pread(4, 4), len(read)) == (b"01", b"4567", 0)
    assert (file.pread(8, 0), file.pread(1, 3), len(read)) == (b"01224567", b"2", 1), (
        "struck where the whole batch is read"
    )
    assert disk.read_bytes("/d/log") == b"01224567"
    assert disk.peek("/d/log", 0, 8) == b"01234567", "an onlooker sees what was written"
    file = disk.hand_over().open("/d/log")
    assert file.pread(8, 0) == b"01224567", "also by the next process"
    file.truncate(4)
    file.append(b"abcd")
    assert file.pread(8, 0) == b"0123abcd", "something else stands there now"
    file.truncate(4)
    file.append(b"4567")
    repair()
    assert file.pread(8, 0) == b"01234567"
