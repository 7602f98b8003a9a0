"""DeleteRecords (key 21)."""

from tidelog.wire.schema import INT16, INT32, INT64, STRING, Array, f, message, struct


@struct
class DeleteRecordsPartition:
    partition_index: int = f(INT32)
    offset: int = f(INT64)


@struct
class DeleteRecordsTopic:
    name: str = f(STRING)
    partitions: list[DeleteRecordsPartition] = f(Array(DeleteRecordsPartition))


@message(api_key=21, versions="0-2", flexible="2+")
@struct
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = f(Array(DeleteRecordsTopic))
    timeout_ms: int = f(INT32)


@struct
class DeleteRecordsPartitionResult:
    partition_index: int = f(INT32)
    low_watermark: int = f(INT64)
    error_code: int = f(INT16)


@struct
class DeleteRecordsTopicResult:
    name: str = f(STRING)
    partitions: list[DeleteRecordsPartitionResult] = f(Array(DeleteRecordsPartitionResult))


@message(api_key=21, versions="0-2", flexible="2+")
@struct
class DeleteRecordsResponse:
    throttle_time_ms: int = f(INT32)
    topics: list[DeleteRecordsTopicResult] = f(Array(DeleteRecordsTopicResult))
