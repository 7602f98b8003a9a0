"""A node's log directories: locks, loading, checkpoints, deletion, and one that fails."""

import errno
import random
from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

import pytest

from tidelog.core.config.node import NodeConfig
from tidelog.core.config.topic import TopicConfig
from tidelog.core.events import Event, LogDirectoryOffline, LogRecovered
from tidelog.core.ids import TopicPartition
from tidelog.storage.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINT_CHECKPOINT, NewerFormat, write_offsets
from tidelog.storage.manager import LogManager
from tidelog.storage.memory import MemoryDisk
from tidelog.storage.ports import AlreadyLocked, DiskError

NOW = 1_700_000_000_000
TOPIC = UUID(int=7777)
OTHER = UUID(int=8888)
CONFIG = TopicConfig(segment_bytes=300)
MakeBatch = Callable[..., memoryview]


class Node:
    """A log manager over two directories, started again and again on one disk."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.disk.make_dirs("/a")
        self.disk.make_dirs("/b")
        self.disk.fsync_dir("/")
        self.config, _ = NodeConfig.parse(
            {
                "process.roles": "broker,controller",
                "node.id": "1",
                "log.dirs": "/a,/b",
                "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": "1@127.0.0.1:9093",
                "log.segment.delete.delay.ms": "1000",
            }
        )
        self.events: list[Event] = []

    def start(self) -> LogManager:
        manager = LogManager(self.disk, self.config, random.Random(3), on_event=self.events.append)
        manager.open()
        manager.load(lambda topic: CONFIG, NOW)
        return manager

    def crash(self, manager: LogManager, seed: int = 1) -> LogManager:
        self.disk.crash(random.Random(seed), lose_entries=True)
        return self.start()


@pytest.fixture
def node() -> Node:
    return Node()


def _tp(partition: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, partition)


def test_new_logs_go_where_the_fewest_are(node: Node) -> None:
    manager = node.start()
    homes = [manager.get_or_create(_tp(number), TOPIC, CONFIG, NOW).dir for number in range(6)]
    assert sorted(manager.directory_of(home) for home in homes) == ["/a"] * 3 + ["/b"] * 3
    assert manager.get(_tp(2)) is manager.get_or_create(_tp(2), TOPIC, CONFIG, NOW)
    assert manager.get(_tp(9)) is None
    assert len(list(manager)) == 6


def test_a_second_process_is_refused(node: Node) -> None:
    manager = node.start()
    with pytest.raises(AlreadyLocked, match=r"/a/.lock is locked by another process"):
        node.start()
    manager.release()
    node.start()


@pytest.mark.rule("C5")
def test_clean_shutdown_is_said_last_and_taken_back_first(node: Node, batch: MakeBatch) -> None:
    manager = node.start()
    assert manager.clean_shutdown_epoch is None
    log = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    log.append_as_leader(batch(3), 0, NOW)
    log.update_high_watermark(2)
    manager.close_cleanly(41, NOW)
    assert node.disk.exists("/a/.kafka_cleanshutdown")
    manager = node.start()
    assert manager.clean_shutdown_epoch == 41
    assert not node.disk.exists("/a/.kafka_cleanshutdown")
    assert not node.disk.exists("/b/.kafka_cleanshutdown")
    again = manager.get(_tp(0))
    assert again is not None
    assert (again.log_end_offset, again.recovery_point, again.high_watermark) == (3, 3, 2)
    assert again.topic_id == TOPIC
    manager = node.crash(manager)
    assert manager.clean_shutdown_epoch is None


@pytest.mark.rule("C5")
def test_one_directory_without_its_marker_makes_the_shutdown_unclean(node: Node) -> None:
    node.start().close_cleanly(41, NOW)
    node.disk.remove("/b/.kafka_cleanshutdown")
    assert node.start().clean_shutdown_epoch is None


@pytest.mark.rule("W4")
def test_after_a_crash_the_checkpointed_high_watermark_is_a_lower_bound(node: Node, batch: MakeBatch) -> None:
    manager = node.start()
    log = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    log.append_as_leader(batch(5), 0, NOW)
    log.flush(NOW)
    log.update_high_watermark(3)
    manager.checkpoint_high_watermarks()
    assert node.disk.read_bytes("/a/replication-offset-checkpoint") == b"0\n1\norders 0 3\n"
    log.update_high_watermark(5)
    again = node.crash(manager).get(_tp(0))
    assert again is not None
    # The file is not synced for it: a power cut may take it back, and never forward.
    assert again.high_watermark in (0, 3)
    assert again.log_end_offset == 5


def test_delete_records_survives_a_crash(node: Node, batch: MakeBatch) -> None:
    manager = node.start()
    log = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    log.append_as_leader(batch(5), 0, NOW)
    log.flush(NOW)
    log.update_high_watermark(5)
    log.increment_log_start_offset(4)
    again = node.crash(manager).get(_tp(0))
    assert again is not None
    assert again.log_start_offset == 4


def test_an_idle_node_writes_no_checkpoints(node: Node, batch: MakeBatch) -> None:
    manager = node.start()
    manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW).append_as_leader(batch(5), 0, NOW)
    manager.checkpoint_recovery_points()
    manager.checkpoint_high_watermarks()
    manager.checkpoint_log_start_offsets()
    node.disk.fault = lambda operation, path: errno.EIO if operation == "write_atomic" else None
    manager.checkpoint_recovery_points()
    manager.checkpoint_high_watermarks()
    manager.checkpoint_log_start_offsets()
    assert manager.is_online("/a")
    assert manager.is_online("/b")


def test_deletion_is_a_rename_and_later_a_removal(node: Node, batch: MakeBatch) -> None:
    manager = node.start()
    manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW).append_as_leader(batch(5), 0, NOW)
    manager.delete(_tp(0))
    assert manager.get(_tp(0)) is None
    (doomed,) = [name for name in node.disk.list_dir("/a") if name.endswith("-delete")]
    assert doomed.startswith("orders-0.")
    assert len(doomed) == len("orders-0.") + 32 + len("-delete")
    new = manager.get_or_create(_tp(0), OTHER, CONFIG, NOW)
    assert new.log_end_offset == 0
    assert manager.deleted_due(NOW) == []
    assert manager.deleted_due(NOW + 999) == []
    assert manager.deleted_due(NOW + 1000) == [f"/a/{doomed}"]
    assert manager.deleted_due(NOW + 5000) == []


def test_a_deleted_log_does_not_come_back_and_is_still_removed(node: Node, batch: MakeBatch) -> None:
    manager = node.start()
    manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW).append_as_leader(batch(5), 0, NOW)
    manager.delete(_tp(0))
    for seed in range(5):
        manager = node.crash(manager, seed)
        assert manager.get(_tp(0)) is None
    manager.deleted_due(NOW)
    assert len(manager.deleted_due(NOW + 1000)) == 1


def test_a_topic_made_again_inherits_no_offsets(node: Node, batch: MakeBatch) -> None:
    manager = node.start()
    old = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    old.append_as_leader(batch(5), 0, NOW)
    old.flush(NOW)
    old.update_high_watermark(5)
    old.increment_log_start_offset(5)
    manager.checkpoint_recovery_points()
    manager.checkpoint_high_watermarks()
    manager.delete(_tp(0))
    new = manager.get_or_create(_tp(0), OTHER, CONFIG, NOW)
    new.append_as_leader(batch(1), 0, NOW)
    new.flush(NOW)
    again = node.crash(manager).get(_tp(0))
    assert again is not None
    assert (again.log_start_offset, again.log_end_offset, again.topic_id) == (0, 1, OTHER)


def test_the_log_of_another_topic_under_the_same_name_is_set_aside(node: Node, batch: MakeBatch) -> None:
    manager = node.start()
    manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW).append_as_leader(batch(5), 0, NOW)
    manager.close_cleanly(1, NOW)
    manager = node.start()
    assert manager.get_or_create(_tp(0), OTHER, CONFIG, NOW).log_end_offset == 0
    assert [name for name in node.disk.list_dir("/a") if name.endswith("-stray")]
    assert not manager.deleted_due(NOW + 10**9)


def test_recovery_is_told(node: Node, batch: MakeBatch) -> None:
    manager = node.start()
    log = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    log.append_as_leader(batch(5), 0, NOW)
    node.disk.open(log.segments.active.path).append(b"torn")
    manager.release()
    node.start()
    (told,) = [event for event in node.events if isinstance(event, LogRecovered)]
    assert (told.topic, told.partition, told.bytes_cut, told.log_end_offset) == ("orders", 0, 4, 5)


@pytest.mark.rule("C10")
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failed_directory_takes_only_its_own_logs_offline(node: Node, batch: MakeBatch, code: int) -> None:
    manager = node.start()
    first = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    second = manager.get_or_create(_tp(1), TOPIC, CONFIG, NOW)
    neighbour = manager.get_or_create(_tp(2), TOPIC, CONFIG, NOW)
    assert (first.dir, second.dir, neighbour.dir) == ("/a/orders-0", "/b/orders-1", "/a/orders-2")
    told: list[str] = []
    manager.on_directory_offline = lambda directory, error: told.append(directory.path)
    node.disk.fault = lambda operation, path: code if path.startswith("/a/") and operation == "append" else None
    with pytest.raises(DiskError):
        first.append_as_leader(batch(1), 0, NOW)
    node.disk.fault = None
    assert told == ["/a"]
    assert [event for event in node.events if isinstance(event, LogDirectoryOffline)]
    assert (manager.is_online("/a"), manager.is_online("/b")) == (False, True)
    with pytest.raises(DiskError):
        neighbour.append_as_leader(batch(1), 0, NOW)
    with pytest.raises(DiskError):
        manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    second.append_as_leader(batch(1), 0, NOW)
    # An unknown log may be in the directory that is gone; one known to be new is not.
    with pytest.raises(DiskError):
        manager.get_or_create(_tp(3), TOPIC, CONFIG, NOW)
    assert manager.get_or_create(_tp(3), TOPIC, CONFIG, NOW, is_new=True).dir == "/b/orders-3"
    manager.close_cleanly(5, NOW)
    assert not node.disk.exists("/a/.kafka_cleanshutdown")
    assert node.disk.exists("/b/.kafka_cleanshutdown")


@pytest.mark.rule("C10")
def test_a_directory_that_cannot_be_trusted_stays_offline_from_the_start(node: Node, batch: MakeBatch) -> None:
    manager = node.start()
    log = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    manager.get_or_create(_tp(1), TOPIC, CONFIG, NOW).append_as_leader(batch(2), 0, NOW)
    log.append_as_leader(batch(2), 0, NOW)
    manager.close_cleanly(5, NOW)
    node.disk.open(log.segments.active.path).truncate(10)
    manager = node.start()
    assert (manager.is_online("/a"), manager.is_online("/b")) == (False, True)
    assert manager.get(_tp(1)) is not None


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("flushed", [False, True])
def test_a_log_that_was_stopped_empty_keeps_its_first_segment(
    node: Node, batch: MakeBatch, seed: int, flushed: bool
) -> None:
    """Nothing of an empty log is synced when it is closed, so its names are not durable at the next start either.

    Seed 581 once: a replica came back into the ISR without its first segment, which had been lost after a roll.
    """
    manager = node.start()
    manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    manager.close_cleanly(41, NOW)
    manager = node.start()
    log = manager.get(_tp(0))
    assert log is not None and manager.clean_shutdown_epoch == 41
    log.append_as_leader(batch(1), 0, NOW)
    if flushed:
        log.flush(NOW)
    else:
        log.roll(NOW)
        log.append_as_leader(batch(1), 0, NOW)
    again = node.crash(manager, seed).get(_tp(0))
    if flushed:
        assert again is not None and again.log_end_offset == 1
    assert again is None or (again.log_start_offset, again.segments[0].base_offset) == (0, 0)


@pytest.mark.parametrize("seed", range(4))
def test_a_log_that_was_cut_below_its_start_keeps_what_came_after(node: Node, batch: MakeBatch, seed: int) -> None:
    """DeleteRecords writes the start down at once; a cut below it (an unclean election) has to take that back first."""
    manager = node.start()
    log = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    for _ in range(6):
        log.append_as_leader(batch(1), 0, NOW)
    log.update_high_watermark(6)
    log.increment_log_start_offset(5)
    # The new leader ends at 3: a follower cuts there, and fetches what that leader writes.
    assert log.truncate_to(3, NOW)
    for _ in range(4):
        log.append_as_leader(batch(1), 1, NOW)
    log.flush(NOW)
    assert (log.log_start_offset, log.log_end_offset) == (3, 7)
    again = node.crash(manager, seed).get(_tp(0))
    assert again is not None
    # Records 3 and 4 are the new leader's, acknowledged and flushed.
    assert (again.log_start_offset, again.log_end_offset) == (3, 7)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("crashes_at", range(1, 16))
@pytest.mark.parametrize(("first", "start", "cut"), [(0, 5, 3), (10, 15, 5), (10, 10, 5), (10, 10, 20)])
def test_a_log_that_begins_anew_and_does_not_come_to_it(
    node: Node, batch: MakeBatch, seed: int, crashes_at: int, first: int, start: int, cut: int
) -> None:
    """Whatever is left is a log, and no record written later stands below its start."""
    manager = node.start()
    log = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    if first:
        log.truncate_fully_and_start_at(first, NOW)
    for _ in range(6):
        log.append_as_leader(batch(1), 0, NOW)
    log.flush(NOW)
    manager.checkpoint_recovery_points()
    log.update_high_watermark(first + 6)
    if start > first:
        log.increment_log_start_offset(start)
    left = [crashes_at]

    def fault(operation: str, path: str) -> int | None:
        if operation in ("remove", "write_atomic", "fsync_dir"):
            left[0] -= 1
        return errno.EIO if left[0] < 0 else None

    node.disk.fault = fault
    with suppress(DiskError):
        log.truncate_fully_and_start_at(cut, NOW)
    node.disk.fault = None
    manager = node.crash(manager, seed)
    log = manager.get(_tp(0)) or pytest.fail("the log is gone")
    if log.log_end_offset > cut:
        log.truncate_to(cut, NOW)
    while log.log_end_offset < cut + 4:
        log.append_as_leader(batch(1), 1, NOW)
    log.flush(NOW)
    start = log.log_start_offset
    again = node.crash(manager, seed).get(_tp(0))
    assert again is not None
    assert (again.log_start_offset, again.log_end_offset) == (start, cut + 4)


@pytest.mark.parametrize("clean", [True, False])
def test_a_recovery_point_from_before_a_cut_has_to_be_looked_at(node: Node, batch: MakeBatch, clean: bool) -> None:
    """Decision 18, with what it says there is to do."""
    manager = node.start()
    log = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    log.append_as_leader(batch(3), 0, NOW)
    home = manager.directory_of(log.dir)
    if clean:
        manager.close_cleanly(41, NOW)
    write_offsets(node.disk, f"{home}/{RECOVERY_POINT_CHECKPOINT}", {_tp(0): 5})
    manager.release()
    manager = node.start()
    assert manager.get(_tp(0)) is None
    (offline,) = [event for event in node.events if isinstance(event, LogDirectoryOffline)]
    assert "ends at offset 3, but everything below its recovery point 5 was flushed" in offline.reason
    manager.release()
    for name in (RECOVERY_POINT_CHECKPOINT, CLEAN_SHUTDOWN):
        if node.disk.exists(f"{home}/{name}"):
            node.disk.remove(f"{home}/{name}")
    manager = node.start()
    again = manager.get(_tp(0))
    assert again is not None and again.log_end_offset == 3
    assert manager.clean_shutdown_epoch is None


def test_no_directory_left_ends_the_start(node: Node) -> None:
    node.disk.fault = lambda operation, path: errno.EIO if operation == "make_dirs" else None
    with pytest.raises(DiskError):
        node.start()


def test_a_newer_format_ends_the_start(node: Node) -> None:
    node.disk.write_atomic("/b/recovery-point-offset-checkpoint", b"7\n0\n")
    with pytest.raises(NewerFormat, match="/b/recovery-point-offset-checkpoint has format version 7"):
        node.start()


def test_strangers_in_a_log_directory_are_left_alone(node: Node) -> None:
    for name in ("lost+found", "orders", "orders-x", "-1", "__cluster_metadata-0", "orders-01"):
        node.disk.make_dirs(f"/a/{name}")
    manager = node.start()
    assert list(manager) == []
    assert "lost+found" in node.disk.list_dir("/a")


@pytest.mark.rule("C10")
@pytest.mark.parametrize("home", ["/a", "/b", None])
def test_of_two_logs_of_a_partition_the_one_at_home_counts(node: Node, batch: MakeBatch, home: str | None) -> None:
    """Its directory was offline when the partition was taken from this broker, and given to it again."""
    manager = node.start()
    manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW).append_as_leader(batch(5), 0, NOW)
    manager.fail_directory("/a", DiskError(errno.EIO, "the story says so", "/a"))
    with pytest.raises(DiskError):
        manager.delete(_tp(0))
    manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW, is_new=True).append_as_leader(batch(2), 0, NOW)
    manager.release()
    again = LogManager(node.disk, node.config, random.Random(3), on_event=node.events.append)
    again.open()
    again.load(lambda topic: CONFIG, NOW, home_of=lambda partition: home)
    log = again.get(_tp(0))
    assert log is not None
    assert (log.dir.rpartition("/")[0], log.log_end_offset) == (("/b", 2) if home == "/b" else ("/a", 5))
    assert again.is_online("/b") is (home is not None)
    kept = [name for path in ("/a", "/b") for name in node.disk.list_dir(path) if name.endswith("-stray")]
    assert len(kept) == (home is not None)


@pytest.mark.rule("C10")
@pytest.mark.parametrize("first_holds", ["nothing", "records"])
def test_a_twin_that_cannot_be_put_away_takes_its_own_directory_offline_alone(
    node: Node, batch: MakeBatch, first_holds: str
) -> None:
    manager = node.start()
    first = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    if first_holds == "records":
        first.append_as_leader(batch(5), 0, NOW)
    manager.fail_directory("/a", DiskError(errno.EIO, "the story says so", "/a"))
    with pytest.raises(DiskError):
        manager.delete(_tp(0))
    manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW, is_new=True).append_as_leader(batch(2), 0, NOW)
    manager.release()
    again = LogManager(node.disk, node.config, random.Random(3), on_event=node.events.append)
    again.open()
    node.disk.fault = lambda operation, path: errno.EIO if operation == "rename" and path.startswith("/a/") else None
    again.load(lambda topic: CONFIG, NOW, home_of=lambda partition: "/b")
    assert [again.is_online(path) for path in ("/a", "/b")] == [False, True]
    log = again.get(_tp(0))
    assert log is not None
    assert (log.dir.rpartition("/")[0], log.log_end_offset) == ("/b", 2)


def test_a_large_log_is_recovered_in_several_steps(node: Node, batch: MakeBatch) -> None:
    """Its disk may be slow to write to, and a member of the quorum that is deaf for so long is taken for dead."""
    large = TopicConfig(segment_bytes=3 << 20)
    manager = node.start()
    log = manager.get_or_create(_tp(0), TOPIC, large, NOW)
    for _ in range(50):
        log.append_as_leader(batch(1, value_size=100_000), 0, NOW)
    manager.release()
    manager = LogManager(node.disk, node.config, random.Random(3))
    manager.open()
    written = 0
    most = 0

    def count(operation: str, path: str) -> None:
        nonlocal written
        written += operation == "pwrite"

    node.disk.fault = count
    for _ in manager.load_stepwise(lambda topic: large, NOW):
        most, written = max(most, written), 0
    node.disk.fault = None
    # At the end of a segment, and with the beginning of the next.
    assert most == 2
    again = manager.get(_tp(0))
    assert again is not None
    assert (again.log_end_offset, again.recovery_notes) == (50, [])
