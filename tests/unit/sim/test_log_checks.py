"""What is read of a log beside what its node believes: a beginning, an end or a segment that is missing is seen."""

from uuid import UUID

from tests.unit.replication.replica_kit import NOW, TP, batch, open_log

from tidelog.core.config.topic import TopicConfig
from tidelog.sim.checks.history import PartitionHistory
from tidelog.sim.checks.look import ReplicaLook
from tidelog.sim.checks.mirror import LogMirror
from tidelog.sim.disk import SimDisk
from tidelog.storage.log import Log

SEGMENT = 200
"""Bytes: two of the batches."""


def new_log(batches: int = 6) -> tuple[Log, SimDisk]:
    disk = SimDisk()
    disk.make_dirs("/data")
    log = open_log(disk, TP, topic_id=UUID(int=1), config=TopicConfig(segment_bytes=SEGMENT))
    for number in range(batches):
        log.append_as_leader(batch(value=b"%d" % number), leader_epoch=0, now_ms=NOW)
    return log, disk


def replica(log: Log, disk: SimDisk) -> ReplicaLook:
    found = ReplicaLook(1, 1, TP, log, LogMirror(log, lambda: disk))
    found.mirror.refresh()
    return found


def promised(by: ReplicaLook) -> PartitionHistory:
    history = PartitionHistory()
    history.expose(by.mirror, by.log.log_end_offset, "shown by the leader")
    return history


def test_a_whole_log_lacks_nothing() -> None:
    log, disk = new_log()
    leader = replica(log, disk)
    history = promised(leader)
    assert sorted(history.committed) == list(range(6))
    assert leader.mirror.problems == [] and leader.mirror.wrong_end() is None
    assert leader.lacks(history, 6) is None


def test_a_log_that_ends_too_early_lacks_its_end() -> None:
    history = promised(replica(*new_log(6)))
    shorter = replica(*new_log(4))
    assert shorter.lacks(history, 6) == "broker 1 (start 1) ends at 4, below 6 (shown by the leader)"
    assert shorter.lacks(history, 4) is None


def test_a_log_that_begins_too_late_lacks_its_beginning() -> None:
    log, disk = new_log()
    history = promised(replica(log, disk))
    log.update_high_watermark(6)
    log.increment_log_start_offset(1)
    assert (
        replica(log, disk).lacks(history, 6) == "broker 1 (start 1) begins at 1, but every offset up to 6 is committed"
    )


def test_an_empty_log_further_on_lacks_everything() -> None:
    history = promised(replica(*new_log()))
    log, disk = new_log(1)
    log.truncate_fully_and_start_at(6, NOW)
    assert (
        replica(log, disk).lacks(history, 6) == "broker 1 (start 1) begins at 6, but every offset up to 6 is committed"
    )


def test_batches_go_with_their_segment() -> None:
    log, disk = new_log()
    mirror = LogMirror(log, lambda: disk)
    mirror.refresh()
    log.update_high_watermark(6)
    log.increment_log_start_offset(4)
    log.config = TopicConfig(segment_bytes=SEGMENT, retention_bytes=1)
    assert log.delete_old_segments(NOW) > 0
    before = mirror.version
    mirror.refresh()
    assert mirror.batches[0].base_offset == log.segments[0].base_offset > 0
    assert mirror.version > before


def test_bytes_that_end_before_the_log_does_are_a_problem() -> None:
    log, disk = new_log()
    log.log_end_offset += 1
    mirror = LogMirror(log, lambda: disk)
    mirror.refresh()
    assert mirror.wrong_end() == "orders-0: the log end offset is 7, but its bytes end at 6"
