"""Requests that a broker passes on to the controller or to the quorum's leader: a success and an error of each."""

import uuid
from typing import Any

from tests.clients.version_world import MISSING, Cases, World

from tidelog.core.ids import METADATA_TOPIC
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import add_raft_voter as add_voter_messages
from tidelog.wire.messages import alter_partition_reassignments as reassign_messages
from tidelog.wire.messages import describe_quorum as quorum_messages
from tidelog.wire.messages import elect_leaders as elect_messages
from tidelog.wire.messages import list_partition_reassignments as list_messages
from tidelog.wire.messages import update_features as feature_messages
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest

NODE = 1
NOBODY = 77
FEATURE = "eligible.leader.replicas.version"
DIRECTORY = uuid.UUID(int=0x1234_5678_9ABC_DEF0_1234_5678_9ABC_DEF0)


def elect(topic: str) -> Any:
    asked = elect_messages.TopicPartitions(topic=topic, partitions=[0])
    return elect_messages.ElectLeadersRequest(topic_partitions=[asked], timeout_ms=10_000)


class ElectLeaders:
    @staticmethod
    def success(world: World, version: int) -> None:
        """The only replica leads already: a result per partition, and no error of the whole."""
        response = world.client.call(elect(world.topic), version)
        result = response.replica_election_results[0]
        assert (response.error_code, result.topic) == (ErrorCode.NONE, world.topic)
        assert result.partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED
        everywhere = world.client.call(elect_messages.ElectLeadersRequest(topic_partitions=None), version)
        assert (everywhere.error_code, everywhere.replica_election_results) == (ErrorCode.NONE, [])

    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(elect(MISSING), version)
        result = response.replica_election_results[0].partition_result[0]
        assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def reassign(topic: str, replicas: list[int] | None) -> Any:
    m = reassign_messages
    partition = m.ReassignablePartition(partition_index=0, replicas=replicas)
    return m.AlterPartitionReassignmentsRequest(topics=[m.ReassignableTopic(name=topic, partitions=[partition])])


class AlterPartitionReassignments:
    @staticmethod
    def success(world: World, version: int) -> None:
        response = world.client.call(reassign(world.topic, [NODE]), version)
        assert response.error_code == ErrorCode.NONE
        assert response.responses[0].partitions[0].error_code == ErrorCode.NONE

    @staticmethod
    def error(world: World, version: int) -> None:
        to_nobody = world.client.call(reassign(world.topic, [NOBODY]), version)
        assert to_nobody.responses[0].partitions[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        cancelled = world.client.call(reassign(world.topic, None), version)
        assert cancelled.responses[0].partitions[0].error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


class ListPartitionReassignments:
    @staticmethod
    def success(world: World, version: int) -> None:
        response = world.client.call(list_messages.ListPartitionReassignmentsRequest(topics=None), version)
        assert (response.error_code, response.topics) == (ErrorCode.NONE, [])


class DescribeQuorum:
    @staticmethod
    def success(world: World, version: int) -> None:
        response = world.client.call(describe_quorum(METADATA_TOPIC), version)
        partition = response.topics[0].partitions[0]
        assert (response.error_code, partition.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
        assert partition.leader_id == NODE and partition.leader_epoch > 0
        assert [voter.replica_id for voter in partition.current_voters] == [NODE]
        assert partition.current_voters[0].log_end_offset >= partition.high_watermark > 0
        if version >= 2:
            assert [node.node_id for node in response.nodes] == [NODE]

    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(describe_quorum(world.topic), version)
        assert response.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def describe_quorum(topic: str) -> Any:
    m = quorum_messages
    return m.DescribeQuorumRequest(topics=[m.TopicData(topic_name=topic, partitions=[m.PartitionData()])])


def update_feature(name: str, level: int) -> Any:
    m = feature_messages
    return m.UpdateFeaturesRequest(feature_updates=[m.FeatureUpdateKey(feature=name, max_version_level=level)])


class UpdateFeatures:
    @staticmethod
    def success(world: World, version: int) -> None:
        response = world.client.call(update_feature(FEATURE, 1), version)
        assert response.error_code == ErrorCode.NONE
        if version < 2:
            assert [(each.feature, each.error_code) for each in response.results] == [(FEATURE, ErrorCode.NONE)]

    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(update_feature("no.such.feature", 1), version)
        assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "no.such.feature" in response.error_message


class UnregisterBroker:
    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(UnregisterBrokerRequest(broker_id=NOBODY), version)
        assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


class AddRaftVoter:
    @staticmethod
    def error(world: World, version: int) -> None:
        """Nobody by that name follows the quorum, so nobody can be added to it."""
        listener = add_voter_messages.Listener(name="CONTROLLER", host="127.0.0.1", port=1)
        request = add_voter_messages.AddRaftVoterRequest(
            cluster_id=None, timeout_ms=1000, voter_id=NOBODY, voter_directory_id=DIRECTORY, listeners=[listener]
        )
        response = world.client.call(request, version)
        assert response.error_code == ErrorCode.REQUEST_TIMED_OUT


class RemoveRaftVoter:
    @staticmethod
    def error(world: World, version: int) -> None:
        response = world.client.call(
            RemoveRaftVoterRequest(cluster_id=None, voter_id=NOBODY, voter_directory_id=DIRECTORY), version
        )
        assert response.error_code == ErrorCode.VOTER_NOT_FOUND


# None where there is nothing to show with one node, or at all.
ADMIN_CASES: Cases = {
    43: (ElectLeaders.success, ElectLeaders.error),
    45: (AlterPartitionReassignments.success, AlterPartitionReassignments.error),
    46: (ListPartitionReassignments.success, None),
    55: (DescribeQuorum.success, DescribeQuorum.error),
    57: (UpdateFeatures.success, UpdateFeatures.error),
    64: (None, UnregisterBroker.error),
    80: (None, AddRaftVoter.error),
    81: (None, RemoveRaftVoter.error),
}
