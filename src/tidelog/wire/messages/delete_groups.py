"""DeleteGroups (key 42)."""

from tidelog.wire.schema import INT16, INT32, STRING, Array, f, message, struct


@message(api_key=42, versions="0-2", flexible="2+")
@struct
class DeleteGroupsRequest:
    groups_names: list[str] = f(Array(STRING))


@struct
class DeletableGroupResult:
    group_id: str = f(STRING)
    error_code: int = f(INT16)


@message(api_key=42, versions="0-2", flexible="2+")
@struct
class DeleteGroupsResponse:
    throttle_time_ms: int = f(INT32)
    results: list[DeletableGroupResult] = f(Array(DeletableGroupResult))
