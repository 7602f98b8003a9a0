"""Vote, BeginQuorumEpoch and EndQuorumEpoch about the one partition of the metadata log."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from tidelog.core.ids import METADATA_TOPIC, ZERO_UUID
from tidelog.quorum.voters import ReplicaKey, Voter
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import begin_quorum_epoch as begin
from tidelog.wire.messages import end_quorum_epoch as end
from tidelog.wire.messages import vote

ElectionResponse = vote.VoteResponse | begin.BeginQuorumEpochResponse | end.EndQuorumEpochResponse

_KNOWN_ERRORS: Final = frozenset(int(each) for each in ErrorCode)


@dataclass(frozen=True, slots=True)
class LeaderView:
    """What a response says about the leader; `endpoint` is where it is reached, as far as is known."""

    leader_id: int
    epoch: int
    endpoint: tuple[str, int] | None = None


def vote_request(
    cluster_id: str | None, sender: ReplicaKey, voter: Voter, *, epoch: int, last_epoch: int, end_offset: int, pre: bool
) -> vote.VoteRequest:
    partition = vote.PartitionData(
        replica_epoch=epoch,
        replica_id=sender.id,
        replica_directory_id=sender.directory_id,
        voter_directory_id=voter.key.directory_id,
        last_offset_epoch=last_epoch,
        last_offset=end_offset,
        pre_vote=pre,
    )
    return vote.VoteRequest(
        cluster_id=cluster_id,
        voter_id=voter.key.id,
        topics=[vote.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
    )


def begin_epoch_request(
    cluster_id: str | None, leader_id: int, epoch: int, voter: Voter, endpoints: Iterable[tuple[str, str, int]]
) -> begin.BeginQuorumEpochRequest:
    partition = begin.PartitionData(voter_directory_id=voter.key.directory_id, leader_id=leader_id, leader_epoch=epoch)
    return begin.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=voter.key.id,
        topics=[begin.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[begin.LeaderEndpoint(name=name, host=host, port=port) for name, host, port in endpoints],
    )


def end_epoch_request(
    cluster_id: str | None,
    leader_id: int,
    epoch: int,
    successors: Sequence[ReplicaKey],
    endpoints: Iterable[tuple[str, str, int]],
) -> end.EndQuorumEpochRequest:
    partition = end.PartitionData(
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_successors=[key.id for key in successors],
        preferred_candidates=[
            end.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id) for key in successors
        ],
    )
    return end.EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=[end.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        leader_endpoints=[end.LeaderEndpoint(name=name, host=host, port=port) for name, host, port in endpoints],
    )


def vote_response(error: ErrorCode, view: LeaderView, *, granted: bool) -> vote.VoteResponse:
    partition = vote.ResponsePartitionData(
        error_code=error, leader_id=view.leader_id, leader_epoch=view.epoch, vote_granted=granted
    )
    return vote.VoteResponse(
        topics=[vote.ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        node_endpoints=[vote.NodeEndpoint(node_id=id_, host=host, port=port) for id_, host, port in _endpoints(view)],
    )


def begin_epoch_response(error: ErrorCode, view: LeaderView) -> begin.BeginQuorumEpochResponse:
    partition = begin.ResponsePartitionData(error_code=error, leader_id=view.leader_id, leader_epoch=view.epoch)
    return begin.BeginQuorumEpochResponse(
        topics=[begin.ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        node_endpoints=[begin.NodeEndpoint(node_id=id_, host=host, port=port) for id_, host, port in _endpoints(view)],
    )


def end_epoch_response(error: ErrorCode, view: LeaderView) -> end.EndQuorumEpochResponse:
    partition = end.ResponsePartitionData(error_code=error, leader_id=view.leader_id, leader_epoch=view.epoch)
    return end.EndQuorumEpochResponse(
        topics=[end.ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])],
        node_endpoints=[end.NodeEndpoint(node_id=id_, host=host, port=port) for id_, host, port in _endpoints(view)],
    )


def _endpoints(view: LeaderView) -> list[tuple[int, str, int]]:
    return [] if view.endpoint is None else [(view.leader_id, *view.endpoint)]


class _Indexed(Protocol):
    partition_index: int


P = TypeVar("P", bound=_Indexed)


def _only_ours(topics: Sequence[tuple[str, list[P]]]) -> P | None:
    if len(topics) != 1 or topics[0][0] != METADATA_TOPIC or len(topics[0][1]) != 1:
        return None
    partition = topics[0][1][0]
    return partition if partition.partition_index == 0 else None


def vote_of(request: vote.VoteRequest) -> vote.PartitionData | None:
    """The partition of a request, None if that is not the metadata log alone."""
    return _only_ours([(topic.topic_name, topic.partitions) for topic in request.topics])


def begin_of(request: begin.BeginQuorumEpochRequest) -> begin.PartitionData | None:
    """As `vote_of`."""
    return _only_ours([(topic.topic_name, topic.partitions) for topic in request.topics])


def end_of(request: end.EndQuorumEpochRequest) -> end.PartitionData | None:
    """As `vote_of`."""
    return _only_ours([(topic.topic_name, topic.partitions) for topic in request.topics])


def error_of(code: int) -> ErrorCode:
    """A peer may be newer, and its errors unknown here; they are errors all the same."""
    return ErrorCode(code) if code in _KNOWN_ERRORS else ErrorCode.UNKNOWN_SERVER_ERROR


@dataclass(frozen=True, slots=True)
class Answer:
    """A response to one of these requests, of one partition and ours."""

    error: ErrorCode
    view: LeaderView
    granted: bool = False


def answer_of(response: ElectionResponse) -> Answer | None:
    """None if the response is about anything else, or refuses the request as a whole."""
    if response.error_code or len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
        return None
    partition = response.topics[0].partitions[0]
    endpoint = next(
        ((each.host, each.port) for each in response.node_endpoints if each.node_id == partition.leader_id), None
    )
    return Answer(
        error_of(partition.error_code),
        LeaderView(partition.leader_id, partition.leader_epoch, endpoint),
        isinstance(partition, vote.ResponsePartitionData) and partition.vote_granted,
    )


def successors_of(partition: end.PartitionData) -> list[ReplicaKey]:
    """Of version 1 with directory ids, of version 0 without."""
    if partition.preferred_candidates:
        return [ReplicaKey(each.candidate_id, each.candidate_directory_id) for each in partition.preferred_candidates]
    return [ReplicaKey(each, ZERO_UUID) for each in partition.preferred_successors]
