"""`/metrics` over HTTP: what Prometheus reads, written down at the moment it asks.

One request a connection, all bounds below. Scrapes that come at the same time share one look at the node, so that they
cost no more than one; and a look takes its time in slices. Not part of `Node`: under simulation nothing serves HTTP.
"""

import asyncio
import logging
from collections.abc import Callable, Generator
from http import HTTPStatus
from typing import Final, cast

from tidelog.broker.measures import NodeMeasures
from tidelog.broker.process_measures import process_metrics
from tidelog.broker.server import Listener, bind
from tidelog.broker.slices import in_slices
from tidelog.core.exposition import CONTENT_TYPE, lines

log = logging.getLogger("tidelog.metrics")

LISTENER_NAME: Final = "METRICS"
MAX_CONNECTIONS: Final = 16
MAX_HEAD_BYTES: Final = 8 * 1024
# From connecting to the last byte taken; Prometheus itself gives up after ten seconds.
EXCHANGE_S: Final = 10.0
_END_OF_HEAD: Final = b"\r\n\r\n"


class MetricsServer:
    """`measure` is a node's `measure_stepwise`."""

    def __init__(self, measure: Callable[[], Generator[None, None, NodeMeasures]], node_id: int) -> None:
        self._measure = measure
        self._node_id = node_id
        self._loop = asyncio.get_running_loop()
        self._servers: list[asyncio.Server] = []
        self._exchanges: set[_Exchange] = set()
        self._look: asyncio.Task[bytes] | None = None

    async def listen(self, host: str, port: int) -> int:
        """Binds and serves; returns the port, a free one for 0. ListenError says what stands in the way."""
        bound, self._servers = await bind(
            self._loop, Listener(LISTENER_NAME, host, port), self._connected, backlog=MAX_CONNECTIONS
        )
        log.info("metrics at http://%s:%d/metrics", bound.host, bound.port)
        return bound.port

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for exchange in list(self._exchanges):
            exchange.abort()
        if self._look is not None:
            self._look.cancel()
            await asyncio.wait([self._look])

    def _connected(self) -> "_Exchange":
        return _Exchange(self, self._loop)

    # --- for exchanges ---

    def admit(self, exchange: "_Exchange") -> bool:
        if len(self._exchanges) >= MAX_CONNECTIONS:
            return False
        self._exchanges.add(exchange)
        return True

    def forget(self, exchange: "_Exchange") -> None:
        self._exchanges.discard(exchange)

    def look(self) -> "asyncio.Task[bytes]":
        if self._look is None or self._look.done():
            self._look = self._loop.create_task(self._write_down(), name="metrics")
        return self._look

    async def _write_down(self) -> bytes:
        measures = await in_slices(self._measure())
        return (await in_slices(_text(measures, self._node_id))).encode()


def _text(measures: NodeMeasures, node_id: int) -> Generator[None, None, str]:
    written: list[str] = []
    for line in lines(measures.metrics()):
        written.append(line)
        yield
    written += lines(process_metrics(node_id))
    return "".join(written)


class _Exchange(asyncio.Protocol):
    """One connection: a request, its answer, the end."""

    def __init__(self, server: MetricsServer, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._head = b""
        self._is_asked = False

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's own are no subclass.
        self._transport = cast(asyncio.Transport, transport)
        if self._server.admit(self):
            self._deadline = self._loop.call_later(EXCHANGE_S, self._transport.abort)
        else:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._transport = None
        self._server.forget(self)

    def eof_received(self) -> bool:
        # Who has asked may say that this was all, and still wants the answer.
        return self._is_asked

    def data_received(self, data: bytes) -> None:
        if self._is_asked:
            return
        self._head += data
        if _END_OF_HEAD in self._head[:MAX_HEAD_BYTES]:
            self._is_asked = True
            self._serve(self._head.partition(b"\r\n")[0].split(b" "))
        elif len(self._head) >= MAX_HEAD_BYTES:
            self._is_asked = True
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _serve(self, request_line: list[bytes]) -> None:
        if len(request_line) != 3 or not request_line[2].startswith(b"HTTP/1."):
            self._refuse(HTTPStatus.BAD_REQUEST)
        elif request_line[0] not in (b"GET", b"HEAD"):
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED)
        elif request_line[1].partition(b"?")[0] != b"/metrics":
            self._refuse(HTTPStatus.NOT_FOUND)
        else:
            with_body = request_line[0] == b"GET"
            self._server.look().add_done_callback(lambda look: self._tell(look, with_body))

    def _tell(self, look: "asyncio.Task[bytes]", with_body: bool) -> None:
        if look.cancelled():
            self.abort()
        elif (error := look.exception()) is not None:
            log.error("cannot measure this node", exc_info=error)
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR)
        else:
            self._answer(HTTPStatus.OK, look.result(), CONTENT_TYPE, with_body=with_body)

    def _refuse(self, status: HTTPStatus) -> None:
        self._answer(status, f"{status.phrase}: this port serves GET /metrics\n".encode(), "text/plain")

    def _answer(self, status: HTTPStatus, body: bytes, content_type: str, *, with_body: bool = True) -> None:
        if self._transport is None:
            return
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\n"
            f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + (body if with_body else b""))
        # Once all is sent.
        self._transport.close()
