"""Every advertised version of every key: one success and one error each, chosen byte by byte."""

import itertools
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.clients.admin_cases import ADMIN_CASES
from tests.clients.wire_client import WireClient

from tidelog.core.ids import ZERO_UUID
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import create_partitions as create_partitions_messages
from tidelog.wire.messages import create_topics as create_topics_messages
from tidelog.wire.messages import delete_records as delete_records_messages
from tidelog.wire.messages import delete_topics as delete_topics_messages
from tidelog.wire.messages import describe_configs as describe_configs_messages
from tidelog.wire.messages import fetch as fetch_messages
from tidelog.wire.messages import incremental_alter_configs as alter_messages
from tidelog.wire.messages import join_group as join_messages
from tidelog.wire.messages import leave_group as leave_messages
from tidelog.wire.messages import list_offsets as list_offsets_messages
from tidelog.wire.messages import metadata as metadata_messages
from tidelog.wire.messages import offset_commit as commit_messages
from tidelog.wire.messages import offset_delete as offset_delete_messages
from tidelog.wire.messages import offset_fetch as offset_fetch_messages
from tidelog.wire.messages import offset_for_leader_epoch as epoch_messages
from tidelog.wire.messages import produce as produce_messages
from tidelog.wire.messages import sync_group as sync_messages
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.delete_groups import DeleteGroupsRequest
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest
from tidelog.wire.messages.describe_groups import DescribeGroupsRequest
from tidelog.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tidelog.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.list_groups import ListGroupsRequest
from tidelog.wire.records.plain import Record, encode_batch
from tidelog.wire.registry import APIS

LATEST_METADATA = 12
MISSING = "no-such-topic"
_serial = itertools.count()


def unique(prefix: str) -> str:
    return f"{prefix}-{next(_serial)}-{uuid.uuid4().hex[:8]}"  # noqa: TID251 - a name no other test has


@dataclass
class World:
    """A broker with a topic of three records, and a connection to it."""

    client: WireClient
    topic: str
    topic_id: uuid.UUID

    def new_topic(self) -> str:
        name = unique("made")
        request = create_topics_messages.CreateTopicsRequest(
            topics=[create_topics_messages.CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
        )
        response = self.client.call(request, 7)
        assert response.topics[0].error_code == ErrorCode.NONE, response
        return name

    def id_of(self, name: str) -> uuid.UUID:
        request = metadata_messages.MetadataRequest(
            topics=[metadata_messages.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        )
        found: uuid.UUID = self.client.call(request, LATEST_METADATA).topics[0].topic_id
        return found

    def join(self) -> tuple[str, str, int]:
        """(group, member, generation) of a stable group of one."""
        group = unique("group")
        request = join_request(group)
        first = self.client.call(request, 5)
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED, first
        request.member_id = first.member_id
        joined = self.client.call(request, 5)
        assert joined.error_code == ErrorCode.NONE, joined
        synced = self.client.call(sync_request(group, joined.member_id, joined.generation_id), 5)
        assert synced.error_code == ErrorCode.NONE, synced
        return group, joined.member_id, joined.generation_id

    def commit(self) -> str:
        group = unique("group")
        request = commit_request(group, self.topic, ZERO_UUID)
        response = self.client.call(request, 9)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE, response
        return group


def batch(*values: bytes) -> bytes:
    return encode_batch(
        [
            Record(offset=index, timestamp=1_700_000_000_000 + index, key=None, value=value, headers=())
            for index, value in enumerate(values)
        ]
    )


def produce_request(topic: str, topic_id: uuid.UUID, records: bytes, acks: int = -1) -> Any:
    data = produce_messages.PartitionProduceData(index=0, records=records)
    return produce_messages.ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[produce_messages.TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])],
    )


def fetch_request(topic: str, topic_id: uuid.UUID, offset: int = 0) -> Any:
    ask = fetch_messages.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return fetch_messages.FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=[fetch_messages.FetchTopic(topic=topic, topic_id=topic_id, partitions=[ask])],
    )


