"""A flush takes its time, and the log goes on: deleted, rolled, appended to, or its disk fails meanwhile."""

import errno
import random
from collections.abc import Callable
from uuid import UUID

import pytest

from tidelog.core.config.node import NodeConfig
from tidelog.core.config.topic import TopicConfig
from tidelog.core.events import Event, LogDirectoryOffline
from tidelog.core.ids import TopicPartition
from tidelog.storage.log import Log
from tidelog.storage.manager import LogManager
from tidelog.storage.memory import MemoryDisk
from tidelog.storage.ports import DiskError, FileMissing
from tidelog.storage.producer_snapshot import decode_snapshot

NOW = 1_700_000_000_000
OLD, NEW = UUID(int=7777), UUID(int=8888)
ORDERS = TopicPartition("orders", 0)
CONFIG = TopicConfig(segment_bytes=300, index_interval_bytes=1)
MakeBatch = Callable[..., memoryview]
MakeLog = Callable[..., Log]


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def manager(disk: MemoryDisk, events: list[Event]) -> LogManager:
    config, _ = NodeConfig.parse(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "log.dirs": "/data",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@127.0.0.1:9093",
        }
    )
    made = LogManager(disk, config, random.Random(3), on_event=events.append)
    made.open()
    made.load(lambda topic: CONFIG, NOW)
    return made


def files_of(disk: MemoryDisk, directory: str) -> dict[str, bytes]:
    return {name: disk.read_bytes(f"{directory}/{name}") for name in disk.list_dir(directory)}


@pytest.mark.parametrize("made_again", [False, True])
def test_a_flush_that_comes_after_the_deletion_of_its_log_touches_nothing(
    manager: LogManager, disk: MemoryDisk, batch: MakeBatch, made_again: bool
) -> None:
    log = manager.get_or_create(ORDERS, OLD, CONFIG, NOW)
    for _ in range(10):
        log.append_as_leader(batch(2), 0, NOW)
    (due,) = manager.logs_to_flush(NOW)
    manager.delete(ORDERS)
    before: dict[str, bytes] = {}
    if made_again:
        again = manager.get_or_create(ORDERS, NEW, CONFIG, NOW)
        again.append_as_leader(batch(1), 0, NOW)
        before = files_of(disk, again.dir)

    task = due.begin_flush()
    task.run()
    due.complete_flush(task, NOW)

    assert manager.is_online("/data")
    assert (files_of(disk, "/data/orders-0") if disk.is_dir("/data/orders-0") else {}) == before


def test_a_deleted_log_refuses_to_be_written(manager: LogManager, batch: MakeBatch) -> None:
    log = manager.get_or_create(ORDERS, OLD, CONFIG, NOW)
    log.append_as_leader(batch(2), 0, NOW)
    log.update_high_watermark(2)
    manager.delete(ORDERS)
    manager.get_or_create(ORDERS, NEW, CONFIG, NOW)
    for write in (
        lambda: log.append_as_leader(batch(1), 0, NOW),
        lambda: log.append_as_follower(batch(1, base_offset=2, leader_epoch=0), NOW),
        lambda: log.truncate_to(0, NOW),
        lambda: log.truncate_fully_and_start_at(0, NOW),
        lambda: log.increment_log_start_offset(1),
        lambda: log.delete_old_segments(NOW),
        lambda: log.roll(NOW),
    ):
        with pytest.raises(FileMissing):
            write()
    assert manager.is_online("/data")


@pytest.mark.rule("C10")
def test_an_fsync_that_fails_on_another_thread_is_told_of(
    manager: LogManager, disk: MemoryDisk, batch: MakeBatch, events: list[Event]
) -> None:
    told: list[str] = []
    manager.on_directory_offline = lambda directory, error: told.append(directory.path)
    log = manager.get_or_create(ORDERS, OLD, CONFIG, NOW)
    log.append_as_leader(batch(2), 0, NOW)
    task = log.begin_flush()
    disk.fault = lambda operation, path: errno.EIO if operation == "fsync" else None
    with pytest.raises(DiskError) as failure:
        task.run()  # as a thread does: whoever watches directories lives on the event loop and is not called from here
    assert not manager.is_online("/data")
    assert told == []
    log.directory.fail(failure.value)
    log.directory.fail(failure.value)
    assert told == ["/data"]
    assert [type(event) for event in events] == [LogDirectoryOffline]


def test_nothing_counts_as_flushed_while_another_flush_fails(
    open_log: MakeLog, disk: MemoryDisk, batch: MakeBatch
) -> None:
    """The kernel tells of a lost page once per descriptor: the second fsync then succeeds and proves nothing."""
    log = open_log()
    log.append_as_leader(batch(1), 0, NOW)
    elsewhere = log.begin_flush()

    def fail_elsewhere(operation: str, path: str) -> int | None:
        disk.fault = None
        if operation == "fsync":
            disk.fault = lambda operation, path: errno.EIO if operation == "fsync" else None
            with pytest.raises(DiskError):
                elsewhere.run()
            disk.fault = None
        return None

    disk.fault = fail_elsewhere
    with pytest.raises(DiskError):
        log.flush(NOW)
    assert log.recovery_point == 0


