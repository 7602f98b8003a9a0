"""CreatePartitions (key 37)."""

from dataclasses import dataclass

from tidelog.wire.schema import BOOL, INT16, INT32, STRING, Array, f, message


@dataclass(slots=True, kw_only=True)
class CreatePartitionsAssignment:
    broker_ids: list[int] = f(Array(INT32))


@dataclass(slots=True, kw_only=True)
class CreatePartitionsTopic:
    name: str = f(STRING)
    count: int = f(INT32)
    assignments: list[CreatePartitionsAssignment] | None = f(Array(CreatePartitionsAssignment), nullable="0+")


@message(api_key=37, versions="0-3", flexible="2+")
@dataclass(slots=True, kw_only=True)
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = f(Array(CreatePartitionsTopic))
    timeout_ms: int = f(INT32)
    validate_only: bool = f(BOOL)


@dataclass(slots=True, kw_only=True)
class CreatePartitionsTopicResult:
    name: str = f(STRING)
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+", default=None)


@message(api_key=37, versions="0-3", flexible="2+")
@dataclass(slots=True, kw_only=True)
class CreatePartitionsResponse:
    throttle_time_ms: int = f(INT32)
    results: list[CreatePartitionsTopicResult] = f(Array(CreatePartitionsTopicResult))
