"""ConsumerGroupHeartbeat (key 68)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import INT16, INT32, STRING, UUID, Array, Struct, f, message, struct


@struct
class TopicPartitions:
    topic_id: PyUuid = f(UUID)
    partitions: list[int] = f(Array(INT32))


@message(api_key=68, versions="0-1", flexible="0+")
@struct
class ConsumerGroupHeartbeatRequest:
    group_id: str = f(STRING)
    member_id: str = f(STRING)
    member_epoch: int = f(INT32)
    instance_id: str | None = f(STRING, nullable="0+", default=None)
    rack_id: str | None = f(STRING, nullable="0+", default=None)
    rebalance_timeout_ms: int = f(INT32, default=-1)
    subscribed_topic_names: list[str] | None = f(Array(STRING), nullable="0+", default=None)
    subscribed_topic_regex: str | None = f(STRING, "1+", nullable="1+", default=None)
    server_assignor: str | None = f(STRING, nullable="0+", default=None)
    topic_partitions: list[TopicPartitions] | None = f(Array(TopicPartitions), nullable="0+")


@struct
class ResponseTopicPartitions:
    topic_id: PyUuid = f(UUID)
    partitions: list[int] = f(Array(INT32))


@struct
class Assignment:
    topic_partitions: list[ResponseTopicPartitions] = f(Array(ResponseTopicPartitions))


@message(api_key=68, versions="0-1", flexible="0+")
@struct
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+", default=None)
    member_id: str | None = f(STRING, nullable="0+", default=None)
    member_epoch: int = f(INT32)
    heartbeat_interval_ms: int = f(INT32)
    assignment: Assignment | None = f(Struct(Assignment), nullable="0+", default=None)
