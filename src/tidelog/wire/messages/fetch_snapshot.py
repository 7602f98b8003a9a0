"""FetchSnapshot (key 59)."""

from uuid import UUID as PyUuid

from tidelog.wire.buffers import Buffer
from tidelog.wire.schema import INT16, INT32, INT64, RECORDS, STRING, UINT16, UUID, Array, Struct, f, message, struct


@struct
class SnapshotId:
    end_offset: int = f(INT64)
    epoch: int = f(INT32)


@struct
class PartitionSnapshot:
    partition: int = f(INT32)
    current_leader_epoch: int = f(INT32)
    snapshot_id: SnapshotId = f(Struct(SnapshotId))
    position: int = f(INT64)
    replica_directory_id: PyUuid = f(UUID, "1+", tag=0)


@struct
class TopicSnapshot:
    name: str = f(STRING)
    partitions: list[PartitionSnapshot] = f(Array(PartitionSnapshot))


@message(api_key=59, versions="0-1", flexible="0+")
@struct
class FetchSnapshotRequest:
    cluster_id: str | None = f(STRING, nullable="0+", tag=0, default=None)
    replica_id: int = f(INT32, default=-1)
    max_bytes: int = f(INT32, default=2147483647)
    topics: list[TopicSnapshot] = f(Array(TopicSnapshot))


@struct
class ResponseSnapshotId:
    end_offset: int = f(INT64)
    epoch: int = f(INT32)


@struct
class LeaderIdAndEpoch:
    leader_id: int = f(INT32)
    leader_epoch: int = f(INT32)


@struct
class ResponsePartitionSnapshot:
    index: int = f(INT32)
    error_code: int = f(INT16)
    snapshot_id: ResponseSnapshotId = f(Struct(ResponseSnapshotId))
    current_leader: LeaderIdAndEpoch = f(Struct(LeaderIdAndEpoch), tag=0)
    size: int = f(INT64)
    position: int = f(INT64)
    unaligned_records: Buffer = f(RECORDS)


@struct
class ResponseTopicSnapshot:
    name: str = f(STRING)
    partitions: list[ResponsePartitionSnapshot] = f(Array(ResponsePartitionSnapshot))


@struct
class NodeEndpoint:
    node_id: int = f(INT32, "1+")
    host: str = f(STRING, "1+")
    port: int = f(UINT16, "1+")


@message(api_key=59, versions="0-1", flexible="0+")
@struct
class FetchSnapshotResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    topics: list[ResponseTopicSnapshot] = f(Array(ResponseTopicSnapshot))
    node_endpoints: list[NodeEndpoint] = f(Array(NodeEndpoint), "1+", tag=0)
