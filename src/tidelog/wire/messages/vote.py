"""Vote (key 52)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import BOOL, INT16, INT32, INT64, STRING, UINT16, UUID, Array, f, message, struct


@struct
class PartitionData:
    partition_index: int = f(INT32)
    replica_epoch: int = f(INT32)
    replica_id: int = f(INT32)
    replica_directory_id: PyUuid = f(UUID, "1+")
    voter_directory_id: PyUuid = f(UUID, "1+")
    last_offset_epoch: int = f(INT32)
    last_offset: int = f(INT64)
    pre_vote: bool = f(BOOL, "2+")


@struct
class TopicData:
    topic_name: str = f(STRING)
    partitions: list[PartitionData] = f(Array(PartitionData))


@message(api_key=52, versions="0-2", flexible="0+")
@struct
class VoteRequest:
    cluster_id: str | None = f(STRING, nullable="0+", default=None)
    voter_id: int = f(INT32, "1+", default=-1)
    topics: list[TopicData] = f(Array(TopicData))


@struct
class ResponsePartitionData:
    partition_index: int = f(INT32)
    error_code: int = f(INT16)
    leader_id: int = f(INT32)
    leader_epoch: int = f(INT32)
    vote_granted: bool = f(BOOL)


@struct
class ResponseTopicData:
    topic_name: str = f(STRING)
    partitions: list[ResponsePartitionData] = f(Array(ResponsePartitionData))


@struct
class NodeEndpoint:
    node_id: int = f(INT32, "1+")
    host: str = f(STRING, "1+")
    port: int = f(UINT16, "1+")


@message(api_key=52, versions="0-2", flexible="0+")
@struct
class VoteResponse:
    error_code: int = f(INT16)
    topics: list[ResponseTopicData] = f(Array(ResponseTopicData))
    node_endpoints: list[NodeEndpoint] = f(Array(NodeEndpoint), "1+", tag=0)
