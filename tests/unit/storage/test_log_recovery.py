"""Opening a log after a clean end, a torn one, and after somebody damaged it."""

import errno
import random
from collections.abc import Callable

import pytest

from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk
from tidelog.storage.ports import DiskError
from tidelog.storage.segment import CorruptSegment
from tidelog.wire.errors import ApiError
from tidelog.wire.records.batch import iter_headers

NOW = 1_700_000_000_000
DIR = "/data/orders-0"
FIRST = f"{DIR}/00000000000000000000"
MakeBatch = Callable[..., memoryview]
MakeLog = Callable[..., Log]
SMALL = {"segment_bytes": 700, "index_interval_bytes": 150}


@pytest.fixture
def filled(open_log: MakeLog, batch: MakeBatch) -> Log:
    """Thirty batches of two records over several segments, two epochs, one idempotent producer."""
    log = open_log(**SMALL)
    for number in range(30):
        data = batch(timestamps=[NOW + number, NOW + number], producer_id=3, producer_epoch=0, base_sequence=2 * number)
        log.append_as_leader(data, number // 20, NOW)
    assert len(log.segments) > 3
    return log


def _read_all(log: Log) -> bytes:
    parts = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        part = log.read(offset, 1 << 20, upper_bound=log.log_end_offset, min_one=True).read()
        parts.append(part)
        offset = list(iter_headers(part))[-1][1].next_offset
    return b"".join(parts)


def _last(log: Log) -> str:
    return log.segments.active.path


def test_kill_loses_nothing(filled: Log, open_log: MakeLog) -> None:
    before = _read_all(filled)
    again = open_log(**SMALL)
    assert _read_all(again) == before
    assert again.epochs.entries == [(0, 0), (1, 40)]
    assert again.producers.get(3) is not None
    assert again.recovery_bytes_cut == 0


@pytest.mark.parametrize("failed", [0, 1, -1])
def test_what_a_failed_fsync_left_in_the_page_cache_is_durable_with_the_next_flush(
    disk: MemoryDisk, filled: Log, open_log: MakeLog, failed: int
) -> None:
    before, path = _read_all(filled), filled.segments[failed].path
    disk.fault = lambda operation, at: errno.EIO if (operation, at) == ("fsync", path) else None
    with pytest.raises(DiskError):
        filled.flush(NOW)
    disk.fault = None
    again = open_log(**SMALL)
    again.flush(NOW)
    for seed in range(20):
        disk.crash(random.Random(seed), lose_entries=True)
    assert _read_all(open_log(**SMALL, recovery_point=again.recovery_point)) == before


def test_what_is_known_to_be_synced_is_not_written_again(disk: MemoryDisk, filled: Log, open_log: MakeLog) -> None:
    filled.flush(NOW)
    written: list[str] = []
    disk.fault = lambda operation, path: written.append(path) if operation == "pwrite" else None
    open_log(**SMALL, recovery_point=filled.recovery_point)
    assert not written


@pytest.mark.parametrize("cut", [1, 30, 60, 61, 62])
def test_a_torn_tail_is_cut_at_the_last_whole_batch(
    disk: MemoryDisk, filled: Log, open_log: MakeLog, batch: MakeBatch, cut: int
) -> None:
    path = _last(filled)
    size = disk.file_size(path)
    disk.open(path).append(batch(2, base_offset=60, leader_epoch=1)[:cut])
    again = open_log(**SMALL)
    assert again.log_end_offset == 60
    assert again.recovery_bytes_cut == cut
    assert disk.file_size(path) == size
    assert "cut" in again.recovery_notes[0]


@pytest.mark.parametrize("damage", ["magic", "crc", "length", "offset", "zeros"])
def test_from_the_first_bad_batch_everything_goes(
    disk: MemoryDisk, filled: Log, open_log: MakeLog, damage: str
) -> None:
    segment = filled.segments[1]
    position, header = list(iter_headers(disk.read_bytes(segment.path)))[1]
    file = disk.open(segment.path)
    if damage == "magic":
        file.pwrite(b"\x01", position + 16)
    elif damage == "crc":
        file.pwrite(b"\xff", position + header.size_in_bytes - 1)
    elif damage == "length":
        file.pwrite(b"\x7f", position + 8)
    elif damage == "offset":
        file.pwrite((header.base_offset - 1).to_bytes(8, "big"), position)
    else:
        file.pwrite(bytes(header.size_in_bytes), position)
    again = open_log(**SMALL)
    assert again.log_end_offset == header.base_offset
    assert len(again.segments) == 2
    assert [name for name in disk.list_dir(DIR) if name.endswith(".log")] == [
        f"{kept.base_offset:020d}.log" for kept in again.segments
    ]
    assert again.epochs.entries == [(0, 0)]


def test_a_lost_suffix_at_a_batch_boundary_takes_the_later_segments_with_it(
    disk: MemoryDisk, filled: Log, open_log: MakeLog
) -> None:
    """No torn batch gives it away: only that the next segment starts too far on."""
    segment = filled.segments[1]
    position, header = list(iter_headers(disk.read_bytes(segment.path)))[-1]
    disk.open(segment.path).truncate(position)
    again = open_log(**SMALL)
    assert again.log_end_offset == header.base_offset
    assert len(again.segments) == 2


def test_an_epoch_that_goes_back_is_an_old_leaders_left_over(
    disk: MemoryDisk, filled: Log, open_log: MakeLog, batch: MakeBatch
) -> None:
    disk.open(_last(filled)).append(batch(2, base_offset=60, leader_epoch=0))
    assert open_log(**SMALL).log_end_offset == 60


@pytest.mark.parametrize("clean_shutdown", [False, True])
def test_damage_below_the_recovery_point_is_told_and_nothing_is_dropped(
    disk: MemoryDisk, filled: Log, open_log: MakeLog, clean_shutdown: bool
) -> None:
    filled.flush(NOW)
    before = {name: disk.read_bytes(f"{DIR}/{name}") for name in disk.list_dir(DIR) if name.endswith(".log")}
    path = _last(filled)
    disk.open(path).pwrite(b"\x01", 16)
    disk.remove(path.replace(".log", ".index"))
    with pytest.raises(CorruptSegment) as caught:
        open_log(clean_shutdown=clean_shutdown, recovery_point=60, **SMALL)
    assert path in str(caught.value)
    assert before.keys() <= set(disk.list_dir(DIR))


def test_flushed_records_that_are_gone_are_missed(disk: MemoryDisk, filled: Log, open_log: MakeLog) -> None:
    filled.flush(NOW)
    disk.remove(_last(filled))
    with pytest.raises(CorruptSegment, match="records are missing"):
        open_log(recovery_point=60, **SMALL)
    disk.remove_tree(DIR)
    disk.make_dirs(DIR)
    with pytest.raises(CorruptSegment, match="is empty"):
        open_log(recovery_point=60, **SMALL)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "torn", "garbage"])
