"""Authentication on a connection that was just made (SaslHandshake v1, then SaslAuthenticate)."""

import secrets
from typing import TYPE_CHECKING

from tidelog.client.errors import AuthenticationFailed
from tidelog.client.scram import ScramError, ScramExchange
from tidelog.client.security import PLAIN, Credentials
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from tidelog.client.connection import Connection

# The first whose bytes go in requests; with v0 they would stand bare on the wire.
_HANDSHAKE_VERSION = 1
_NONCE_BYTES = 24


async def authenticate(connection: "Connection", credentials: Credentials) -> int:
    """How long the broker takes it for good, in ms; 0 for ever. AuthenticationFailed tells no secret."""
    mechanism = credentials.mechanism
    request = SaslHandshakeRequest(mechanism=mechanism)
    offered = await connection.request(request, SaslHandshakeResponse, version=_HANDSHAKE_VERSION)
    if offered.error_code != ErrorCode.NONE:
        known = ", ".join(offered.mechanisms) or "none"
        raise AuthenticationFailed(f"{connection.address} does not support {mechanism}; it supports {known}")
    if mechanism == PLAIN:
        answer = await _send(connection, f"\0{credentials.username}\0{credentials.password}".encode())
        return answer.session_lifetime_ms
    nonce = secrets.token_urlsafe(_NONCE_BYTES)
    exchange = ScramExchange(mechanism, credentials.username, credentials.password, nonce)
    try:
        first = await _send(connection, exchange.first())
        final = await _send(connection, exchange.final(bytes(first.auth_bytes)))
        exchange.verify(bytes(final.auth_bytes))
    except ScramError as error:
        raise AuthenticationFailed(f"{connection.address}: {error}") from None
    return final.session_lifetime_ms


async def _send(connection: "Connection", token: bytes) -> SaslAuthenticateResponse:
    answer = await connection.request(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse)
    if answer.error_code != ErrorCode.NONE:
        # Java's brokers say no more than that, in a sentence for Java's readers.
        why = answer.error_message or "the user name or the password is wrong"
        raise AuthenticationFailed(f"{connection.address} refused authentication: {why}")
    return answer
