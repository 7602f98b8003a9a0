"""SaslHandshake (key 17)."""

from dataclasses import dataclass

from tidelog.wire.schema import INT16, STRING, Array, f, message


@message(api_key=17, versions="0-1", flexible="none")
@dataclass(slots=True, kw_only=True)
class SaslHandshakeRequest:
    mechanism: str = f(STRING)


@message(api_key=17, versions="0-1", flexible="none")
@dataclass(slots=True, kw_only=True)
class SaslHandshakeResponse:
    error_code: int = f(INT16)
    mechanisms: list[str] = f(Array(STRING))
