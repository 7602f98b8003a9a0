"""Log compaction: which records stay, and what stays of their batches."""

from collections.abc import Callable

import pytest
from tests.unit.storage.cleaning import NOW, append, batches, begin, clean, pairs, seal

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import TopicPartition
from tidelog.storage.cleaner import CleanerConfig, CleaningAborted, LogCleaner
from tidelog.storage.cleaner_offset_map import BYTES_PER_KEY
from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk
from tidelog.storage.segment import CorruptSegment
from tidelog.storage.validation import AppendOrigin
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.attributes import Codec, TimestampType
from tidelog.wire.records.control import EndTransactionMarker, encode_end_txn_marker
from tidelog.wire.records.plain import Record, encode_batch

MakeLog = Callable[..., Log]
COMPACT = {"cleanup_policy": ("compact",), "min_cleanable_dirty_ratio": 0.0, "segment_ms": 10**12}
DIR = "/data/orders-0"


def test_the_newest_record_of_each_key_stays(open_log: MakeLog) -> None:
    log = open_log(**COMPACT)
    append(log, ("a", "1"), ("b", "1"))
    append(log, ("a", "2"))
    append(log, ("c", "1"), ("b", "2"))
    seal(log)
    append(log, ("a", "3"))
    assert clean(log) == 5
    # The active segment does not count: a=3 replaces nothing yet.
    assert pairs(log) == [(2, "a", "2"), (3, "c", "1"), (4, "b", "2"), (5, "a", "3")]
    assert (log.log_start_offset, log.log_end_offset, log.first_dirty_offset) == (0, 6, 5)


def test_a_second_round_cleans_what_the_first_left(open_log: MakeLog) -> None:
    log = open_log(**COMPACT)
    append(log, ("a", "1"), ("b", "1"))
    seal(log)
    clean(log)
    append(log, ("a", "2"))
    seal(log)
    clean(log)
    assert pairs(log) == [(1, "b", "1"), (2, "a", "2")]
    assert len(log.segments) == 2


def test_offsets_in_a_hole_read_what_follows(open_log: MakeLog) -> None:
    log = open_log(**COMPACT)
    for number in range(10):
        append(log, ("a", str(number)))
    seal(log)
    clean(log)
    # The batch with which the leader epoch began stays, empty.
    for offset in range(1, 10):
        assert [header.base_offset for header, _ in batches(log, offset)] == [9]
    assert log.offset_for_timestamp(NOW) == (9, NOW, 0)


@pytest.mark.rule("E1")
def test_where_a_leader_epoch_began_is_still_told_by_the_batches(open_log: MakeLog) -> None:
    log = open_log(**COMPACT)
    for epoch in (0, 3, 4):
        for number in range(3):
            append(log, ("a", f"{epoch}.{number}"), epoch=epoch)
    seal(log)
    clean(log)
    began = [(0, 0), (3, 0), (6, 0)]
    assert [(header.base_offset, header.record_count) for header, _ in batches(log)] == [*began, (8, 1)]
    # A second time as well, when nothing but the batch itself is left of them.
    append(log, ("a", "last"), epoch=4)
    seal(log)
    clean(log)
    assert [(header.base_offset, header.record_count) for header, _ in batches(log)][:3] == began


def test_batches_keep_their_header(open_log: MakeLog) -> None:
    log = open_log(**COMPACT)
    append(log, ("a", "1"), ("b", "1"), ("c", "1"), producer_id=7, producer_epoch=1, base_sequence=5, codec=Codec.GZIP)
    append(log, ("a", "2"), ("c", "2"))
    seal(log)
    clean(log)
    (header, left), _ = batches(log)
    assert [(record.offset, record.key) for record in left] == [(1, b"b")]
    assert (header.base_offset, header.last_offset, header.base_sequence, header.last_sequence) == (0, 2, 5, 7)
    assert (header.producer_id, header.producer_epoch, header.codec) == (7, 1, Codec.GZIP)


