"""One partition as leader: what is refused, what is acknowledged, what a reader may see."""

import errno
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import BrokerId, TopicPartition
from tidelog.metadata.image import PartitionRegistration
from tidelog.replication.partition import Partition
from tidelog.replication.roles import UNCHANGED, Follower, Leader
from tidelog.storage.log import Log
from tidelog.storage.memory import MemoryDisk
from tidelog.storage.validation import AppendOrigin
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.records.batch import read_header
from tidelog.wire.records.control import EndTransactionMarker, encode_end_txn_marker
from tidelog.wire.records.plain import Record, encode_batch

TP = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=7777)
NOW = 1_700_000_000_000


def batch(*values: bytes) -> memoryview:
    return memoryview(bytearray(encode_batch([Record(timestamp=NOW, key=None, value=value) for value in values])))


def registration(**changes: Any) -> PartitionRegistration:
    base = PartitionRegistration(replicas=(1,), directories=(), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)
    return base._replace(**changes)


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dirs("/data")
    return disk


@pytest.fixture
def partition(disk: MemoryDisk) -> Partition:
    return new_partition(disk)


def new_partition(disk: MemoryDisk, config: TopicConfig | None = None) -> Partition:
    log = Log.open(
        disk, "/data/orders-0", TP, config or TopicConfig(), topic_id=TOPIC_ID, clean_shutdown=False, now_ms=NOW
    )
    return Partition(TP, TOPIC_ID, BrokerId(1), log)


def refusal(error: pytest.ExceptionInfo[ApiError]) -> ErrorCode:
    return error.value.code


@pytest.mark.rule("P3")
def test_the_leader_gives_offsets_and_stamps_its_epoch(partition: Partition) -> None:
    partition.apply(registration(leader_epoch=5), 0.0)
    assert partition.append_as_leader(batch(b"a", b"b"), -1, NOW, 0.0).first_offset == 0
    records = batch(b"c")
    info = partition.append_as_leader(records, -1, NOW, 0.0)
    assert (info.first_offset, info.last_offset) == (2, 2)
    header = read_header(records)
    assert (header.base_offset, header.partition_leader_epoch) == (2, 5)
    assert partition.acknowledged(partition.leader_epoch, 3) is ErrorCode.NONE


@pytest.mark.rule("P3")
def test_an_append_waits_for_followers_that_have_not_fetched(partition: Partition) -> None:
    partition.apply(registration(replicas=(1, 2), isr=(1, 2)), 0.0)
    info = partition.append_as_leader(batch(b"a"), -1, NOW, 0.0)
    assert partition.log.high_watermark == 0
    assert partition.acknowledged(partition.leader_epoch, info.last_offset + 1) is None
    partition.require_leader().followers[BrokerId(2)].log_end_offset = partition.log.log_end_offset
    assert partition.advance_high_watermark(0.0)
    assert partition.acknowledged(partition.leader_epoch, info.last_offset + 1) is ErrorCode.NONE


