"""Reassignment: a partition's replicas move to other brokers."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.client.client import Client
from tidelog.client.errors import raise_for
from tidelog.core.ids import TopicPartition
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

_TIMEOUT_MS: Final = 20_000
_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A partition on its way: `replicas` holds old and new ones together."""

    tp: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(broker for broker in self.replicas if broker not in self.removing)


async def alter_reassignments(client: Client, wanted: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    """Begins reassignments, or with None cancels them; ApiError names the first that was refused."""
    topics: dict[str, ReassignableTopic] = {}
    for tp, replicas in sorted(wanted.items()):
        topic = topics.setdefault(tp.topic, ReassignableTopic(name=tp.topic))
        target = None if replicas is None else list(replicas)
        topic.partitions.append(ReassignablePartition(partition_index=tp.partition, replicas=target))
    request = AlterPartitionReassignmentsRequest(timeout_ms=_TIMEOUT_MS, topics=list(topics.values()))

    async def attempt() -> None:
        answer = await (await client.controller()).request(request, AlterPartitionReassignmentsResponse)
        raise_for(answer.error_code, answer.error_message, what="reassignment")
        for topic in answer.responses:
            for result in topic.partitions:
                raise_for(
                    result.error_code, result.error_message, what=f"partition {topic.name}-{result.partition_index}"
                )

    await client.retrying(attempt)


async def list_reassignments(
    client: Client, partitions: Collection[TopicPartition] | None = None, *, timeout_ms: int = _TIMEOUT_MS
) -> list[Reassignment]:
    """What is under way, of these partitions or of all; only the active controller can tell."""
    asked: list[ListPartitionReassignmentsTopics] | None = None
    if partitions is not None:
        asked = [
            ListPartitionReassignmentsTopics(
                name=name, partition_indexes=sorted(tp.partition for tp in partitions if tp.topic == name)
            )
            for name in sorted({tp.topic for tp in partitions})
        ]
    request = ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=asked)

    async def attempt() -> list[Reassignment]:
        answer = await (await client.controller()).request(request, ListPartitionReassignmentsResponse)
        raise_for(answer.error_code, answer.error_message)
        return [
            Reassignment(
                tp=TopicPartition(topic.name, ongoing.partition_index),
                replicas=tuple(ongoing.replicas),
                adding=tuple(ongoing.adding_replicas),
                removing=tuple(ongoing.removing_replicas),
            )
            for topic in answer.topics
            for ongoing in topic.partitions
        ]

    found = await client.retrying(attempt, timeout_s=min(client.retry_timeout_s, timeout_ms / 1000))
    return sorted(found, key=lambda each: each.tp)


async def wait_reassigned(
    client: Client,
    partitions: Collection[TopicPartition],
    *,
    on_look: Callable[[list[Reassignment]], Awaitable[None]] | None = None,
) -> None:
    """Returns when none of these partitions is on its way any more. Kafka's protocol has no way to be told.

    `on_look` hears of those that still are.
    """
    while found := await list_reassignments(client, partitions):
        if on_look is not None:
            await on_look(found)
        await asyncio.sleep(_POLL_S)
