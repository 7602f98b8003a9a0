"""The quorum, elections and reassignments over the wire."""

from typing import Any
from uuid import UUID

import pytest
from tests.unit.client.test_client import client_of
from tests.unit.client.toy_broker import CLOSE, ToyBroker

from tidelog.client.configs import ConfigSource, ResourceType
from tidelog.client.elections import ElectionType, elect_leaders
from tidelog.client.quorum import (
    QuorumDescription,
    QuorumEndpoint,
    QuorumReplica,
    add_voter,
    describe_quorum,
    remove_voter,
)
from tidelog.client.reassignments import alter_reassignments, list_reassignments, wait_reassigned
from tidelog.client.throttles import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    remove_rates,
    remove_throttle,
    set_throttle,
)
from tidelog.core.ids import METADATA_TOPIC, TopicPartition
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tidelog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from tidelog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from tidelog.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

DIRECTORY = UUID(int=7)


def replica(node: int, end: int, caught_up: int) -> QuorumReplica:
    return QuorumReplica(
        id=node, directory_id=DIRECTORY, log_end_offset=end, last_fetch_timestamp=9, last_caught_up_timestamp=caught_up
    )


def described(*voters: QuorumReplica, leader: int = 1) -> QuorumDescription:
    return QuorumDescription(leader_id=leader, leader_epoch=3, high_watermark=8, voters=voters, observers=())


@pytest.mark.parametrize(
    ("quorum", "lag", "lag_ms"),
    [
        (described(replica(1, 10, 1000)), 0, 0),
        (described(replica(1, 10, 1000), replica(2, 10, 990)), 0, 0),
        (described(replica(1, 10, 1000), replica(2, 7, 800), replica(3, 9, 900)), 3, 200),
        (described(replica(1, 10, 1000), replica(2, 7, -1)), 3, -1),
        (described(replica(2, 7, 800), leader=1), -1, -1),
    ],
)
def test_the_lag_of_the_slowest_voter(quorum: QuorumDescription, lag: int, lag_ms: int) -> None:
    assert (quorum.max_follower_lag, quorum.max_follower_lag_time_ms) == (lag, lag_ms)


def test_who_never_fetched_has_a_lag_that_nobody_knows() -> None:
    quorum = described(replica(1, 10, 1000), replica(2, -1, -1))
    assert [quorum.lag_of(voter) for voter in quorum.voters] == [0, -1]


async def test_a_quorum_is_described_by_its_leader_once_there_is_one() -> None:
    broker = ToyBroker()
    answers = [
        ResponsePartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, error_message=None),
        ResponsePartitionData(
            error_message=None,
            leader_id=1,
            leader_epoch=4,
            high_watermark=8,
            current_voters=[ReplicaState(replica_id=1, replica_directory_id=DIRECTORY, log_end_offset=9)],
            observers=[ReplicaState(replica_id=5, log_end_offset=3)],
        ),
    ]

    def describe(request: Any, version: int) -> DescribeQuorumResponse:
        topic = ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[answers.pop(0)])
        listeners = [Listener(name="CONTROLLER", host="::1", port=9093)]
        return DescribeQuorumResponse(error_message=None, topics=[topic], nodes=[Node(node_id=1, listeners=listeners)])

    broker.on(DescribeQuorumRequest, describe)
    async with broker.serving(), client_of(broker) as client:
        found = await describe_quorum(client)
    assert (found.leader_id, found.leader_epoch, found.high_watermark) == (1, 4, 8)
    assert [str(endpoint) for endpoint in found.voters[0].endpoints] == ["CONTROLLER://[::1]:9093"]
    assert found.voters[0].directory_id == DIRECTORY
    assert found.lag_of(found.observers[0]) == 6 and found.replica(5) is found.observers[0]


async def test_a_change_of_voters_whose_answer_was_lost_is_not_taken_for_a_refusal() -> None:
    broker = ToyBroker()
    adding = [CLOSE, AddRaftVoterResponse(error_code=ErrorCode.DUPLICATE_VOTER, error_message="already there")]
    removing = [CLOSE, RemoveRaftVoterResponse(error_code=ErrorCode.VOTER_NOT_FOUND, error_message="not there")]
    broker.on(AddRaftVoterRequest, lambda request, version: adding.pop(0))
    broker.on(RemoveRaftVoterRequest, lambda request, version: removing.pop(0))
    endpoint = QuorumEndpoint(name="CONTROLLER", host="127.0.0.1", port=9)
    async with broker.serving(), client_of(broker) as client:
        await add_voter(client, 4, DIRECTORY, [endpoint])
        await remove_voter(client, 4, DIRECTORY)
        adding.append(AddRaftVoterResponse(error_code=ErrorCode.DUPLICATE_VOTER, error_message="already there"))
        with pytest.raises(ApiError, match="voter 4: already there"):
            await add_voter(client, 4, DIRECTORY, [endpoint])
    asked = [request for request, _ in broker.requests if isinstance(request, AddRaftVoterRequest)]
    assert asked[0].cluster_id == "toy" and asked[0].listeners[0].port == 9


