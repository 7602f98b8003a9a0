"""A group stays on the partition where its offsets stand, whoever asks for more and whatever the config says."""

import asyncio

import pytest
from tests.unit.broker.virtual_node import VirtualClient, on_virtual_time, running_node

from tidelog.broker.group_coordinator import GroupCoordinatorService
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ErrorCode as E
from tidelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

GROUP = "a-group"


async def find_coordinator(client: VirtualClient) -> None:
    for _ in range(20):
        found = await client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 4)
        if found.coordinators[0].error_code == E.NONE:
            return
        await asyncio.sleep(1)
    raise AssertionError(found)


async def commit(client: VirtualClient, offset: int) -> int:
    topic = OffsetCommitRequestTopic(
        name="t", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
    )
    answer = await client.call(OffsetCommitRequest(group_id=GROUP, topics=[topic]), 9)
    code: int = answer.topics[0].partitions[0].error_code
    return code


async def committed(client: VirtualClient) -> int:
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0])])
    told = await client.call(OffsetFetchRequest(groups=[group]), 9)
    assert told.groups[0].error_code == E.NONE
    offset: int = told.groups[0].topics[0].partitions[0].committed_offset
    return offset


def test_committed_offsets_are_told_after_somebody_asked_for_more_partitions() -> None:
    async def story() -> None:
        async with running_node(MemoryDisk(), offsets_topic_num_partitions="1"):
            client = await VirtualClient.connect()
            await client.create_topic("t")
            await find_coordinator(client)
            assert await commit(client, 42) == E.NONE
            more = CreatePartitionsTopic(name="__consumer_offsets", count=50)
            grown = await client.call(CreatePartitionsRequest(topics=[more], timeout_ms=1000), 3)
            assert grown.results[0].error_code == E.INVALID_PARTITIONS
            await asyncio.sleep(5)
            assert await committed(client) == 42

    on_virtual_time(story)


def test_a_config_that_was_changed_later_moves_no_group_not_even_while_coordinators_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts: list[int] = []
    began = GroupCoordinatorService.on_election

    def begins(groups: GroupCoordinatorService, partition: int, leader_epoch: int) -> None:
        counts.append(groups.partition_count)
        began(groups, partition, leader_epoch)

    async def story() -> None:
        disk = MemoryDisk()
        async with running_node(disk, offsets_topic_num_partitions="3"):
            client = await VirtualClient.connect()
            await client.create_topic("t")
            await find_coordinator(client)
            assert await commit(client, 42) == E.NONE
        monkeypatch.setattr(GroupCoordinatorService, "on_election", begins)
        async with running_node(disk, offsets_topic_num_partitions="50"):
            client = await VirtualClient.connect()
            await find_coordinator(client)
            assert await committed(client) == 42
        assert counts == [3, 3, 3]

    on_virtual_time(story)
