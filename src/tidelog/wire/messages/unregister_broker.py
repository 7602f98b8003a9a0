"""UnregisterBroker (key 64)."""

from tidelog.wire.schema import INT16, INT32, STRING, f, message, struct


@message(api_key=64, versions="0-0", flexible="0+")
@struct
class UnregisterBrokerRequest:
    broker_id: int = f(INT32)


@message(api_key=64, versions="0-0", flexible="0+")
@struct
class UnregisterBrokerResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+")
