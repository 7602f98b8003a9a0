"""SyncGroup (key 14)."""

from tidelog.wire.schema import BYTES, INT16, INT32, STRING, Array, f, message, struct


@struct
class SyncGroupRequestAssignment:
    member_id: str = f(STRING)
    assignment: bytes = f(BYTES)


@message(api_key=14, versions="0-5", flexible="4+")
@struct
class SyncGroupRequest:
    group_id: str = f(STRING)
    generation_id: int = f(INT32)
    member_id: str = f(STRING)
    group_instance_id: str | None = f(STRING, "3+", nullable="3+", default=None)
    protocol_type: str | None = f(STRING, "5+", nullable="5+", default=None)
    protocol_name: str | None = f(STRING, "5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = f(Array(SyncGroupRequestAssignment))


@message(api_key=14, versions="0-5", flexible="4+")
@struct
class SyncGroupResponse:
    throttle_time_ms: int = f(INT32, "1+")
    error_code: int = f(INT16)
    protocol_type: str | None = f(STRING, "5+", nullable="5+", default=None)
    protocol_name: str | None = f(STRING, "5+", nullable="5+", default=None)
    assignment: bytes = f(BYTES)
