"""SCRAM, the client's side (RFC 5802, RFC 7677): both ends prove that they know a password, and neither sends it.

Without channel binding, and with names and passwords as the UTF-8 they are, as Kafka has it. Pure: the nonce is handed
in.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final

HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
# Kafka's clients refuse fewer: a server that asks for few would make the password easy to guess from the proof.
LEAST_ITERATIONS: Final = 4096
# A second or two of work. A server must not be able to keep a client busy for hours.
MOST_ITERATIONS: Final = 2**22

_NO_CHANNEL_BINDING: Final = "n,,"


class ScramError(Exception):
    """The server does not keep to the exchange, refuses us, or does not know the password itself."""


class ScramExchange:
    """Three messages: `first`, `final` from the server's first, and `verify` the server's final one."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        self._first_bare = f"n={_escaped(username)},r={nonce}"
        self._server_signature = b""

    def first(self) -> bytes:
        return f"{_NO_CHANNEL_BINDING}{self._first_bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        attributes = _attributes(server_first)
        nonce = attributes.get("r", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramError("the server's nonce does not continue ours")
        salt = _decoded(attributes.get("s", ""), "salt")
        iterations = _iterations(attributes.get("i", ""))
        binding = base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()
        without_proof = f"c={binding},r={nonce}"
        signed = ",".join((self._first_bare, server_first.decode(), without_proof)).encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        client_signature = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        proof = bytes(one ^ other for one, other in zip(client_key, client_signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, server_final: bytes) -> None:
        attributes = _attributes(server_final)
        if "e" in attributes:
            raise ScramError(f"the server returned the error {attributes['e']!r}")
        if not hmac.compare_digest(_decoded(attributes.get("v", ""), "signature"), self._server_signature):
            raise ScramError("the server failed to prove that it knows the password")

    def _hmac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self._hash)


def _escaped(username: str) -> str:
    return username.replace("=", "=3D").replace(",", "=2C")


def _attributes(message: bytes) -> dict[str, str]:
    try:
        text = message.decode()
    except UnicodeDecodeError as error:
        raise ScramError("the server's message is not UTF-8 text") from error
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or len(name) != 1 or name in found:
            raise ScramError("the server's message is not a SCRAM message")
        found[name] = value
    if "m" in found:
        raise ScramError("the server requires an unsupported extension")
    return found


def _decoded(text: str, what: str) -> bytes:
    try:
        decoded = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ScramError(f"the server's {what} is not base64") from error
    if not decoded:
        raise ScramError(f"the server sent no {what}")
    return decoded


def _iterations(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not LEAST_ITERATIONS <= int(text) <= MOST_ITERATIONS:
        raise ScramError(
            f"the server requests {text[:20]!r} iterations, outside {LEAST_ITERATIONS} to {MOST_ITERATIONS}"
        )
    return int(text)
