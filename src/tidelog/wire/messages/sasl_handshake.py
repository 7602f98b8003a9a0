"""SaslHandshake (key 17)."""

from tidelog.wire.schema import INT16, STRING, Array, f, message, struct


@message(api_key=17, versions="0-1", flexible="none")
@struct
class SaslHandshakeRequest:
    mechanism: str = f(STRING)


@message(api_key=17, versions="0-1", flexible="none")
@struct
class SaslHandshakeResponse:
    error_code: int = f(INT16)
    mechanisms: list[str] = f(Array(STRING))