def join_request(group: str, protocol_type: str = "consumer") -> Any:
    return join_messages.JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type=protocol_type,
        protocols=[join_messages.JoinGroupRequestProtocol(name="range", metadata=b"\0\0")],
    )


def sync_request(group: str, member: str, generation: int) -> Any:
    return sync_messages.SyncGroupRequest(
        group_id=group,
        member_id=member,
        generation_id=generation,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[sync_messages.SyncGroupRequestAssignment(member_id=member, assignment=b"mine")],
    )


def commit_request(group: str, topic: str, topic_id: uuid.UUID, metadata: str = "note") -> Any:
    partition = commit_messages.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=2, committed_metadata=metadata
    )
    return commit_messages.OffsetCommitRequest(
        group_id=group,
        topics=[commit_messages.OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=[partition])],
    )


def offset_fetch_request(group: str, topic: str, topic_id: uuid.UUID, version: int) -> Any:
    m = offset_fetch_messages
    if version >= 8:
        asked = m.OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[0])
        return m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup(group_id=group, topics=[asked])])
    return m.OffsetFetchRequest(group_id=group, topics=[m.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])])


def list_offsets_request(topic: str, timestamp: int, epoch: int = -1) -> Any:
    m = list_offsets_messages
    partition = m.ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
    return m.ListOffsetsRequest(replica_id=-1, topics=[m.ListOffsetsTopic(name=topic, partitions=[partition])])


# --- what each key is asked, and what it must say: (success, error) -------------------------------------------------

Check = Callable[[World, int], None]
CASES: dict[int, tuple[Check | None, Check | None]] = dict(ADMIN_CASES)


def case(key: int) -> Callable[[type], type]:
    def add(cls: Any) -> Any:
        CASES[key] = (cls.success, cls.error)
        return cls

    return add


def code(response: Any) -> int:
    """The only partition's error, for responses of the usual shape."""
    topics = response.topics if hasattr(response, "topics") else response.responses
    partitions = topics[0].partitions
    return int(partitions[0].error_code)


@case(0)
class Produce:
    @staticmethod
    def success(world: World, version: int) -> None:
        topic = world.new_topic()
        response = world.client.call(produce_request(topic, world.id_of(topic), batch(b"a", b"b")), version)
        answer = response.responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)

    @staticmethod
    def error(world: World, version: int) -> None:
        broken = bytearray(batch(b"a"))
        broken[-1] ^= 1
        response = world.client.call(produce_request(world.topic, world.topic_id, bytes(broken)), version)
        answer = response.responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (ErrorCode.CORRUPT_MESSAGE, -1)


@case(1)
class Fetch:
    @staticmethod
    def success(world: World, version: int) -> None:
        answer = world.client.call(fetch_request(world.topic, world.topic_id), version).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE
        assert answer.high_watermark == 3
        assert len(answer.records) > 61

    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(fetch_request(world.topic, world.topic_id, offset=1000), version)
        assert response.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@case(2)
class ListOffsets:
    @staticmethod
    def success(world: World, version: int) -> None:
        response = world.client.call(list_offsets_request(world.topic, 1_700_000_000_001), version)
        answer = response.topics[0].partitions[0]
        assert (answer.error_code, answer.offset, answer.timestamp) == (0, 1, 1_700_000_000_001)
        assert world.client.call(list_offsets_request(world.topic, -1), version).topics[0].partitions[0].offset == 3
        assert world.client.call(list_offsets_request(world.topic, -2), version).topics[0].partitions[0].offset == 0
        if version >= 7:
            newest = world.client.call(list_offsets_request(world.topic, -3), version).topics[0].partitions[0]
            assert (newest.offset, newest.timestamp) == (2, 1_700_000_000_002)

    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(list_offsets_request(MISSING, -1), version)
        assert code(response) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if version < 7:
            newest = world.client.call(list_offsets_request(world.topic, -3), version)
            assert code(newest) == ErrorCode.UNSUPPORTED_VERSION
        if version >= 4:
            response = world.client.call(list_offsets_request(world.topic, -1, epoch=1000), version)
            assert code(response) == ErrorCode.UNKNOWN_LEADER_EPOCH


