"""Topics: create, list, describe, grow, delete."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tidelog.client.client import Client
from tidelog.client.errors import raise_for
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tidelog.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from tidelog.wire.messages.metadata import MetadataResponseTopic

BROKER_DEFAULT: Final = -1
_TIMEOUT_MS: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """The size that the controller gave a new topic; -1 from a controller that does not report it."""

    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One line of `describe`."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic and its partitions in order."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


async def create_topic(
    client: Client,
    name: str,
    *,
    partitions: int = BROKER_DEFAULT,
    replication_factor: int = BROKER_DEFAULT,
    assignment: Mapping[int, Sequence[int]] | None = None,
    config: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> CreatedTopic:
    """Creates a topic, or with `validate_only` only checks whether it could be created."""
    topic = CreatableTopic(
        name=name,
        num_partitions=BROKER_DEFAULT if assignment else partitions,
        replication_factor=BROKER_DEFAULT if assignment else replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in sorted((assignment or {}).items())
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS, validate_only=validate_only)

    async def attempt() -> CreatedTopic:
        answer = await (await client.controller()).request(request, CreateTopicsResponse)
        for result in answer.topics:
            raise_for(result.error_code, result.error_message, what=f"topic {name!r}")
        [created] = answer.topics
        return CreatedTopic(partitions=created.num_partitions, replication_factor=created.replication_factor)

    return await client.retrying(attempt)


async def delete_topic(client: Client, name: str) -> None:
    request = DeleteTopicsRequest(topic_names=[name], topics=[DeleteTopicState(name=name)], timeout_ms=_TIMEOUT_MS)

    async def attempt() -> None:
        answer = await (await client.controller()).request(request, DeleteTopicsResponse)
        for result in answer.responses:
            raise_for(result.error_code, result.error_message, what=f"topic {name!r}")

    await client.retrying(attempt)


async def create_partitions(client: Client, name: str, count: int) -> None:
    """Grows a topic to `count` partitions."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)], timeout_ms=_TIMEOUT_MS
    )

    async def attempt() -> None:
        answer = await (await client.controller()).request(request, CreatePartitionsResponse)
        for result in answer.results:
            raise_for(result.error_code, result.error_message, what=f"topic {name!r}")

    await client.retrying(attempt)


async def list_topics(client: Client) -> list[MetadataResponseTopic]:
    """Every topic the cluster knows, by name, internal ones too."""

    async def attempt() -> list[MetadataResponseTopic]:
        answer = await client.refresh(None)
        return sorted((topic for topic in answer.topics if topic.name), key=lambda topic: topic.name or "")

    return await client.retrying(attempt)


async def describe_topics(client: Client, names: Sequence[str] = ()) -> list[TopicDescription]:
    """Topics by name, all of them when none is named; answers come in pages and are put together here."""

    async def attempt() -> list[TopicDescription]:
        found: dict[str, DescribeTopicPartitionsResponseTopic] = {}
        cursor: Cursor | None = None
        while True:
            request = DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=name) for name in sorted(set(names))], cursor=cursor
            )
            answer = await (await client.any_broker()).request(request, DescribeTopicPartitionsResponse)
            for topic in answer.topics:
                raise_for(topic.error_code, what=f"topic {topic.name!r}")
                assert topic.name is not None
                if topic.name in found:
                    found[topic.name].partitions += topic.partitions
                else:
                    found[topic.name] = topic
            if answer.next_cursor is None:
                return [_describe(topic) for _, topic in sorted(found.items())]
            cursor = Cursor(
                topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
            )

    return await client.retrying(attempt)


async def describe_topic(client: Client, name: str) -> TopicDescription:
    for topic in await describe_topics(client, [name]):
        if topic.name == name:
            return topic
    raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}: it does not exist")


def _describe(topic: DescribeTopicPartitionsResponseTopic) -> TopicDescription:
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return TopicDescription(
        name=topic.name or "",
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(_describe_partition(partition) for partition in partitions),
    )


def _describe_partition(partition: DescribeTopicPartitionsResponsePartition) -> PartitionDescription:
    return PartitionDescription(
        partition=partition.partition_index,
        leader=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replicas=tuple(partition.replica_nodes),
        isr=tuple(partition.isr_nodes),
        elr=tuple(partition.eligible_leader_replicas or ()),
        last_known_elr=tuple(partition.last_known_elr or ()),
        offline=tuple(partition.offline_replicas),
    )
