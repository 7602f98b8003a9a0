"""SaslAuthenticate (key 36)."""

from tidelog.wire.schema import BYTES, INT16, INT64, STRING, f, message, struct


@message(api_key=36, versions="0-2", flexible="2+")
@struct
class SaslAuthenticateRequest:
    auth_bytes: bytes = f(BYTES)


@message(api_key=36, versions="0-2", flexible="2+")
@struct
class SaslAuthenticateResponse:
    error_code: int = f(INT16)
    error_message: str | None = f(STRING, nullable="0+")
    auth_bytes: bytes = f(BYTES)
    session_lifetime_ms: int = f(INT64, "1+")