@case(3)
class Metadata:
    @staticmethod
    def success(world: World, version: int) -> None:
        asked = metadata_messages.MetadataRequestTopic(name=world.topic)
        response = world.client.call(metadata_messages.MetadataRequest(topics=[asked]), version)
        assert response.topics[0].error_code == ErrorCode.NONE
        assert response.topics[0].partitions[0].leader_id == response.brokers[0].node_id

    @staticmethod
    def error(world: World, version: int) -> None:
        asked = metadata_messages.MetadataRequestTopic(name="not/a/name")
        response = world.client.call(metadata_messages.MetadataRequest(topics=[asked]), version)
        assert response.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@case(8)
class OffsetCommit:
    @staticmethod
    def success(world: World, version: int) -> None:
        response = world.client.call(commit_request(unique("group"), world.topic, world.topic_id), version)
        assert code(response) == ErrorCode.NONE

    @staticmethod
    def error(world: World, version: int) -> None:
        request = commit_request(unique("group"), world.topic, world.topic_id, metadata="x" * 5000)
        assert code(world.client.call(request, version)) == ErrorCode.OFFSET_METADATA_TOO_LARGE


@case(9)
class OffsetFetch:
    @staticmethod
    def success(world: World, version: int) -> None:
        group = world.commit()
        response = world.client.call(offset_fetch_request(group, world.topic, world.topic_id, version), version)
        topics = response.groups[0].topics if version >= 8 else response.topics
        answer = topics[0].partitions[0]
        assert (answer.error_code, answer.committed_offset, answer.metadata) == (0, 2, "note")

    @staticmethod
    def error(world: World, version: int) -> None:
        # A group without offsets: -1, which is how this API says that there are none.
        request = offset_fetch_request(unique("group"), world.topic, world.topic_id, version)
        response = world.client.call(request, version)
        topics = response.groups[0].topics if version >= 8 else response.topics
        assert topics[0].partitions[0].committed_offset == -1
        if version >= 10:
            unknown = uuid.UUID(int=123456789)
            response = world.client.call(offset_fetch_request(unique("group"), "", unknown, version), version)
            assert response.groups[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@case(10)
class FindCoordinator:
    @staticmethod
    def success(world: World, version: int) -> None:
        request = FindCoordinatorRequest(key="g", coordinator_keys=["g"])
        response = world.client.call(request, version)
        found = response.coordinators[0] if version >= 4 else response
        assert (found.error_code, found.node_id) == (ErrorCode.NONE, 1)

    @staticmethod
    def error(world: World, version: int) -> None:
        request = FindCoordinatorRequest(key="t", coordinator_keys=["t"], key_type=1)
        response = world.client.call(request, version)
        found = response.coordinators[0] if version >= 4 else response
        assert (found.error_code, found.node_id) == (ErrorCode.INVALID_REQUEST, -1)


@case(11)
class JoinGroup:
    @staticmethod
    def success(world: World, version: int) -> None:
        request = join_request(unique("group"))
        response = world.client.call(request, version)
        if version >= 4:
            assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
            request.member_id = response.member_id
            response = world.client.call(request, version)
        assert (response.error_code, response.generation_id) == (ErrorCode.NONE, 1)
        assert response.leader == response.member_id

    @staticmethod
    def error(world: World, version: int) -> None:
        request = join_request(unique("group"))
        request.session_timeout_ms = 1
        assert world.client.call(request, version).error_code == ErrorCode.INVALID_SESSION_TIMEOUT


@case(12)
class Heartbeat:
    @staticmethod
    def success(world: World, version: int) -> None:
        group, member, generation = world.join()
        request = HeartbeatRequest(group_id=group, member_id=member, generation_id=generation)
        assert world.client.call(request, version).error_code == ErrorCode.NONE

    @staticmethod
    def error(world: World, version: int) -> None:
        group, member, generation = world.join()
        request = HeartbeatRequest(group_id=group, member_id=member, generation_id=generation + 1)
        assert world.client.call(request, version).error_code == ErrorCode.ILLEGAL_GENERATION


@case(13)
class LeaveGroup:
    @staticmethod
    def success(world: World, version: int) -> None:
        group, member, _ = world.join()
        identity = leave_messages.MemberIdentity(member_id=member, group_instance_id=None)
        request = leave_messages.LeaveGroupRequest(group_id=group, member_id=member, members=[identity])
        response = world.client.call(request, version)
        assert response.error_code == ErrorCode.NONE
        if version >= 3:
            assert response.members[0].error_code == ErrorCode.NONE

    @staticmethod
    def error(world: World, version: int) -> None:
        group, _, _ = world.join()
        identity = leave_messages.MemberIdentity(member_id="nobody", group_instance_id=None)
        request = leave_messages.LeaveGroupRequest(group_id=group, member_id="nobody", members=[identity])
        response = world.client.call(request, version)
        found = response.members[0].error_code if version >= 3 else response.error_code
        assert found == ErrorCode.UNKNOWN_MEMBER_ID


@case(14)
class SyncGroup:
    @staticmethod
    def success(world: World, version: int) -> None:
        group, member, generation = world.join()
        response = world.client.call(sync_request(group, member, generation), version)
        assert (response.error_code, response.assignment) == (ErrorCode.NONE, b"mine")

    @staticmethod
    def error(world: World, version: int) -> None:
        group, _, generation = world.join()
        response = world.client.call(sync_request(group, "nobody", generation), version)
        assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


@case(15)
class DescribeGroups:
    @staticmethod
    def success(world: World, version: int) -> None:
        group, member, _ = world.join()
        described = world.client.call(DescribeGroupsRequest(groups=[group]), version).groups[0]
        assert (described.error_code, described.group_state) == (ErrorCode.NONE, "Stable")
        assert described.members[0].member_id == member

    @staticmethod
    def error(world: World, version: int) -> None:
        described = world.client.call(DescribeGroupsRequest(groups=[unique("none")]), version).groups[0]
        assert described.group_state == "Dead"
        assert described.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)


