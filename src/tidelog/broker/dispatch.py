"""From an API key to its handler, and what a handler is told about the request.

A handler is ``handle(context, request)``. It returns the response, an awaitable of it, or `NO_RESPONSE`. As in Kafka, a
request starts when those before it on its connection are answered: a client that sends a commit and a look at what is
committed in one go sees its own commit. Produces alone overlap, and start in the order they came. When the client goes
away nothing is cancelled, since the work may be half done: a handler that parks a request for long drops it in
`context.connection.on_close`.

`records` fields of a request are views of the connection's receive buffer: they are valid until a plain handler
returns, even if what it returns is still awaited. (A coroutine as handler of Produce gets a copy: it starts later.)

A handler refuses with an error code in its response. It raises `CloseConnection` where the protocol leaves nothing else
(a failed acks=0 produce). Anything else that it raises is our bug: logged with its story and the connection closed, so
that the client sees a broken connection and retries rather than an answer that nobody thought about.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tidelog.wire.codec import Limits, read_message
from tidelog.wire.registry import APIS, Api

NO_RESPONSE: Final = None
"""Returned (or awaited) by a handler whose request has no answer: Produce with acks=0."""

PRODUCE_KEY: Final = 0


class CloseConnection(Exception):
    """Ends the connection on purpose; the text is its one log line."""


class ClientConnection(Protocol):
    """What a handler may know of the connection its request came by."""

    client_software: tuple[str, str] | None
    """Name and version, once the client told them in ApiVersions."""

    @property
    def peer(self) -> str: ...

    @property
    def closed(self) -> bool: ...

    @property
    def ended_by_peer(self) -> bool:
        """Once it is gone: whether the peer ended it (EOF or reset) and not we."""
        ...

    def __hash__(self) -> int: ...

    def on_close(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Calls back once when the connection is gone; returns how to take that back."""
        ...


@dataclass(slots=True)
class RequestContext:
    """The circumstances of one request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    client_host: str
    listener_name: str
    connection: ClientConnection


Answer = Any | Awaitable[Any] | None
Handler = Callable[[RequestContext, Any], Answer]


@dataclass(frozen=True, slots=True)
class Route:
    """An API as this node serves it."""

    api: Api
    min_version: int
    max_version: int
    handler: Handler
    copies_frame: bool
    """The handler starts later, when the receive buffer has other bytes."""
    retains_request: bool
    """A waiting request still holds what its frame held (a Produce has handed its records to the log)."""
    overlaps: bool
    """May start while others of its kind still wait for their answers."""

    @property
    def key(self) -> int:
        return self.api.key

    def serves(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def read(self, version: int, frame: memoryview, position: int, limits: Limits) -> Any:
        """The request's body; WireError when it is malformed."""
        if self.copies_frame:
            frame = memoryview(bytearray(frame))
        return read_message(self.api.request, version, frame, position=position, limits=limits)


def route(key: int, handler: Handler, *, min_version: int | None = None, max_version: int | None = None) -> Route:
    """Serves `key` with `handler`, in all versions that the wire has unless told otherwise."""
    api = APIS[key]
    return Route(
        api=api,
        min_version=api.min_version if min_version is None else min_version,
        max_version=api.max_version if max_version is None else max_version,
        handler=handler,
        copies_frame=key == PRODUCE_KEY and inspect.iscoroutinefunction(handler),
        retains_request=key != PRODUCE_KEY,
        overlaps=key == PRODUCE_KEY,
    )


class Dispatch:
    """The table of what one listener serves."""

    __slots__ = ("_routes", "find")

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes: dict[int, Route] = {}
        for entry in routes:
            if entry.key in self._routes:
                raise ValueError(f"two handlers for {entry.api.name}")
            self._routes[entry.key] = entry
        self.find: Callable[[int], Route | None] = self._routes.get

    def __iter__(self) -> Iterator[Route]:
        return iter(self._routes.values())
