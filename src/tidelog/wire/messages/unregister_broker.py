"""UnregisterBroker (key 64)."""

from dataclasses import dataclass

from tidelog.wire.schema import INT16, INT32, STRING, f, message


@message(api_key=64, versions="0-0", flexible="0+")
@dataclass(slots=True, kw_only=True)
class UnregisterBrokerRequest:
    broker_id: int = f(INT32)


@message(api_key=64, versions="0-0", flexible="0+")
@dataclass(slots=True, kw_only=True)
class UnregisterBrokerResponse:
    throttle_time_ms: int = f(INT32)
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+")
