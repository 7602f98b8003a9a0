"""ApiVersions (key 18)."""

from tidelog.wire.schema import BOOL, INT16, INT32, INT64, STRING, Array, f, message, struct


@message(api_key=18, versions="0-4", flexible="3+")
@struct
class ApiVersionsRequest:
    client_software_name: str = f(STRING, "3+")
    client_software_version: str = f(STRING, "3+")


@struct
class ApiVersion:
    api_key: int = f(INT16)
    min_version: int = f(INT16)
    max_version: int = f(INT16)


@struct
class SupportedFeatureKey:
    name: str = f(STRING, "3+")
    min_version: int = f(INT16, "3+")
    max_version: int = f(INT16, "3+")


@struct
class FinalizedFeatureKey:
    name: str = f(STRING, "3+")
    max_version_level: int = f(INT16, "3+")
    min_version_level: int = f(INT16, "3+")


@message(api_key=18, versions="0-4", flexible="3+")
@struct
class ApiVersionsResponse:
    error_code: int = f(INT16)
    api_keys: list[ApiVersion] = f(Array(ApiVersion))
    throttle_time_ms: int = f(INT32, "1+")
    supported_features: list[SupportedFeatureKey] = f(Array(SupportedFeatureKey), "3+", tag=0)
    finalized_features_epoch: int = f(INT64, "3+", tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = f(Array(FinalizedFeatureKey), "3+", tag=2)
    zk_migration_ready: bool = f(BOOL, "3+", tag=3)
