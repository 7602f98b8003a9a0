"""AlterPartition (key 56)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import INT8, INT16, INT32, INT64, UUID, Array, f, message, struct


@struct
class BrokerState:
    broker_id: int = f(INT32, "3+")
    broker_epoch: int = f(INT64, "3+", default=-1)


@struct
class PartitionData:
    partition_index: int = f(INT32)
    leader_epoch: int = f(INT32)
    new_isr: list[int] = f(Array(INT32), "2")
    new_isr_with_epochs: list[BrokerState] = f(Array(BrokerState), "3+")
    leader_recovery_state: int = f(INT8)
    partition_epoch: int = f(INT32)


@struct
class TopicData:
    topic_id: PyUuid = f(UUID)
    partitions: list[PartitionData] = f(Array(PartitionData))


@message(api_key=56, versions="2-3", flexible="2+")
@struct
class AlterPartitionRequest:
    broker_id: int = f(INT32)
    broker_epoch: int = f(INT64, default=-1)
    topics: list[TopicData] = f(Array(TopicData))


@struct
class ResponsePartitionData:
    partition_index: int = f(INT32)
    error_code: int = f(INT16)
    leader_id: int = f(INT32)
    leader_epoch: int = f(INT32)
    isr: list[int] = f(Array(INT32))
    leader_recovery_state: int = f(INT8)
    partition_epoch: int = f(INT32)


@struct
class ResponseTopicData:
    topic_id: PyUuid = f(UUID)
    partitions: list[ResponsePartitionData] = f(Array(ResponsePartitionData))


@message(api_key=56, versions="2-3", flexible="2+")
@struct
class AlterPartitionResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    topics: list[ResponseTopicData] = f(Array(ResponseTopicData))
