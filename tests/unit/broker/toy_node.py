"""Another node on the virtual loop: a listener that answers what a test tells it to."""

from collections.abc import Callable
from typing import Any

from tidelog.broker.dispatch import Dispatch, RequestContext, route
from tidelog.broker.limits import ConnectionLimits
from tidelog.broker.server import Listener, Server
from tidelog.client.addresses import Address
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.registry import API_VERSIONS_KEY, APIS
from tidelog.wire.schema import spec_of

Answer = Callable[[Any], Any]


class ToyNode:
    """`answers` by request class: a function of the request that gives a response or an awaitable of one."""

    def __init__(
        self, answers: dict[type[Any], Answer], versions: dict[type[Any], tuple[int, int]] | None = None
    ) -> None:
        self._answers = answers
        self._versions = versions or {}
        self._server: Server | None = None
        self.contexts: list[RequestContext] = []
        self.requests: list[Any] = []

    async def start(self, port: int) -> Address:
        self._server = Server(ConnectionLimits())
        await self._server.listen(Listener("CONTROLLER", "127.0.0.1", port), self._dispatch())
        return Address("127.0.0.1", port)

    async def stop(self) -> None:
        """As a process that ends: nobody listens, and its connections are cut."""
        assert self._server is not None
        await self._server.stop(0.0)
        self._server = None

    @property
    def connections(self) -> int:
        assert self._server is not None
        return len(self._server.network.connections)

    def _dispatch(self) -> Dispatch:
        routes = [route(API_VERSIONS_KEY, self._api_versions)]
        for request in self._answers:
            low, high = self._range(request)
            routes.append(route(spec_of(request).api_key, self._serve, min_version=low, max_version=high))
        return Dispatch(routes)

    def _range(self, request: type[Any]) -> tuple[int, int]:
        spec = spec_of(request)
        return self._versions.get(request, (spec.versions.low, spec.versions.high))

    def _serve(self, ctx: RequestContext, request: Any) -> Any:
        self.contexts.append(ctx)
        self.requests.append(request)
        return self._answers[type(request)](request)

    def _api_versions(self, ctx: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        served = [*self._answers, APIS[API_VERSIONS_KEY].request]
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(
                    api_key=spec_of(each).api_key, min_version=self._range(each)[0], max_version=self._range(each)[1]
                )
                for each in served
            ]
        )
