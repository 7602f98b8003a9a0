"""BrokerRegistration (key 62)."""

from uuid import UUID as PyUuid

from tidelog.wire.schema import BOOL, INT16, INT32, INT64, STRING, UINT16, UUID, Array, f, message, struct


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


@message(api_key=62, versions="0-4", flexible="0+")
@struct
class BrokerRegistrationRequest:
    broker_id: int = f(INT32)
    cluster_id: str = f(STRING)
    incarnation_id: PyUuid = f(UUID)
    listeners: list[Listener] = f(Array(Listener))
    features: list[Feature] = f(Array(Feature))
    rack: str | None = f(STRING, nullable="0+")
    is_migrating_zk_broker: bool = f(BOOL, "1+")
    log_dirs: list[PyUuid] = f(Array(UUID), "2+")
    previous_broker_epoch: int = f(INT64, "3+", default=-1)


@message(api_key=62, versions="0-4", flexible="0+")
@struct
class BrokerRegistrationResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    broker_epoch: int = f(INT64, default=-1)
