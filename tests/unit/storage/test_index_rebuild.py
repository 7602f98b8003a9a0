"""An index that is made again is trusted as soon as it is there: it has to be there whole, or not at all."""

import copy
import random
from collections.abc import Callable

import pytest

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import TopicPartition
from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk

NOW = 1_700_000_000_000
DIR = "/data/orders-0"
INDEXES = (f"{DIR}/00000000000000000000.index", f"{DIR}/00000000000000000000.timeindex")
HOUR_MS = 3_600_000
# Over more than two hours, the last just now; entries enough for more than one write.
BATCHES = 900
MakeBatch = Callable[..., memoryview]
Remake = Callable[[MemoryDisk], None]


class Killed(BaseException):
    """The process ends where this is raised."""


def _open(disk: MemoryDisk) -> Log:
    config = TopicConfig(segment_bytes=10**7, index_interval_bytes=64, segment_ms=10**12, retention_ms=HOUR_MS)
    point = BATCHES + 1
    return Log.open(
        disk, DIR, TopicPartition("orders", 0), config, recovery_point=point if disk.exists(DIR) else 0,
        high_watermark=point, clean_shutdown=False, now_ms=NOW, rng=random.Random(1),
    )  # fmt: skip


@pytest.fixture(scope="module")
def flushed(batch: MakeBatch) -> MemoryDisk:
    """A closed segment, and another one behind it; all of it durable."""
    disk = MemoryDisk()
    disk.make_dirs("/data")
    disk.fsync_dir("/")
    log = _open(disk)
    for number in reversed(range(BATCHES)):
        log.append_as_leader(batch(timestamps=[NOW - number * 10_000], value_size=80), 0, NOW)
    log.roll(NOW)
    log.append_as_leader(batch(), 0, NOW)
    log.flush(NOW)
    log.close_files()
    return disk


def _without(disk: MemoryDisk) -> MemoryDisk:
    """As after a compaction that was interrupted between its renames."""
    copied = copy.deepcopy(disk)
    for path in INDEXES:
        copied.remove(path)
    copied.fsync_dir(DIR)
    return copied


def _start_killed_at(disk: MemoryDisk, operation: int) -> bool:
    """Whether the start came so far."""
    done = 0

    def kill(kind: str, path: str) -> None:
        nonlocal done
        done += 1
        if done == operation:
            raise Killed

    disk.fault = kill
    try:
        _open(disk)
    except Killed:
        return True
    finally:
        disk.fault = None
    return False


@pytest.mark.parametrize("end", ["kill", "power cut"])
def test_a_start_that_ends_while_it_makes_the_indexes_again_leaves_no_half_of_one(
    flushed: MemoryDisk, end: str
) -> None:
    whole = [flushed.read_bytes(path) for path in INDEXES]
    assert len(whole[1]) > 2 * 4096
    operation = 1
    while True:
        disk = _without(flushed)
        if not _start_killed_at(disk, operation):
            break
        if end == "power cut":
            disk.crash(random.Random(operation), lose_entries=True)
        log = _open(disk)
        assert [disk.read_bytes(path) for path in INDEXES] == whole, operation
        assert log.segments[0].max_timestamp == NOW, operation
        # The newest record of that segment was written just now.
        assert log.delete_old_segments(NOW + 60_000) == 0, operation
        operation += 1
    assert operation > 20


def test_a_power_cut_after_the_start_leaves_them_whole(flushed: MemoryDisk) -> None:
    whole = [flushed.read_bytes(path) for path in INDEXES]
    for seed in range(10):
        disk = _without(flushed)
        _open(disk)
        disk.crash(random.Random(seed), lose_entries=True)
        assert [disk.read_bytes(path) for path in INDEXES] == whole
        assert _open(disk).recovery_notes == []


def test_an_empty_time_index_is_made_again(flushed: MemoryDisk) -> None:
    disk = copy.deepcopy(flushed)
    disk.open(INDEXES[1]).truncate(0)
    log = _open(disk)
    assert "its time index is empty" in log.recovery_notes[0]
    assert log.segments[0].max_timestamp == NOW
    assert disk.read_bytes(INDEXES[1]) == flushed.read_bytes(INDEXES[1])


def test_records_without_timestamps_leave_it_empty(batch: MakeBatch, open_log: Callable[..., Log]) -> None:
    log = open_log()
    log.append_as_follower(batch(timestamps=[-1, -1], base_offset=0), NOW)
    log.roll(NOW)
    log.append_as_follower(batch(base_offset=2), NOW)
    log.flush(NOW)
    assert log.segments[0].time_index.entries == 0
    assert open_log(recovery_point=3).recovery_notes == []
