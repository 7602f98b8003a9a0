"""ListOffsets (key 2)."""

from tidelog.wire.schema import INT8, INT16, INT32, INT64, STRING, Array, f, message, struct


@struct
class ListOffsetsPartition:
    partition_index: int = f(INT32)
    current_leader_epoch: int = f(INT32, "4+", default=-1)
    timestamp: int = f(INT64)


@struct
class ListOffsetsTopic:
    name: str = f(STRING)
    partitions: list[ListOffsetsPartition] = f(Array(ListOffsetsPartition))


@message(api_key=2, versions="1-11", flexible="6+")
@struct
class ListOffsetsRequest:
    replica_id: int = f(INT32)
    isolation_level: int = f(INT8, "2+")
    topics: list[ListOffsetsTopic] = f(Array(ListOffsetsTopic))
    timeout_ms: int = f(INT32, "10+")


@struct
class ListOffsetsPartitionResponse:
    partition_index: int = f(INT32)
    error_code: int = f(INT16)
    timestamp: int = f(INT64, default=-1)
    offset: int = f(INT64, default=-1)
    leader_epoch: int = f(INT32, "4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    name: str = f(STRING)
    partitions: list[ListOffsetsPartitionResponse] = f(Array(ListOffsetsPartitionResponse))


@message(api_key=2, versions="1-11", flexible="6+")
@struct
class ListOffsetsResponse:
    throttle_time_ms: int = f(INT32, "2+")
    topics: list[ListOffsetsTopicResponse] = f(Array(ListOffsetsTopicResponse))
