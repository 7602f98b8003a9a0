"""Checks every request: a loopback Host, an Origin of this page, and the cluster's token for every change.

Another site can make a browser send requests here under a name that resolves to loopback (DNS rebinding): the Host
check refuses them. It can send requests from its own origin: the Origin check refuses them. It does not know the
token, which only the address printed by `tidelog up` carries.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_HEADER: Final = "x-tidelog-token"

HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """The status and the line of the answer."""

    status: int
    reason: str


class Guard:
    """The checks, without a server."""

    def __init__(self, port: int, token: str) -> None:
        names = ("127.0.0.1", "localhost", "[::1]")
        # A browser omits the default port of http.
        self._hosts = frozenset({f"{name}:{port}" for name in names} | (set(names) if port == 80 else set()))
        self._token = token.encode()

    def refuses(self, method: str, headers: Mapping[str, str]) -> Refusal | None:
        """Returns the refusal, or None for a request that may pass. Header names are in lower case."""
        if method not in ("GET", "HEAD", "POST"):
            return Refusal(405, "this page answers GET and POST only")
        if headers.get("host", "").lower() not in self._hosts:
            return Refusal(421, "this page answers to 127.0.0.1, localhost and [::1] only")
        origin = headers.get("origin")
        if origin is not None and origin.lower().removeprefix("http://") not in self._hosts:
            return Refusal(403, "requests from other sites are refused")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate":
            return Refusal(403, "requests from other sites are refused")
        if method == "POST" and not self.has_token(headers):
            return Refusal(401, "the token is missing or wrong: open the address that `tidelog up` printed")
        return None

    def has_token(self, headers: Mapping[str, str]) -> bool:
        """Compares in constant time."""
        return secrets.compare_digest(headers.get(TOKEN_HEADER, "").encode(), self._token)


class Guarded:
    """An application behind the guard. Every answer carries the security headers."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                ours = ((name.encode(), value.encode()) for name, value in HEADERS.items())
                message["headers"] = [*message["headers"], *(pair for pair in ours if pair[0] not in given)]
            await send(message)

        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._guard.refuses(scope["method"], headers)
        if refusal is None:
            await self._app(scope, receive, send_with_headers)
        else:
            await PlainTextResponse(refusal.reason + "\n", refusal.status)(scope, receive, send_with_headers)
