"""DeleteGroups (key 42)."""

from dataclasses import dataclass

from tidelog.wire.schema import INT16, INT32, STRING, Array, f, message


@message(api_key=42, versions="0-2", flexible="2+")
@dataclass(slots=True, kw_only=True)
class DeleteGroupsRequest:
    groups_names: list[str] = f(Array(STRING))


@dataclass(slots=True, kw_only=True)
class DeletableGroupResult:
    group_id: str = f(STRING)
    error_code: int = f(INT16)


@message(api_key=42, versions="0-2", flexible="2+")
@dataclass(slots=True, kw_only=True)
class DeleteGroupsResponse:
    throttle_time_ms: int = f(INT32)
    results: list[DeletableGroupResult] = f(Array(DeletableGroupResult))
