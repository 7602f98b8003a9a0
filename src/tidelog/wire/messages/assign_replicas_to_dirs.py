"""AssignReplicasToDirs (key 73)."""

from dataclasses import dataclass
from uuid import UUID as PyUuid

from tidelog.wire.schema import INT16, INT32, INT64, UUID, Array, f, message


@dataclass(slots=True, kw_only=True)
class PartitionData:
    partition_index: int = f(INT32)


@dataclass(slots=True, kw_only=True)
class TopicData:
    topic_id: PyUuid = f(UUID)
    partitions: list[PartitionData] = f(Array(PartitionData))


@dataclass(slots=True, kw_only=True)
class DirectoryData:
    id_: PyUuid = f(UUID)
    topics: list[TopicData] = f(Array(TopicData))


@message(api_key=73, versions="0-0", flexible="0+")
@dataclass(slots=True, kw_only=True)
class AssignReplicasToDirsRequest:
    broker_id: int = f(INT32)
    broker_epoch: int = f(INT64, default=-1)
    directories: list[DirectoryData] = f(Array(DirectoryData))


@dataclass(slots=True, kw_only=True)
class ResponsePartitionData:
    partition_index: int = f(INT32)
    error_code: int = f(INT16)


@dataclass(slots=True, kw_only=True)
class ResponseTopicData:
    topic_id: PyUuid = f(UUID)
    partitions: list[ResponsePartitionData] = f(Array(ResponsePartitionData))


@dataclass(slots=True, kw_only=True)
class ResponseDirectoryData:
    id_: PyUuid = f(UUID)
    topics: list[ResponseTopicData] = f(Array(ResponseTopicData))


@message(api_key=73, versions="0-0", flexible="0+")
@dataclass(slots=True, kw_only=True)
class AssignReplicasToDirsResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    directories: list[ResponseDirectoryData] = f(Array(ResponseDirectoryData))
