"""Voters come and go over the wire: a member that follows the quorum is made a voter, counts, and is let go."""

import asyncio
import random
from typing import Any, Final
from uuid import UUID

from tests.unit.broker.virtual_node import PROPERTIES, START_MS, VirtualClient, on_virtual_time, running_node

from tidelog.broker.format import format_directories
from tidelog.broker.initial_voters import VoterFlags
from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import add_raft_voter as add
from tidelog.wire.messages import describe_quorum as quorum
from tidelog.wire.messages import update_raft_voter as update
from tidelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.wire.records.batch import iter_headers

MEMBER: Final = 2
DIRECTORY: Final = UUID(int=0xABCDEF << 80)
DYNAMIC: Final = {"controller.quorum.bootstrap.servers": "127.0.0.1:9093"}


def standalone() -> MemoryDisk:
    """A node whose voters, itself alone, stand in the metadata log."""
    disk = MemoryDisk()
    given = {key: value for key, value in PROPERTIES.items() if key != "controller.quorum.voters"} | DYNAMIC
    config, _ = NodeConfig.parse(given)
    format_directories(disk, config, None, random.Random(1), START_MS, VoterFlags(standalone=True))
    return disk


class Member:
    """A second member, played by the test: it fetches, and so holds, whatever the leader has."""

    def __init__(self, client: VirtualClient) -> None:
        self._client = client
        self._offset = self._last_epoch = self._high_watermark = 0
        self.epoch = 0

    async def fetch(self) -> PartitionData:
        partition = FetchPartition(
            fetch_offset=self._offset,
            current_leader_epoch=self.epoch,
            last_fetched_epoch=self._last_epoch,
            partition_max_bytes=1 << 20,
            replica_directory_id=DIRECTORY,
            high_watermark=self._high_watermark,
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=MEMBER),
            max_bytes=1 << 20,
            topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])],
        )
        answer: PartitionData = (await self._client.call(request, 18)).responses[0].partitions[0]
        if answer.error_code == ErrorCode.FENCED_LEADER_EPOCH:
            self.epoch = answer.current_leader.leader_epoch
            return await self.fetch()
        assert answer.error_code == ErrorCode.NONE, answer
        for _, header in iter_headers(memoryview(answer.records or b"")):
            self._offset, self._last_epoch = header.next_offset, header.partition_leader_epoch
        self._high_watermark = answer.high_watermark
        return answer

    async def catch_up(self) -> None:
        while (await self.fetch()).records:
            pass

    async def follow(self) -> None:
        while True:
            await self.fetch()
            await asyncio.sleep(0.01)


async def voters(client: VirtualClient) -> list[int]:
    asked = quorum.TopicData(topic_name=METADATA_TOPIC, partitions=[quorum.PartitionData()])
    response = await client.call(quorum.DescribeQuorumRequest(topics=[asked]), 2)
    return [voter.replica_id for voter in response.topics[0].partitions[0].current_voters]


def addition(**fields: Any) -> add.AddRaftVoterRequest:
    listener = add.Listener(name="CONTROLLER", host="10.0.0.2", port=9093)
    return add.AddRaftVoterRequest(
        cluster_id=None, timeout_ms=5000, voter_id=MEMBER, voter_directory_id=DIRECTORY, listeners=[listener], **fields
    )


def test_a_voter_is_added_moves_and_is_removed() -> None:
    async def story() -> None:
        async with running_node(standalone(), controller_quorum_voters="", **DYNAMIC):
            admin = await VirtualClient.connect()
            peer = VirtualClient(*await asyncio.open_connection("127.0.0.1", 9093))
            member = Member(peer)
            late = await admin.call(addition(), 1)
            assert late.error_code == ErrorCode.REQUEST_TIMED_OUT, late
            await member.catch_up()
            following = asyncio.ensure_future(member.follow())
            added = await admin.call(addition(), 1)
            assert added.error_code == ErrorCode.NONE, added
            assert await voters(admin) == [1, MEMBER]
            assert (await admin.call(addition(), 0)).error_code == ErrorCode.DUPLICATE_VOTER
            moved = update.UpdateRaftVoterRequest(
                cluster_id=None,
                current_leader_epoch=member.epoch,
                voter_id=MEMBER,
                voter_directory_id=DIRECTORY,
                listeners=[update.Listener(name="CONTROLLER", host="10.0.0.22", port=9093)],
            )
            own = VirtualClient(*await asyncio.open_connection("127.0.0.1", 9093))
            assert (await own.call(moved, 0)).error_code == ErrorCode.NONE
            removal = RemoveRaftVoterRequest(cluster_id=None, voter_id=MEMBER, voter_directory_id=DIRECTORY)
            assert (await admin.call(removal, 0)).error_code == ErrorCode.NONE
            assert await voters(admin) == [1]
            assert (await admin.call(removal, 0)).error_code == ErrorCode.VOTER_NOT_FOUND
            following.cancel()
            await asyncio.wait([following])

    on_virtual_time(story)
