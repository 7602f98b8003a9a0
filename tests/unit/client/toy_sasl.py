"""The server's side of SASL, for a toy broker: checks what a client shows, with hashes of its own."""

import base64
import hashlib
import hmac
from typing import Any

from tests.unit.client.toy_broker import ToyBroker

from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

SALT = b"a little salt"
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class ToySasl:
    """One user. `knows_password` False: a server that has everything but what proves that it is one."""

    def __init__(
        self,
        broker: ToyBroker,
        username: str,
        password: str,
        *,
        mechanisms: tuple[str, ...] = ("PLAIN", *HASHES),
        lifetime_ms: int = 0,
        iterations: int = 4096,
        knows_password: bool = True,
    ) -> None:
        self._username, self._password = username, password
        self._mechanisms = mechanisms
        self._lifetime_ms = lifetime_ms
        self._iterations = iterations
        self._knows_password = knows_password
        self._mechanism = ""
        self._said: list[str] = []
        self.authenticated = 0
        broker.on(SaslHandshakeRequest, self._handshake)
        broker.on(SaslAuthenticateRequest, self._authenticate)

    def _handshake(self, request: Any, version: int) -> SaslHandshakeResponse:
        self._mechanism, self._said = request.mechanism, []
        known = request.mechanism in self._mechanisms
        code = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return SaslHandshakeResponse(error_code=code, mechanisms=list(self._mechanisms))

    def _authenticate(self, request: Any, version: int) -> SaslAuthenticateResponse:
        message = bytes(request.auth_bytes).decode()
        if self._mechanism == "PLAIN":
            return self._end(message == f"\0{self._username}\0{self._password}", b"")
        if not self._said:
            bare = message.removeprefix("n,,")
            nonce = bare.partition(",r=")[2]
            salt = base64.b64encode(SALT).decode()
            self._said = [bare, f"r={nonce}theirs,s={salt},i={self._iterations}"]
            return SaslAuthenticateResponse(auth_bytes=self._said[1].encode())
        without_proof, _, proof = message.rpartition(",p=")
        signed = ",".join([*self._said, without_proof]).encode()
        kind = HASHES[self._mechanism]
        salted = hashlib.pbkdf2_hmac(kind, self._password.encode(), SALT, self._iterations)
        stored = hashlib.new(kind, hmac.digest(salted, b"Client Key", kind)).digest()
        signature = hmac.digest(stored, signed, kind)
        shown = bytes(one ^ other for one, other in zip(base64.b64decode(proof), signature, strict=True))
        right = hashlib.new(kind, shown).digest() == stored
        server_key = hmac.digest(salted, b"Server Key", kind) if self._knows_password else b"guessed"
        verifier = base64.b64encode(hmac.digest(server_key, signed, kind)).decode()
        return self._end(right, f"v={verifier}".encode())

    def _end(self, right: bool, token: bytes) -> SaslAuthenticateResponse:
        if not right:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="Authentication failed"
            )
        self.authenticated += 1
        return SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=self._lifetime_ms)
