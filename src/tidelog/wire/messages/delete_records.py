"""DeleteRecords (key 21)."""

from dataclasses import dataclass

from tidelog.wire.schema import INT16, INT32, INT64, STRING, Array, f, message


@dataclass(slots=True, kw_only=True)
class DeleteRecordsPartition:
    partition_index: int = f(INT32)
    offset: int = f(INT64)


@dataclass(slots=True, kw_only=True)
class DeleteRecordsTopic:
    name: str = f(STRING)
    partitions: list[DeleteRecordsPartition] = f(Array(DeleteRecordsPartition))


@message(api_key=21, versions="0-2", flexible="2+")
@dataclass(slots=True, kw_only=True)
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = f(Array(DeleteRecordsTopic))
    timeout_ms: int = f(INT32)


@dataclass(slots=True, kw_only=True)
class DeleteRecordsPartitionResult:
    partition_index: int = f(INT32)
    low_watermark: int = f(INT64)
    error_code: int = f(INT16)


@dataclass(slots=True, kw_only=True)
class DeleteRecordsTopicResult:
    name: str = f(STRING)
    partitions: list[DeleteRecordsPartitionResult] = f(Array(DeleteRecordsPartitionResult))


@message(api_key=21, versions="0-2", flexible="2+")
@dataclass(slots=True, kw_only=True)
class DeleteRecordsResponse:
    throttle_time_ms: int = f(INT32)
    topics: list[DeleteRecordsTopicResult] = f(Array(DeleteRecordsTopicResult))
