"""The same log on real files, with hardly a descriptor to its name."""

from collections.abc import Callable
from pathlib import Path

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import TopicPartition
from tidelog.storage.log import Log
from tidelog.storage.posix import PosixDisk
from tidelog.wire.records.batch import iter_headers

NOW = 1_700_000_000_000
MakeBatch = Callable[..., memoryview]
CONFIG = TopicConfig(segment_bytes=2000, index_interval_bytes=200, retention_bytes=20_000, file_delete_delay_ms=0)


def _open(disk: PosixDisk, path: Path, recovery_point: int = 0, *, clean: bool = False) -> Log:
    return Log.open(
        disk,
        f"{path}/orders-0",
        TopicPartition("orders", 0),
        CONFIG,
        recovery_point=recovery_point,
        clean_shutdown=clean,
        now_ms=NOW,
    )


def _read_all(log: Log) -> list[int]:
    offsets: list[int] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        part = log.read(offset, 700, upper_bound=log.log_end_offset, min_one=True).read()
        for _, header in iter_headers(part):
            offsets.append(header.base_offset)
            offset = header.next_offset
    return offsets


def test_many_segments_over_two_descriptors(tmp_path: Path, batch: MakeBatch) -> None:
    disk = PosixDisk(max_open_files=2)
    log = _open(disk, tmp_path)
    for number in range(300):
        log.append_as_leader(batch(timestamps=[NOW + number] * 3), 0, NOW)
        assert disk.open_files <= 2
    assert len(log.segments) > 10
    assert _read_all(log) == list(range(0, 900, 3))
    log.flush(NOW)
    # Killed: another process opens the files as they are.
    log = _open(PosixDisk(max_open_files=2), tmp_path, log.recovery_point)
    assert _read_all(log) == list(range(0, 900, 3))
    log.truncate_to(600, NOW)
    log.update_high_watermark(600)
    assert log.delete_old_segments(NOW) > 0
    assert log.append_as_leader(batch(3), 1, NOW).first_offset == 600
    start = log.log_start_offset
    assert _read_all(log) == list(range(start, 603, 3))
    log.close(NOW)
    assert not [name for name in disk.list_dir(f"{tmp_path}/orders-0") if name.endswith(".deleted")]
    again = _open(PosixDisk(max_open_files=2), tmp_path, log.recovery_point, clean=True)
    assert again.recovery_notes == []
    assert _read_all(again) == list(range(start, 603, 3))
    assert again.offset_for_timestamp(NOW + 150) == (450, NOW + 150, 0)


def test_a_torn_tail_on_a_real_file(tmp_path: Path, batch: MakeBatch) -> None:
    log = _open(PosixDisk(max_open_files=2), tmp_path)
    for _ in range(5):
        log.append_as_leader(batch(3), 0, NOW)
    path = Path(log.segments.active.path)
    path.write_bytes(path.read_bytes()[:-7])
    again = _open(PosixDisk(max_open_files=2), tmp_path)
    assert again.log_end_offset == 12
    assert again.append_as_leader(batch(3), 1, NOW).first_offset == 12
    assert _read_all(again) == [0, 3, 6, 9, 12]


def test_an_idle_log_holds_no_descriptor(tmp_path: Path, batch: MakeBatch) -> None:
    disk = PosixDisk(max_open_files=100)
    log = _open(disk, tmp_path)
    assert disk.open_files == 0
    log.append_as_leader(batch(3), 0, NOW)
    log.close(NOW)
    assert disk.open_files == 0
    _open(disk, tmp_path, 3, clean=True)
    assert disk.open_files == 0


def test_a_compaction_that_is_completed_at_the_start_leaves_no_descriptor(tmp_path: Path, batch: MakeBatch) -> None:
    disk = PosixDisk(max_open_files=100)
    log = _open(disk, tmp_path)
    for _ in range(40):
        log.append_as_leader(batch(3), 0, NOW)
    log.close(NOW)
    path = log.segments[0].path
    disk.rename(path, f"{path}.swap")
    again = _open(disk, tmp_path, 120, clean=True)
    assert "completed the compaction" in again.recovery_notes[0]
    assert disk.open_files == 0
