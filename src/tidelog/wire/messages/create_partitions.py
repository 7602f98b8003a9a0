"""CreatePartitions (key 37)."""

from tidelog.wire.schema import BOOL, INT16, INT32, STRING, Array, f, message, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: list[int] = f(Array(INT32))


@struct
class CreatePartitionsTopic:
    name: str = f(STRING)
    count: int = f(INT32)
    assignments: list[CreatePartitionsAssignment] | None = f(Array(CreatePartitionsAssignment), nullable="0+")


@message(api_key=37, versions="0-3", flexible="2+")
@struct
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = f(Array(CreatePartitionsTopic))
    timeout_ms: int = f(INT32)
    validate_only: bool = f(BOOL)


@struct
class CreatePartitionsTopicResult:
    name: str = f(STRING)
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+", default=None)


@message(api_key=37, versions="0-3", flexible="2+")
@struct
class CreatePartitionsResponse:
    throttle_time_ms: int = f(INT32)
    results: list[CreatePartitionsTopicResult] = f(Array(CreatePartitionsTopicResult))