def test_log_append_time_stays(open_log: MakeLog) -> None:
    log = open_log(**COMPACT, message_timestamp_type="LogAppendTime")
    append(log, ("a", "1"), ("b", None), timestamp=5)
    append(log, ("a", "2"))
    seal(log)
    clean(log, NOW + 50)
    (header, left), _ = batches(log)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in left] == [NOW]


@pytest.mark.rule("P4")
def test_the_last_batch_of_a_producer_outlives_its_records(open_log: MakeLog, disk: MemoryDisk) -> None:
    log = open_log(**COMPACT)
    append(log, ("a", "1"), producer_id=7, producer_epoch=1, base_sequence=0)
    append(log, ("a", "2"), ("a", "3"), producer_id=7, producer_epoch=1, base_sequence=1)
    append(log, ("a", "4"))
    seal(log)
    clean(log)
    assert [(header.base_offset, header.record_count) for header, _ in batches(log)] == [(0, 0), (1, 0), (3, 1)]
    for name in disk.list_dir(DIR):
        if name.endswith(".snapshot"):
            disk.remove(f"{DIR}/{name}")
    again = open_log(**COMPACT, recovery_point=log.recovery_point)
    retry = encode_batch(
        [Record(key=b"a", value=b"2"), Record(key=b"a", value=b"3")], producer_id=7, producer_epoch=1, base_sequence=1
    )
    info = again.append_as_leader(memoryview(bytearray(retry)), 0, NOW)
    assert (info.duplicate, info.first_offset, info.last_offset) == (True, 1, 2)
    with pytest.raises(ApiError) as caught:
        append(again, ("z", "1"), producer_id=7, producer_epoch=1, base_sequence=9)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(again, ("z", "1"), producer_id=7, producer_epoch=1, base_sequence=3) == 4


def test_a_tombstone_stays_for_its_time_after_the_first_cleaning(open_log: MakeLog) -> None:
    log = open_log(**COMPACT, delete_retention_ms=1000)
    append(log, ("a", "1"), ("b", "1"))
    append(log, ("a", None), ("c", "1"), timestamp=NOW - 5)
    seal(log)
    clean(log, NOW)
    assert pairs(log) == [(1, "b", "1"), (2, "a", None), (3, "c", "1")]
    header, left = batches(log)[1]
    assert header.delete_horizon_ms == NOW + 1000
    assert [record.timestamp for record in left] == [NOW - 5, NOW - 5]
    append(log, ("d", "1"))
    seal(log)
    # The clock is not started anew.
    clean(log, NOW + 999)
    assert batches(log)[1][0].delete_horizon_ms == NOW + 1000
    append(log, ("d", "2"))
    seal(log)
    clean(log, NOW + 1000)
    assert pairs(log) == [(1, "b", "1"), (3, "c", "1"), (5, "d", "2")]


def test_records_without_a_key_go(open_log: MakeLog) -> None:
    log = open_log(segment_ms=10**12)
    append(log, (None, "1"), ("a", "1"))
    log.config = open_log(**COMPACT).config
    seal(log)
    clean(log)
    assert pairs(log) == [(1, "a", "1")]


def test_a_small_memory_takes_several_rounds(open_log: MakeLog) -> None:
    log = open_log(**COMPACT)
    for number in range(30):
        append(log, (f"k{number % 10}", str(number)))
        if number % 7 == 6:
            seal(log)
    seal(log)
    cleaner = LogCleaner(CleanerConfig(dedupe_buffer_size=BYTES_PER_KEY * 4, io_buffer_load_factor=1.0))
    ends = []
    while cleaner.inspect(log, NOW).is_due:
        ends.append(clean(log, cleaner=cleaner))
        newest = {key: value for _, key, value in pairs(log)}
        assert newest == {f"k{number}": str(20 + number) for number in range(10)}
    assert ends == [*range(4, 29, 4), 30]
    assert [value for _, _, value in pairs(log)] == [str(number) for number in range(20, 30)]


