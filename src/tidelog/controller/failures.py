"""How a request as a whole is refused: every API has its own place for an error."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from tidelog.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tidelog.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from tidelog.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
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
)
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tidelog.wire.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tidelog.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse


def error_response(request: Any, error: ApiError) -> Any:
    """The response that says `error` of everything the request asked for."""
    return _FAILURES[type(request)](request, error)


def is_not_controller(response: Any) -> bool:
    """Whether the response says that its sender does not lead, or lost its office over the request."""
    return any(code in _NOT_LEADING for code in _codes(response))


def _codes(response: Any) -> Iterator[int]:
    """The codes that can refuse a request as a whole, wherever its API puts them."""
    if isinstance(response, DescribeQuorumResponse):
        yield from (each.error_code for topic in response.topics for each in topic.partitions)
    results = _RESULTS.get(type(response))
    if results is not None:
        yield from (each.error_code for each in results(response))
    else:
        yield response.error_code


# The quorum's own answers know a leader where the controller's know an active controller.
_NOT_LEADING: Final = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER})

# Answers without an error of the whole.
_RESULTS: Final[dict[type, Callable[[Any], Iterable[Any]]]] = {
    CreateTopicsResponse: lambda response: response.topics,
    DeleteTopicsResponse: lambda response: response.responses,
    CreatePartitionsResponse: lambda response: response.results,
    IncrementalAlterConfigsResponse: lambda response: response.responses,
}


def _create_topics(request: CreateTopicsRequest, error: ApiError) -> CreateTopicsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=name, error_code=error.code, error_message=error.message) for name in names]
    )


def _delete_topics(request: DeleteTopicsRequest, error: ApiError) -> DeleteTopicsResponse:
    by_name = [DeletableTopicResult(name=name) for name in request.topic_names]
    by_state = [DeletableTopicResult(name=state.name, topic_id=state.topic_id) for state in request.topics]
    for result in (*by_name, *by_state):
        result.error_code, result.error_message = error.code, error.message
    return DeleteTopicsResponse(responses=[*by_name, *by_state])


def _create_partitions(request: CreatePartitionsRequest, error: ApiError) -> CreatePartitionsResponse:
    names = dict.fromkeys(topic.name for topic in request.topics)
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message) for name in names
        ]
    )


def _alter_configs(request: IncrementalAlterConfigsRequest, error: ApiError) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def _update_features(request: UpdateFeaturesRequest, error: ApiError) -> UpdateFeaturesResponse:
    results = [
        UpdatableFeatureResult(feature=each.feature, error_code=error.code, error_message=error.message)
        for each in request.feature_updates
    ]
    return UpdateFeaturesResponse(error_code=error.code, error_message=error.message, results=results)


def _elect_leaders(request: ElectLeadersRequest, error: ApiError) -> ElectLeadersResponse:
    # Version 0 has no error of the whole.
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=error.code, error_message=error.message)
                for index in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=error.code, replica_election_results=results)


def _alter_reassignments(
    request: AlterPartitionReassignmentsRequest, error: ApiError
) -> AlterPartitionReassignmentsResponse:
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=each.partition_index, error_code=error.code, error_message=error.message
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=error.code,
        error_message=error.message,
        responses=responses,
    )


def _worded(response: Callable[..., Any]) -> Callable[[Any, ApiError], Any]:
    """Responses with one error code and its message."""
    return lambda _, error: response(error_code=error.code, error_message=error.message)


def _plain(response: Callable[..., Any]) -> Callable[[Any, ApiError], Any]:
    """Responses with one error code and no message."""
    return lambda _, error: response(error_code=error.code)


_FAILURES: Final[dict[type, Callable[[Any, ApiError], Any]]] = {
    CreateTopicsRequest: _create_topics,
    DeleteTopicsRequest: _delete_topics,
    CreatePartitionsRequest: _create_partitions,
    IncrementalAlterConfigsRequest: _alter_configs,
    UpdateFeaturesRequest: _update_features,
    UnregisterBrokerRequest: _worded(UnregisterBrokerResponse),
    ElectLeadersRequest: _elect_leaders,
    AlterPartitionReassignmentsRequest: _alter_reassignments,
    ListPartitionReassignmentsRequest: _worded(ListPartitionReassignmentsResponse),
    DescribeQuorumRequest: _worded(DescribeQuorumResponse),
    AddRaftVoterRequest: _worded(AddRaftVoterResponse),
    RemoveRaftVoterRequest: _worded(RemoveRaftVoterResponse),
    UpdateRaftVoterRequest: _plain(UpdateRaftVoterResponse),
    AlterPartitionRequest: _plain(AlterPartitionResponse),
    AssignReplicasToDirsRequest: _plain(AssignReplicasToDirsResponse),
    BrokerRegistrationRequest: _plain(BrokerRegistrationResponse),
    BrokerHeartbeatRequest: _plain(BrokerHeartbeatResponse),
    AllocateProducerIdsRequest: _plain(AllocateProducerIdsResponse),
}
