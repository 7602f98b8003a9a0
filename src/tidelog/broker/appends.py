"""Appending as a leader, and waking whoever waits for it: the one way records enter a partition's log here."""

import asyncio
from typing import NamedTuple

from tidelog.broker.broker import Broker
from tidelog.core.ids import LeaderEpoch, TopicIdPartition, TopicPartition
from tidelog.replication.partition import Partition
from tidelog.storage.log_types import AppendInfo
from tidelog.storage.validation import AppendOrigin
from tidelog.wire.errors import ApiError, ErrorCode


class ReplicaFetch(NamedTuple):
    """Under what a follower's fetch waits: appends concern it, where a consumer waits for the high watermark."""

    topic_partition: TopicPartition


def append_as_leader(
    broker: Broker,
    partition: Partition,
    records: memoryview,
    acks: int,
    *,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    allow_zstd: bool = True,
) -> AppendInfo:
    """Appends one batch and completes the fetches (and the produces behind it) that waited for it."""
    log = partition.log
    before = log.high_watermark
    info = partition.append_as_leader(
        records, acks, broker.wall_clock.now_ms(), broker.loop.time(), origin=origin, allow_zstd=allow_zstd
    )
    if not info.duplicate:
        broker.traffic.messages_in += info.last_offset - info.first_offset + 1
        broker.traffic.bytes_in += len(records)
    if log.high_watermark != before:
        wake(broker, partition.topic_partition)
    elif not info.duplicate:
        wake_followers(broker, partition.topic_partition)
    return info


def wake(broker: Broker, *topic_partitions: TopicPartition) -> None:
    """The high watermark or the leadership of partitions moved: everybody who waits for one looks again, once."""
    broker.produce_purgatory.check_all(topic_partitions)
    wake_followers(broker, *topic_partitions)
    broker.fetch_purgatory.check_all(topic_partitions)


def wake_followers(broker: Broker, *topic_partitions: TopicPartition) -> None:
    """There is something that only followers are told: a record that is not committed yet, a new start of the log."""
    partitions = [each for each in map(broker.replicas.get, topic_partitions) if each is not None]
    stirred = broker.fetch_sessions.stir(
        TopicIdPartition(each.topic_id, each.topic_partition.partition) for each in partitions
    )
    broker.fetch_purgatory.check_all([*map(ReplicaFetch, topic_partitions), *stirred])


class WakeSoon:
    """Partitions that moved, until the loop's next turn. One batch of metadata may move thousands, and a follower's
    fetch waits for thousands: looked at for each, that would be millions of looks.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._moved: dict[TopicPartition, None] = {}

    def __call__(self, partition: Partition) -> None:
        if not self._moved:
            self._broker.loop.call_soon(self._wake)
        self._moved[partition.topic_partition] = None

    def _wake(self) -> None:
        moved, self._moved = self._moved, {}
        wake(self._broker, *moved)


async def append_and_wait(broker: Broker, topic_partition: TopicPartition, batch: bytes, timeout_ms: int) -> int:
    """A coordinator's own records, acks=all; returns the last offset once committed, ApiError if that failed."""
    partition = broker.replicas.get(topic_partition)
    if partition is None:
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic_partition} is not on this broker")
    info = append_as_leader(broker, partition, memoryview(bytearray(batch)), -1, origin=AppendOrigin.COORDINATOR)
    code = await _committed(broker, partition, info.last_offset + 1, timeout_ms)
    if code is not ErrorCode.NONE:
        raise ApiError(code, f"{topic_partition}: the append at {info.first_offset} was not committed")
    return info.last_offset


async def wait_until_committed(broker: Broker, partition: Partition, offset: int, timeout_ms: int) -> None:
    """Until the high watermark is at `offset`; ApiError when this broker no longer leads in the same epoch."""
    code = await _committed(broker, partition, offset, timeout_ms)
    # An in-sync set that has become too small since says nothing against what is committed.
    if code not in (ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
        raise ApiError(code, f"{partition.topic_partition}: offset {offset} is not committed")


async def _committed(broker: Broker, partition: Partition, offset: int, timeout_ms: int) -> ErrorCode:
    wait = _CommitWait(broker.loop, partition, partition.leader_epoch, offset)
    broker.produce_purgatory.try_complete_else_watch(wait, (partition.topic_partition,), timeout_ms / 1000)
    return await wait.future


class _CommitWait:
    __slots__ = ("_epoch", "_partition", "_required_offset", "future")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, partition: Partition, epoch: LeaderEpoch, required_offset: int
    ) -> None:
        self._partition = partition
        self._epoch = epoch
        self._required_offset = required_offset
        self.future: asyncio.Future[ErrorCode] = loop.create_future()

    def try_complete(self) -> bool:
        code = self._partition.acknowledged(self._epoch, self._required_offset)
        if code is None:
            return False
        self._finish(code)
        return True

    def expire(self) -> None:
        self._finish(ErrorCode.REQUEST_TIMED_OUT)

    def _finish(self, code: ErrorCode) -> None:
        if not self.future.done():
            self.future.set_result(code)
