"""Appending: offsets, epochs, rolls, duplicates, flushes, and what a failing disk may not do."""

import errno
import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from tidelog.core.config.topic import TopicConfig
from tidelog.storage.directory import LogDirectoryOffline
from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk
from tidelog.storage.ports import DiskError
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.batch import read_header

NOW = 1_700_000_000_000
MakeBatch = Callable[..., memoryview]
MakeLog = Callable[..., Log]


def _bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


@pytest.mark.rule("P3")
def test_the_leader_assigns_offsets_and_stamps_its_epoch(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    first = log.append_as_leader(batch(3), 5, NOW)
    second = log.append_as_leader(batch(2), 6, NOW)
    assert (first.first_offset, first.last_offset) == (0, 2)
    assert (second.first_offset, second.last_offset) == (3, 4)
    assert log.log_end_offset == 5
    stored = log.read(0, 1 << 20, upper_bound=5, min_one=True).read()
    header = read_header(stored)
    assert (header.base_offset, header.partition_leader_epoch) == (0, 5)
    header = read_header(stored, header.size_in_bytes)
    assert (header.base_offset, header.partition_leader_epoch) == (3, 6)
    assert log.epochs.entries == [(5, 0), (6, 3)]


@pytest.mark.rule("E4")
def test_a_new_leader_opens_its_epoch_at_its_end_and_cuts_nothing(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    log.append_as_leader(batch(4), 1, NOW)
    log.assign_epoch_start(2, log.log_end_offset)
    assert log.log_end_offset == 4
    assert log.end_offset_for_epoch(1) == (1, 4)
    assert log.end_offset_for_epoch(2) == (2, 4)


@pytest.mark.rule("E1")
def test_epochs_are_on_disk_before_the_recovery_point_passes_them(
    disk: MemoryDisk, open_log: MakeLog, batch: MakeBatch
) -> None:
    log = open_log()
    log.append_as_leader(batch(4), 1, NOW)
    log.append_as_leader(batch(1), 3, NOW)
    log.flush(NOW)
    assert disk.read_bytes("/data/orders-0/leader-epoch-checkpoint") == b"0\n2\n1 0\n3 4\n"


def test_a_follower_keeps_the_bytes_and_learns_the_epochs(open_log: MakeLog, batch: MakeBatch) -> None:
    fetched = b"".join(
        bytes(batch(2, base_offset=base, leader_epoch=epoch)) for base, epoch in ((0, 1), (2, 1), (4, 2))
    )
    log = open_log(segment_bytes=len(fetched) // 2)
    info = log.append_as_follower(memoryview(fetched), NOW)
    assert (info.first_offset, info.last_offset, log.log_end_offset) == (0, 5, 6)
    assert log.epochs.entries == [(1, 0), (2, 4)]
    parts = [log.read(offset, 1 << 20, upper_bound=6, min_one=True).read() for offset in _bases(log)]
    assert len(parts) > 1
    assert b"".join(parts) == fetched


@pytest.mark.parametrize(
    ("batches_a_segment", "config", "bases"),
    [
        (100, {}, [0]),
        (4, {}, [0, 4, 8]),
        (1, {}, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        # Counted from the first batch of a segment, once that is in its file.
        (100, {"segment_ms": 1000}, [0, 4]),
    ],
)
def test_an_answer_of_many_batches_is_rolled_between_them(
    open_log: MakeLog, batch: MakeBatch, batches_a_segment: int, config: dict[str, int], bases: list[int]
) -> None:
    log = open_log(segment_bytes=batches_a_segment * len(batch(1)), **config)
    times = (0, 400, 900, 1000, 1001, 300, 1500, 2002, 2003)
    batches = [batch(timestamps=[NOW + at], base_offset=base, leader_epoch=1) for base, at in enumerate(times)]
    log.append_as_follower(batches[0], NOW)
    log.append_as_follower(memoryview(b"".join(batches[1:])), NOW)
    assert _bases(log) == bases
    assert log.log_end_offset == len(times)
    stored = [log.read(base, 1 << 20, upper_bound=len(times), min_one=True).read() for base in bases]
    assert b"".join(stored) == b"".join(batches)


def test_a_follower_refuses_what_does_not_continue_its_log(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    log.append_as_follower(batch(3, base_offset=0, leader_epoch=1), NOW)
    with pytest.raises(ApiError) as caught:
        log.append_as_follower(batch(3, base_offset=2, leader_epoch=1), NOW)
    assert caught.value.code is ErrorCode.INVALID_RECORD
    damaged = batch(1, base_offset=3, leader_epoch=1)
    damaged[-1] ^= 1
    with pytest.raises(ApiError) as caught:
        log.append_as_follower(damaged, NOW)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 3


@pytest.mark.rule("P4")
def test_a_retry_gets_the_first_offsets_also_after_a_restart(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    producer = {"producer_id": 9, "producer_epoch": 0}
    log.append_as_leader(batch(2, base_sequence=0, **producer), 0, NOW)
    log.append_as_leader(batch(3, base_sequence=2, **producer), 0, NOW)
    for restart in (None, "kill", "clean"):
        if restart == "clean":
            log.close(NOW)
        if restart:
            log = open_log(clean_shutdown=restart == "clean", recovery_point=log.recovery_point)
        again = log.append_as_leader(batch(2, base_sequence=0, **producer), 0, NOW)
        assert again.duplicate
        assert (again.first_offset, again.last_offset, log.log_end_offset) == (0, 1, 5)
        with pytest.raises(ApiError) as caught:
            log.append_as_leader(batch(1, base_sequence=7, **producer), 0, NOW)
        assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_rolls_by_size(open_log: MakeLog, batch: MakeBatch) -> None:
    size = len(batch(1))
    log = open_log(segment_bytes=3 * size)
    for _ in range(8):
        log.append_as_leader(batch(1), 0, NOW)
    assert _bases(log) == [0, 3, 6]


def test_rolls_by_the_records_own_time(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log(segment_ms=1000)
    for at in (0, 1000, 1001, 1500, 2002):
        log.append_as_leader(batch(timestamps=[NOW + at]), 0, NOW)
    assert _bases(log) == [0, 2, 4]


def test_rolls_by_the_clock_for_records_without_time(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log(segment_ms=1000)
    for at in (0, 1000, 1001):
        log.append_as_leader(batch(timestamps=[-1]), 0, NOW + at)
    assert _bases(log) == [0, 2]


def test_jitter_rolls_earlier_but_never_by_more_than_it(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log(segment_ms=1000, segment_jitter_ms=500)
    for at in range(0, 20_000, 50):
        log.append_as_leader(batch(timestamps=[NOW + at]), 0, NOW)
    bases = _bases(log)
    ages = [(after - before) * 50 for before, after in pairwise(bases[1:])]
    assert all(500 < age <= 1050 for age in ages)
    assert len(set(ages)) > 1


def test_rolls_when_the_index_is_full(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log(index_interval_bytes=0, segment_index_bytes=40)
    for _ in range(13):
        log.append_as_leader(batch(1), 0, NOW)
    # Five entries of eight bytes; the first batch of a segment needs none.
    assert _bases(log) == [0, 6, 12]


def test_rolls_when_offsets_leave_31_bits(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    log.append_as_follower(batch(1, base_offset=10), NOW)
    log.append_as_follower(batch(1, base_offset=2**31 - 1), NOW)
    log.append_as_follower(batch(1, base_offset=2**31), NOW)
    assert _bases(log) == [0, 2**31]


@pytest.mark.parametrize("value", [1, 3])
def test_flush_messages(disk: MemoryDisk, open_log: MakeLog, batch: MakeBatch, value: int) -> None:
    log = open_log(flush_messages=value)
    before = disk.fsyncs
    for count in range(1, 7):
        log.append_as_leader(batch(1), 0, NOW)
        assert log.recovery_point == count - count % value
    assert disk.fsyncs > before


def test_flush_ms_and_closed_segments_ask_for_a_flush(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log(flush_ms=1000)
    assert not log.needs_flush(NOW + 10_000)
    log.append_as_leader(batch(1), 0, NOW)
    assert not log.needs_flush(NOW + 999)
    assert log.needs_flush(NOW + 1000)
    log.flush(NOW + 1000)
    log.append_as_leader(batch(1), 0, NOW)
    assert not log.needs_flush(NOW + 1999)
    log.roll(NOW)
    assert log.needs_flush(NOW + 1001)
    log.flush(NOW + 1001)
    assert log.recovery_point == 2


def test_a_log_that_never_held_anything_is_closed_without_a_sync(
    disk: MemoryDisk, open_log: MakeLog, batch: MakeBatch
) -> None:
    """Of ten thousand partitions most are idle, and an orderly stop would wait for five syncs of each."""
    log = open_log()
    log.epochs.assign(3, 0)
    before = disk.fsyncs
    log.close(NOW)
    assert disk.fsyncs == before
    disk.crash(random.Random(1), lose_entries=True)
    log = open_log(clean_shutdown=True)
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    log.append_as_leader(batch(2), 4, NOW)
    log.truncate_to(0, NOW)
    before = disk.fsyncs
    log.close(NOW)
    assert disk.fsyncs > before, "it held something, and that it holds nothing must be durable"


def test_a_flush_overtaken_by_a_cut_promises_nothing(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    for _ in range(3):
        log.append_as_leader(batch(1), 0, NOW)
    task = log.begin_flush()
    log.truncate_to(1, NOW)
    log.append_as_leader(batch(2), 1, NOW)
    task.run()
    log.complete_flush(task, NOW)
    assert log.recovery_point == 0


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_after_a_failed_write_nothing_is_appended_any_more(
    disk: MemoryDisk, open_log: MakeLog, batch: MakeBatch, code: int
) -> None:
    """KAFKA-10778: half a batch may be in the file; going on would bury it."""
    log = open_log()
    log.append_as_leader(batch(2), 0, NOW)
    told: list[str] = []
    log.directory.on_failure = lambda directory, error: told.append(error.errno_name)
    disk.fault = lambda operation, path: code if operation == "append" else None
    with pytest.raises(DiskError):
        log.append_as_leader(batch(3), 1, NOW)
    disk.fault = None
    assert (log.log_end_offset, log.latest_epoch, log.segments.active.size) == (2, 0, len(batch(2)))
    for refused in (
        lambda: log.append_as_leader(batch(1), 1, NOW),
        lambda: log.append_as_follower(batch(1, base_offset=2), NOW),
        lambda: log.truncate_to(1, NOW),
        lambda: log.flush(NOW),
        lambda: log.close(NOW),
    ):
        with pytest.raises(LogDirectoryOffline):
            refused()
    assert told == [errno.errorcode[code]]
    again = open_log()
    assert again.log_end_offset == 2
    assert again.recovery_bytes_cut > 0


def test_a_failed_fsync_is_not_tried_again(disk: MemoryDisk, open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log(flush_messages=1)
    disk.fault = lambda operation, path: errno.EIO if operation == "fsync" else None
    with pytest.raises(DiskError):
        log.append_as_leader(batch(1), 0, NOW)
    disk.fault = None
    assert log.recovery_point == 0
    with pytest.raises(LogDirectoryOffline):
        log.flush(NOW)


@pytest.mark.rule("W3")
def test_the_high_watermark_stays_within_the_log(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    log.append_as_leader(batch(5), 0, NOW)
    assert log.update_high_watermark(9) == 5
    assert log.update_high_watermark(3) == 3
    log.increment_log_start_offset(2)
    assert log.update_high_watermark(0) == 2
    log.update_high_watermark(5)
    log.truncate_to(0, NOW)
    assert log.high_watermark == log.log_end_offset == 0
    with pytest.raises(ApiError) as caught:
        log.increment_log_start_offset(1)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.rule("P4")
def test_a_retry_is_told_when_the_first_one_was_appended(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log(message_timestamp_type="LogAppendTime")
    numbered = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    first = log.append_as_leader(batch(2, **numbered), 0, NOW)
    again = log.append_as_leader(batch(2, **numbered), 0, NOW + 5000)
    assert (again.duplicate, again.log_append_time) == (True, first.log_append_time)
    log.config = TopicConfig()
    another = numbered | {"producer_id": 6}
    log.append_as_leader(batch(2, **another), 0, NOW)
    assert log.append_as_leader(batch(2, **another), 0, NOW).log_append_time == -1


@pytest.mark.rule("P4")
def test_a_retry_is_known_after_a_crash_though_its_records_were_deleted(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    numbered = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    log.append_as_leader(batch(2, **numbered), 0, NOW)
    log.update_high_watermark(2)
    log.increment_log_start_offset(2)
    log = open_log(log_start_offset=2)
    assert log.append_as_leader(batch(2, **numbered), 0, NOW).duplicate
