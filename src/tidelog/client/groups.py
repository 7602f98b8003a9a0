"""Consumer groups from the outside: list, describe, delete, read and set committed offsets."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.client import Client
from tidelog.client.consumer_protocol import PROTOCOL_TYPE, decode_assignment
from tidelog.client.errors import raise_for
from tidelog.core.ids import TopicPartition
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.wire.messages.describe_groups import DescribedGroupMember, DescribeGroupsRequest, DescribeGroupsResponse
from tidelog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse

NO_OFFSET: Final = -1
# From these versions topics are named by ids; names are enough for us and survive a topic made again.
_OFFSET_FETCH_BY_NAME: Final = 9
_OFFSET_COMMIT_BY_NAME: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of a group and what it was given."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group as its coordinator sees it."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """A position of a group."""

    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


async def list_groups(client: Client) -> list[ListedGroup]:
    """Every group: each broker knows those it coordinates."""

    async def ask(broker: int) -> list[ListedGroup]:
        answer = await (await client.broker(broker)).request(ListGroupsRequest(), ListGroupsResponse)
        raise_for(answer.error_code, what=f"groups of broker {broker}")
        return answer.groups

    async def attempt() -> list[ListedGroup]:
        await client.refresh([])
        answers = await asyncio.gather(*(ask(broker) for broker in sorted(client.metadata.brokers)))
        return sorted((group for answer in answers for group in answer), key=lambda group: group.group_id)

    return await client.retrying(attempt)


async def describe_group(client: Client, group: str) -> GroupDescription:
    async def attempt() -> GroupDescription:
        connection = await client.coordinator(group)
        answer = await connection.request(DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse)
        described = answer.groups[0]
        raise_for(described.error_code, described.error_message, what=f"group {group!r}")
        return GroupDescription(
            group_id=described.group_id,
            state=described.group_state,
            protocol_type=described.protocol_type,
            protocol=described.protocol_data,
            members=tuple(_member(member, described.protocol_type) for member in described.members),
        )

    return await client.retrying(attempt)


async def delete_group(client: Client, group: str) -> None:
    async def attempt() -> None:
        connection = await client.coordinator(group)
        answer = await connection.request(DeleteGroupsRequest(groups_names=[group]), DeleteGroupsResponse)
        for result in answer.results:
            raise_for(result.error_code, what=f"group {group!r}")

    await client.retrying(attempt)


async def committed_offsets(client: Client, group: str) -> dict[TopicPartition, CommittedOffset]:
    """Every position the group has committed."""
    request = OffsetFetchRequest(
        group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)], require_stable=True
    )

    async def attempt() -> dict[TopicPartition, CommittedOffset]:
        connection = await client.coordinator(group)
        version = connection.version_of(OffsetFetchRequest, at_most=_OFFSET_FETCH_BY_NAME)
        answer = await connection.request(request, OffsetFetchResponse, version=version)
        raise_for(answer.error_code, what=f"offsets of group {group!r}")
        found: dict[TopicPartition, CommittedOffset] = {}
        topics = [(topic.name, topic.partitions) for topic in answer.topics]
        rows = [(name, partition) for name, partitions in topics for partition in partitions]
        for name, partition in rows:
            raise_for(partition.error_code, what=f"offset of group {group!r} in {name}")
            found[TopicPartition(name, partition.partition_index)] = CommittedOffset(
                offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch,
                metadata=partition.metadata,
            )
        for answered in answer.groups:
            raise_for(answered.error_code, what=f"offsets of group {group!r}")
            for topic in answered.topics:
                for entry in topic.partitions:
                    raise_for(entry.error_code, what=f"offset of group {group!r} in {topic.name}")
                    found[TopicPartition(topic.name, entry.partition_index)] = CommittedOffset(
                        offset=entry.committed_offset,
                        leader_epoch=entry.committed_leader_epoch,
                        metadata=entry.metadata,
                    )
        return {tp: committed for tp, committed in sorted(found.items()) if committed.offset != NO_OFFSET}

    return await client.retrying(attempt)


async def commit_offsets(
    client: Client,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    generation_id: int = -1,
    member_id: str = "",
) -> None:
    """Commits positions: as a member, or (generation -1) from the outside of a group without members."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for tp, offset in sorted(offsets.items()):
        topic = topics.setdefault(tp.topic, OffsetCommitRequestTopic(name=tp.topic))
        topic.partitions.append(
            OffsetCommitRequestPartition(partition_index=tp.partition, committed_offset=offset, committed_metadata="")
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        topics=list(topics.values()),
    )

    async def attempt() -> None:
        connection = await client.coordinator(group)
        version = connection.version_of(OffsetCommitRequest, at_most=_OFFSET_COMMIT_BY_NAME)
        answer = await connection.request(request, OffsetCommitResponse, version=version)
        for answered in answer.topics:
            for partition in answered.partitions:
                what = f"offset of group {group!r} in {answered.name}-{partition.partition_index}"
                raise_for(partition.error_code, what=what)

    await client.retrying(attempt)


def _member(member: DescribedGroupMember, protocol_type: str) -> Member:
    partitions = decode_assignment(member.member_assignment) if protocol_type == PROTOCOL_TYPE else []
    return Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        partitions=tuple(partitions),
    )
