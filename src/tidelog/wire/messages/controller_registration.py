"""ControllerRegistration (key 70)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import BOOL, INT16, INT32, STRING, UINT16, UUID, Array, f, message, struct


@struct
class Listener:
    name: str = f(STRING)
    host: str = f(STRING)
    port: int = f(UINT16)
    security_protocol: int = f(INT16)


@struct
class Feature:
    name: str = f(STRING)
    min_supported_version: int = f(INT16)
    max_supported_version: int = f(INT16)


@message(api_key=70, versions="0-0", flexible="0+")
@struct
class ControllerRegistrationRequest:
    controller_id: int = f(INT32)
    incarnation_id: PyUuid = f(UUID)
    zk_migration_ready: bool = f(BOOL)
    listeners: list[Listener] = f(Array(Listener))
    features: list[Feature] = f(Array(Feature))


@message(api_key=70, versions="0-0", flexible="0+")
@struct
class ControllerRegistrationResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+")
