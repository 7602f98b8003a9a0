"""CreateTopics (key 19)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Array, f, message, struct


@struct
class CreatableReplicaAssignment:
    partition_index: int = f(INT32)
    broker_ids: list[int] = f(Array(INT32))


@struct
class CreatableTopicConfig:
    name: str = f(STRING)
    value: str | None = f(STRING, nullable="2+")


@struct
class CreatableTopic:
    name: str = f(STRING)
    num_partitions: int = f(INT32)
    replication_factor: int = f(INT16)
    assignments: list[CreatableReplicaAssignment] = f(Array(CreatableReplicaAssignment))
    configs: list[CreatableTopicConfig] = f(Array(CreatableTopicConfig))


@message(api_key=19, versions="2-7", flexible="5+")
@struct
class CreateTopicsRequest:
    topics: list[CreatableTopic] = f(Array(CreatableTopic))
    timeout_ms: int = f(INT32, default=60000)
    validate_only: bool = f(BOOL)


@struct
class CreatableTopicConfigs:
    name: str = f(STRING, "5+")
    value: str | None = f(STRING, "5+", nullable="5+")
    read_only: bool = f(BOOL, "5+")
    config_source: int = f(INT8, "5+", default=-1)
    is_sensitive: bool = f(BOOL, "5+")


@struct
class CreatableTopicResult:
    name: str = f(STRING)
    topic_id: PyUuid = f(UUID, "7+")
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="2+")
    topic_config_error_code: int = f(INT16, "5+", tag=0)
    num_partitions: int = f(INT32, "5+", default=-1)
    replication_factor: int = f(INT16, "5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = f(Array(CreatableTopicConfigs), "5+", nullable="5+")


@message(api_key=19, versions="2-7", flexible="5+")
@struct
class CreateTopicsResponse:
    throttle_time_ms: int = f(INT32)
    topics: list[CreatableTopicResult] = f(Array(CreatableTopicResult))
