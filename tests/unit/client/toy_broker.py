"""A broker of a few lines: answers what a test tells it to, in the real protocol, on a real socket."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tidelog.client.addresses import Address
from tidelog.wire.codec import encode_frame, read_message
from tidelog.wire.headers import read_request_header, write_response_header
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from tidelog.wire.registry import APIS
from tidelog.wire.schema import spec_of

# None: no answer. CLOSE: the connection ends.
Handler = Callable[[Any, int], Any | Awaitable[Any]]
CLOSE = object()


class ToyBroker:
    """Handlers by request class; ApiVersions offers what there are handlers for."""

    def __init__(self) -> None:
        self.handlers: dict[type[Any], Handler] = {}
        self.offered: dict[type[Any], tuple[int, int]] = {}
        self.requests: list[tuple[Any, int]] = []
        self.connections = 0
        self.address = Address("127.0.0.1", 0)
        self._writers: set[asyncio.StreamWriter] = set()
        self.on(ApiVersionsRequest, self._api_versions)
        self.on(MetadataRequest, self._metadata)

    def on(self, request: type[Any], handler: Handler, versions: tuple[int, int] | None = None) -> None:
        self.handlers[request] = handler
        spec = spec_of(request)
        self.offered[request] = versions or (spec.versions.low, spec.versions.high)

    def hang_up(self) -> None:
        for writer in self._writers:
            writer.close()

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> AsyncIterator["ToyBroker"]:
        server = await asyncio.start_server(self._serve, host, 0, ssl=tls)
        self.address = Address(*server.sockets[0].getsockname())
        try:
            yield self
        finally:
            server.close()
            self.hang_up()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = memoryview(await reader.readexactly(size))
                header = read_request_header(frame)
                api = APIS[header.api_key]
                request = read_message(api.request, header.api_version, frame, position=header.body_position)
                self.requests.append((request, header.api_version))
                answer = self.handlers[api.request](request, header.api_version)
                if asyncio.iscoroutine(answer):
                    answer = await answer
                if answer is CLOSE:
                    return
                if isinstance(answer, bytes):
                    writer.write(answer)
                elif answer is not None:
                    head = write_response_header(header.api_key, header.api_version, header.correlation_id)
                    writer.writelines(encode_frame(answer, header.api_version, head))
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            self._writers.discard(writer)
            writer.close()

    def _api_versions(self, request: Any, version: int) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(api_key=spec_of(cls).api_key, min_version=low, max_version=high)
                for cls, (low, high) in self.offered.items()
            ]
        )

    def _metadata(self, request: Any, version: int) -> MetadataResponse:
        return MetadataResponse(
            cluster_id="toy",
            controller_id=1,
            brokers=[MetadataResponseBroker(node_id=1, host=self.address.host, port=self.address.port)],
        )
