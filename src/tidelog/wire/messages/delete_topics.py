"""DeleteTopics (key 20)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import INT16, INT32, STRING, UUID, Array, f, message, struct


@struct
class DeleteTopicState:
    name: str | None = f(STRING, "6+", nullable="6+", default=None)
    topic_id: PyUuid = f(UUID, "6+")


@message(api_key=20, versions="1-6", flexible="4+")
@struct
class DeleteTopicsRequest:
    topic_names: list[str] = f(Array(STRING), "1-5")
    topics: list[DeleteTopicState] = f(Array(DeleteTopicState), "6+")
    timeout_ms: int = f(INT32)


@struct
class DeletableTopicResult:
    name: str | None = f(STRING, nullable="6+")
    topic_id: PyUuid = f(UUID, "6+")
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, "5+", nullable="5+", default=None)


@message(api_key=20, versions="1-6", flexible="4+")
@struct
class DeleteTopicsResponse:
    throttle_time_ms: int = f(INT32)
    responses: list[DeletableTopicResult] = f(Array(DeletableTopicResult))
