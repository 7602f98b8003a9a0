"""The HTTP endpoints of the page.

| | |
|---|---|
| `GET /` and `/static/…` | the page |
| `GET /api/about` | the cluster, the trace, the internal topics, and whether the token is right |
| `GET /api/stream` | server-sent events: the whole board, then each change |
| `POST /api/command` | runs a button: kill, stop, start, pause, resume, isolate, slow, heal |
| `GET /api/topics/{topic}/configs` | a topic's configs |
| `POST /api/trace` | takes a trace and answers with its summary |
| `GET /api/trace/{id}` | the summary of a trace |
| `GET /api/trace/{id}/frame?step=` | the state after that many lines |
"""

import asyncio
import json
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from tidelog.client.client import Client, one_line
from tidelog.client.configs import ResourceType, describe_configs
from tidelog.client.connection import ConnectionSettings
from tidelog.client.errors import ClientError
from tidelog.cluster.errors import ClusterError
from tidelog.metadata.names import INTERNAL_TOPICS
from tidelog.web.audience import Audience
from tidelog.web.board import Board
from tidelog.web.commands import BadCommand, Command, outcome
from tidelog.web.guard import Guard, Guarded
from tidelog.web.sources import Sources
from tidelog.web.trace import MOST_BYTES, BadTrace, Playback
from tidelog.wire.errors import ApiError

STATIC: Final = Path(__file__).parent / "static"
# Uploaded traces that stay in memory.
MOST_TRACES: Final = 4
_MOST_COMMAND_BYTES: Final = 4096
_SETTINGS: Final = ConnectionSettings(client_id="tidelog-page", connect_timeout_s=1.0, request_timeout_s=2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The cluster that the page shows."""

    board: Board
    audience: Audience
    sources: Sources
    cluster_id: str
    bootstrap: str


class Refused(Exception):
    """Answers a request with an error status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Page:
    """The handlers. `live` is None without a cluster, `given` is the trace of the command line."""

    def __init__(self, live: Live | None, given: Playback | None = None) -> None:
        self._live = live
        self._traces: dict[int, Playback] = {} if given is None else {0: given}
        self._next_trace = 1

    def application(self, guard: Guard) -> ASGIApp:
        routes = [
            Route("/", self._index),
            Mount("/static", StaticFiles(directory=STATIC)),
            Route("/api/about", partial(self._about, guard)),
            Route("/api/stream", _Stream(None if self._live is None else self._live.audience)),
            Route("/api/command", self._command, methods=["POST"]),
            Route("/api/topics/{topic}/configs", self._configs),
            Route("/api/trace", self._take_trace, methods=["POST"]),
            Route("/api/trace/{id:int}", self._trace),
            Route("/api/trace/{id:int}/frame", self._frame),
        ]
        return Guarded(Starlette(routes=routes, exception_handlers={Refused: _refused}), guard)

    async def _index(self, _: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def _about(self, guard: Guard, request: Request) -> Response:
        live = self._live
        return JSONResponse(
            {
                "cluster": None if live is None else {"id": live.cluster_id, "bootstrap": live.bootstrap},
                "trace": 0 if 0 in self._traces else None,
                "has_token": guard.has_token(request.headers),
                "internal_topics": sorted(INTERNAL_TOPICS),
            }
        )

    async def _command(self, request: Request) -> Response:
        if self._live is None:
            raise Refused(404, "this page shows no cluster")
        try:
            command = Command.parse(await _json(request))
        except BadCommand as error:
            raise Refused(400, str(error)) from error
        # Before the command runs: a killed node leads nothing.
        effect = outcome(command, self._live.board)
        try:
            await self._live.sources.command(command.request())
        except ClusterError as error:
            raise Refused(409, error.message) from error
        return JSONResponse({"text": effect.text, "rules": effect.rules})

    async def _configs(self, request: Request) -> Response:
        if self._live is None:
            raise Refused(404, "this page shows no cluster")
        try:
            async with Client(self._live.bootstrap, settings=_SETTINGS, retry_timeout_s=2.0) as client:
                found = await describe_configs(client, ResourceType.TOPIC, request.path_params["topic"])
        except (ApiError, ClientError) as error:
            raise Refused(502, one_line(error)) from error
        return JSONResponse([[each.name, each.value, each.source] for each in found])

    # --- traces ---

    async def _take_trace(self, request: Request) -> Response:
        body = await _body(request, MOST_BYTES)
        try:
            playback = await asyncio.to_thread(Playback, body.splitlines())
        except BadTrace as error:
            raise Refused(400, str(error)) from error
        number, self._next_trace = self._next_trace, self._next_trace + 1
        self._traces[number] = playback
        taken = [each for each in self._traces if each]
        for old in taken[:-MOST_TRACES]:
            del self._traces[old]
        return JSONResponse({"id": number, **playback.summary()})

    async def _trace(self, request: Request) -> Response:
        return JSONResponse({"id": request.path_params["id"], **self._playback(request).summary()})

    async def _frame(self, request: Request) -> Response:
        playback = self._playback(request)
        try:
            if "at" in request.query_params:
                step = playback.step_at(float(request.query_params["at"]))
            else:
                step = int(request.query_params.get("step", "0"))
            return JSONResponse(playback.frame(step))
        except BadTrace as error:
            raise Refused(400, str(error)) from error
        except ValueError as error:
            raise Refused(400, "step and at must be numbers") from error

    def _playback(self, request: Request) -> Playback:
        found = self._traces.get(request.path_params["id"])
        if found is None:
            raise Refused(404, "the server no longer has this trace: choose its file again")
        return found


class _Stream:
    """Replaces Starlette's stream, which leaves the generator to the garbage collector when the browser disconnects."""

    def __init__(self, audience: Audience | None) -> None:
        self._audience = audience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._audience is None or self._audience.is_full:
            reason = "this page shows no cluster" if self._audience is None else "too many pages are open: close one"
            await Response(reason, 503)(scope, receive, send)
            return
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        sending = asyncio.create_task(self._send(self._audience, send))
        leaving = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(self, audience: Audience, send: Send) -> None:
        async with aclosing(audience.stream()) as events:
            async for event in events:
                # Blocks while the browser does not read.
                await send({"type": "http.response.body", "body": event, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


async def _body(request: Request, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise Refused(413, f"the request is larger than {most} bytes")
        parts.append(part)
    return b"".join(parts)


async def _json(request: Request) -> Any:
    try:
        return json.loads(await _body(request, _MOST_COMMAND_BYTES))
    except ValueError as error:
        raise Refused(400, f"the request is not JSON: {error}") from error


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return JSONResponse({"error": str(error)}, error.status)
