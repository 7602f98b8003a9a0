"""LeaveGroup (key 13)."""

from tidelog.wire.schema import INT16, INT32, STRING, Array, f, message, struct


@struct
class MemberIdentity:
    member_id: str = f(STRING, "3+")
    group_instance_id: str | None = f(STRING, "3+", nullable="3+", default=None)
    reason: str | None = f(STRING, "5+", nullable="5+", default=None)


@message(api_key=13, versions="0-5", flexible="4+")
@struct
class LeaveGroupRequest:
    group_id: str = f(STRING)
    member_id: str = f(STRING, "0-2")
    members: list[MemberIdentity] = f(Array(MemberIdentity), "3+")


@struct
class MemberResponse:
    member_id: str = f(STRING, "3+")
    group_instance_id: str | None = f(STRING, "3+", nullable="3+")
    error_code: int = f(INT16, "3+")


@message(api_key=13, versions="0-5", flexible="4+")
@struct
class LeaveGroupResponse:
    throttle_time_ms: int = f(INT32, "1+")
    error_code: int = f(INT16)
    members: list[MemberResponse] = f(Array(MemberResponse), "3+")