@pytest.mark.rule("P3")
def test_a_lost_leadership_ends_the_wait_at_once(partition: Partition) -> None:
    partition.apply(registration(replicas=(1, 2), isr=(1, 2)), 0.0)
    partition.append_as_leader(batch(b"a"), -1, NOW, 0.0)
    epoch = partition.leader_epoch
    assert partition.acknowledged(epoch, 1) is None
    partition.apply(registration(replicas=(1, 2), isr=(2,), leader=2, leader_epoch=1, partition_epoch=1), 0.0)
    assert partition.acknowledged(epoch, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.rule("P3")
def test_leading_again_in_a_later_epoch_does_not_acknowledge_the_earlier_write(partition: Partition) -> None:
    partition.apply(registration(replicas=(1, 2), isr=(1, 2)), 0.0)
    partition.append_as_leader(batch(b"a"), -1, NOW, 0.0)
    epoch = partition.leader_epoch
    partition.apply(registration(replicas=(1, 2), isr=(1,), leader_epoch=2, partition_epoch=2), 0.0)
    assert partition.acknowledged(epoch, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.rule("P3", "C8")
def test_a_leader_that_goes_on_in_the_next_epoch_goes_on_with_what_waits(partition: Partition) -> None:
    """When a replica leaves the assignment, the leader's epoch ends and its leadership does not."""
    partition.apply(registration(replicas=(1, 2, 3), isr=(1, 2, 3)), 0.0)
    partition.append_as_leader(batch(b"a"), -1, NOW, 0.0)
    epoch = partition.leader_epoch
    partition.apply(registration(replicas=(1, 2), isr=(1, 2), leader_epoch=1, partition_epoch=1), 0.0)
    assert partition.acknowledged(epoch, 1) is None
    partition.require_leader().followers[BrokerId(2)].log_end_offset = 1
    assert partition.advance_high_watermark(0.0)
    assert partition.acknowledged(epoch, 1) is ErrorCode.NONE


@pytest.mark.rule("P2")
def test_too_few_in_sync_replicas_refuse_before_anything_is_written(disk: MemoryDisk) -> None:
    partition = new_partition(disk, replace(TopicConfig(), min_insync_replicas=2))
    partition.apply(registration(replicas=(1, 2), isr=(1,)), 0.0)
    with pytest.raises(ApiError) as error:
        partition.append_as_leader(batch(b"a"), -1, NOW, 0.0)
    assert refusal(error) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log.log_end_offset == 0
    partition.append_as_leader(batch(b"a"), 1, NOW, 0.0)
    assert (partition.log.log_end_offset, partition.log.high_watermark) == (1, 0)


@pytest.mark.rule("P2")
def test_the_minimum_is_never_more_than_the_replicas(disk: MemoryDisk) -> None:
    partition = new_partition(disk, replace(TopicConfig(), min_insync_replicas=2))
    partition.apply(registration(), 0.0)
    partition.append_as_leader(batch(b"a"), -1, NOW, 0.0)
    assert partition.log.high_watermark == 1


@pytest.mark.rule("P3")
def test_a_shrunk_maximal_isr_is_told_after_the_append(disk: MemoryDisk) -> None:
    partition = new_partition(disk)
    partition.apply(registration(replicas=(1, 2), isr=(1,)), 0.0)
    info = partition.append_as_leader(batch(b"a"), -1, NOW, 0.0)
    partition.log.config = replace(TopicConfig(), min_insync_replicas=2)
    code = partition.acknowledged(partition.leader_epoch, info.last_offset + 1)
    assert code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


@pytest.mark.rule("W2")
def test_a_replica_that_joins_does_not_lower_the_high_watermark(partition: Partition) -> None:
    partition.apply(registration(replicas=(1, 2)), 0.0)
    partition.append_as_leader(batch(b"a", b"b"), -1, NOW, 0.0)
    assert partition.log.high_watermark == 2
    partition.apply(registration(replicas=(1, 2), isr=(1, 2), partition_epoch=1), 0.0)
    assert partition.log.high_watermark == 2
    partition.append_as_leader(batch(b"c"), 1, NOW, 0.0)
    assert partition.log.high_watermark == 2


@pytest.mark.rule("W2")
def test_the_high_watermark_never_passes_the_end(partition: Partition) -> None:
    partition.apply(registration(replicas=(1, 2), isr=(1, 2)), 0.0)
    partition.append_as_leader(batch(b"a"), 1, NOW, 0.0)
    partition.require_leader().followers[BrokerId(2)].log_end_offset = 1000
    partition.advance_high_watermark(0.0)
    assert partition.log.high_watermark == partition.log.log_end_offset == 1


def test_who_does_not_lead_refuses(partition: Partition) -> None:
    partition.apply(registration(replicas=(1, 2), isr=(2,), leader=2), 0.0)
    assert isinstance(partition.role, Follower)
    for attempt in (
        lambda: partition.append_as_leader(batch(b"a"), 1, NOW, 0.0),
        lambda: partition.read(0, 1000, isolation_level=0),
        lambda: partition.latest_offset(0),
        lambda: partition.delete_records(0),
    ):
        with pytest.raises(ApiError) as error:
            attempt()
        assert refusal(error) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (partition.leader_id, partition.log.log_end_offset) == (2, 0)


def test_stale_metadata_changes_nothing(partition: Partition) -> None:
    partition.apply(registration(leader_epoch=3, partition_epoch=7), 0.0)
    for stale in (
        registration(leader=-1, isr=(), leader_epoch=2, partition_epoch=6),
        registration(leader=-1, isr=(), leader_epoch=4, partition_epoch=7),
    ):
        assert partition.apply(stale, 0.0) == UNCHANGED
    assert isinstance(partition.role, Leader)
    assert partition.leader_epoch == 3


@pytest.mark.rule("E4")
def test_a_new_leader_truncates_nothing_and_opens_its_epoch_at_its_end(partition: Partition) -> None:
    partition.apply(registration(replicas=(1, 2), isr=(1, 2)), 0.0)
    partition.append_as_leader(batch(b"a", b"b"), 1, NOW, 0.0)
    changed = partition.apply(registration(replicas=(1, 2), isr=(1, 2), leader_epoch=1, partition_epoch=1), 0.0)
    assert changed.leadership
    assert partition.log.log_end_offset == 2
    assert partition.require_leader().epoch_start_offset == 2
    assert partition.log.end_offset_for_epoch(0) == (0, 2)


@pytest.mark.rule("W5")
def test_the_end_is_not_told_before_the_high_watermark_reached_the_epochs_start(partition: Partition) -> None:
    partition.apply(registration(replicas=(1, 2), isr=(1, 2)), 0.0)
    partition.append_as_leader(batch(b"a", b"b"), 1, NOW, 0.0)
    partition.apply(registration(replicas=(1, 2), isr=(1, 2), leader_epoch=1, partition_epoch=1), 0.0)
    with pytest.raises(ApiError) as error:
        partition.latest_offset(0)
    assert refusal(error) is ErrorCode.OFFSET_NOT_AVAILABLE
    partition.require_leader().followers[BrokerId(2)].log_end_offset = 2
    partition.advance_high_watermark(0.0)
    assert partition.latest_offset(0) == 2


@pytest.mark.rule("F1")
def test_a_consumer_reads_below_the_high_watermark_only(partition: Partition) -> None:
    partition.apply(registration(replicas=(1, 2), isr=(1, 2)), 0.0)
    partition.append_as_leader(batch(b"a"), 1, NOW, 0.0)
    partition.require_leader().followers[BrokerId(2)].log_end_offset = 1
    partition.advance_high_watermark(0.0)
    partition.append_as_leader(batch(b"b"), 1, NOW, 0.0)
    found = partition.read(0, 1 << 20, isolation_level=0)
    assert found.high_watermark == 1
    assert read_header(memoryview(partition.read_slice(found.slice))).last_offset == 0
    assert found.slice.size == len(partition.read_slice(found.slice)) == len(batch(b"a"))
    assert partition.read(1, 1 << 20, isolation_level=0).slice.size == 0


@pytest.mark.rule("F5")
@pytest.mark.parametrize(("asked", "code"), [(2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_readers_are_fenced_by_epoch(partition: Partition, asked: int, code: ErrorCode) -> None:
    partition.apply(registration(leader_epoch=3), 0.0)
    with pytest.raises(ApiError) as error:
        partition.read(0, 1000, isolation_level=0, current_leader_epoch=asked)
    assert refusal(error) is code
    partition.read(0, 1000, isolation_level=0, current_leader_epoch=3)


@pytest.mark.rule("F5")
def test_a_diverging_reader_is_told_where_and_given_nothing(partition: Partition) -> None:
    partition.apply(registration(leader_epoch=1), 0.0)
    partition.append_as_leader(batch(b"a", b"b"), -1, NOW, 0.0)
    partition.apply(registration(leader_epoch=4, partition_epoch=1), 0.0)
    partition.append_as_leader(batch(b"c"), -1, NOW, 0.0)
    found = partition.read(3, 1 << 20, isolation_level=0, last_fetched_epoch=3)
    assert (found.diverging_epoch, found.slice.size) == ((1, 2), 0)
    assert partition.read(2, 1 << 20, isolation_level=0, last_fetched_epoch=1).diverging_epoch is None


@pytest.mark.rule("F6")
@pytest.mark.parametrize("offset", [-1, 3, 1000])
def test_outside_of_the_log_is_out_of_range(partition: Partition, offset: int) -> None:
    partition.apply(registration(), 0.0)
    partition.append_as_leader(batch(b"a", b"b"), -1, NOW, 0.0)
    with pytest.raises(ApiError) as error:
        partition.read(offset, 1000, isolation_level=0)
    assert refusal(error) is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.rule("F6")
def test_below_a_raised_log_start_is_out_of_range(partition: Partition) -> None:
    partition.apply(registration(), 0.0)
    partition.append_as_leader(batch(b"a", b"b"), -1, NOW, 0.0)
    assert partition.delete_records(1) == partition.low_watermark() == 1
    with pytest.raises(ApiError) as error:
        partition.read(0, 1000, isolation_level=0)
    assert refusal(error) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert partition.delete_records(-1) == 2
    with pytest.raises(ApiError) as error:
        partition.delete_records(3)
    assert refusal(error) is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.rule("C10")
def test_a_failed_write_is_not_acknowledged_and_the_directory_takes_nothing_more(
    disk: MemoryDisk, partition: Partition
) -> None:
    partition.apply(registration(), 0.0)
    partition.append_as_leader(batch(b"a"), -1, NOW, 0.0)
    failures: list[str] = []
    partition.log.directory.on_failure = lambda directory, error: failures.append(error.errno_name)
    disk.fault = lambda operation, path: errno.ENOSPC if operation == "append" else None
    for _ in range(2):
        with pytest.raises(ApiError) as error:
            partition.append_as_leader(batch(b"b"), -1, NOW, 0.0)
        assert refusal(error) is ErrorCode.KAFKA_STORAGE_ERROR
    assert failures == ["ENOSPC"]
    assert partition.log.log_end_offset == 1


@pytest.mark.rule("F1")
def test_a_reader_of_committed_records_is_told_of_the_aborts_in_its_bytes_only(disk: MemoryDisk) -> None:
    partition = new_partition(disk, TopicConfig(segment_bytes=400))
    partition.apply(registration(), 0.0)
    producer = {"producer_id": 5, "producer_epoch": 0}
    abort = encode_end_txn_marker(EndTransactionMarker(False, 0), timestamp=NOW, **producer)
    for number in range(4):
        data = encode_batch(
            [Record(timestamp=NOW, key=None, value=b"x" * 200)],
            base_sequence=number,
            is_transactional=True,
            producer_id=5,
            producer_epoch=0,
        )
        partition.append_as_leader(memoryview(bytearray(data)), 1, NOW, 0.0)
        partition.append_as_leader(memoryview(bytearray(abort)), 1, NOW, 0.0, origin=AppendOrigin.COORDINATOR)
    assert len(partition.log.segments) == 4
    found = partition.read(0, 1 << 20, isolation_level=1)
    assert found.aborted is not None
    assert [txn.first_offset for txn in found.aborted] == [0]
    assert partition.read(8, 1 << 20, isolation_level=1).aborted == []
    assert partition.read(0, 1 << 20, isolation_level=0).aborted is None
