"""ListGroups (key 16)."""

from tidelog.wire.schema import INT16, INT32, STRING, Array, f, message, struct


@message(api_key=16, versions="0-5", flexible="3+")
@struct
class ListGroupsRequest:
    states_filter: list[str] = f(Array(STRING), "4+")
    types_filter: list[str] = f(Array(STRING), "5+")


@struct
class ListedGroup:
    group_id: str = f(STRING)
    protocol_type: str = f(STRING)
    group_state: str = f(STRING, "4+")
    group_type: str = f(STRING, "5+")


@message(api_key=16, versions="0-5", flexible="3+")
@struct
class ListGroupsResponse:
    throttle_time_ms: int = f(INT32, "1+")
    error_code: int = f(INT16)
    groups: list[ListedGroup] = f(Array(ListedGroup))
