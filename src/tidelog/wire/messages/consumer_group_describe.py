"""ConsumerGroupDescribe (key 69)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Array, Struct, f, message, struct


@message(api_key=69, versions="0-1", flexible="0+")
@struct
class ConsumerGroupDescribeRequest:
    group_ids: list[str] = f(Array(STRING))
    include_authorized_operations: bool = f(BOOL)


@struct
class TopicPartitions:
    topic_id: PyUuid = f(UUID)
    topic_name: str = f(STRING)
    partitions: list[int] = f(Array(INT32))


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = f(Array(TopicPartitions))


@struct
class Member:
    member_id: str = f(STRING)
    instance_id: str | None = f(STRING, nullable="0+", default=None)
    rack_id: str | None = f(STRING, nullable="0+", default=None)
    member_epoch: int = f(INT32)
    client_id: str = f(STRING)
    client_host: str = f(STRING)
    subscribed_topic_names: list[str] = f(Array(STRING))
    subscribed_topic_regex: str | None = f(STRING, nullable="0+", default=None)
    assignment: Assignment = f(Struct(Assignment))
    target_assignment: Assignment = f(Struct(Assignment))
    member_type: int = f(INT8, "1+", default=-1)


@struct
class DescribedGroup:
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+", default=None)
    group_id: str = f(STRING)
    group_state: str = f(STRING)
    group_epoch: int = f(INT32)
    assignment_epoch: int = f(INT32)
    assignor_name: str = f(STRING)
    members: list[Member] = f(Array(Member))
    authorized_operations: int = f(INT32, default=-2147483648)


@message(api_key=69, versions="0-1", flexible="0+")
@struct
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int = f(INT32)
    groups: list[DescribedGroup] = f(Array(DescribedGroup))