@case(16)
class ListGroups:
    @staticmethod
    def success(world: World, version: int) -> None:
        group, _, _ = world.join()
        response = world.client.call(ListGroupsRequest(), version)
        assert response.error_code == ErrorCode.NONE
        assert group in {listed.group_id for listed in response.groups}

    @staticmethod
    def error(world: World, version: int) -> None:
        # Refuses nothing but a coordinator that is loading; a filter that matches nothing is its "no".
        response = world.client.call(ListGroupsRequest(states_filter=["NoSuchState"]), version)
        assert (response.error_code, response.groups) == (ErrorCode.NONE, [])


@case(18)
class ApiVersions:
    @staticmethod
    def success(world: World, version: int) -> None:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
        response = world.client.call(request, version)
        assert response.error_code == ErrorCode.NONE
        assert {entry.api_key for entry in response.api_keys} == set(CASES)

    @staticmethod
    def error(world: World, version: int) -> None:
        request = ApiVersionsRequest(client_software_name="no blanks allowed", client_software_version="1.0")
        assert world.client.call(request, version).error_code == ErrorCode.INVALID_REQUEST


@case(19)
class CreateTopics:
    @staticmethod
    def success(world: World, version: int) -> None:
        topic = create_topics_messages.CreatableTopic(name=unique("made"), num_partitions=2, replication_factor=1)
        response = world.client.call(create_topics_messages.CreateTopicsRequest(topics=[topic]), version)
        made = response.topics[0]
        assert made.error_code == ErrorCode.NONE
        if version >= 5:
            assert (made.num_partitions, made.replication_factor) == (2, 1)
            assert any(entry.name == "cleanup.policy" for entry in made.configs)

    @staticmethod
    def error(world: World, version: int) -> None:
        topic = create_topics_messages.CreatableTopic(name=world.topic, num_partitions=1, replication_factor=1)
        response = world.client.call(create_topics_messages.CreateTopicsRequest(topics=[topic]), version)
        assert response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


