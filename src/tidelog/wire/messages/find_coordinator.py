"""FindCoordinator (key 10)."""

from tidelog.wire.schema import INT8, INT16, INT32, STRING, Array, f, message, struct


@message(api_key=10, versions="0-6", flexible="3+")
@struct
class FindCoordinatorRequest:
    key: str = f(STRING, "0-3")
    key_type: int = f(INT8, "1+")
    coordinator_keys: list[str] = f(Array(STRING), "4+")


@struct
class Coordinator:
    key: str = f(STRING, "4+")
    node_id: int = f(INT32, "4+")
    host: str = f(STRING, "4+")
    port: int = f(INT32, "4+")
    error_code: int = f(INT16, "4+")
    error_message: str | None = f(STRING, "4+", nullable="4+")


@message(api_key=10, versions="0-6", flexible="3+")
@struct
class FindCoordinatorResponse:
    throttle_time_ms: int = f(INT32, "1+")
    error_code: int = f(INT16, "0-3")
    error_message: str | None = f(STRING, "1-3", nullable="1-3")
    node_id: int = f(INT32, "0-3")
    host: str = f(STRING, "0-3")
    port: int = f(INT32, "0-3")
    coordinators: list[Coordinator] = f(Array(Coordinator), "4+")
