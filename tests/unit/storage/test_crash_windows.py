"""Crashes inside of one operation, or soon after another crash: nothing flushed is lost, no producer forgotten, no
directory given up without need.
"""

import errno
import random
from contextlib import suppress

import pytest
from tests.unit.storage.test_manager import CONFIG, NOW, OTHER, TOPIC, MakeBatch, Node, _tp

from tidelog.quorum.metadata_log import MetadataLog, MetadataLogConfig
from tidelog.storage.log import Log
from tidelog.storage.manager import LogManager
from tidelog.storage.ports import DiskError

LATER = NOW + 8 * 24 * 3600 * 1000
PRODUCER = 7


@pytest.fixture
def node() -> Node:
    return Node()


def the_log(manager: LogManager) -> Log:
    log = manager.get(_tp(0))
    assert log is not None
    return log


@pytest.mark.parametrize("checkpointed", [0, 3, 4])
@pytest.mark.parametrize("seed", range(12))
def test_power_fails_while_retention_renames(node: Node, batch: MakeBatch, seed: int, checkpointed: int) -> None:
    """Were a younger segment's name gone and an older one's not, recovery would find a gap and drop what is behind."""
    manager = node.start()
    log = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    while len(log.segments) < 4:
        if log.log_end_offset == checkpointed:
            manager.checkpoint_recovery_points()
        timestamp = NOW if len(log.segments) < 3 else LATER
        log.append_as_leader(batch(1, timestamps=[timestamp]), 0, LATER)
        log.flush(NOW)
    for _ in range(2):
        log.append_as_leader(batch(1, timestamps=[LATER]), 0, LATER)
        log.flush(NOW)
    end = log.log_end_offset
    log.update_high_watermark(end)
    kept = log.segments[3].base_offset
    renamed, dies_after = 0, 1 + seed % 3

    def fault(operation: str, path: str) -> int | None:
        nonlocal renamed
        renamed += operation == "rename" and path.endswith(".log")
        return errno.EIO if operation == "fsync_dir" and renamed >= dies_after else None

    node.disk.fault = fault
    with suppress(DiskError):
        log.delete_old_segments(LATER)
    assert renamed == dies_after
    node.disk.fault = None
    node.events.clear()
    manager = node.crash(manager, seed)
    assert manager.is_online("/a"), node.events
    again = the_log(manager)
    assert again.log_start_offset <= kept
    assert again.log_end_offset == end


@pytest.mark.parametrize("what", ["snapshot installed", "snapshot cleaned", "cut"])
@pytest.mark.parametrize("half_loaded", [False, True])
def test_the_metadata_log_takes_no_checkpoint_from_logs_not_loaded_yet(
    node: Node, batch: MakeBatch, what: str, half_loaded: bool
) -> None:
    """It shares their directory, and the quorum starts before they are read."""
    manager = node.start()
    for number in (0, 2):
        log = manager.get_or_create(_tp(number), TOPIC, CONFIG, NOW)
        manager.get_or_create(_tp(number + 1), TOPIC, CONFIG, NOW)
        for _ in range(2):
            log.append_as_leader(batch(1), 0, NOW)
        log.update_high_watermark(2)
        assert log.dir.startswith("/a/")
        log.increment_log_start_offset(1)
    metadata = _metadata_log(node, manager)
    for _ in range(4):
        metadata.log.append_as_leader(batch(1), 1, NOW)
    metadata.close(NOW)
    manager.close_cleanly(PRODUCER, NOW)
    # As a node starts: directories, the quorum, and only then the logs, a few at a time.
    manager = LogManager(node.disk, node.config, random.Random(3))
    manager.open()
    metadata = _metadata_log(node, manager)
    steps = manager.load_stepwise(lambda topic: CONFIG, NOW)
    if half_loaded:
        next(steps)
    if what == "snapshot installed":
        metadata.log.truncate_fully_and_start_at(9, NOW)
    elif what == "snapshot cleaned":
        metadata.log.update_high_watermark(4)
        metadata.log.increment_log_start_offset(2)
    else:
        metadata.truncate_to(3, NOW)
    for _ in steps:
        # Each is a log that was read.
        continue
    for number in (0, 2):
        found = manager.get(_tp(number))
        assert found is not None
        assert (found.log_start_offset, found.recovery_point, found.recovery_notes) == (1, 2, [])