async def test_elections_are_told_partition_by_partition() -> None:
    broker = ToyBroker()
    results = [
        PartitionResult(
            partition_id=2, error_code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, error_message="not in sync"
        ),
        PartitionResult(partition_id=0, error_code=ErrorCode.ELECTION_NOT_NEEDED, error_message=None),
        PartitionResult(partition_id=1, error_message=None),
    ]
    answer = ElectLeadersResponse(
        replica_election_results=[ReplicaElectionResult(topic="orders", partition_result=results)]
    )
    broker.on(ElectLeadersRequest, lambda request, version: answer)
    async with broker.serving(), client_of(broker) as client:
        found = await elect_leaders(client, ElectionType.PREFERRED, {"orders": [0, 1, 2]})
        await elect_leaders(client, ElectionType.UNCLEAN)
    assert [(result.tp.partition, result.error is None, result.not_needed) for result in found] == [
        (0, False, True),
        (1, True, False),
        (2, False, False),
    ]
    assert found[2].error is not None and found[2].error.message == "not in sync"
    asked = [request for request, _ in broker.requests if isinstance(request, ElectLeadersRequest)]
    assert [(request.election_type, request.topic_partitions is None) for request in asked] == [(0, False), (1, True)]


async def test_reassignments_begin_are_listed_waited_for_and_cancelled() -> None:
    broker = ToyBroker()
    ongoing = OngoingTopicReassignment(
        name="orders",
        partitions=[
            OngoingPartitionReassignment(
                partition_index=0, replicas=[2, 3, 1], adding_replicas=[3], removing_replicas=[1]
            )
        ],
    )
    listed = [[ongoing], [ongoing], []]
    codes = [ErrorCode.NONE, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]

    def alter(request: AlterPartitionReassignmentsRequest, version: int) -> AlterPartitionReassignmentsResponse:
        result = ReassignablePartitionResponse(partition_index=0, error_code=codes.pop(0), error_message=None)
        topic = ReassignableTopicResponse(name="orders", partitions=[result])
        return AlterPartitionReassignmentsResponse(error_message=None, responses=[topic])

    broker.on(AlterPartitionReassignmentsRequest, alter)
    broker.on(
        ListPartitionReassignmentsRequest,
        lambda request, version: ListPartitionReassignmentsResponse(error_message=None, topics=listed.pop(0)),
    )
    tp = TopicPartition("orders", 0)
    async with broker.serving(), client_of(broker) as client:
        await alter_reassignments(client, {tp: [2, 3]})
        (found,) = await list_reassignments(client)
        assert (found.target, found.adding, found.removing) == ((2, 3), (3,), (1,))
        await wait_reassigned(client, [tp])
        with pytest.raises(ApiError, match="orders-0") as caught:
            await alter_reassignments(client, {tp: None})
    assert caught.value.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    asked = [request for request, _ in broker.requests if isinstance(request, AlterPartitionReassignmentsRequest)]
    assert [request.topics[0].partitions[0].replicas for request in asked] == [[2, 3], None]


class ConfigStore:
    """What IncrementalAlterConfigs left behind, by (resource type, name)."""

    def __init__(self, broker: ToyBroker) -> None:
        self.values: dict[tuple[int, str], dict[str, str]] = {}
        broker.on(IncrementalAlterConfigsRequest, self._alter)
        broker.on(DescribeConfigsRequest, self._describe)

    def _alter(self, request: IncrementalAlterConfigsRequest, version: int) -> IncrementalAlterConfigsResponse:
        for resource in request.resources:
            values = self.values.setdefault((resource.resource_type, resource.resource_name), {})
            for config in resource.configs:
                if config.value is None:
                    values.pop(config.name, None)
                else:
                    values[config.name] = config.value
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    error_message=None, resource_type=each.resource_type, resource_name=each.resource_name
                )
                for each in request.resources
            ]
        )

    def _describe(self, request: DescribeConfigsRequest, version: int) -> DescribeConfigsResponse:
        asked = request.resources[0]
        configs = [
            DescribeConfigsResourceResult(
                name=name, value=value, config_source=ConfigSource.DYNAMIC_BROKER_CONFIG, documentation=None
            )
            for name, value in self.values.get((asked.resource_type, asked.resource_name), {}).items()
        ]
        result = DescribeConfigsResult(
            error_message=None,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=configs,
        )
        return DescribeConfigsResponse(results=[result])


async def test_a_throttle_is_set_on_both_sides_and_taken_away_again() -> None:
    broker = ToyBroker()
    store = ConfigStore(broker)
    topic, node = (ResourceType.TOPIC, "orders"), (ResourceType.BROKER, "1")
    store.values[topic] = {LEADER_REPLICAS: "3:1", FOLLOWER_REPLICAS: "*"}
    async with broker.serving(), client_of(broker) as client:
        await set_throttle(client, "orders", 0, old=[1], new=[1], bytes_per_second=5)
        assert store.values[node] == {LEADER_RATE: "5", FOLLOWER_RATE: "5"}
        assert store.values[topic] == {LEADER_REPLICAS: "3:1,0:1", FOLLOWER_REPLICAS: "*"}
        assert await remove_throttle(client, "orders", 0) == {1}
        assert await remove_throttle(client, "orders", 0) == set()
        assert store.values[topic] == {LEADER_REPLICAS: "3:1", FOLLOWER_REPLICAS: "*"}
        await remove_throttle(client, "orders", 3)
        assert store.values[topic] == {FOLLOWER_REPLICAS: "*"}
        await remove_rates(client, [1])
        assert store.values[node] == {}
