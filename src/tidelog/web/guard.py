"""Who may ask: requests to a loopback name from a page of ours, and buttons only with the token of this start.

A page elsewhere can make a browser send requests here, under a name of its own that resolves to loopback (DNS
rebinding): then Host is not ours. It can send them from its own origin: then Origin is not ours. And it does not know
the token, which stands only in the ready line and in the address it gives.
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
    """The status and the line that answer."""

    status: int
    reason: str


class Guard:
    """The checks, without a server: `refuses` has the reason or None."""

    def __init__(self, port: int, token: str) -> None:
        names = ("127.0.0.1", "localhost", "[::1]")
        # A browser leaves out the port that http has by itself.
        self._hosts = frozenset({f"{name}:{port}" for name in names} | (set(names) if port == 80 else set()))
        self._token = token.encode()

    def refuses(self, method: str, headers: Mapping[str, str]) -> Refusal | None:
        """Names of headers in lower case."""
        if method not in ("GET", "HEAD", "POST"):
            return Refusal(405, "GET and POST are all there is")
        if headers.get("host", "").lower() not in self._hosts:
            return Refusal(421, "this page is served to loopback names only")
        origin = headers.get("origin")
        if origin is not None and origin.lower().removeprefix("http://") not in self._hosts:
            return Refusal(403, "another site's page may not ask this")
        if headers.get("sec-fetch-site") in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate":
            return Refusal(403, "another site's page may not ask this")
        if method == "POST" and not secrets.compare_digest(headers.get(TOKEN_HEADER, "").encode(), self._token):
            return Refusal(
                401, "the token of this start is missing or wrong: open the address that `tidelog up` printed"
            )
        return None


class Guarded:
    """An application behind the guard; every answer carries the headers that keep others out."""

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