def test_a_bad_index_is_rebuilt_after_a_clean_shutdown(
    disk: MemoryDisk, filled: Log, open_log: MakeLog, suffix: str, damage: str
) -> None:
    filled.close(NOW)
    path = FIRST + suffix
    before = disk.read_bytes(path)
    if damage == "missing":
        disk.remove(path)
    elif damage == "torn":
        disk.open(path).truncate(len(before) - 3)
    else:
        disk.open(path).pwrite(b"\xff" * 8, len(before) - 8)
    again = open_log(clean_shutdown=True, recovery_point=60, **SMALL)
    assert "rebuilt the indexes" in again.recovery_notes[0]
    assert disk.read_bytes(path) == before
    assert again.offset_for_timestamp(NOW + 3) == (6, NOW + 3, 0)


@pytest.mark.parametrize("torn", ["whole", "crc", "half"])
def test_a_marker_of_an_earlier_shutdown_hides_no_torn_batch(
    disk: MemoryDisk, filled: Log, open_log: MakeLog, batch: MakeBatch, torn: str
) -> None:
    filled.close(NOW)
    later = bytearray(batch(2, base_offset=60, leader_epoch=1))
    if torn == "crc":
        later[-1] ^= 1
    disk.open(_last(filled)).append(later[:65] if torn == "half" else later)
    again = open_log(clean_shutdown=True, recovery_point=60, **SMALL)
    assert again.log_end_offset == (62 if torn == "whole" else 60)
    assert again.recovery_bytes_cut == {"whole": 0, "crc": len(later), "half": 65}[torn]
    assert "the clean-shutdown marker does not match: flushed up to 60" in again.recovery_notes[0]


def test_a_marker_of_an_earlier_shutdown_hides_no_segment_since(
    disk: MemoryDisk, filled: Log, open_log: MakeLog
) -> None:
    disk.open(_last(filled)).truncate(disk.file_size(_last(filled)) - 1)
    again = open_log(clean_shutdown=True, recovery_point=4, **SMALL)
    assert again.log_end_offset == 58
    assert "flushed up to 4" in again.recovery_notes[0]


