"""The files of a segment are what Kafka writes: names, index entries, the closing time entry."""

from collections.abc import Callable

from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk
from tidelog.storage.offset_index import OffsetIndex
from tidelog.storage.time_index import TimeIndex
from tidelog.wire.records.batch import iter_headers

NOW = 1_700_000_000_000
MakeBatch = Callable[..., memoryview]
MakeLog = Callable[..., Log]


def test_index_entries_point_at_batches_and_name_their_last_offset(
    disk: MemoryDisk, open_log: MakeLog, batch: MakeBatch
) -> None:
    """The rule: an entry before the batch that comes once more than the interval was written since the last entry."""
    log = open_log(index_interval_bytes=250)
    stamps = [5, 9, 2, 7, 30, 1, 4, 12, 31, 8]
    for number, at in enumerate(stamps):
        log.append_as_leader(batch(timestamps=[NOW + at] * (number % 3 + 1)), 0, NOW)
    log.roll(NOW)
    directory = "/data/orders-0"
    batches = list(iter_headers(disk.read_bytes(f"{directory}/00000000000000000000.log")))
    expected_offsets: list[tuple[int, int]] = []
    expected_times: list[tuple[int, int]] = []
    since, latest = 0, (-1, -1)
    for position, header in batches:
        if header.max_timestamp > latest[0]:
            latest = header.max_timestamp, header.last_offset
        if since > 250:
            expected_offsets.append((header.last_offset, position))
            if not expected_times or latest[0] > expected_times[-1][0]:
                expected_times.append(latest)
            since = 0
        since += header.size_in_bytes
    if latest[0] > expected_times[-1][0]:
        expected_times.append(latest)
    assert list(OffsetIndex.ENTRY.iter_unpack(disk.read_bytes(f"{directory}/00000000000000000000.index"))) == (
        expected_offsets
    )
    written = list(TimeIndex.ENTRY.iter_unpack(disk.read_bytes(f"{directory}/00000000000000000000.timeindex")))
    assert written == expected_times
    assert written[-1] == (NOW + 31, latest[1])
    assert len(expected_offsets) > 2


def test_names(disk: MemoryDisk, open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    log.append_as_leader(batch(12, producer_id=4, producer_epoch=0, base_sequence=0), 0, NOW)
    log.roll(NOW)
    log.append_as_leader(batch(1), 0, NOW)
    log.close(NOW)
    assert disk.list_dir("/data/orders-0") == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000012.index",
        "00000000000000000012.log",
        "00000000000000000012.snapshot",
        "00000000000000000012.timeindex",
        "00000000000000000013.snapshot",
        "leader-epoch-checkpoint",
    ]


def test_an_empty_log_is_one_empty_file(disk: MemoryDisk, open_log: MakeLog) -> None:
    open_log().close(NOW)
    assert disk.list_dir("/data/orders-0") == ["00000000000000000000.log"]
    assert disk.file_size("/data/orders-0/00000000000000000000.log") == 0
