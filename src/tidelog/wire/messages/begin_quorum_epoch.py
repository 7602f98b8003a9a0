"""BeginQuorumEpoch (key 53)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import INT16, INT32, STRING, UINT16, UUID, Array, f, message, struct


@struct
class PartitionData:
    partition_index: int = f(INT32)
    voter_directory_id: PyUuid = f(UUID, "1+")
    leader_id: int = f(INT32)
    leader_epoch: int = f(INT32)


@struct
class TopicData:
    topic_name: str = f(STRING)
    partitions: list[PartitionData] = f(Array(PartitionData))


@struct
class LeaderEndpoint:
    name: str = f(STRING, "1+")
    host: str = f(STRING, "1+")
    port: int = f(UINT16, "1+")


@message(api_key=53, versions="0-1", flexible="1+")
@struct
class BeginQuorumEpochRequest:
    cluster_id: str | None = f(STRING, nullable="0+", default=None)
    voter_id: int = f(INT32, "1+", default=-1)
    topics: list[TopicData] = f(Array(TopicData))
    leader_endpoints: list[LeaderEndpoint] = f(Array(LeaderEndpoint), "1+")


@struct
class ResponsePartitionData:
    partition_index: int = f(INT32)
    error_code: int = f(INT16)
    leader_id: int = f(INT32)
    leader_epoch: int = f(INT32)


@struct
class ResponseTopicData:
    topic_name: str = f(STRING)
    partitions: list[ResponsePartitionData] = f(Array(ResponsePartitionData))


@struct
class NodeEndpoint:
    node_id: int = f(INT32, "1+")
    host: str = f(STRING, "1+")
    port: int = f(UINT16, "1+")


@message(api_key=53, versions="0-1", flexible="1+")
@struct
class BeginQuorumEpochResponse:
    error_code: int = f(INT16)
    topics: list[ResponseTopicData] = f(Array(ResponseTopicData))
    node_endpoints: list[NodeEndpoint] = f(Array(NodeEndpoint), "1+", tag=0)