def _metadata_log(node: Node, manager: LogManager) -> MetadataLog:
    health = manager.health("/a")
    return MetadataLog.open(node.disk, "/a", MetadataLogConfig(), newest_epoch=1, now_ms=NOW, directory=health)


@pytest.mark.rule("P4")
@pytest.mark.parametrize("way", ["restart", "cut"])
@pytest.mark.parametrize("seed", range(3))
def test_producers_of_deleted_batches_are_known_after_a_stop_and_a_crash(
    node: Node, batch: MakeBatch, seed: int, way: str
) -> None:
    """A crash distrusts the newer snapshots: the one of the first segment is then the only one that knows them."""
    manager = node.start()
    log = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    log.append_as_leader(batch(1, producer_id=PRODUCER, producer_epoch=0, base_sequence=0), 0, NOW)
    log.roll(NOW)
    for _ in range(2):
        log.append_as_leader(batch(1, timestamps=[LATER]), 0, LATER)
    log.update_high_watermark(log.log_end_offset)
    log.flush(NOW)
    assert log.delete_old_segments(LATER) == 1
    if way == "restart":
        manager.close_cleanly(1, NOW)
        manager = node.start()
        log = the_log(manager)
        log.append_as_leader(batch(1), 0, LATER)
        log.flush(NOW)
    else:
        log.roll(NOW)
        log.append_as_leader(batch(1), 0, LATER)
        log.append_as_leader(batch(1), 0, LATER)
        log.truncate_to(log.log_end_offset - 1, NOW)
    assert log.producers.get(PRODUCER) is not None
    assert the_log(node.crash(manager, seed)).producers.get(PRODUCER) is not None


@pytest.mark.rule("P4")
@pytest.mark.parametrize("seed", range(3))
def test_producers_are_known_after_two_crashes_and_a_deletion(node: Node, batch: MakeBatch, seed: int) -> None:
    """The first crash takes the snapshots of rolls: who replays the log writes them anew."""
    manager = node.start()
    log = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    log.append_as_leader(batch(1, producer_id=PRODUCER, producer_epoch=0, base_sequence=0), 0, NOW)
    while len(log.segments) < 3:
        log.append_as_leader(batch(1), 0, NOW)
    log.flush(NOW)
    manager = node.crash(manager, seed)
    log = the_log(manager)
    log.update_high_watermark(log.log_end_offset)
    log.flush(NOW)
    log.increment_log_start_offset(log.segments[2].base_offset)
    assert log.delete_old_segments(NOW) == 2
    assert log.producers.get(PRODUCER) is not None
    assert the_log(node.crash(manager, seed)).producers.get(PRODUCER) is not None


@pytest.mark.rule("P4")
@pytest.mark.parametrize("seed", range(12))
def test_a_snapshot_of_a_killed_process_is_synced_before_its_batches_are_deleted(
    node: Node, batch: MakeBatch, seed: int
) -> None:
    manager = node.start()
    log = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    log.append_as_leader(batch(1, producer_id=PRODUCER, producer_epoch=0, base_sequence=0), 0, NOW)
    log.flush(NOW)
    manager.checkpoint_recovery_points()
    # Its snapshot is not synced yet.
    log.roll(NOW)
    _kill(node)
    manager = node.start()
    log = the_log(manager)
    log.append_as_leader(batch(1), 0, NOW)
    log.flush(NOW)
    log.update_high_watermark(2)
    log.increment_log_start_offset(1)
    assert log.delete_old_segments(NOW) == 1
    again = the_log(node.crash(manager, seed))
    assert again.producers.get(PRODUCER) is not None, again.recovery_notes


@pytest.mark.parametrize("crashes_at", range(12))
def test_a_log_that_was_to_start_anew_and_died_at_it_does(node: Node, batch: MakeBatch, crashes_at: int) -> None:
    """DeleteRecords went beyond what was flushed, and power failed: what is missing had been deleted anyway."""
    manager = node.start()
    log = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    while len(log.segments) < 3:
        log.append_as_leader(batch(1), 0, NOW)
    log.flush(NOW)
    manager.checkpoint_recovery_points()
    for _ in range(2):
        log.append_as_leader(batch(1), 0, NOW)
    log.update_high_watermark(log.log_end_offset)
    log.increment_log_start_offset(log.log_end_offset)
    start = log.log_start_offset
    # Power fails, and takes all that was not synced.
    active = node.disk._files[log.segments.active.path]
    active.data = bytearray(active.durable)
    left = crashes_at

    def fault(operation: str, path: str) -> int | None:
        nonlocal left
        left -= operation in ("remove", "fsync_dir") and "orders" in path
        return errno.EIO if left < 0 else None

    _kill(node)
    node.disk.fault = fault
    with suppress(DiskError):
        node.start()
    node.disk.fault = None
    manager = node.crash(manager)
    assert manager.is_online("/a")
    log = the_log(manager)
    assert (log.log_start_offset, log.log_end_offset) == (start, start)


