"""DescribeQuorum: what the leader knows of voters and observers."""

from tidelog.core.ids import METADATA_TOPIC
from tidelog.quorum.member import Member
from tidelog.quorum.progress import ReplicaProgress
from tidelog.quorum.roles import Leader
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)


def handle_describe_quorum(m: Member, request: DescribeQuorumRequest, now_s: float) -> DescribeQuorumResponse:
    asked = [(topic.topic_name, each.partition_index) for topic in request.topics for each in topic.partitions]
    if asked != [(METADATA_TOPIC, 0)]:
        return DescribeQuorumResponse(
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"only {METADATA_TOPIC}-0 has a Raft quorum",
        )
    role = m.role
    if not isinstance(role, Leader):
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        message = f"node {m.key.id} does not lead the metadata quorum"
        return _answer(ResponsePartitionData(error_code=error, error_message=message, leader_epoch=m.epoch))
    observers = [each for each in role.replicas.values() if not role.voters.is_voter(each.key) and each.key != m.key]
    partition = ResponsePartitionData(
        leader_id=m.key.id,
        leader_epoch=role.epoch,
        high_watermark=role.high_watermark,
        current_voters=[_state(m, each, now_s) for each in role.voter_progress()],
        observers=[_state(m, each, now_s) for each in sorted(observers, key=lambda each: each.key.id)],
    )
    response = _answer(partition)
    response.nodes = [
        Node(
            node_id=voter.key.id,
            listeners=[Listener(name=name, host=host, port=port) for name, host, port in voter.endpoints],
        )
        for voter in role.voters.voters.values()
    ]
    return response


def _answer(partition: ResponsePartitionData) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(topics=[ResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])])


def _state(m: Member, progress: ReplicaProgress, now_s: float) -> ReplicaState:
    if progress.key.matches(m.key):
        # Of itself a leader knows everything at any time.
        now_ms = m.wall_ms(now_s)
        return ReplicaState(
            replica_id=m.key.id,
            replica_directory_id=m.key.directory_id,
            log_end_offset=m.log.log_end_offset,
            last_fetch_timestamp=now_ms,
            last_caught_up_timestamp=now_ms,
        )
    has_fetched = progress.leader_end_at_fetch >= 0
    return ReplicaState(
        replica_id=progress.key.id,
        replica_directory_id=progress.key.directory_id,
        log_end_offset=progress.end_offset if has_fetched else -1,
        last_fetch_timestamp=m.wall_ms(progress.last_fetch_s) if has_fetched else -1,
        last_caught_up_timestamp=m.wall_ms(progress.last_caught_up_s) if progress.last_caught_up_s >= 0 else -1,
    )
