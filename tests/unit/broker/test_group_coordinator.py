"""The shell around the group shards, on virtual time with a log that can hold back, fail and lie."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from uuid import UUID

import pytest

from tidelog.broker.group_coordinator import ALL_GROUP_OPERATIONS, GroupCoordinatorService
from tidelog.broker.group_shard_runner import MAX_BATCH_BYTES, ShardPorts
from tidelog.coordinator.config import GroupCoordinatorConfig
from tidelog.coordinator.offsets_records import OffsetCommitValue, offset_record
from tidelog.core.config.node import NodeConfig
from tidelog.core.event import Event
from tidelog.core.ids import ZERO_UUID, TopicPartition
from tidelog.sim.loop import run
from tidelog.wire.buffers import Buffer
from tidelog.wire.codec import read_message, write_message
from tidelog.wire.errors import ApiError
from tidelog.wire.errors import ErrorCode as E
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.wire.messages.list_groups import ListGroupsRequest
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tidelog.wire.records.plain import Record, encode_batch, iter_batches

T_ID = UUID(int=77 << 64)
GROUP = "g"
PARTITION = 3  # of 50, for "g"


@dataclass(frozen=True)
class Origin:
    api_version: int
    client_id: str | None = "app"
    client_host: str = "10.0.0.1"


class Clock:
    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(asyncio.get_running_loop().time() * 1_000)


class Topics:
    def topic_id(self, name: str) -> UUID | None:
        return T_ID if name == "t" else None

    def topic_name(self, topic_id: UUID) -> str | None:
        return "t" if topic_id == T_ID else None

    def has_partition(self, name: str, partition: int) -> bool:
        return name == "t" and partition < 3


@dataclass
class FakeLog:
    batches: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    # What the next appends raise, and whether the batch is in the log all the same.
    failures: list[tuple[E, bool]] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    reads: int = 0
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate.set()

    async def append(self, topic_partition: TopicPartition, batch: bytes) -> None:
        failure = self.failures.pop(0) if self.failures else None
        if failure is None or failure[1]:
            self.batches.setdefault(topic_partition, []).append(batch)
        await self.gate.wait()
        if failure is not None:
            raise ApiError(failure[0])

    async def read(self, topic_partition: TopicPartition) -> AsyncIterator[Buffer]:
        self.reads += 1
        for batch in list(self.batches.get(topic_partition, [])):
            await asyncio.sleep(0.001)
            yield batch

    def records(self) -> list[Record]:
        return [
            record
            for batches in self.batches.values()
            for batch in batches
            for _, records in iter_batches(batch)
            for record in records
        ]


@dataclass
class World:
    log: FakeLog
    service: GroupCoordinatorService

    async def elected(self, *partitions: int) -> None:
        for partition in partitions or (PARTITION,):
            self.service.on_election(partition, 0)
        await asyncio.sleep(1)

    async def commit(self, offset: int, *, partition: int = 0, group: str = GROUP, version: int = 9) -> E:
        response = await self.service.offset_commit(Origin(version), commit_request(offset, partition, group, version))
        # Whatever we answer must be writable at the version it was asked at.
        response = read_message(OffsetCommitResponse, version, write_message(response, version))
        return E(response.topics[0].partitions[0].error_code)

    async def fetch(self, version: int = 9, *, require_stable: bool = False) -> OffsetFetchResponse:
        request = fetch_request(version, require_stable=require_stable)
        response = await self.service.offset_fetch(Origin(version), request)
        return read_message(OffsetFetchResponse, version, write_message(response, version))

    async def offset(self) -> int:
        response = await self.fetch()
        return response.groups[0].topics[0].partitions[0].committed_offset

    async def join(self, member_id: str = "", *, instance: str | None = None, version: int = 9) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0\0\0\1\0\1t")],
        )
        response = await self.service.join_group(Origin(version), request)
        return read_message(JoinGroupResponse, version, write_message(response, version))

    async def sync(self, member_id: str, generation: int) -> SyncGroupResponse:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")],
        )
        return await self.service.sync_group(Origin(5), request)

    async def heartbeat(self, member_id: str, generation: int) -> E:
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
        return E((await self.service.heartbeat(Origin(4), request)).error_code)

    async def stable(self) -> str:
        member = (await self.join()).member_id
        joined = await self.join(member)
        assert (await self.sync(member, joined.generation_id)).assignment == b"all"
        return member


def commit_request(offset: int, partition: int, group: str, version: int) -> OffsetCommitRequest:
    topic = OffsetCommitRequestTopic(
        name="t" if version < 10 else "",
        topic_id=T_ID if version >= 10 else ZERO_UUID,
        partitions=[OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)],
    )
    return OffsetCommitRequest(group_id=group, topics=[topic])


def fetch_request(version: int, *, require_stable: bool = False) -> OffsetFetchRequest:
    if version < 8:
        topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0])
        return OffsetFetchRequest(group_id=GROUP, topics=[topic], require_stable=require_stable)
    named = OffsetFetchRequestTopics(
        name="t" if version < 10 else "", topic_id=T_ID if version >= 10 else ZERO_UUID, partition_indexes=[0]
    )
    group = OffsetFetchRequestGroup(group_id=GROUP, topics=[named])
    return OffsetFetchRequest(groups=[group], require_stable=require_stable)


def play(story: Callable[[World], Awaitable[None]], config: GroupCoordinatorConfig | None = None) -> None:
    async def main() -> None:
        log = FakeLog()
        ports = ShardPorts(
            loop=asyncio.get_running_loop(),
            wall_clock=Clock(),
            rng=random.Random(1),
            append=log.append,
            read=log.read,
            on_event=log.events.append,
        )
        service = GroupCoordinatorService(config or GroupCoordinatorConfig(), ports, Topics())
        await story(World(log, service))
        service.close()

    run(main())


def test_a_group_lives_and_ends_through_the_service() -> None:
    async def story(world: World) -> None:
        await world.elected()
        member = await world.stable()
        assert member.startswith("app-")
        assert await world.heartbeat(member, 1) is E.NONE
        await asyncio.sleep(9)
        assert await world.heartbeat(member, 1) is E.NONE
        described = world.service.describe_groups(
            Origin(6), DescribeGroupsRequest(groups=[GROUP, "my-group"], include_authorized_operations=True)
        )
        assert [(g.group_state, g.error_code) for g in described.groups] == [("Stable", 0), ("", E.NOT_COORDINATOR)]
        assert described.groups[0].authorized_operations == ALL_GROUP_OPERATIONS == 3400
        assert described.groups[0].members[0].client_host == "/10.0.0.1"
        assert [g.group_id for g in world.service.list_groups(ListGroupsRequest()).groups] == [GROUP]
        leave = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=member)])
        assert (await world.service.leave_group(Origin(5), leave)).members[0].error_code == E.NONE
        delete = DeleteGroupsRequest(groups_names=[GROUP, "my-group"])
        results = (await world.service.delete_groups(Origin(2), delete)).results
        assert {r.group_id: r.error_code for r in results} == {GROUP: E.NONE, "my-group": E.NOT_COORDINATOR}
        assert world.service.list_groups(ListGroupsRequest()).groups == []

    play(story)


def test_a_session_ends_by_the_loops_timer() -> None:
    async def story(world: World) -> None:
        await world.elected()
        member = await world.stable()
        await asyncio.sleep(10.5)
        assert await world.heartbeat(member, 1) is E.UNKNOWN_MEMBER_ID

    play(story)


def test_without_a_shard_everything_is_elsewhere() -> None:
    async def story(world: World) -> None:
        assert await world.commit(1) is E.NOT_COORDINATOR
        assert (await world.fetch()).groups[0].error_code == E.NOT_COORDINATOR
        assert (await world.fetch(2)).error_code == E.NOT_COORDINATOR
        assert (await world.fetch(1)).topics[0].partitions[0].error_code == E.NOT_COORDINATOR
        assert (await world.join()).error_code == E.NOT_COORDINATOR
        assert (await world.sync("m", 1)).error_code == E.NOT_COORDINATOR
        assert await world.heartbeat("m", 1) is E.NOT_COORDINATOR
        delete = OffsetDeleteRequest(group_id=GROUP)
        assert (await world.service.offset_delete(Origin(0), delete)).error_code == E.NOT_COORDINATOR

    play(story)


@pytest.mark.parametrize("commit_version", range(2, 11))
@pytest.mark.parametrize("fetch_version", [1, 2, 5, 7, 8, 9, 10])
def test_a_commit_comes_back_at_every_version(commit_version: int, fetch_version: int) -> None:
    async def story(world: World) -> None:
        await world.elected()
        assert await world.commit(42, version=commit_version) is E.NONE
        response = await world.fetch(fetch_version)
        if fetch_version < 8:
            assert response.topics[0].name == "t"
            assert response.topics[0].partitions[0].committed_offset == 42
        else:
            topic = response.groups[0].topics[0]
            assert topic.topic_id == (T_ID if fetch_version >= 10 else ZERO_UUID)
            assert topic.partitions[0].committed_offset == 42

    play(story)


def test_unknown_topics_and_partitions() -> None:
    async def story(world: World) -> None:
        await world.elected()
        assert await world.commit(1, partition=3) is E.UNKNOWN_TOPIC_OR_PARTITION
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        topics = [OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in ("t", "u")]
        response = await world.service.offset_commit(Origin(9), OffsetCommitRequest(group_id=GROUP, topics=topics))
        assert [(t.name, t.partitions[0].error_code) for t in response.topics] == [
            ("t", E.NONE),
            ("u", E.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        unknown = OffsetCommitRequestTopic(topic_id=UUID(int=5 << 64), partitions=[partition])
        request = OffsetCommitRequest(group_id=GROUP, topics=[unknown])
        response = await world.service.offset_commit(Origin(10), request)
        assert response.topics[0].partitions[0].error_code == E.UNKNOWN_TOPIC_ID
        asked = [
            OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=[0]) for topic_id in (T_ID, UUID(int=5 << 64))
        ]
        fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=asked)])
        groups = (await world.service.offset_fetch(Origin(10), fetch)).groups
        assert [t.partitions[0].error_code for t in groups[0].topics] == [E.NONE, E.UNKNOWN_TOPIC_ID]

    play(story)


def test_all_offsets_of_several_groups() -> None:
    async def story(world: World) -> None:
        await world.elected(PARTITION, 12)
        await world.commit(1)
        await world.commit(2, group="my-group", partition=2)
        ids = [GROUP, "my-group", "consumer-group-1"]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=g, topics=None) for g in ids])
        groups = (await world.service.offset_fetch(Origin(8), request)).groups
        assert [(g.group_id, g.error_code) for g in groups] == [
            (GROUP, E.NONE),
            ("my-group", E.NONE),
            ("consumer-group-1", E.NOT_COORDINATOR),
        ]
        assert [p.committed_offset for g in groups for t in g.topics for p in t.partitions] == [1, 2]

    play(story)


def test_a_new_leader_loads_what_the_old_one_wrote() -> None:
    async def story(world: World) -> None:
        await world.elected()
        member = await world.stable()
        await world.commit(5, group="polygenelubricants", version=9)
        parked = asyncio.create_task(world.join(version=3))
        await asyncio.sleep(0)
        world.service.on_resignation(PARTITION)
        assert (await parked).error_code == E.NOT_COORDINATOR
        world.service.on_election(PARTITION, 1)
        assert (await world.join(member)).error_code == E.COORDINATOR_LOAD_IN_PROGRESS
        assert world.service.list_groups(ListGroupsRequest()).error_code == E.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(1)
        assert await world.heartbeat(member, 1) is E.NONE
        reads = world.log.reads
        world.service.on_election(PARTITION, 1)
        await asyncio.sleep(1)
        assert world.log.reads == reads, "an election it knows of already"

    play(story)


def test_commits_that_come_meanwhile_share_a_batch() -> None:
    async def story(world: World) -> None:
        await world.elected()
        world.log.gate.clear()
        first = asyncio.create_task(world.commit(1_000))
        await asyncio.sleep(1)
        tasks = [first, *(asyncio.create_task(world.commit(offset)) for offset in range(100))]
        await asyncio.sleep(1)
        world.log.gate.set()
        assert set(await asyncio.gather(*tasks)) == {E.NONE}
        batches = world.log.batches[TopicPartition("__consumer_offsets", PARTITION)]
        assert [header.record_count for batch in batches for header, _ in iter_batches(batch)] == [1, 100]
        assert await world.offset() == 99

    play(story)


def test_a_commit_is_not_served_before_it_is_committed() -> None:
    async def story(world: World) -> None:
        await world.elected()
        await world.commit(1)
        world.log.gate.clear()
        task = asyncio.create_task(world.commit(2))
        await asyncio.sleep(1)
        assert await world.offset() == 1
        stable = asyncio.create_task(world.fetch(require_stable=True))
        await asyncio.sleep(1)
        assert not stable.done()
        world.log.gate.set()
        assert await task is E.NONE
        assert (await stable).groups[0].topics[0].partitions[0].committed_offset == 2

    play(story)


def test_a_commit_that_takes_too_long_may_still_come_true() -> None:
    async def story(world: World) -> None:
        await world.elected()
        world.log.gate.clear()
        assert await world.commit(2) is E.COORDINATOR_NOT_AVAILABLE
        fetched = await world.fetch(require_stable=True)
        assert fetched.groups[0].error_code == E.NOT_COORDINATOR
        world.log.gate.set()
        await asyncio.sleep(1)
        assert await world.offset() == 2

    play(story)


def test_a_refused_append_changes_nothing() -> None:
    async def story(world: World) -> None:
        await world.elected()
        member = await world.stable()
        reads = world.log.reads
        world.log.failures.append((E.NOT_ENOUGH_REPLICAS, False))
        request = commit_request(7, 0, GROUP, 9)
        request.member_id, request.generation_id_or_member_epoch = member, 1
        response = await world.service.offset_commit(Origin(9), request)
        assert response.topics[0].partitions[0].error_code == E.COORDINATOR_NOT_AVAILABLE
        assert await world.offset() == -1
        assert await world.heartbeat(member, 1) is E.NONE
        assert world.log.reads == reads

    play(story)


@pytest.mark.parametrize("is_in_log", [True, False])
def test_after_an_append_of_unknown_fate_the_log_tells_the_truth(is_in_log: bool) -> None:
    async def story(world: World) -> None:
        await world.elected()
        await world.commit(1)
        world.log.failures.append((E.REQUEST_TIMED_OUT, is_in_log))
        assert await world.commit(2) is E.COORDINATOR_NOT_AVAILABLE
        assert await world.commit(3) is E.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.sleep(1)
        assert await world.offset() == (2 if is_in_log else 1)
        assert await world.commit(4) is E.NONE

    play(story)


def test_a_log_that_cannot_be_read_is_not_served() -> None:
    async def story(world: World) -> None:
        topic_partition = TopicPartition("__consumer_offsets", PARTITION)
        key, value = offset_record(GROUP, "t", 0, OffsetCommitValue(offset=1))
        world.log.batches[topic_partition] = [encode_batch([Record(key=key, value=b"\0\x63")])]
        await world.elected()
        assert await world.commit(1) is E.NOT_COORDINATOR
        world.log.batches[topic_partition] = [encode_batch([Record(key=key, value=value)])]
        world.service.on_election(PARTITION, 1)
        await asyncio.sleep(1)
        assert await world.offset() == 1

    play(story)


def test_a_bug_in_the_log_leaves_nobody_waiting() -> None:
    async def story(world: World) -> None:
        await world.elected()

        async def broken(*_: object) -> None:
            raise RuntimeError("a bug")

        world.service._ports = ShardPorts(
            loop=asyncio.get_running_loop(),
            wall_clock=Clock(),
            rng=random.Random(1),
            append=broken,
            read=world.log.read,
            on_event=world.log.events.append,
        )
        world.service.on_election(PARTITION, 1)
        await asyncio.sleep(1)
        assert await world.commit(1) is E.NOT_COORDINATOR

    play(story)


def test_a_large_deletion_takes_several_batches() -> None:
    async def story(world: World) -> None:
        topic_partition = TopicPartition("__consumer_offsets", PARTITION)
        records = [offset_record(GROUP, "t" * 200, n, OffsetCommitValue(offset=n)) for n in range(10_000)]
        world.log.batches[topic_partition] = [encode_batch([Record(key=k, value=v) for k, v in records])]
        await world.elected()
        await asyncio.sleep(1)
        results = (await world.service.delete_groups(Origin(2), DeleteGroupsRequest(groups_names=[GROUP]))).results
        assert results[0].error_code == E.NONE
        written = world.log.batches[topic_partition][1:]
        assert len(written) > 1
        assert all(len(batch) < MAX_BATCH_BYTES * 1.1 for batch in written)
        assert world.service.list_groups(ListGroupsRequest()).groups == []

    play(story)


def test_offsets_of_a_deleted_topic_go() -> None:
    async def story(world: World) -> None:
        await world.elected()
        await world.commit(5)
        world.service.on_topics_deleted(["t"])
        await asyncio.sleep(1)
        assert await world.offset() == -1
        assert world.log.records()[-1].value is None
        delete = OffsetDeleteRequest(
            group_id=GROUP,
            topics=[OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])],
        )
        assert (await world.service.offset_delete(Origin(0), delete)).topics[0].partitions[0].error_code == E.NONE

    play(story)


def test_the_nodes_configuration_is_taken_over() -> None:
    node, _ = NodeConfig.parse(
        {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@127.0.0.1:9093",
            "log.dirs": "/tmp/unused",
            "group.max.size": "7",
            "offsets.retention.minutes": "2",
        }
    )
    config = GroupCoordinatorConfig.from_node(node)
    assert (config.group_max_size, config.offsets_retention_ms) == (7, 120_000)
    assert config == GroupCoordinatorConfig(group_max_size=7, offsets_retention_minutes=2)
