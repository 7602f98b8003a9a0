"""Reading: whole batches, limits, bounds, times inside a batch, aborted transactions."""

from collections.abc import Callable

import pytest

from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk
from tidelog.storage.validation import AppendOrigin
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.batch import iter_headers
from tidelog.wire.records.control import EndTransactionMarker, encode_end_txn_marker

NOW = 1_700_000_000_000
MakeBatch = Callable[..., memoryview]
MakeLog = Callable[..., Log]


def _offsets(data: bytes) -> list[int]:
    return [header.base_offset for _, header in iter_headers(data)]


@pytest.mark.rule("F4")
def test_a_batch_is_returned_whole_and_the_first_one_always(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    for _ in range(4):
        log.append_as_leader(batch(5), 0, NOW)
    size = len(batch(5))
    assert _offsets(log.read(7, 10 * size, upper_bound=20, min_one=True).read()) == [5, 10, 15]
    assert _offsets(log.read(7, 2 * size + size // 2, upper_bound=20, min_one=True).read()) == [5, 10]
    assert _offsets(log.read(7, 1, upper_bound=20, min_one=True).read()) == [5]
    assert log.read(7, size - 1, upper_bound=20, min_one=False).size == 0


@pytest.mark.rule("F1")
def test_nothing_at_or_beyond_the_bound_is_returned(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    for _ in range(4):
        log.append_as_leader(batch(5), 0, NOW)
    for bound, expected in ((20, [0, 5, 10, 15]), (15, [0, 5, 10]), (14, [0, 5]), (5, [0]), (4, []), (0, [])):
        assert _offsets(log.read(0, 1 << 20, upper_bound=bound, min_one=True).read()) == expected
    assert log.read(20, 1 << 20, upper_bound=20, min_one=True).read() == b""


@pytest.mark.rule("F6")
def test_outside_the_log_is_out_of_range(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    log.append_as_leader(batch(5), 0, NOW)
    log.update_high_watermark(5)
    log.increment_log_start_offset(2)
    for offset in (-1, 0, 1, 6):
        with pytest.raises(ApiError) as caught:
            log.read(offset, 100, upper_bound=5, min_one=True)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    log.read(2, 100, upper_bound=5, min_one=True)
    log.read(5, 100, upper_bound=5, min_one=True)


def test_a_slice_does_not_cross_a_segment(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    for _ in range(3):
        log.append_as_leader(batch(5), 0, NOW)
        log.roll(NOW)
    assert _offsets(log.read(0, 1 << 20, upper_bound=15, min_one=True).read()) == [0]
    assert _offsets(log.read(5, 1 << 20, upper_bound=15, min_one=True).read()) == [5]


def test_a_gap_is_stepped_over(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    log.append_as_follower(batch(2, base_offset=0), NOW)
    log.append_as_follower(batch(2, base_offset=10), NOW)
    log.roll(NOW)
    log.append_as_follower(batch(2, base_offset=30), NOW)
    assert _offsets(log.read(5, 1 << 20, upper_bound=32, min_one=True).read()) == [10]
    assert _offsets(log.read(20, 1 << 20, upper_bound=32, min_one=True).read()) == [30]


def test_a_record_is_found_by_time_inside_its_batch(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    log.append_as_leader(batch(timestamps=[NOW, NOW + 5, NOW + 3]), 4, NOW)
    log.append_as_leader(batch(timestamps=[NOW + 1, NOW + 9, NOW + 9]), 5, NOW)
    assert log.offset_for_timestamp(NOW - 100) == (0, NOW, 4)
    assert log.offset_for_timestamp(NOW + 4) == (1, NOW + 5, 4)
    assert log.offset_for_timestamp(NOW + 6) == (4, NOW + 9, 5)
    assert log.offset_for_timestamp(NOW + 10) is None
    assert log.offset_for_max_timestamp() == (4, NOW + 9, 5)


def test_an_empty_log_has_no_times(open_log: MakeLog) -> None:
    log = open_log()
    assert log.offset_for_timestamp(0) is None
    assert log.offset_for_max_timestamp() is None


def test_damage_met_while_reading_is_the_readers_error(disk: MemoryDisk, open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    for _ in range(3):
        log.append_as_leader(batch(5), 0, NOW)
    log.roll(NOW)
    disk.open(log.segments[0].path).pwrite(b"\xff\xff\xff\xff", 8)
    with pytest.raises(ApiError) as caught:
        log.read(12, 100, upper_bound=15, min_one=True)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.rule("F1")
def test_aborted_transactions_are_named_also_after_a_crash(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    producer = {"producer_id": 5, "producer_epoch": 0}
    abort = encode_end_txn_marker(EndTransactionMarker(False, 0), timestamp=NOW, **producer)
    log.append_as_leader(batch(2), 0, NOW)
    log.append_as_leader(batch(3, base_sequence=0, is_transactional=True, **producer), 0, NOW)
    log.update_high_watermark(5)
    assert log.last_stable_offset == 2
    log.append_as_leader(memoryview(bytearray(abort)), 0, NOW, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(6)
    for attempt in range(2):
        if attempt:
            log = open_log(high_watermark=6)
        assert log.last_stable_offset == 6
        assert [(txn.producer_id, txn.first_offset) for txn in log.aborted_transactions(0, 6)] == [(5, 2)]
        assert log.aborted_transactions(0, 2) == []


@pytest.mark.rule("F1")
def test_a_damaged_transaction_index_is_the_readers_error(
    disk: MemoryDisk, open_log: MakeLog, batch: MakeBatch
) -> None:
    log = open_log()
    producer = {"producer_id": 5, "producer_epoch": 0}
    abort = encode_end_txn_marker(EndTransactionMarker(False, 0), timestamp=NOW, **producer)
    log.append_as_leader(batch(3, base_sequence=0, is_transactional=True, **producer), 0, NOW)
    log.append_as_leader(memoryview(bytearray(abort)), 0, NOW, origin=AppendOrigin.COORDINATOR)
    disk.open(log.segments.active.txn_index.path).pwrite(b"\xff\xff", 0)
    with pytest.raises(ApiError) as caught:
        log.aborted_transactions(0, 4)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_file_that_ends_too_early_is_the_readers_error(disk: MemoryDisk, open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    log.append_as_leader(batch(5), 0, NOW)
    disk.open(log.segments[0].path).truncate(5)
    with pytest.raises(ApiError) as caught:
        log.read(0, 1, upper_bound=5, min_one=True)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
