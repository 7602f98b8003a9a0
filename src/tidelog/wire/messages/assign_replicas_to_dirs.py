"""AssignReplicasToDirs (key 73)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import INT16, INT32, INT64, UUID, Array, f, message, struct


@struct
class PartitionData:
    partition_index: int = f(INT32)


@struct
class TopicData:
    topic_id: PyUuid = f(UUID)
    partitions: list[PartitionData] = f(Array(PartitionData))


@struct
class DirectoryData:
    id_: PyUuid = f(UUID)
    topics: list[TopicData] = f(Array(TopicData))


@message(api_key=73, versions="0-0", flexible="0+")
@struct
class AssignReplicasToDirsRequest:
    broker_id: int = f(INT32)
    broker_epoch: int = f(INT64, default=-1)
    directories: list[DirectoryData] = f(Array(DirectoryData))


@struct
class ResponsePartitionData:
    partition_index: int = f(INT32)
    error_code: int = f(INT16)


@struct
class ResponseTopicData:
    topic_id: PyUuid = f(UUID)
    partitions: list[ResponsePartitionData] = f(Array(ResponsePartitionData))


@struct
class ResponseDirectoryData:
    id_: PyUuid = f(UUID)
    topics: list[ResponseTopicData] = f(Array(ResponseTopicData))


@message(api_key=73, versions="0-0", flexible="0+")
@struct
class AssignReplicasToDirsResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    directories: list[ResponseDirectoryData] = f(Array(ResponseDirectoryData))