@pytest.mark.rule("W4")
@pytest.mark.parametrize("seed", range(40))
def test_a_new_log_does_not_inherit_a_high_watermark(node: Node, batch: MakeBatch, seed: int) -> None:
    """Power may bring back the file from before the row of the deleted log was left out of it."""
    manager = node.start()
    log = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    for _ in range(10):
        log.append_as_leader(batch(1), 0, NOW)
    log.update_high_watermark(10)
    manager.close_cleanly(1, NOW)
    manager = node.start()
    manager.delete(_tp(0))
    manager.checkpoint_recovery_points()
    manager.checkpoint_log_start_offsets()
    manager.checkpoint_high_watermarks()
    log = manager.get_or_create(_tp(0), OTHER, CONFIG, NOW)
    for _ in range(2):
        log.append_as_leader(batch(1), 0, NOW)
    assert log.high_watermark == 0
    again = node.crash(manager, seed).get(_tp(0))
    assert again is None or again.high_watermark == 0


def _kill(node: Node) -> None:
    """What was written stays, synced or not."""
    node.disk._locks.clear()


@pytest.mark.rule("P4")
@pytest.mark.parametrize("power_fails", [False, True])
def test_a_log_that_starts_anew_knows_no_producer_of_the_old_one(
    node: Node, batch: MakeBatch, power_fails: bool
) -> None:
    """A snapshot of theirs that outlives the crash would have a retried batch acknowledged that is nowhere any more."""
    manager = node.start()
    log = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    # By a leader that was deposed before anybody else had it.
    log.append_as_leader(batch(1, producer_id=PRODUCER, producer_epoch=0, base_sequence=0), 3, NOW)
    log.roll(NOW)
    log.append_as_leader(batch(1), 3, NOW)
    log.flush(NOW)
    node.disk.fault = lambda operation, path: (
        errno.EIO if operation == "write_atomic" and path.endswith("leader-epoch-checkpoint") else None
    )
    with pytest.raises(DiskError):
        log.truncate_fully_and_start_at(500, NOW)
    node.disk.fault = None
    if power_fails:
        node.disk.crash(random.Random(1), lose_entries=True)
    manager.release()
    again = the_log(node.start())
    assert (again.log_start_offset, again.log_end_offset) == (500, 500)
    again.append_as_follower(batch(1, base_offset=500, leader_epoch=4), NOW)
    retried = again.append_as_leader(batch(1, producer_id=PRODUCER, producer_epoch=0, base_sequence=0), 5, NOW)
    assert (retried.duplicate, retried.first_offset) == (False, 501)


@pytest.mark.rule("P4")
@pytest.mark.parametrize("seed", range(8))
def test_a_producer_whose_snapshot_failed_to_sync_outlives_its_records(node: Node, batch: MakeBatch, seed: int) -> None:
    """What the failed fsync left is in the page cache alone: the next one succeeds, and has not written it."""
    manager = node.start()
    log = manager.get_or_create(_tp(0), TOPIC, CONFIG, NOW)
    log.append_as_leader(batch(1, producer_id=PRODUCER, producer_epoch=0, base_sequence=0), 0, NOW)
    log.flush(NOW)
    manager.checkpoint_recovery_points()
    log.roll(NOW)
    node.disk.fault = lambda operation, path: errno.EIO if operation == "fsync" and path.endswith(".snapshot") else None
    with pytest.raises(DiskError):
        log.flush(NOW)
    node.disk.fault = None
    manager.release()
    manager = node.start()
    log = the_log(manager)
    log.append_as_leader(batch(1), 0, NOW)
    log.flush(NOW)
    manager.checkpoint_recovery_points()
    log.update_high_watermark(2)
    log.increment_log_start_offset(1)
    assert log.delete_old_segments(NOW) == 1
    again = the_log(node.crash(manager, seed))
    assert again.log_end_offset == 2
    retried = again.append_as_leader(batch(1, producer_id=PRODUCER, producer_epoch=0, base_sequence=0), 0, NOW)
    assert (retried.duplicate, retried.first_offset) == (True, 0)