@case(20)
class DeleteTopics:
    @staticmethod
    def success(world: World, version: int) -> None:
        name = world.new_topic()
        state = delete_topics_messages.DeleteTopicState(name=name)
        request = delete_topics_messages.DeleteTopicsRequest(topic_names=[name], topics=[state], timeout_ms=10_000)
        assert world.client.call(request, version).responses[0].error_code == ErrorCode.NONE
        assert world.id_of(name) == ZERO_UUID

    @staticmethod
    def error(world: World, version: int) -> None:
        state = delete_topics_messages.DeleteTopicState(name=MISSING)
        request = delete_topics_messages.DeleteTopicsRequest(topic_names=[MISSING], topics=[state], timeout_ms=10_000)
        response = world.client.call(request, version)
        assert response.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def delete_records(topic: str, offset: int) -> Any:
    m = delete_records_messages
    partition = m.DeleteRecordsPartition(partition_index=0, offset=offset)
    return m.DeleteRecordsRequest(topics=[m.DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=10_000)


@case(21)
class DeleteRecords:
    @staticmethod
    def success(world: World, version: int) -> None:
        topic = world.new_topic()
        world.client.call(produce_request(topic, world.id_of(topic), batch(b"a", b"b")), 9)
        answer = world.client.call(delete_records(topic, -1), version).topics[0].partitions[0]
        assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, 2)
        earliest = world.client.call(list_offsets_request(topic, -2), 5).topics[0].partitions[0]
        assert earliest.offset == 2

    @staticmethod
    def error(world: World, version: int) -> None:
        assert code(world.client.call(delete_records(world.topic, 1000), version)) == ErrorCode.OFFSET_OUT_OF_RANGE


@case(22)
class InitProducerId:
    @staticmethod
    def success(world: World, version: int) -> None:
        response = world.client.call(InitProducerIdRequest(transactional_id=None), version)
        assert (response.error_code, response.producer_epoch) == (ErrorCode.NONE, 0)
        assert response.producer_id >= 0

    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(InitProducerIdRequest(transactional_id="t"), version)
        assert (response.error_code, response.producer_id) == (ErrorCode.INVALID_REQUEST, -1)


def epoch_request(topic: str, epoch: int, current: int = -1) -> Any:
    m = epoch_messages
    partition = m.OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
    return m.OffsetForLeaderEpochRequest(topics=[m.OffsetForLeaderTopic(topic=topic, partitions=[partition])])


@case(23)
class OffsetForLeaderEpoch:
    @staticmethod
    def success(world: World, version: int) -> None:
        answer = world.client.call(epoch_request(world.topic, 0), version).topics[0].partitions[0]
        assert (answer.error_code, answer.leader_epoch, answer.end_offset) == (ErrorCode.NONE, 0, 3)

    @staticmethod
    def error(world: World, version: int) -> None:
        assert code(world.client.call(epoch_request(world.topic, 0, 99), version)) == ErrorCode.UNKNOWN_LEADER_EPOCH


def describe_configs(kind: int, name: str) -> Any:
    m = describe_configs_messages
    resource = m.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    return m.DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)


