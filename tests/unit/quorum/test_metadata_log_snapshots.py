"""Which snapshots a metadata log stands on after a crash (Q6)."""

import pytest

from tidelog.quorum.errors import QuorumError
from tidelog.quorum.metadata_log import MetadataLog, MetadataLogConfig
from tidelog.quorum.snapshot_files import SnapshotId, list_snapshots
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.records.plain import Record, encode_batch

CONFIG = MetadataLogConfig(retention_bytes=1)


class Crash(Exception):
    pass


class Story:
    """A log on a disk whose process may end in the middle of anything."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.disk.make_dirs("/meta")
        self.log = self.open()

    def open(self) -> MetadataLog:
        return MetadataLog.open(self.disk, "/meta", CONFIG, newest_epoch=9, now_ms=1)

    def append(self, count: int, epoch: int) -> None:
        for _ in range(count):
            record = Record(timestamp=1, value=b"x" * 50)
            self.log.append(encode_batch([record], base_offset=self.log.log_end_offset, leader_epoch=epoch), 1)
        self.log.log.flush(1)
        self.log.log.update_high_watermark(self.log.log_end_offset)

    def snapshot(self, end_offset: int, epoch: int) -> SnapshotId:
        snapshot = SnapshotId(end_offset, epoch)
        self.log.write_snapshot(snapshot, [b"v"], last_contained_timestamp=1, now_ms=1, voters=None)
        self.log.on_snapshot_written(snapshot, 1)
        return snapshot

    def snapshots(self) -> list[SnapshotId]:
        return list_snapshots(self.disk, self.log.path)

    def crash_in_clean(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """After the log was shortened, before the snapshot is removed that stood in for what is gone."""
        remove = self.disk.remove

        def until_a_snapshot(path: str) -> None:
            if path.endswith(".checkpoint"):
                raise Crash
            remove(path)

        with monkeypatch.context() as patched:
            patched.setattr(self.disk, "remove", until_a_snapshot)
            with pytest.raises(Crash):
                self.log.clean(2)


@pytest.mark.rule("Q6")
def test_a_snapshot_that_a_crash_left_behind_does_not_speak_for_the_start_of_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    story = Story()
    story.append(5, epoch=1)
    first = story.snapshot(5, epoch=1)
    story.append(5, epoch=2)
    second = story.snapshot(10, epoch=2)
    story.append(3, epoch=3)
    story.crash_in_clean(monkeypatch)
    assert story.snapshots() == [first, second]
    again = story.open()
    assert (again.log_start_offset, again.oldest_snapshot_epoch) == (10, 2)
    assert story.snapshots() == [second]


@pytest.mark.rule("Q6")
def test_a_log_starts_where_a_snapshot_ends_also_if_its_segments_begin_before(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    story.append(5, epoch=1)
    story.snapshot(3, epoch=1)
    story.append(5, epoch=2)
    # The segment that begins at 5 is still needed: it goes on behind the snapshot.
    second = story.snapshot(8, epoch=2)
    story.crash_in_clean(monkeypatch)
    again = story.open()
    assert (again.log_start_offset, again.oldest_snapshot_epoch, again.log_end_offset) == (8, 2, 10)
    assert story.snapshots() == [second]


@pytest.mark.rule("Q6")
def test_a_log_without_a_snapshot_of_what_came_before_it_is_refused_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    story.append(5, epoch=1)
    first = story.snapshot(5, epoch=1)
    story.append(5, epoch=2)
    second = story.snapshot(10, epoch=2)
    story.crash_in_clean(monkeypatch)
    story.disk.remove(f"{story.log.path}/{second.file_name}")
    with pytest.raises(QuorumError, match="no snapshot covers"):
        story.open()
    assert story.snapshots() == [first]