def test_small_neighbours_become_one_segment(open_log: MakeLog, disk: MemoryDisk) -> None:
    log = open_log(**COMPACT, segment_bytes=400, index_interval_bytes=100)
    for number in range(40):
        append(log, (f"k{number % 3}", str(number)))
    seal(log)
    before = len(log.segments)
    clean(log)
    # Full ones do not fit together; what is left of them does, in the next round.
    assert len(log.segments) == before
    append(log, ("new", "1"))
    seal(log)
    clean(log)
    assert len(log.segments) <= 4 < before
    log.close(NOW)
    again = open_log(**COMPACT, clean_shutdown=True, recovery_point=41)
    assert not again.recovery_notes
    assert pairs(again) == [(37, "k1", "37"), (38, "k2", "38"), (39, "k0", "39"), (40, "new", "1")]
    assert not [name for name in disk.list_dir(DIR) if name.endswith((".cleaned", ".swap", ".deleted"))]


def test_nothing_to_clean_changes_no_file(open_log: MakeLog) -> None:
    log = open_log(**COMPACT)
    append(log, ("a", "1"), ("b", "1"))
    seal(log)
    first = log.segments[0]
    clean(log)
    assert log.segments[0] is first
    assert log.first_dirty_offset == 2


def test_segments_join_after_compaction(open_log: MakeLog) -> None:
    """Recovery tells a lost segment by the gap it leaves: there must be no other."""
    log = open_log(**COMPACT, segment_bytes=100)
    for number in range(20):
        append(log, ("a", str(number)))
    seal(log)
    clean(log)
    for number in range(len(log.segments) - 1):
        last = log.segments[number].last_offset()
        assert last is not None
        assert last + 1 == log.segments[number + 1].base_offset


# -- where it stops


def test_only_closed_flushed_committed_segments(open_log: MakeLog) -> None:
    log = open_log(**COMPACT)
    cleaner = LogCleaner(CleanerConfig())
    for _ in range(3):
        append(log, ("a", "1"))
        log.roll(NOW)
    assert cleaner.inspect(log, NOW).first_uncleanable_offset == 0
    log.update_high_watermark(2)
    assert cleaner.inspect(log, NOW).first_uncleanable_offset == 0
    log.flush(NOW)
    assert cleaner.inspect(log, NOW).first_uncleanable_offset == 2
    append(log, ("a", "1"))
    log.flush(NOW)
    log.update_high_watermark(4)
    assert cleaner.inspect(log, NOW).first_uncleanable_offset == 3


def test_an_open_transaction_and_all_behind_it_stay(open_log: MakeLog) -> None:
    log = open_log(**COMPACT)
    append(log, ("a", "1"))
    append(log, ("a", "2"))
    seal(log)
    append(log, ("b", "1"))
    append(log, ("t", "1"), producer_id=3, producer_epoch=0, base_sequence=0, is_transactional=True)
    seal(log)
    append(log, ("b", "2"))
    seal(log)
    assert log.last_stable_offset == 3
    assert clean(log) == 2
    assert [value for _, _, value in pairs(log)] == ["2", "1", "1", "2"]


