"""Fetch (key 1)."""

from uuid import UUID as PyUuid

from tidelog.wire.buffers import Buffer
from tidelog.wire.schema import INT8, INT16, INT32, INT64, RECORDS, STRING, UUID, Array, Struct, f, message, struct


@struct
class ReplicaState:
    replica_id: int = f(INT32, "15+", default=-1)
    replica_epoch: int = f(INT64, "15+", default=-1)


@struct
class FetchPartition:
    partition: int = f(INT32)
    current_leader_epoch: int = f(INT32, "9+", default=-1)
    fetch_offset: int = f(INT64)
    last_fetched_epoch: int = f(INT32, "12+", default=-1)
    log_start_offset: int = f(INT64, "5+", default=-1)
    partition_max_bytes: int = f(INT32)
    replica_directory_id: PyUuid = f(UUID, "17+", tag=0)
    high_watermark: int = f(INT64, "18+", tag=1, default=9223372036854775807)


@struct
class FetchTopic:
    topic: str = f(STRING, "4-12")
    topic_id: PyUuid = f(UUID, "13+")
    partitions: list[FetchPartition] = f(Array(FetchPartition))


@struct
class ForgottenTopic:
    topic: str = f(STRING, "7-12")
    topic_id: PyUuid = f(UUID, "13+")
    partitions: list[int] = f(Array(INT32), "7+")


@message(api_key=1, versions="4-18", flexible="12+")
@struct
class FetchRequest:
    cluster_id: str | None = f(STRING, "12+", nullable="12+", tag=0, default=None)
    replica_id: int = f(INT32, "4-14", default=-1)
    replica_state: ReplicaState = f(Struct(ReplicaState), "15+", tag=1)
    max_wait_ms: int = f(INT32)
    min_bytes: int = f(INT32)
    max_bytes: int = f(INT32, default=2147483647)
    isolation_level: int = f(INT8)
    session_id: int = f(INT32, "7+")
    session_epoch: int = f(INT32, "7+", default=-1)
    topics: list[FetchTopic] = f(Array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = f(Array(ForgottenTopic), "7+")
    rack_id: str = f(STRING, "11+")


@struct
class EpochEndOffset:
    epoch: int = f(INT32, "12+", default=-1)
    end_offset: int = f(INT64, "12+", default=-1)


@struct
class LeaderIdAndEpoch:
    leader_id: int = f(INT32, "12+", default=-1)
    leader_epoch: int = f(INT32, "12+", default=-1)


@struct
class SnapshotId:
    end_offset: int = f(INT64, "12+", default=-1)
    epoch: int = f(INT32, "12+", default=-1)


@struct
class AbortedTransaction:
    producer_id: int = f(INT64)
    first_offset: int = f(INT64)


@struct
class PartitionData:
    partition_index: int = f(INT32)
    error_code: int = f(INT16)
    high_watermark: int = f(INT64)
    last_stable_offset: int = f(INT64, default=-1)
    log_start_offset: int = f(INT64, "5+", default=-1)
    diverging_epoch: EpochEndOffset = f(Struct(EpochEndOffset), "12+", tag=0)
    current_leader: LeaderIdAndEpoch = f(Struct(LeaderIdAndEpoch), "12+", tag=1)
    snapshot_id: SnapshotId = f(Struct(SnapshotId), "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = f(Array(AbortedTransaction), nullable="4+")
    preferred_read_replica: int = f(INT32, "11+", default=-1)
    records: Buffer | None = f(RECORDS, nullable="4+")


@struct
class FetchableTopicResponse:
    topic: str = f(STRING, "4-12")
    topic_id: PyUuid = f(UUID, "13+")
    partitions: list[PartitionData] = f(Array(PartitionData))


@struct
class NodeEndpoint:
    node_id: int = f(INT32, "16+")
    host: str = f(STRING, "16+")
    port: int = f(INT32, "16+")
    rack: str | None = f(STRING, "16+", nullable="16+", default=None)


@message(api_key=1, versions="4-18", flexible="12+")
@struct
class FetchResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16, "7+")
    session_id: int = f(INT32, "7+")
    responses: list[FetchableTopicResponse] = f(Array(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = f(Array(NodeEndpoint), "16+", tag=0)
