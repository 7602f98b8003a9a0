"""DescribeConfigs (key 32)."""

from tidelog.wire.schema import BOOL, INT8, INT16, INT32, STRING, Array, f, message, struct


@struct
class DescribeConfigsResource:
    resource_type: int = f(INT8)
    resource_name: str = f(STRING)
    configuration_keys: list[str] | None = f(Array(STRING), nullable="1+")


@message(api_key=32, versions="1-4", flexible="4+")
@struct
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = f(Array(DescribeConfigsResource))
    include_synonyms: bool = f(BOOL)
    include_documentation: bool = f(BOOL, "3+")


@struct
class DescribeConfigsSynonym:
    name: str = f(STRING)
    value: str | None = f(STRING, nullable="1+")
    source: int = f(INT8)


@struct
class DescribeConfigsResourceResult:
    name: str = f(STRING)
    value: str | None = f(STRING, nullable="1+")
    read_only: bool = f(BOOL)
    config_source: int = f(INT8, default=-1)
    is_sensitive: bool = f(BOOL)
    synonyms: list[DescribeConfigsSynonym] = f(Array(DescribeConfigsSynonym))
    config_type: int = f(INT8, "3+")
    documentation: str | None = f(STRING, "3+", nullable="3+")


@struct
class DescribeConfigsResult:
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="1+")
    resource_type: int = f(INT8)
    resource_name: str = f(STRING)
    configs: list[DescribeConfigsResourceResult] = f(Array(DescribeConfigsResourceResult))


@message(api_key=32, versions="1-4", flexible="4+")
@struct
class DescribeConfigsResponse:
    throttle_time_ms: int = f(INT32)
    results: list[DescribeConfigsResult] = f(Array(DescribeConfigsResult))
