"""Where partitions begin and end, and which offset belongs to a time."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tidelog.client.client import Client
from tidelog.client.connection import Connection
from tidelog.client.errors import raise_for
from tidelog.core.ids import TopicPartition
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
# Where a broker's own log begins, if older segments lie elsewhere (KIP-405).
EARLIEST_LOCAL: Final = -4
_EARLIEST_LOCAL_SINCE: Final = 8

CONSUMER_REPLICA_ID: Final = -1
# Kafka's "debugging" reader: answered with the log end offset, and by a follower too.
DEBUGGING_REPLICA_ID: Final = -2
_TIMEOUT_MS: Final = 20_000


class IsolationLevel(IntEnum):
    """Whether a reader sees records of transactions that are still open."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOffset:
    """An offset with the timestamp of its record (-1 at the ends of a log) and its leader epoch."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    client: Client,
    asked: Mapping[TopicPartition, int],
    *,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    replica_id: int = CONSUMER_REPLICA_ID,
    broker: int | None = None,
) -> dict[TopicPartition, FoundOffset]:
    """For each partition the offset of a timestamp, LATEST or EARLIEST; offset -1 when no record is that late.

    Asks the leaders, or with `broker` that replica.
    """

    async def attempt() -> dict[TopicPartition, FoundOffset]:
        by_broker: dict[int, dict[TopicPartition, int]] = {}
        for tp, timestamp in sorted(asked.items()):
            node = broker if broker is not None else await client.leader_of(tp.topic, tp.partition)
            by_broker.setdefault(node, {})[tp] = timestamp
        answers = await asyncio.gather(
            *(_ask(client, node, part, isolation, replica_id) for node, part in by_broker.items())
        )
        return {tp: found for answer in answers for tp, found in answer.items()}

    return await client.retrying(attempt)


async def _ask(
    client: Client, node: int, asked: Mapping[TopicPartition, int], isolation: IsolationLevel, replica_id: int
) -> dict[TopicPartition, FoundOffset]:
    return await offsets_of(await client.broker(node), asked, isolation=isolation, replica_id=replica_id)


async def offsets_of(
    connection: Connection,
    asked: Mapping[TopicPartition, int],
    *,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    replica_id: int = CONSUMER_REPLICA_ID,
) -> dict[TopicPartition, FoundOffset]:
    """What this broker itself answers, once, whether it is the one to ask or not."""
    topics: dict[str, ListOffsetsTopic] = {}
    for tp, timestamp in asked.items():
        topic = topics.setdefault(tp.topic, ListOffsetsTopic(name=tp.topic))
        topic.partitions.append(ListOffsetsPartition(partition_index=tp.partition, timestamp=timestamp))
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation,
        topics=list(topics.values()),
        timeout_ms=_TIMEOUT_MS,
    )
    answer = await connection.request(request, ListOffsetsResponse)
    found: dict[TopicPartition, FoundOffset] = {}
    for described in answer.topics:
        for partition in described.partitions:
            tp = TopicPartition(described.name, partition.partition_index)
            raise_for(partition.error_code, what=f"offsets of {tp}")
            found[tp] = FoundOffset(
                offset=partition.offset, timestamp=partition.timestamp, leader_epoch=partition.leader_epoch
            )
    return found


async def is_in_own_log(connection: Connection, tp: TopicPartition, offset: int) -> bool:
    """Whether this leader has all from `offset` on in its own log, and nothing of it elsewhere. False if it is too old
    for the question: before that version the answer would be where the partition begins.
    """
    if connection.version_of(ListOffsetsRequest) < _EARLIEST_LOCAL_SINCE:
        return False
    begins = (await offsets_of(connection, {tp: EARLIEST_LOCAL}))[tp].offset
    return 0 <= begins <= offset
