"""DescribeQuorum (key 55)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import INT16, INT32, INT64, STRING, UINT16, UUID, Array, f, message, struct


@struct
class PartitionData:
    partition_index: int = f(INT32)


@struct
class TopicData:
    topic_name: str = f(STRING)
    partitions: list[PartitionData] = f(Array(PartitionData))


@message(api_key=55, versions="0-2", flexible="0+")
@struct
class DescribeQuorumRequest:
    topics: list[TopicData] = f(Array(TopicData))


@struct
class ReplicaState:
    replica_id: int = f(INT32)
    replica_directory_id: PyUuid = f(UUID, "2+")
    log_end_offset: int = f(INT64)
    last_fetch_timestamp: int = f(INT64, "1+", default=-1)
    last_caught_up_timestamp: int = f(INT64, "1+", default=-1)


@struct
class ResponsePartitionData:
    partition_index: int = f(INT32)
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, "2+", nullable="2+")
    leader_id: int = f(INT32)
    leader_epoch: int = f(INT32)
    high_watermark: int = f(INT64)
    current_voters: list[ReplicaState] = f(Array(ReplicaState))
    observers: list[ReplicaState] = f(Array(ReplicaState))


@struct
class ResponseTopicData:
    topic_name: str = f(STRING)
    partitions: list[ResponsePartitionData] = f(Array(ResponsePartitionData))


@struct
class Listener:
    name: str = f(STRING, "2+")
    host: str = f(STRING, "2+")
    port: int = f(UINT16, "2+")


@struct
class Node:
    node_id: int = f(INT32, "2+")
    listeners: list[Listener] = f(Array(Listener), "2+")


@message(api_key=55, versions="0-2", flexible="0+")
@struct
class DescribeQuorumResponse:
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, "2+", nullable="2+")
    topics: list[ResponseTopicData] = f(Array(ResponseTopicData))
    nodes: list[Node] = f(Array(Node), "2+")