@pytest.mark.rule("C5")
def test_no_clean_shutdown_is_told_after_a_flush_failed_elsewhere(
    manager: LogManager, disk: MemoryDisk, batch: MakeBatch
) -> None:
    log = manager.get_or_create(ORDERS, OLD, CONFIG, NOW)
    log.append_as_leader(batch(1), 0, NOW)
    late = log.begin_flush()

    def fail_late(operation: str, path: str) -> int | None:
        if operation == "write_atomic" and path.endswith("replication-offset-checkpoint"):
            disk.fault = lambda operation, path: errno.EIO if operation == "fsync" else None
            with pytest.raises(DiskError):
                late.run()
            disk.fault = None
        return None

    log.update_high_watermark(1)
    disk.fault = fail_late
    manager.close_cleanly(3, NOW)
    assert not disk.exists("/data/.kafka_cleanshutdown")


def test_indexes_of_a_segment_closed_during_a_flush_wait_for_the_next_one(
    open_log: MakeLog, disk: MemoryDisk, batch: MakeBatch
) -> None:
    log = open_log(segment_bytes=1000, index_interval_bytes=1)
    for _ in range(4):
        log.append_as_leader(batch(1), 0, NOW)
    task = log.begin_flush()
    closed = log.segments.active
    log.roll(NOW)
    task.run()
    log.complete_flush(task, NOW)
    # They were still being written when the flush began, and from a closed segment on they are trusted.
    assert log.recovery_point <= closed.base_offset
    assert log.needs_flush(NOW)
    log.flush(NOW)
    assert log.recovery_point == log.log_end_offset
    synced = MemoryDisk.crash
    entries = closed.offset_index.entries
    synced(disk, random.Random(1))
    assert disk.file_size(closed.offset_index.path) == entries * closed.offset_index.ENTRY.size


def test_names_are_not_taken_for_durable_because_another_flush_is_about_to_sync_them(
    open_log: MakeLog, disk: MemoryDisk, batch: MakeBatch
) -> None:
    log = open_log()
    log.append_as_leader(batch(1), 0, NOW)
    elsewhere = log.begin_flush()
    log.append_as_leader(batch(1), 0, NOW)
    log.flush(NOW)
    assert log.recovery_point == 2
    disk.crash(random.Random(1), lose_entries=True)
    assert disk.exists(log.segments.active.path)
    log.roll(NOW)
    log.complete_flush(elsewhere, NOW)
    log.append_as_leader(batch(1), 0, NOW)
    log.flush(NOW)
    for seed in range(5):
        disk.crash(random.Random(seed), lose_entries=True)
        assert disk.exists(log.segments.active.path)


def test_an_index_is_synced_by_whoever_comes_first(manager: LogManager, disk: MemoryDisk, batch: MakeBatch) -> None:
    """A flush that was begun and has not run takes no index away from one that overtakes it."""
    log = manager.get_or_create(ORDERS, OLD, CONFIG, NOW)
    while len(log.segments) < 3:
        log.append_as_leader(batch(2), 0, NOW)
    late = log.begin_flush()
    log.flush(NOW)
    for segment in list(log.segments)[:-1]:
        for index in (segment.offset_index, segment.time_index):
            assert disk._files[index.path].dirty_from == len(disk._files[index.path].data), index.path
    late.run()
    log.complete_flush(late, NOW)
    assert log.recovery_point == log.log_end_offset


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("way", ["stop", "flush", "retention"])
def test_producers_of_deleted_batches_survive_a_power_cut(
    manager: LogManager, disk: MemoryDisk, batch: MakeBatch, way: str, seed: int
) -> None:
    """The snapshot of a roll is all that tells of them: it is durable when its segment is flushed, at a stop, and
    before they are deleted.
    """
    log = manager.get_or_create(ORDERS, OLD, CONFIG, NOW)
    log.append_as_leader(batch(2, producer_id=7, producer_epoch=0, base_sequence=0), 0, NOW)
    log.update_high_watermark(2)
    if way == "retention":
        log.flush(NOW)
        assert log.delete_old_segments(NOW + 8 * 24 * 3600 * 1000) == 1
    else:
        log.roll(NOW)
    if way == "stop":
        manager.close_cleanly(1, NOW)
    elif way == "flush":
        log.append_as_leader(batch(1), 0, NOW)
        log.flush(NOW)
    disk.crash(random.Random(seed), lose_entries=True)
    names = [name for name in disk.list_dir("/data/orders-0") if name.endswith(".snapshot")]
    assert "00000000000000000002.snapshot" in names
    assert [entry.producer_id for entry in decode_snapshot(disk.read_bytes(f"/data/orders-0/{names[-1]}"))] == [7]
