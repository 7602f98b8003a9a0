"""UpdateFeatures (key 57)."""

from tidelog.wire.schema import BOOL, INT8, INT16, INT32, STRING, Array, f, message, struct


@struct
class FeatureUpdateKey:
    feature: str = f(STRING)
    max_version_level: int = f(INT16)
    allow_downgrade: bool = f(BOOL, "0")
    upgrade_type: int = f(INT8, "1+", default=1)


@message(api_key=57, versions="0-2", flexible="0+")
@struct
class UpdateFeaturesRequest:
    timeout_ms: int = f(INT32, default=60000)
    feature_updates: list[FeatureUpdateKey] = f(Array(FeatureUpdateKey))
    validate_only: bool = f(BOOL, "1+")


@struct
class UpdatableFeatureResult:
    feature: str = f(STRING, "0-1")
    error_code: int = f(INT16, "0-1")
    error_message: str | None = f(STRING, "0-1", nullable="0-1")


@message(api_key=57, versions="0-2", flexible="0+")
@struct
class UpdateFeaturesResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+")
    results: list[UpdatableFeatureResult] = f(Array(UpdatableFeatureResult), "0-1")
