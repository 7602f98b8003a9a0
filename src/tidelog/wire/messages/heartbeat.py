"""Heartbeat (key 12)."""

from tidelog.wire.schema import INT16, INT32, STRING, f, message, struct


@message(api_key=12, versions="0-4", flexible="4+")
@struct
class HeartbeatRequest:
    group_id: str = f(STRING)
    generation_id: int = f(INT32)
    member_id: str = f(STRING)
    group_instance_id: str | None = f(STRING, "3+", nullable="3+", default=None)


@message(api_key=12, versions="0-4", flexible="4+")
@struct
class HeartbeatResponse:
    throttle_time_ms: int = f(INT32, "1+")
    error_code: int = f(INT16)
