"""A server on the virtual loop with handlers made for tests, and a client that speaks in raw frames."""

import asyncio
import struct
from collections.abc import Coroutine
from typing import Any, Self, cast

from tidelog.broker.dispatch import Dispatch, RequestContext, route
from tidelog.broker.limits import ConnectionLimits
from tidelog.broker.server import Listener, Server
from tidelog.sim.loop import VirtualLoop, run
from tidelog.wire.codec import read_message, write_message
from tidelog.wire.headers import read_response_header, write_request_header
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.wire.messages.produce import ProduceRequest, ProduceResponse
from tidelog.wire.registry import APIS

PORT = 9092
PRODUCE, FETCH, METADATA, HEARTBEAT, API_VERSIONS = 0, 1, 3, 12, 18
# For bad-input tests that must close within a bounded time instead of hanging the test.
PATIENCE_S = 2.0


class Toy:
    """Handlers that count, and let a test decide when and how a request is answered."""

    def __init__(self) -> None:
        self.served: list[tuple[str, int]] = []
        self.contexts: list[RequestContext] = []
        self.parked: dict[int, asyncio.Future[Any]] = {}
        self.closed_clients = 0
        self.fetch_response = FetchResponse()

    def dispatch(self) -> Dispatch:
        return Dispatch(
            [
                route(PRODUCE, self.produce, min_version=3),
                route(FETCH, self.fetch),
                route(METADATA, self.metadata),
                route(HEARTBEAT, self.heartbeat),
                route(API_VERSIONS, self.api_versions),
            ]
        )

    def note(self, name: str, context: RequestContext) -> None:
        self.served.append((name, context.correlation_id))
        self.contexts.append(context)

    def heartbeat(self, context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        """Answers at once; the group id may ask for trouble."""
        self.note("heartbeat", context)
        if request.group_id == "bug":
            raise KeyError("a bug of ours")
        if request.group_id == "nonsense":
            return "not a response"  # type: ignore[return-value]
        return HeartbeatResponse(throttle_time_ms=context.correlation_id)

    def fetch(self, context: RequestContext, request: FetchRequest) -> FetchResponse:
        self.note("fetch", context)
        return self.fetch_response

    def metadata(self, context: RequestContext, request: MetadataRequest) -> asyncio.Future[MetadataResponse]:
        """Waits until the test answers."""
        self.note("metadata", context)
        return self.park(context)

    def park(self, context: RequestContext) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.parked[context.correlation_id] = future
        context.connection.on_close(self.client_gone)
        return future

    def client_gone(self) -> None:
        self.closed_clients += 1

    def produce(
        self, context: RequestContext, request: ProduceRequest
    ) -> ProduceResponse | asyncio.Future[ProduceResponse] | None:
        """acks=0 has no answer, acks=1 an answer at once, acks=all one that waits until the test gives it."""
        self.note("produce", context)
        if request.acks == 0:
            return None
        return ProduceResponse() if request.acks == 1 else self.park(context)

    def api_versions(self, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        self.note("api_versions", context)
        return ApiVersionsResponse()


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def request_frame(key: int, version: int, correlation_id: int, message: object, client_id: str = "test") -> bytes:
    return framed(write_request_header(key, version, correlation_id, client_id) + write_message(message, version))


def heartbeat_frame(correlation_id: int, group: str = "g") -> bytes:
    return request_frame(HEARTBEAT, 4, correlation_id, HeartbeatRequest(group_id=group, generation_id=1))


def metadata_frame(correlation_id: int) -> bytes:
    return request_frame(METADATA, 12, correlation_id, MetadataRequest(topics=None))


class Client:
    """One connection to the toy server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, host: str = "127.0.0.1", port: int = PORT) -> Self:
        return cls(*await asyncio.open_connection(host, port, limit=2**24))

    @property
    def transport(self) -> asyncio.Transport:
        return cast(asyncio.Transport, self.writer.transport)

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def frame(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def correlation_id(self) -> int:
        """Of the next response."""
        return int.from_bytes((await self.frame())[:4], "big")

    async def response(self, key: int, version: int) -> tuple[int, Any]:
        frame = memoryview(await self.frame())
        correlation_id, position = read_response_header(key, version, frame)
        return correlation_id, read_message(APIS[key].response, version, frame, position=position)

    async def heartbeat(self, correlation_id: int) -> None:
        """A round trip: this connection is served."""
        self.send(heartbeat_frame(correlation_id))
        assert await self.response(HEARTBEAT, 4) == (
            correlation_id,
            HeartbeatResponse(throttle_time_ms=correlation_id),
        )

    async def closed_by_server(self, within_s: float = PATIENCE_S) -> bytes:
        """What came before the end."""
        async with asyncio.timeout(within_s):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""

    def close(self) -> None:
        self.writer.close()


class World:
    """A running toy server in virtual time."""

    def __init__(self, toy: Toy, server: Server) -> None:
        self.toy = toy
        self.server = server

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    @classmethod
    async def start(cls, **limits: Any) -> Self:
        toy = Toy()
        server = Server(ConnectionLimits(**limits))
        await server.listen(Listener("PLAINTEXT", "localhost", PORT), toy.dispatch())
        return cls(toy, server)

    async def client(self) -> Client:
        return await Client.connect()


def in_virtual_time(main: Coroutine[Any, Any, None]) -> None:
    """Runs a test's story; an unhandled exception in a callback fails it."""
    loop = VirtualLoop()
    unhandled: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: unhandled.append(context))
    run(main, loop=loop)
    assert not unhandled, unhandled
