"""TxnOffsetCommit (key 28)."""

from tidelog.wire.schema import INT16, INT32, INT64, STRING, Array, f, message, struct


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: int = f(INT32)
    committed_offset: int = f(INT64)
    committed_leader_epoch: int = f(INT32, "2+", default=-1)
    committed_metadata: str | None = f(STRING, nullable="0+")


@struct
class TxnOffsetCommitRequestTopic:
    name: str = f(STRING)
    partitions: list[TxnOffsetCommitRequestPartition] = f(Array(TxnOffsetCommitRequestPartition))


@message(api_key=28, versions="0-5", flexible="3+")
@struct
class TxnOffsetCommitRequest:
    transactional_id: str = f(STRING)
    group_id: str = f(STRING)
    producer_id: int = f(INT64)
    producer_epoch: int = f(INT16)
    generation_id: int = f(INT32, "3+", default=-1)
    member_id: str = f(STRING, "3+")
    group_instance_id: str | None = f(STRING, "3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = f(Array(TxnOffsetCommitRequestTopic))


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: int = f(INT32)
    error_code: int = f(INT16)


@struct
class TxnOffsetCommitResponseTopic:
    name: str = f(STRING)
    partitions: list[TxnOffsetCommitResponsePartition] = f(Array(TxnOffsetCommitResponsePartition))


@message(api_key=28, versions="0-5", flexible="3+")
@struct
class TxnOffsetCommitResponse:
    throttle_time_ms: int = f(INT32)
    topics: list[TxnOffsetCommitResponseTopic] = f(Array(TxnOffsetCommitResponseTopic))
