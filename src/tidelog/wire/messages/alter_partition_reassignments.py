"""AlterPartitionReassignments (key 45)."""

from tidelog.wire.schema import BOOL, INT16, INT32, STRING, Array, f, message, struct


@struct
class ReassignablePartition:
    partition_index: int = f(INT32)
    replicas: list[int] | None = f(Array(INT32), nullable="0+", default=None)


@struct
class ReassignableTopic:
    name: str = f(STRING)
    partitions: list[ReassignablePartition] = f(Array(ReassignablePartition))


@message(api_key=45, versions="0-1", flexible="0+")
@struct
class AlterPartitionReassignmentsRequest:
    timeout_ms: int = f(INT32, default=60000)
    allow_replication_factor_change: bool = f(BOOL, "1+", default=True)
    topics: list[ReassignableTopic] = f(Array(ReassignableTopic))


@struct
class ReassignablePartitionResponse:
    partition_index: int = f(INT32)
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+")


@struct
class ReassignableTopicResponse:
    name: str = f(STRING)
    partitions: list[ReassignablePartitionResponse] = f(Array(ReassignablePartitionResponse))


@message(api_key=45, versions="0-1", flexible="0+")
@struct
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int = f(INT32)
    allow_replication_factor_change: bool = f(BOOL, "1+", default=True)
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+")
    responses: list[ReassignableTopicResponse] = f(Array(ReassignableTopicResponse))
