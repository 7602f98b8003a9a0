"""DescribeGroups (key 15)."""

from tidelog.wire.schema import BOOL, BYTES, INT16, INT32, STRING, Array, f, message, struct


@message(api_key=15, versions="0-6", flexible="5+")
@struct
class DescribeGroupsRequest:
    groups: list[str] = f(Array(STRING))
    include_authorized_operations: bool = f(BOOL, "3+")


@struct
class DescribedGroupMember:
    member_id: str = f(STRING)
    group_instance_id: str | None = f(STRING, "4+", nullable="4+", default=None)
    client_id: str = f(STRING)
    client_host: str = f(STRING)
    member_metadata: bytes = f(BYTES)
    member_assignment: bytes = f(BYTES)


@struct
class DescribedGroup:
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, "6+", nullable="6+", default=None)
    group_id: str = f(STRING)
    group_state: str = f(STRING)
    protocol_type: str = f(STRING)
    protocol_data: str = f(STRING)
    members: list[DescribedGroupMember] = f(Array(DescribedGroupMember))
    authorized_operations: int = f(INT32, "3+", default=-2147483648)


@message(api_key=15, versions="0-6", flexible="5+")
@struct
class DescribeGroupsResponse:
    throttle_time_ms: int = f(INT32, "1+")
    groups: list[DescribedGroup] = f(Array(DescribedGroup))
