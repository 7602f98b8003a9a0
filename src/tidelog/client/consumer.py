"""Reads partitions from given positions; positions move only past what was handed out."""

import asyncio
from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.client.client import Client
from tidelog.client.errors import raise_for
from tidelog.client.offsets import IsolationLevel, list_offsets
from tidelog.core.ids import TopicPartition
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tidelog.wire.records.aborted import AbortedTransactions
from tidelog.wire.records.compression import DEFAULT_MAX_OUTPUT
from tidelog.wire.records.plain import Record, iter_batches

DEFAULT_MAX_WAIT_MS: Final = 500
DEFAULT_MAX_BYTES: Final = 50 * 1024 * 1024
DEFAULT_PARTITION_MAX_BYTES: Final = 1024 * 1024
_FIRST_VERSION_WITH_TOPIC_ID: Final = 13


class Consumed(NamedTuple):
    """A record and the partition it came from."""

    tp: TopicPartition
    record: Record


class Consumer:
    """A reader of assigned partitions. `reset` is where to go on when a position lies outside its log."""

    def __init__(
        self,
        client: Client,
        *,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        reset: int | None = None,
        max_wait_ms: int = DEFAULT_MAX_WAIT_MS,
        max_bytes: int = DEFAULT_MAX_BYTES,
        partition_max_bytes: int = DEFAULT_PARTITION_MAX_BYTES,
    ) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self._client = client
        self._isolation = isolation
        self._reset = reset
        self._max_wait_ms = max_wait_ms
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        self.positions = dict(positions)
        self.high_watermarks.clear()

    async def poll(self) -> list[Consumed]:
        """What has come since the last time; waits at the brokers for at most `max_wait_ms`."""
        return await self._client.retrying(self._poll_once)

    async def _poll_once(self) -> list[Consumed]:
        by_leader: dict[int, list[TopicPartition]] = {}
        for tp in self.positions:
            by_leader.setdefault(await self._client.leader_of(tp.topic, tp.partition), []).append(tp)
        if len(by_leader) == 1:
            # No task for it.
            [(leader, part)] = by_leader.items()
            return await self._fetch(leader, part)
        answers = await asyncio.gather(*(self._fetch(leader, part) for leader, part in by_leader.items()))
        return [consumed for answer in answers for consumed in answer]

    async def _fetch(self, leader: int, partitions: list[TopicPartition]) -> list[Consumed]:
        metadata = self._client.metadata
        topics: dict[str, FetchTopic] = {}
        names: dict[UUID, str] = {}
        for tp in partitions:
            known = metadata.topics.get(tp.topic)
            if known is None:
                # Whoever shares the client has met an error since, and has its leaders asked for again.
                raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"the leader of {tp} is unknown")
            topic_id = known.topic_id
            names[topic_id] = tp.topic
            topic = topics.setdefault(tp.topic, FetchTopic(topic=tp.topic, topic_id=topic_id))
            topic.partitions.append(
                FetchPartition(
                    partition=tp.partition,
                    fetch_offset=self.positions[tp],
                    partition_max_bytes=self._partition_max_bytes,
                )
            )
        request = FetchRequest(
            max_wait_ms=self._max_wait_ms,
            min_bytes=1,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation,
            topics=list(topics.values()),
        )
        connection = await self._client.broker(leader)
        all_ids_known = all(topic_id.int for topic_id in names)
        version = connection.version_of(
            FetchRequest, at_most=None if all_ids_known else _FIRST_VERSION_WITH_TOPIC_ID - 1
        )
        answer = await connection.request(
            request, FetchResponse, version=version, timeout_s=self._max_wait_ms / 1000 + 30
        )
        raise_for(answer.error_code, what="Fetch")
        consumed: list[Consumed] = []
        for answered in answer.responses:
            name = answered.topic if version < _FIRST_VERSION_WITH_TOPIC_ID else names[answered.topic_id]
            for data in answered.partitions:
                consumed += await self._take(TopicPartition(name, data.partition_index), data)
        return consumed

    async def _take(self, tp: TopicPartition, data: PartitionData) -> list[Consumed]:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self._reset is not None:
            self.positions[tp] = (await list_offsets(self._client, {tp: self._reset}))[tp].offset
            return []
        raise_for(data.error_code, what=f"fetch of {tp} at offset {self.positions[tp]}")
        self.high_watermarks[tp] = data.high_watermark
        if not data.records:
            return []
        position = self.positions[tp]
        aborted = None
        if self._isolation is IsolationLevel.READ_COMMITTED:
            aborted = AbortedTransactions(data.aborted_transactions or ())
        consumed: list[Consumed] = []
        for header, records in iter_batches(data.records, DEFAULT_MAX_OUTPUT, partial_tail=True):
            if not header.is_control and not (aborted and aborted.covers(header)):
                # A fetch in the middle of a batch brings the whole batch.
                consumed += [Consumed(tp, record) for record in records if record.offset >= position]
            elif aborted and header.is_control:
                aborted.see_marker(header, records)
            position = max(position, header.next_offset)
        self.positions[tp] = position
        return consumed
