"""Retention and DeleteRecords: whole segments, oldest first, never above the high watermark."""

from collections.abc import Callable

import pytest

from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ApiError, ErrorCode

NOW = 1_700_000_000_000
MakeBatch = Callable[..., memoryview]
MakeLog = Callable[..., Log]


def _fill(log: Log, batch: MakeBatch, segments: int, *, high_watermark: int | None = None) -> None:
    """One batch of two records per segment, a second apart."""
    for number in range(segments):
        log.append_as_leader(batch(timestamps=[NOW + 1000 * number] * 2), number, NOW)
        if number < segments - 1:
            log.roll(NOW)
    log.update_high_watermark(log.log_end_offset if high_watermark is None else high_watermark)


def test_by_time(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log(retention_ms=5000)
    _fill(log, batch, 10)
    assert log.delete_old_segments(NOW + 8000) == 3
    assert log.log_start_offset == 6
    assert log.epochs.entries[0] == (3, 6)
    with pytest.raises(ApiError) as caught:
        log.read(5, 100, upper_bound=20, min_one=True)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_expired_active_segment_is_rolled_first(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log(retention_ms=5000)
    _fill(log, batch, 3)
    assert log.delete_old_segments(NOW + 100_000) == 3
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (6, 6, 0)
    assert log.append_as_leader(batch(1), 9, NOW).first_offset == 6
    again = open_log()
    assert (again.log_start_offset, again.log_end_offset) == (6, 7)


def test_by_size(open_log: MakeLog, batch: MakeBatch) -> None:
    size = len(batch(2))
    log = open_log(retention_bytes=4 * size, retention_ms=-1)
    _fill(log, batch, 10)
    log.delete_old_segments(NOW)
    assert log.size_bytes == 4 * size
    assert log.log_start_offset == 12


def test_nothing_at_or_above_the_high_watermark_goes(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log(retention_ms=0, retention_bytes=0)
    _fill(log, batch, 6, high_watermark=5)
    assert log.delete_old_segments(NOW + 10**9) == 2
    assert log.log_start_offset == 4


def test_a_compacted_log_is_not_deleted_by_time(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log(retention_ms=0, cleanup_policy=("compact",))
    _fill(log, batch, 3)
    assert log.delete_old_segments(NOW + 10**9) == 0


def test_delete_records_frees_whole_segments(disk: MemoryDisk, open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log(file_delete_delay_ms=1000)
    _fill(log, batch, 4)
    checkpointed: list[int] = []
    log.directory.checkpoint_log_start_offsets = lambda: checkpointed.append(log.log_start_offset)
    assert log.increment_log_start_offset(5)
    assert checkpointed == [5]
    assert not log.increment_log_start_offset(4)
    assert log.delete_old_segments(NOW) == 2
    assert log.log_start_offset == 5
    # The batch of the first record left is returned whole (F4).
    assert log.read(5, 1000, upper_bound=8, min_one=True).position == 0
    deleted = [name for name in disk.list_dir("/data/orders-0") if name.endswith(".deleted")]
    assert "00000000000000000000.log.deleted" in deleted
    log.remove_deleted_files(NOW + 999)
    assert [name for name in disk.list_dir("/data/orders-0") if name.endswith(".deleted")] == deleted
    log.remove_deleted_files(NOW + 1000)
    assert not [name for name in disk.list_dir("/data/orders-0") if name.endswith(".deleted")]


def test_a_slice_handed_out_before_can_still_be_read(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log(retention_ms=5000)
    _fill(log, batch, 10)
    part = log.read(0, 1000, upper_bound=20, min_one=True)
    log.delete_old_segments(NOW + 8000)
    assert len(part.read()) == part.size > 0


def test_snapshots_go_with_their_segments(disk: MemoryDisk, open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log(retention_ms=5000)
    _fill(log, batch, 10)
    log.delete_old_segments(NOW + 8000)
    snapshots = [name for name in disk.list_dir("/data/orders-0") if name.endswith(".snapshot")]
    assert snapshots[0] == f"{6:020d}.snapshot"
