"""OffsetCommit (key 8)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import INT16, INT32, INT64, STRING, UUID, Array, f, message, struct


@struct
class OffsetCommitRequestPartition:
    partition_index: int = f(INT32)
    committed_offset: int = f(INT64)
    committed_leader_epoch: int = f(INT32, "6+", default=-1)
    committed_metadata: str | None = f(STRING, nullable="2+")


@struct
class OffsetCommitRequestTopic:
    name: str = f(STRING, "2-9")
    topic_id: PyUuid = f(UUID, "10+")
    partitions: list[OffsetCommitRequestPartition] = f(Array(OffsetCommitRequestPartition))


@message(api_key=8, versions="2-10", flexible="8+")
@struct
class OffsetCommitRequest:
    group_id: str = f(STRING)
    generation_id_or_member_epoch: int = f(INT32, default=-1)
    member_id: str = f(STRING)
    retention_time_ms: int = f(INT64, "2-4", default=-1)
    group_instance_id: str | None = f(STRING, "7+", nullable="7+", default=None)
    topics: list[OffsetCommitRequestTopic] = f(Array(OffsetCommitRequestTopic))


@struct
class OffsetCommitResponsePartition:
    partition_index: int = f(INT32)
    error_code: int = f(INT16)


@struct
class OffsetCommitResponseTopic:
    name: str = f(STRING, "2-9")
    topic_id: PyUuid = f(UUID, "10+")
    partitions: list[OffsetCommitResponsePartition] = f(Array(OffsetCommitResponsePartition))


@message(api_key=8, versions="2-10", flexible="8+")
@struct
class OffsetCommitResponse:
    throttle_time_ms: int = f(INT32, "3+")
    topics: list[OffsetCommitResponseTopic] = f(Array(OffsetCommitResponseTopic))
