"""Envelope (key 58)."""

from dataclasses import dataclass

from tidelog.wire.schema import BYTES, INT16, f, message


@message(api_key=58, versions="0-0", flexible="0+")
@dataclass(slots=True, kw_only=True)
class EnvelopeRequest:
    request_data: bytes = f(BYTES)
    request_principal: bytes | None = f(BYTES, nullable="0+")
    client_host_address: bytes = f(BYTES)


@message(api_key=58, versions="0-0", flexible="0+")
@dataclass(slots=True, kw_only=True)
class EnvelopeResponse:
    response_data: bytes | None = f(BYTES, nullable="0+", default=None)
    error_code: int = f(INT16)
