"""OffsetDelete (key 47)."""

from tidelog.wire.schema import INT16, INT32, STRING, Array, f, message, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: int = f(INT32)


@struct
class OffsetDeleteRequestTopic:
    name: str = f(STRING)
    partitions: list[OffsetDeleteRequestPartition] = f(Array(OffsetDeleteRequestPartition))


@message(api_key=47, versions="0-0", flexible="none")
@struct
class OffsetDeleteRequest:
    group_id: str = f(STRING)
    topics: list[OffsetDeleteRequestTopic] = f(Array(OffsetDeleteRequestTopic))


@struct
class OffsetDeleteResponsePartition:
    partition_index: int = f(INT32)
    error_code: int = f(INT16)


@struct
class OffsetDeleteResponseTopic:
    name: str = f(STRING)
    partitions: list[OffsetDeleteResponsePartition] = f(Array(OffsetDeleteResponsePartition))


@message(api_key=47, versions="0-0", flexible="none")
@struct
class OffsetDeleteResponse:
    error_code: int = f(INT16)
    throttle_time_ms: int = f(INT32)
    topics: list[OffsetDeleteResponseTopic] = f(Array(OffsetDeleteResponseTopic))