def test_it_stops_before_a_segment_with_transactions(open_log: MakeLog) -> None:
    log = open_log(**COMPACT)
    append(log, ("a", "1"))
    append(log, ("b", "1"))
    seal(log)
    append(log, ("a", "2"))
    append(log, ("t", "1"), producer_id=3, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker = encode_end_txn_marker(EndTransactionMarker(False, 1), producer_id=3, producer_epoch=0, timestamp=NOW)
    log.append_as_leader(memoryview(bytearray(marker)), 0, NOW, origin=AppendOrigin.COORDINATOR)
    seal(log)
    append(log, ("b", "2"))
    seal(log)
    assert log.last_stable_offset == 6
    cleaner = LogCleaner(CleanerConfig())
    assert clean(log, cleaner=cleaner) == 2
    # a=1 is replaced by a=2 of the segment that stays; b=1 is not, nobody looked behind that segment.
    assert [(header.base_offset, header.record_count) for header, _ in batches(log)] == [
        (0, 0),
        *((number, 1) for number in range(1, 6)),
    ]
    assert not cleaner.inspect(log, NOW).is_due
    assert log.aborted_transactions(0, 6)


def test_lags(open_log: MakeLog) -> None:
    log = open_log(
        **{**COMPACT, "min_cleanable_dirty_ratio": 1.0}, min_compaction_lag_ms=100, max_compaction_lag_ms=500
    )
    append(log, ("a", "1"), timestamp=NOW - 50)
    seal(log)
    cleaner = LogCleaner(CleanerConfig())
    assert not cleaner.inspect(log, NOW).dirty_bytes
    later = cleaner.inspect(log, NOW + 51)
    assert later.dirty_bytes
    assert not later.is_due
    assert cleaner.inspect(log, NOW + 451).is_due


def test_the_ratio_decides(open_log: MakeLog) -> None:
    log = open_log(**{**COMPACT, "min_cleanable_dirty_ratio": 0.5})
    append(log, ("a", "1"))
    seal(log)
    cleaner = LogCleaner(CleanerConfig())
    assert cleaner.inspect(log, NOW).dirty_ratio == 1.0
    clean(log)
    assert not cleaner.inspect(log, NOW).is_due
    append(log, ("b", "1"))
    seal(log)
    assert cleaner.inspect(log, NOW).dirty_ratio == 0.5
    assert not cleaner.inspect(log, NOW).is_due
    append(log, ("c", "1"))
    seal(log)
    assert cleaner.inspect(log, NOW).is_due


def test_a_checkpoint_of_another_life_is_not_believed(open_log: MakeLog) -> None:
    log = open_log(**COMPACT)
    append(log, ("a", "1"))
    seal(log)
    log.first_dirty_offset = 77
    assert LogCleaner(CleanerConfig()).inspect(log, NOW).first_dirty_offset == 0
    assert clean(log) == 1
    assert log.first_dirty_offset == 1


def test_damage_is_never_copied(open_log: MakeLog, disk: MemoryDisk) -> None:
    log = open_log(**COMPACT)
    append(log, ("a", "1"))
    append(log, ("a", "2"))
    seal(log)
    file = disk.open(log.segments[0].path)
    file.pwrite(b"\xff", 70)
    with pytest.raises(CorruptSegment):
        clean(log)
    assert len(log.segments[0].log.pread(10_000, 0)) == log.segments[0].size


# -- the log changes meanwhile


def test_a_cut_aborts(open_log: MakeLog, disk: MemoryDisk) -> None:
    log = open_log(**COMPACT)
    for number in range(4):
        append(log, ("a", str(number)))
    seal(log)
    _, cleaning = begin(log)
    cleaning.build_map()
    (group,) = cleaning.groups()
    cleaned = cleaning.copy(group)
    log.truncate_to(2, NOW)
    with pytest.raises(CleaningAborted):
        cleaning.swap_in(group, cleaned, NOW)
    assert [value for _, _, value in pairs(log)] == ["0", "1"]
    assert not [name for name in disk.list_dir(DIR) if name.endswith(".cleaned")]


def test_retention_aborts(open_log: MakeLog) -> None:
    log = open_log(**{**COMPACT, "cleanup_policy": ("compact", "delete")}, retention_ms=100, segment_bytes=100)
    for number in range(4):
        append(log, ("a", str(number)))
    seal(log)
    _, cleaning = begin(log)
    cleaning.build_map()
    group = cleaning.groups()[0]
    cleaned = cleaning.copy(group)
    assert log.delete_old_segments(NOW + 1000) == 4
    with pytest.raises(CleaningAborted):
        cleaning.swap_in(group, cleaned, NOW)
    assert not cleaning.groups()


def test_a_stop_ends_the_reading(open_log: MakeLog) -> None:
    log = open_log(**COMPACT)
    append(log, ("a", "1"))
    seal(log)
    _, cleaning = begin(log)
    cleaning.stop()
    with pytest.raises(CleaningAborted):
        cleaning.build_map()


def test_a_slice_handed_out_before_is_read_from_the_old_file(open_log: MakeLog) -> None:
    log = open_log(**COMPACT, file_delete_delay_ms=1000)
    append(log, ("a", "1"))
    append(log, ("a", "2"))
    seal(log)
    old = log.read(0, 10_000, upper_bound=2, min_one=True)
    expected = old.read()
    clean(log)
    assert old.read() == expected
    assert old.file is not None
    assert old.file.path.endswith(".log.deleted")


def test_a_log_start_in_a_hole(open_log: MakeLog) -> None:
    log = open_log(**COMPACT, segment_bytes=200)
    for number in range(12):
        append(log, (f"k{number % 2}", str(number)))
    seal(log)
    clean(log)
    log.increment_log_start_offset(4)
    log.delete_old_segments(NOW)
    assert [value for _, _, value in pairs(log)] == ["10", "11"]
    append(log, ("k0", "12"))
    seal(log)
    clean(log)
    assert log.log_start_offset == 4
    assert [value for _, _, value in pairs(log)] == ["11", "12"]


def test_a_cut_into_a_hole_ends_where_a_batch_ends(open_log: MakeLog) -> None:
    log = open_log(**COMPACT)
    append(log, ("x", "1"))
    for number in range(8):
        append(log, ("a", str(number)))
    seal(log)
    clean(log)
    assert [header.base_offset for header, _ in batches(log)] == [0, 8]
    log.truncate_to(5, NOW)
    assert (log.log_end_offset, log.first_dirty_offset) == (1, 1)
    again = open_log(**COMPACT, recovery_point=log.recovery_point)
    assert again.log_end_offset == 1


def test_the_largest_timestamp_may_have_been_that_of_an_emptied_batch(open_log: MakeLog) -> None:
    log = open_log(**COMPACT)
    append(log, ("a", "1"), timestamp=NOW + 500, producer_id=7, producer_epoch=0, base_sequence=0)
    append(log, ("b", "1"), timestamp=NOW + 100)
    append(log, ("a", "2"), timestamp=NOW)
    seal(log)
    clean(log)
    assert log.offset_for_max_timestamp() == (1, NOW + 100, 0)
    assert log.offset_for_timestamp(NOW + 101) is None


# -- followers and restarts


def test_a_follower_takes_a_compacted_log(open_log: MakeLog, disk: MemoryDisk) -> None:
    log = open_log(**COMPACT)
    for number in range(40):
        append(log, (f"k{number % 7}", str(number)), producer_id=1, producer_epoch=0, base_sequence=number)
        if number in (9, 19):
            append(log, (f"only{number}", "x"))
    seal(log)
    clean(log)
    fetched = bytearray()
    offset = 0
    while offset < log.log_end_offset:
        part = log.read(offset, 10_000, upper_bound=log.log_end_offset, min_one=True).read()
        fetched += part
        offset = batches(log, offset)[-1][0].next_offset

    def open_follower() -> Log:
        return Log.open(
            disk,
            "/data/copy-0",
            TopicPartition("copy", 0),
            TopicConfig(cleanup_policy=("compact",), segment_bytes=150, segment_ms=10**12),
            clean_shutdown=False,
            now_ms=NOW,
        )

    follower = open_follower()
    follower.append_as_follower(memoryview(fetched), NOW)
    assert follower.log_end_offset == log.log_end_offset
    # The process dies: everything written is there, though rolls fell into holes.
    again = open_follower()
    assert pairs(again) == pairs(log)
    assert len(again.segments) > 2
