"""ListConfigResources (key 74)."""

from tidelog.wire.schema import INT8, INT16, INT32, STRING, Array, f, message, struct


@message(api_key=74, versions="0-1", flexible="0+")
@struct
class ListConfigResourcesRequest:
    resource_types: list[int] = f(Array(INT8), "1+")


@struct
class ConfigResource:
    resource_name: str = f(STRING)
    resource_type: int = f(INT8, "1+", default=16)


@message(api_key=74, versions="0-1", flexible="0+")
@struct
class ListConfigResourcesResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    config_resources: list[ConfigResource] = f(Array(ConfigResource))
