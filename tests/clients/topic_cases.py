"""Requests about topics, their configs and where they lie: a success and an error of each."""

from typing import Any

from tests.clients.version_world import (
    MISSING,
    Cases,
    World,
    batch,
    case,
    code,
    list_offsets_request,
    produce_request,
    unique,
)

from tidelog.core.ids import ZERO_UUID
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import create_partitions as create_partitions_messages
from tidelog.wire.messages import create_topics as create_topics_messages
from tidelog.wire.messages import delete_records as delete_records_messages
from tidelog.wire.messages import delete_topics as delete_topics_messages
from tidelog.wire.messages import describe_configs as describe_configs_messages
from tidelog.wire.messages import incremental_alter_configs as alter_messages
from tidelog.wire.messages import metadata as metadata_messages
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest
from tidelog.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from tidelog.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest

TOPIC_CASES: Cases = {}


@case(TOPIC_CASES, 3)
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


@case(TOPIC_CASES, 19)
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


@case(TOPIC_CASES, 20)
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


@case(TOPIC_CASES, 21)
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


def describe_configs(kind: int, name: str) -> Any:
    m = describe_configs_messages
    resource = m.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    return m.DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)


@case(TOPIC_CASES, 32)
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


@case(TOPIC_CASES, 35)
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


@case(TOPIC_CASES, 37)
class CreatePartitions:
    @staticmethod
    def success(world: World, version: int) -> None:
        topic = world.new_topic()
        assert world.client.call(create_partitions(topic, 3), version).results[0].error_code == ErrorCode.NONE

    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(create_partitions(world.topic, 1), version)
        assert response.results[0].error_code == ErrorCode.INVALID_PARTITIONS


def alter(topic: str, name: str, value: str) -> Any:
    m = alter_messages
    entry = m.AlterableConfig(name=name, config_operation=0, value=value)
    return m.IncrementalAlterConfigsRequest(
        resources=[m.AlterConfigsResource(resource_type=2, resource_name=topic, configs=[entry])]
    )


@case(TOPIC_CASES, 44)
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


@case(TOPIC_CASES, 60)
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


@case(TOPIC_CASES, 75)
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
