"""The high watermarks on disk (W4): a lower bound of what is committed, whatever became of the file or the log."""

import random
from collections.abc import Callable
from uuid import UUID

import pytest

from tidelog.core.config.node import NodeConfig
from tidelog.core.config.topic import TopicConfig
from tidelog.core.events import CommittedRecordsLost, Event, EventSink
from tidelog.core.ids import TopicPartition
from tidelog.storage.log import Log
from tidelog.storage.manager import LogManager
from tidelog.storage.memory import MemoryDisk

NOW = 1_700_000_000_000
TP = TopicPartition("orders", 0)
FILE = "/a/replication-offset-checkpoint"
MakeBatch = Callable[..., memoryview]


def _start(disk: MemoryDisk, on_event: EventSink = lambda event: None) -> tuple[LogManager, Log]:
    config, _ = NodeConfig.parse(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "log.dirs": "/a",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@127.0.0.1:9093",
        }
    )
    manager = LogManager(disk, config, random.Random(3), on_event=on_event)
    manager.open()
    manager.load(lambda topic: TopicConfig(), NOW)
    return manager, manager.get_or_create(TP, UUID(int=7), TopicConfig(), NOW)


def _ended(disk: MemoryDisk, batch: MakeBatch, high_watermark: int) -> None:
    """Five records, flushed; a clean end."""
    manager, log = _start(disk)
    for _ in range(5):
        log.append_as_leader(batch(1), 0, NOW)
    log.update_high_watermark(high_watermark)
    manager.close_cleanly(1, NOW)
    manager.release()


@pytest.fixture
def disk() -> MemoryDisk:
    made = MemoryDisk()
    made.make_dirs("/a")
    made.fsync_dir("/")
    return made


@pytest.mark.rule("W4")
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, 0),
        (b"", 0),
        (b"0\n1\nord", 0),
        (b"0\n1\nothers 0 3\n", 0),
        (b"0\n1\norders 0 2\n", 2),
        (b"0\n1\norders 0 99\n", 5),
    ],
)
def test_the_file_may_be_missing_torn_stale_or_ahead(
    disk: MemoryDisk, batch: MakeBatch, content: bytes | None, expected: int
) -> None:
    _ended(disk, batch, 4)
    assert disk.read_bytes(FILE) == b"0\n1\norders 0 4\n"
    if content is None:
        disk.remove(FILE)
    else:
        disk.write_atomic(FILE, content)
    manager, log = _start(disk)
    assert (log.high_watermark, log.log_end_offset) == (expected, 5)
    if expected == 5:
        # A file ahead of the log is put right at once: the log grows again, and perhaps with other records.
        assert disk.read_bytes(FILE) == b"0\n1\norders 0 5\n"
    assert manager.is_online("/a")


@pytest.mark.rule("W4")
def test_a_cut_lowers_what_the_file_promises_before_anything_else_is_written(
    disk: MemoryDisk, batch: MakeBatch
) -> None:
    _ended(disk, batch, 5)
    _, log = _start(disk)
    assert log.high_watermark == 5
    log.truncate_to(2, NOW)
    log.append_as_follower(batch(1, base_offset=2, leader_epoch=3), NOW)
    log.append_as_follower(batch(1, base_offset=3, leader_epoch=3), NOW)
    log.flush(NOW)
    disk.crash(random.Random(1), lose_entries=True)
    _, again = _start(disk)
    # Offsets 2 and 3 are other records than those that were committed there.
    assert (again.high_watermark, again.log_end_offset) == (2, 4)


@pytest.mark.rule("W4")
@pytest.mark.parametrize("seed", range(20))
def test_a_cut_also_takes_back_an_older_file_that_a_crash_could_bring_back(
    disk: MemoryDisk, batch: MakeBatch, seed: int
) -> None:
    _ended(disk, batch, 5)
    manager, log = _start(disk)
    # The leader's high watermark went back (W3), and that was written down, but not synced.
    log.update_high_watermark(1)
    manager.checkpoint_high_watermarks()
    log.truncate_to(3, NOW)
    for offset in (3, 4):
        log.append_as_follower(batch(1, base_offset=offset, leader_epoch=3), NOW)
    log.flush(NOW)
    disk.crash(random.Random(seed), lose_entries=True)
    assert _start(disk)[1].high_watermark == 1


@pytest.mark.rule("F6", "W4")
def test_a_log_that_starts_anew_promises_nothing_of_the_old_one(disk: MemoryDisk, batch: MakeBatch) -> None:
    _ended(disk, batch, 5)
    _, log = _start(disk)
    log.truncate_fully_and_start_at(100, NOW)
    assert (log.high_watermark, log.log_end_offset) == (100, 100)
    disk.crash(random.Random(1), lose_entries=True)
    _, again = _start(disk)
    assert (again.log_start_offset, again.high_watermark, again.log_end_offset) == (100, 100, 100)


@pytest.mark.rule("C6", "W4")
def test_a_log_that_was_not_kept_up_to_its_high_watermark_says_what_it_lacks(
    disk: MemoryDisk, batch: MakeBatch
) -> None:
    _ended(disk, batch, 5)
    disk.write_atomic(FILE, b"0\n1\norders 0 9\n")
    events: list[Event] = []
    manager, log = _start(disk, events.append)
    [lost] = [event for event in events if isinstance(event, CommittedRecordsLost)]
    assert (lost.first_lost_offset, lost.last_lost_offset) == (5, 8)
    assert log.high_watermark == 5
    manager.release()
    events.clear()
    # Said once: from here on the offsets may be given to others.
    _start(disk, events.append)
    assert not any(isinstance(event, CommittedRecordsLost) for event in events)
