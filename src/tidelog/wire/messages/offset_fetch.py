"""OffsetFetch (key 9)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import BOOL, INT16, INT32, INT64, STRING, UUID, Array, f, message, struct


@struct
class OffsetFetchRequestTopic:
    name: str = f(STRING, "1-7")
    partition_indexes: list[int] = f(Array(INT32), "1-7")


@struct
class OffsetFetchRequestTopics:
    name: str = f(STRING, "8-9")
    topic_id: PyUuid = f(UUID, "10+")
    partition_indexes: list[int] = f(Array(INT32), "8+")


@struct
class OffsetFetchRequestGroup:
    group_id: str = f(STRING, "8+")
    member_id: str | None = f(STRING, "9+", nullable="9+", default=None)
    member_epoch: int = f(INT32, "9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = f(Array(OffsetFetchRequestTopics), "8+", nullable="8+")


@message(api_key=9, versions="1-10", flexible="6+")
@struct
class OffsetFetchRequest:
    group_id: str = f(STRING, "1-7")
    topics: list[OffsetFetchRequestTopic] | None = f(Array(OffsetFetchRequestTopic), "1-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = f(Array(OffsetFetchRequestGroup), "8+")
    require_stable: bool = f(BOOL, "7+")


@struct
class OffsetFetchResponsePartition:
    partition_index: int = f(INT32, "1-7")
    committed_offset: int = f(INT64, "1-7")
    committed_leader_epoch: int = f(INT32, "5-7", default=-1)
    metadata: str | None = f(STRING, "1-7", nullable="1-7")
    error_code: int = f(INT16, "1-7")


@struct
class OffsetFetchResponseTopic:
    name: str = f(STRING, "1-7")
    partitions: list[OffsetFetchResponsePartition] = f(Array(OffsetFetchResponsePartition), "1-7")


@struct
class OffsetFetchResponsePartitions:
    partition_index: int = f(INT32, "8+")
    committed_offset: int = f(INT64, "8+")
    committed_leader_epoch: int = f(INT32, "8+", default=-1)
    metadata: str | None = f(STRING, "8+", nullable="8+")
    error_code: int = f(INT16, "8+")


@struct
class OffsetFetchResponseTopics:
    name: str = f(STRING, "8-9")
    topic_id: PyUuid = f(UUID, "10+")
    partitions: list[OffsetFetchResponsePartitions] = f(Array(OffsetFetchResponsePartitions), "8+")


@struct
class OffsetFetchResponseGroup:
    group_id: str = f(STRING, "8+")
    topics: list[OffsetFetchResponseTopics] = f(Array(OffsetFetchResponseTopics), "8+")
    error_code: int = f(INT16, "8+")


@message(api_key=9, versions="1-10", flexible="6+")
@struct
class OffsetFetchResponse:
    throttle_time_ms: int = f(INT32, "3+")
    topics: list[OffsetFetchResponseTopic] = f(Array(OffsetFetchResponseTopic), "1-7")
    error_code: int = f(INT16, "2-7")
    groups: list[OffsetFetchResponseGroup] = f(Array(OffsetFetchResponseGroup), "8+")
