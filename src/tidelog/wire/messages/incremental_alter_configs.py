"""IncrementalAlterConfigs (key 44)."""

from dataclasses import dataclass

from tidelog.wire.schema import BOOL, INT8, INT16, INT32, STRING, Array, f, message


@dataclass(slots=True, kw_only=True)
class AlterableConfig:
    name: str = f(STRING)
    config_operation: int = f(INT8)
    value: str | None = f(STRING, nullable="0+")


@dataclass(slots=True, kw_only=True)
class AlterConfigsResource:
    resource_type: int = f(INT8)
    resource_name: str = f(STRING)
    configs: list[AlterableConfig] = f(Array(AlterableConfig))


@message(api_key=44, versions="0-1", flexible="1+")
@dataclass(slots=True, kw_only=True)
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = f(Array(AlterConfigsResource))
    validate_only: bool = f(BOOL)


@dataclass(slots=True, kw_only=True)
class AlterConfigsResourceResponse:
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+")
    resource_type: int = f(INT8)
    resource_name: str = f(STRING)


@message(api_key=44, versions="0-1", flexible="1+")
@dataclass(slots=True, kw_only=True)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = f(INT32)
    responses: list[AlterConfigsResourceResponse] = f(Array(AlterConfigsResourceResponse))
