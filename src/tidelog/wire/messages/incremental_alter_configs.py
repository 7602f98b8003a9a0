"""IncrementalAlterConfigs (key 44)."""

from tidelog.wire.schema import BOOL, INT8, INT16, INT32, STRING, Array, f, message, struct


@struct
class AlterableConfig:
    name: str = f(STRING)
    config_operation: int = f(INT8)
    value: str | None = f(STRING, nullable="0+")


@struct
class AlterConfigsResource:
    resource_type: int = f(INT8)
    resource_name: str = f(STRING)
    configs: list[AlterableConfig] = f(Array(AlterableConfig))


@message(api_key=44, versions="0-1", flexible="1+")
@struct
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = f(Array(AlterConfigsResource))
    validate_only: bool = f(BOOL)


@struct
class AlterConfigsResourceResponse:
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+")
    resource_type: int = f(INT8)
    resource_name: str = f(STRING)


@message(api_key=44, versions="0-1", flexible="1+")
@struct
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = f(INT32)
    responses: list[AlterConfigsResourceResponse] = f(Array(AlterConfigsResourceResponse))
