"""What clients may ask of any broker and only the active controller, or the quorum's leader, can answer."""

from typing import Any, Final
from uuid import UUID

import pytest
from tests.unit.broker.virtual_cluster import connect, on_virtual_cluster
from tests.unit.broker.virtual_node import VirtualClient

from tidelog.core.ids import METADATA_TOPIC
from tidelog.sim.cluster import CONTROLLER_PORT, SimCluster
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import alter_partition_reassignments as reassign
from tidelog.wire.messages import describe_quorum as quorum
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest
from tidelog.wire.messages.describe_cluster import DescribeClusterRequest
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tidelog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest
from tidelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

FEATURE: Final = "eligible.leader.replicas.version"


def leader_of(cluster: SimCluster) -> int:
    control = cluster.node(1).control
    assert control is not None
    return control.raft.leader_id


async def create(client: VirtualClient, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    response = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
    assert response.topics[0].error_code == ErrorCode.NONE, response


async def ask_everything(client: VirtualClient, cluster: SimCluster, asked: int) -> None:
    """Every forwarded API in every version, each with an answer that only the one who decides can give."""
    described = quorum.DescribeQuorumRequest(
        topics=[quorum.TopicData(topic_name=METADATA_TOPIC, partitions=[quorum.PartitionData()])]
    )
    for version in range(3):
        partition = (await client.call(described, version)).topics[0].partitions[0]
        assert (partition.error_code, partition.leader_id) == (ErrorCode.NONE, leader_of(cluster))
        assert [voter.replica_id for voter in partition.current_voters] == [1, 2, 3]
    for version in range(3):
        name = f"elected-{asked}-{version}"
        await create(client, name)
        elected = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=name, partitions=[0])], timeout_ms=5000)
        result = (await client.call(elected, version)).replica_election_results[0].partition_result[0]
        assert result.error_code == ErrorCode.ELECTION_NOT_NEEDED
    for version in range(2):
        response = await client.call(move(f"elected-{asked}-0", None), version)
        assert response.responses[0].partitions[0].error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    listed = await client.call(ListPartitionReassignmentsRequest(topics=None), 0)
    assert (listed.error_code, listed.topics) == (ErrorCode.NONE, [])
    for version in range(3):
        await update_features(client, version)
    unknown = await client.call(UnregisterBrokerRequest(broker_id=99), 0)
    assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    voter: dict[str, Any] = {"cluster_id": None, "voter_id": 9, "voter_directory_id": UUID(int=1 << 100)}
    for version in range(2):
        added = await client.call(AddRaftVoterRequest(timeout_ms=1000, **voter), version)
        assert added.error_code == ErrorCode.UNSUPPORTED_VERSION, added
    removed = await client.call(RemoveRaftVoterRequest(**voter), 0)
    assert removed.error_code == ErrorCode.UNSUPPORTED_VERSION


def move(topic: str, replicas: list[int] | None) -> Any:
    partition = reassign.ReassignablePartition(partition_index=0, replicas=replicas)
    topics = [reassign.ReassignableTopic(name=topic, partitions=[partition])]
    return reassign.AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=5000)


async def update_features(client: VirtualClient, version: int) -> None:
    """In the versions that tell of each feature, each is told of, however the request travelled."""
    fine = UpdateFeaturesRequest(
        timeout_ms=5000, feature_updates=[FeatureUpdateKey(feature=FEATURE, max_version_level=1)]
    )
    response = await client.call(fine, version)
    assert response.error_code == ErrorCode.NONE
    if version < 2:
        assert [(each.feature, each.error_code) for each in response.results] == [(FEATURE, ErrorCode.NONE)]
    # Version 0 asks for a safe downgrade at most, and there is none of metadata.version.
    lower = FeatureUpdateKey(feature="metadata.version", max_version_level=20, allow_downgrade=True)
    refused = await client.call(UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[lower]), version)
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION


@pytest.mark.rule("C1")
def test_every_broker_passes_on_what_it_cannot_decide() -> None:
    async def story(cluster: SimCluster) -> None:
        # Node 4 is a broker only; of the others one has the active controller in its own process.
        for asked in (1, 2, 3, 4):
            await ask_everything(await connect(cluster, asked), cluster, asked)

    on_virtual_cluster(story, brokers=4)


@pytest.mark.rule("C1")
def test_topics_are_deleted_by_name_in_every_version_wherever_the_controller_is() -> None:
    async def story(cluster: SimCluster) -> None:
        client = await connect(cluster, 4)
        for version in range(1, 6):
            await create(client, "short-lived")
            response = await client.call(DeleteTopicsRequest(topic_names=["short-lived"], timeout_ms=5000), version)
            assert [(each.name, each.error_code) for each in response.responses] == [("short-lived", ErrorCode.NONE)]

    on_virtual_cluster(story, brokers=4)


def test_a_broker_that_will_not_come_back_is_forgotten() -> None:
    async def story(cluster: SimCluster) -> None:
        await cluster.stop(4)
        client = await connect(cluster, next(each for each in (1, 2, 3) if each != leader_of(cluster)))
        response = await client.call(UnregisterBrokerRequest(broker_id=4), 0)
        assert response.error_code == ErrorCode.NONE
        described = await client.call(DescribeClusterRequest(include_fenced_brokers=True), 2)
        assert [each.broker_id for each in described.brokers] == [1, 2, 3]

    on_virtual_cluster(story, brokers=4)


def test_a_controller_names_the_controllers() -> None:
    async def story(cluster: SimCluster) -> None:
        client = await connect(cluster, 1, CONTROLLER_PORT)
        described = await client.call(DescribeClusterRequest(endpoint_type=2), 1)
        assert (described.cluster_id, described.controller_id) == (cluster.cluster_id, leader_of(cluster))
        assert [(each.broker_id, each.port) for each in described.brokers] == [
            (each, CONTROLLER_PORT) for each in (1, 2, 3)
        ]

    on_virtual_cluster(story)
