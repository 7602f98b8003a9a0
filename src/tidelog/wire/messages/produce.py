"""Produce (key 0)."""

from uuid import UUID as PyUuid

from tidelog.wire.buffers import Buffer
from tidelog.wire.schema import INT16, INT32, INT64, RECORDS, STRING, UUID, Array, Struct, f, message, struct


@struct
class PartitionProduceData:
    index: int = f(INT32)
    records: Buffer | None = f(RECORDS, nullable="3+")


@struct
class TopicProduceData:
    name: str = f(STRING, "3-12")
    topic_id: PyUuid = f(UUID, "13+")
    partition_data: list[PartitionProduceData] = f(Array(PartitionProduceData))


@message(api_key=0, versions="3-13", flexible="9+")
@struct
class ProduceRequest:
    transactional_id: str | None = f(STRING, nullable="3+", default=None)
    acks: int = f(INT16)
    timeout_ms: int = f(INT32)
    topic_data: list[TopicProduceData] = f(Array(TopicProduceData))


@struct
class BatchIndexAndErrorMessage:
    batch_index: int = f(INT32, "8+")
    batch_index_error_message: str | None = f(STRING, "8+", nullable="8+", default=None)


@struct
class LeaderIdAndEpoch:
    leader_id: int = f(INT32, "10+", default=-1)
    leader_epoch: int = f(INT32, "10+", default=-1)


@struct
class PartitionProduceResponse:
    index: int = f(INT32)
    error_code: int = f(INT16)
    base_offset: int = f(INT64)
    log_append_time_ms: int = f(INT64, default=-1)
    log_start_offset: int = f(INT64, "5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = f(Array(BatchIndexAndErrorMessage), "8+")
    error_message: str | None = f(STRING, "8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = f(Struct(LeaderIdAndEpoch), "10+", tag=0)


@struct
class TopicProduceResponse:
    name: str = f(STRING, "3-12")
    topic_id: PyUuid = f(UUID, "13+")
    partition_responses: list[PartitionProduceResponse] = f(Array(PartitionProduceResponse))


@struct
class NodeEndpoint:
    node_id: int = f(INT32, "10+")
    host: str = f(STRING, "10+")
    port: int = f(INT32, "10+")
    rack: str | None = f(STRING, "10+", nullable="10+", default=None)


@message(api_key=0, versions="3-13", flexible="9+")
@struct
class ProduceResponse:
    responses: list[TopicProduceResponse] = f(Array(TopicProduceResponse))
    throttle_time_ms: int = f(INT32)
    node_endpoints: list[NodeEndpoint] = f(Array(NodeEndpoint), "10+", tag=0)