def test_a_clean_start_reads_nothing_twice_and_trusts_the_files(
    disk: MemoryDisk, filled: Log, open_log: MakeLog
) -> None:
    before = _read_all(filled)
    filled.close(NOW)
    again = open_log(clean_shutdown=True, recovery_point=60, **SMALL)
    assert again.recovery_notes == []
    assert _read_all(again) == before
    assert again.epochs.entries == [(0, 0), (1, 40)]
    assert again.offset_for_max_timestamp() == (58, NOW + 29, 1)


def test_a_damaged_first_batch_does_not_keep_the_log_from_growing(open_log: MakeLog, batch: MakeBatch) -> None:
    log = open_log()
    log.append_as_leader(batch(3), 0, NOW)
    log.close(NOW)
    log = open_log(clean_shutdown=True, recovery_point=3)
    log.segments.active.log.pwrite(b"?", 16)
    assert log.append_as_leader(batch(1), 1, NOW).first_offset == 3
    with pytest.raises(ApiError, match="magic"):
        log.offset_for_timestamp(0)


def test_left_overs_are_tidied_up(disk: MemoryDisk, filled: Log, open_log: MakeLog) -> None:
    filled.close(NOW)
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000003.log.cleaned",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000777.index",
    ):
        disk.open(f"{DIR}/{name}", create=True).append(b"x")
    again = open_log(clean_shutdown=True, recovery_point=60, **SMALL)
    assert again.log_end_offset == 60
    names = disk.list_dir(DIR)
    assert not [name for name in names if name.endswith((".deleted", ".cleaned", ".tmp")) or "777" in name]


def test_a_log_that_ends_before_its_start_begins_anew(disk: MemoryDisk, filled: Log, open_log: MakeLog) -> None:
    """DeleteRecords was durable, the records behind it were not."""
    again = open_log(log_start_offset=100, **SMALL)
    assert (again.log_start_offset, again.log_end_offset, again.size_bytes) == (100, 100, 0)
    assert again.epochs.entries == []


def test_a_bad_snapshot_is_discarded_and_the_log_replayed(disk: MemoryDisk, filled: Log, open_log: MakeLog) -> None:
    filled.close(NOW)
    disk.open(f"{DIR}/{60:020d}.snapshot").pwrite(b"\xff", 9)
    again = open_log(clean_shutdown=True, recovery_point=60, **SMALL)
    assert "discarded" in again.recovery_notes[0]
    entry = again.producers.get(3)
    assert entry is not None
    assert entry.last_sequence == 59


def test_a_crash_inside_a_cut_leaves_a_prefix(
    disk: MemoryDisk, filled: Log, open_log: MakeLog, batch: MakeBatch
) -> None:
    """Each operation of the cut in turn is the last one before the disk fails."""
    before = _read_all(filled)
    operations = 0

    def fail_after(limit: int) -> Callable[[str, str], int | None]:
        def fault(operation: str, path: str) -> int | None:
            nonlocal operations
            if operation in {"remove", "fsync_dir", "truncate", "fsync", "write_atomic"}:
                operations += 1
            return errno.EIO if operations > limit else None

        return fault

    for limit in range(40):
        disk.remove_tree(DIR)
        log = open_log(**SMALL)
        log.append_as_follower(memoryview(bytearray(before)), NOW)
        operations = 0
        disk.fault = fail_after(limit)
        try:
            log.truncate_to(5, NOW)
        except DiskError:
            disk.fault = None
            again = open_log(**SMALL)
            assert before.startswith(_read_all(again))
            assert again.log_end_offset >= 4
        else:
            disk.fault = None
            assert log.log_end_offset == 4
            break
    else:
        pytest.fail("the cut never succeeded")


def test_a_compaction_that_was_complete_is_put_in_place(disk: MemoryDisk, filled: Log, open_log: MakeLog) -> None:
    """Segments 0 and 1 had become one; the crash came before it took their place."""
    filled.close(NOW)
    first, second, third = list(filled.segments)[:3]
    merged = disk.read_bytes(first.path) + disk.read_bytes(second.path)
    for name in ("00000000000000000000.log.swap", "00000000000000000000.index.swap"):
        disk.write_atomic(f"{DIR}/{name}", merged if ".log." in name else b"stale")
    disk.rename(first.path, first.path + ".deleted")
    again = open_log(clean_shutdown=True, recovery_point=60, **SMALL)
    assert [segment.base_offset for segment in again.segments][:2] == [0, third.base_offset]
    assert disk.read_bytes(first.path) == merged
    assert not [name for name in disk.list_dir(DIR) if name.endswith(".swap")]
    assert again.offset_for_timestamp(NOW + 3) == (6, NOW + 3, 0)