@case(32)
class DescribeConfigs:
    @staticmethod
    def success(world: World, version: int) -> None:
        result = world.client.call(describe_configs(2, world.topic), version).results[0]
        values = {entry.name: entry.value for entry in result.configs}
        assert result.error_code == ErrorCode.NONE
        assert values["retention.ms"] == "604800000"
        broker = world.client.call(describe_configs(4, "1"), version).results[0]
        assert {entry.name: entry.value for entry in broker.configs}["node.id"] == "1"

    @staticmethod
    def error(world: World, version: int) -> None:
        result = world.client.call(describe_configs(2, MISSING), version).results[0]
        assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@case(35)
class DescribeLogDirs:
    @staticmethod
    def success(world: World, version: int) -> None:
        asked = DescribableLogDirTopic(topic=world.topic, partitions=[0])
        result = world.client.call(DescribeLogDirsRequest(topics=[asked]), version).results[0]
        assert result.error_code == ErrorCode.NONE
        assert result.topics[0].partitions[0].partition_size > 0

    @staticmethod
    def error(world: World, version: int) -> None:
        # What is not here is not listed: this API has no error for it.
        asked = DescribableLogDirTopic(topic=MISSING, partitions=[0])
        result = world.client.call(DescribeLogDirsRequest(topics=[asked]), version).results[0]
        assert (result.error_code, result.topics) == (ErrorCode.NONE, [])


def create_partitions(topic: str, count: int) -> Any:
    m = create_partitions_messages
    wanted = m.CreatePartitionsTopic(name=topic, count=count, assignments=None)
    return m.CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000)


@case(37)
class CreatePartitions:
    @staticmethod
    def success(world: World, version: int) -> None:
        topic = world.new_topic()
        assert world.client.call(create_partitions(topic, 3), version).results[0].error_code == ErrorCode.NONE

    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(create_partitions(world.topic, 1), version)
        assert response.results[0].error_code == ErrorCode.INVALID_PARTITIONS


@case(42)
class DeleteGroups:
    @staticmethod
    def success(world: World, version: int) -> None:
        group = world.commit()
        response = world.client.call(DeleteGroupsRequest(groups_names=[group]), version)
        assert response.results[0].error_code == ErrorCode.NONE

    @staticmethod
    def error(world: World, version: int) -> None:
        group, _, _ = world.join()
        response = world.client.call(DeleteGroupsRequest(groups_names=[group, unique("none")]), version)
        codes = {result.group_id: result.error_code for result in response.results}
        assert codes.pop(group) == ErrorCode.NON_EMPTY_GROUP
        assert list(codes.values()) == [ErrorCode.GROUP_ID_NOT_FOUND]


def alter(topic: str, name: str, value: str) -> Any:
    m = alter_messages
    entry = m.AlterableConfig(name=name, config_operation=0, value=value)
    return m.IncrementalAlterConfigsRequest(
        resources=[m.AlterConfigsResource(resource_type=2, resource_name=topic, configs=[entry])]
    )


@case(44)
class IncrementalAlterConfigs:
    @staticmethod
    def success(world: World, version: int) -> None:
        topic = world.new_topic()
        response = world.client.call(alter(topic, "retention.ms", "1234"), version)
        assert response.responses[0].error_code == ErrorCode.NONE
        result = world.client.call(describe_configs(2, topic), 4).results[0]
        assert {entry.name: entry.value for entry in result.configs}["retention.ms"] == "1234"

    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(alter(world.topic, "retention.ms", "soon"), version)
        assert response.responses[0].error_code == ErrorCode.INVALID_CONFIG


def offset_delete(group: str, topic: str) -> Any:
    m = offset_delete_messages
    partition = m.OffsetDeleteRequestPartition(partition_index=0)
    return m.OffsetDeleteRequest(
        group_id=group, topics=[m.OffsetDeleteRequestTopic(name=topic, partitions=[partition])]
    )


@case(47)
class OffsetDelete:
    @staticmethod
    def success(world: World, version: int) -> None:
        response = world.client.call(offset_delete(world.commit(), world.topic), version)
        assert (response.error_code, code(response)) == (ErrorCode.NONE, ErrorCode.NONE)

    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(offset_delete(unique("none"), world.topic), version)
        assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND


