"""OffsetForLeaderEpoch (key 23)."""

from tidelog.wire.schema import INT16, INT32, INT64, STRING, Array, f, message, struct


@struct
class OffsetForLeaderPartition:
    partition: int = f(INT32)
    current_leader_epoch: int = f(INT32, default=-1)
    leader_epoch: int = f(INT32)


@struct
class OffsetForLeaderTopic:
    topic: str = f(STRING)
    partitions: list[OffsetForLeaderPartition] = f(Array(OffsetForLeaderPartition))


@message(api_key=23, versions="2-4", flexible="4+")
@struct
class OffsetForLeaderEpochRequest:
    replica_id: int = f(INT32, "3+", default=-2)
    topics: list[OffsetForLeaderTopic] = f(Array(OffsetForLeaderTopic))


@struct
class EpochEndOffset:
    error_code: int = f(INT16)
    partition: int = f(INT32)
    leader_epoch: int = f(INT32, default=-1)
    end_offset: int = f(INT64, default=-1)


@struct
class OffsetForLeaderTopicResult:
    topic: str = f(STRING)
    partitions: list[EpochEndOffset] = f(Array(EpochEndOffset))


@message(api_key=23, versions="2-4", flexible="4+")
@struct
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = f(INT32)
    topics: list[OffsetForLeaderTopicResult] = f(Array(OffsetForLeaderTopicResult))
