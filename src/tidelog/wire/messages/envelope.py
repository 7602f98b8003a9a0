"""Envelope (key 58)."""

from tidelog.wire.schema import BYTES, INT16, f, message, struct


@message(api_key=58, versions="0-0", flexible="0+")
@struct
class EnvelopeRequest:
    request_data: bytes = f(BYTES)
    request_principal: bytes | None = f(BYTES, nullable="0+")
    client_host_address: bytes = f(BYTES)


@message(api_key=58, versions="0-0", flexible="0+")
@struct
class EnvelopeResponse:
    response_data: bytes | None = f(BYTES, nullable="0+", default=None)
    error_code: int = f(INT16)