@case(60)
class DescribeCluster:
    @staticmethod
    def success(world: World, version: int) -> None:
        response = world.client.call(DescribeClusterRequest(), version)
        assert (response.error_code, response.controller_id) == (ErrorCode.NONE, 1)
        assert [broker.broker_id for broker in response.brokers] == [1]

    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(DescribeClusterRequest(endpoint_type=2), version)
        assert response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


@case(75)
class DescribeTopicPartitions:
    @staticmethod
    def success(world: World, version: int) -> None:
        response = world.client.call(DescribeTopicPartitionsRequest(topics=[TopicRequest(name=world.topic)]), version)
        topic = response.topics[0]
        assert (topic.error_code, topic.topic_id) == (ErrorCode.NONE, world.topic_id)
        assert topic.partitions[0].isr_nodes == [1]

    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(DescribeTopicPartitionsRequest(topics=[TopicRequest(name=MISSING)]), version)
        assert response.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture(scope="module")
def world(bootstrap: str) -> Iterator[World]:
    with WireClient(bootstrap) as client:
        found = World(client, "", ZERO_UUID)
        found.topic = found.new_topic()
        found.topic_id = found.id_of(found.topic)
        produced = client.call(produce_request(found.topic, found.topic_id, batch(b"a", b"b", b"c")), 9)
        assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        client.call(FindCoordinatorRequest(key="g"), 3)
        yield found


# What one broker serves today.
SERVED = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4),
    13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2), 22: (0, 5),
    23: (2, 4), 32: (1, 4), 35: (1, 5), 37: (0, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1), 45: (0, 1), 46: (0, 0),
    47: (0, 0), 55: (0, 2), 57: (0, 2), 60: (0, 2), 64: (0, 0), 75: (0, 0), 80: (0, 1), 81: (0, 0),
}  # fmt: skip
FIRST_ACCEPTED_PRODUCE = 3
# Requests in which nothing can be wrong: no field of these versions has a value that is refused.
CANNOT_FAIL = {(10, 0), (16, 0), (16, 1), (16, 2), (16, 3), (18, 0), (18, 1), (18, 2), (46, 0), (60, 0)}
# What one node alone cannot show: it has no broker to spare, nobody to make a voter, and must keep its only one.
CANNOT_SUCCEED = {(64, 0), (80, 0), (80, 1), (81, 0)}
VERSIONS = [
    pytest.param(key, version, id=f"{APIS[key].name}-v{version}")
    for key, (low, high) in SERVED.items()
    for version in range(max(low, FIRST_ACCEPTED_PRODUCE) if key == 0 else low, high + 1)
]


def test_what_is_advertised_is_what_is_tested(world: World) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
    advertised = {
        entry.api_key: (entry.min_version, entry.max_version) for entry in world.client.call(request, 4).api_keys
    }
    assert advertised == SERVED
    assert set(CASES) == set(SERVED)


@pytest.mark.parametrize(("key", "version"), [case for case in VERSIONS if case.values not in CANNOT_SUCCEED])
def test_success(world: World, key: int, version: int) -> None:
    check = CASES[key][0]
    assert check is not None
    check(world, version)


@pytest.mark.parametrize(("key", "version"), [case for case in VERSIONS if case.values not in CANNOT_FAIL])
def test_error(world: World, key: int, version: int) -> None:
    check = CASES[key][1]
    assert check is not None
    check(world, version)


def test_produce_older_than_v3_is_advertised_and_refused(bootstrap: str, world: World) -> None:
    """Old librdkafka turns compression off when Produce is not advertised from 0."""
    frame = b"\0\0\0\1\0\0\0\7\xff\xff"  # key 0, version 1, correlation 7, no client id
    with WireClient(bootstrap) as client:
        client.socket.sendall(len(frame).to_bytes(4, "big") + frame)
        client.assert_closed()
