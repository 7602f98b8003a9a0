"""Fetch and FetchSnapshot about the one partition of the metadata log."""

from dataclasses import dataclass, field
from typing import Final

from tidelog.core.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from tidelog.quorum.election_messages import LeaderView, error_of
from tidelog.quorum.snapshot_files import SnapshotId
from tidelog.quorum.voters import ReplicaKey
from tidelog.wire.buffers import Buffer
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import fetch
from tidelog.wire.messages import fetch_snapshot as snap

# What a fetch older than version 18 says of the high watermark its sender knows: nothing.
NOT_TOLD: Final = (1 << 63) - 1


def fetch_request(
    cluster_id: str | None,
    replica: ReplicaKey,
    *,
    epoch: int,
    offset: int,
    last_epoch: int,
    log_start_offset: int,
    high_watermark: int,
    max_wait_ms: int,
    max_bytes: int,
) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=log_start_offset,
        partition_max_bytes=max_bytes,
        replica_directory_id=replica.directory_id,
        high_watermark=high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_id=replica.id,
        replica_state=fetch.ReplicaState(replica_id=replica.id),
        max_wait_ms=max_wait_ms,
        max_bytes=max_bytes,
        topics=[fetch.FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def fetch_of(request: fetch.FetchRequest) -> fetch.FetchPartition | None:
    """The partition of a request, None if that is not the metadata log alone."""
    if len(request.topics) != 1:
        return None
    topic = request.topics[0]
    if topic.topic != METADATA_TOPIC and topic.topic_id != METADATA_TOPIC_ID:
        return None
    return topic.partitions[0] if len(topic.partitions) == 1 and topic.partitions[0].partition == 0 else None


def replica_of(request: fetch.FetchRequest, partition: fetch.FetchPartition) -> ReplicaKey:
    """Who fetches; an id below 0 is nobody that is counted."""
    replica_id = request.replica_state.replica_id
    return ReplicaKey(request.replica_id if replica_id < 0 else replica_id, partition.replica_directory_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchAnswer:
    """What a fetch brings: records, or where the logs part, or which snapshot to take; or an error."""

    error: ErrorCode = ErrorCode.NONE
    view: LeaderView
    high_watermark: int = -1
    log_start_offset: int = -1
    # (epoch, end offset) as in rule E2.
    diverging: tuple[int, int] | None = None
    snapshot: SnapshotId | None = None
    records: Buffer = field(default=b"")


def fetch_response(answer: FetchAnswer) -> fetch.FetchResponse:
    partition = fetch.PartitionData(
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        current_leader=fetch.LeaderIdAndEpoch(leader_id=answer.view.leader_id, leader_epoch=answer.view.epoch),
        records=answer.records,
    )
    if answer.diverging is not None:
        epoch, end_offset = answer.diverging
        partition.diverging_epoch = fetch.EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if answer.snapshot is not None:
        partition.snapshot_id = fetch.SnapshotId(end_offset=answer.snapshot.end_offset, epoch=answer.snapshot.epoch)
    response = fetch.FetchResponse(
        responses=[
            fetch.FetchableTopicResponse(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
        ]
    )
    if answer.view.endpoint is not None:
        host, port = answer.view.endpoint
        response.node_endpoints = [fetch.NodeEndpoint(node_id=answer.view.leader_id, host=host, port=port)]
    return response


def fetch_answer_of(response: fetch.FetchResponse) -> FetchAnswer | None:
    """None if the response is about anything else, or refuses the request as a whole."""
    if response.error_code or len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
        return None
    partition = response.responses[0].partitions[0]
    leader, parting, snapshot = partition.current_leader, partition.diverging_epoch, partition.snapshot_id
    endpoint = next(
        ((each.host, each.port) for each in response.node_endpoints if each.node_id == leader.leader_id), None
    )
    return FetchAnswer(
        error=error_of(partition.error_code),
        view=LeaderView(leader.leader_id, leader.leader_epoch, endpoint),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging=(parting.epoch, parting.end_offset) if parting.epoch >= 0 else None,
        snapshot=SnapshotId(snapshot.end_offset, snapshot.epoch) if snapshot.end_offset >= 0 else None,
        records=partition.records or b"",
    )


def snapshot_request(
    cluster_id: str | None, replica: ReplicaKey, *, epoch: int, snapshot: SnapshotId, position: int, max_bytes: int
) -> snap.FetchSnapshotRequest:
    partition = snap.PartitionSnapshot(
        current_leader_epoch=epoch,
        snapshot_id=snap.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
        position=position,
        replica_directory_id=replica.directory_id,
    )
    return snap.FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=replica.id,
        max_bytes=max_bytes,
        topics=[snap.TopicSnapshot(name=METADATA_TOPIC, partitions=[partition])],
    )


def snapshot_of(request: snap.FetchSnapshotRequest) -> snap.PartitionSnapshot | None:
    """As `fetch_of`."""
    if len(request.topics) != 1 or request.topics[0].name != METADATA_TOPIC:
        return None
    partitions = request.topics[0].partitions
    return partitions[0] if len(partitions) == 1 and partitions[0].partition == 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotAnswer:
    """A piece of a snapshot of `size` bytes, or an error."""

    error: ErrorCode = ErrorCode.NONE
    view: LeaderView
    snapshot: SnapshotId = SnapshotId(-1, -1)
    size: int = 0
    position: int = 0
    data: Buffer = field(default=b"")


def snapshot_response(answer: SnapshotAnswer) -> snap.FetchSnapshotResponse:
    partition = snap.ResponsePartitionSnapshot(
        error_code=answer.error,
        snapshot_id=snap.ResponseSnapshotId(end_offset=answer.snapshot.end_offset, epoch=answer.snapshot.epoch),
        current_leader=snap.LeaderIdAndEpoch(leader_id=answer.view.leader_id, leader_epoch=answer.view.epoch),
        size=answer.size,
        position=answer.position,
        unaligned_records=answer.data,
    )
    response = snap.FetchSnapshotResponse(
        topics=[snap.ResponseTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])]
    )
    if answer.view.endpoint is not None:
        host, port = answer.view.endpoint
        response.node_endpoints = [snap.NodeEndpoint(node_id=answer.view.leader_id, host=host, port=port)]
    return response


def snapshot_answer_of(response: snap.FetchSnapshotResponse) -> SnapshotAnswer | None:
    """As `fetch_answer_of`."""
    if response.error_code or len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
        return None
    partition = response.topics[0].partitions[0]
    leader = partition.current_leader
    return SnapshotAnswer(
        error=error_of(partition.error_code),
        view=LeaderView(leader.leader_id, leader.leader_epoch),
        snapshot=SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        size=partition.size,
        position=partition.position,
        data=partition.unaligned_records,
    )
