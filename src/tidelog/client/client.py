"""Finds the broker to ask, keeps one connection to each, and tries again what is worth it."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, TypeVar

from tidelog.client.addresses import Address, parse_bootstrap
from tidelog.client.connection import Connection, ConnectionSettings
from tidelog.client.errors import (
    RETRIABLE,
    STALE_METADATA,
    ClientError,
    ConnectionFailed,
    raise_for,
)
from tidelog.client.metadata import ClusterMetadata
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

R = TypeVar("R")

DEFAULT_RETRY_TIMEOUT_S: Final = 30.0
FIRST_BACKOFF_S: Final = 0.02
MAX_BACKOFF_S: Final = 1.0
# For one broker's word about the cluster, where another one would be asked next: every broker has it at hand.
_METADATA_S: Final = 10.0
# And to connect to one of several, before the next is tried; after a round without any all get the time they may take.
_CONNECT_FIRST_S: Final = 2.0
_GROUP_KEY_TYPE: Final = 0


class Client:
    """One logical client of one cluster, for use on one event loop."""

    def __init__(
        self,
        bootstrap: str | Sequence[Address],
        *,
        settings: ConnectionSettings | None = None,
        retry_timeout_s: float = DEFAULT_RETRY_TIMEOUT_S,
        passing: frozenset[ErrorCode] = RETRIABLE,
        reached_before: bool = False,
        asks_around: bool = False,
        rng: random.Random | None = None,
    ) -> None:
        """`passing` errors are tried again. With `reached_before` the cluster is waited for even before it answers.

        With `asks_around`, after an error that old metadata may be the reason of, the next to be asked is another one:
        who told us may be cut off from the cluster, and would go on telling the same. So it is after no answer at all,
        which is not waited for as long as others are.
        """
        self.bootstrap = parse_bootstrap(bootstrap) if isinstance(bootstrap, str) else tuple(bootstrap)
        self.metadata = ClusterMetadata()
        self.retry_timeout_s = retry_timeout_s
        self._passing = passing
        self._settings = settings or ConnectionSettings()
        # Only spreads retries in time; a simulation hands in its own.
        self._rng = rng or random.Random()
        self._connections: dict[Address, Connection] = {}
        self._opening: dict[Address, asyncio.Lock] = {}
        self._coordinators: dict[str, Address] = {}
        self._asks_around = asks_around
        # Asked only when nobody else answers, and who was asked for metadata last.
        self._avoided: frozenset[Address] = frozenset()
        self._informant: Address | None = None
        # Once a broker has answered, a failing connection is one that may come back.
        self._was_connected = reached_before
        # Called before each retry, with the error and the seconds since the first attempt.
        self.on_retry: Callable[[Exception, float], None] = _ignore_retry
        # Called when no attempt has succeeded after this time.
        self.on_slow: Callable[[], None] | None = None
        self.slow_s = 2.0

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        connections, self._connections = list(self._connections.values()), {}
        for connection in connections:
            await connection.close()

    # --- between two uses of a client that is kept ---

    def rest(self) -> None:
        """Ends connections on which an answer is still due, since the next request would wait for it. The others give
        up their buffers.
        """
        for connection in self._connections.values():
            connection.rest()

    async def try_connections(self, timeout_s: float) -> None:
        """Ends connections whose broker does not answer in time."""
        connections = [each for each in self._connections.values() if _is_usable(each)]
        await asyncio.gather(*(each.is_answering(timeout_s) for each in connections))

    def filenos(self) -> list[int]:
        """The numbers of the open sockets."""
        return [number for each in self._connections.values() if (number := each.fileno()) is not None]

    # --- which broker ---

    async def any_broker(self) -> Connection:
        """A connection to whoever answers: an open one, a known broker, a bootstrap server."""
        for connection in self._connections.values():
            if _is_usable(connection) and connection.address not in self._avoided:
                return connection
        addresses = sorted(self._known_addresses(), key=self._avoided.__contains__)
        if self._asks_around:
            for address in addresses:
                with suppress(ConnectionFailed, TimeoutError):
                    async with asyncio.timeout(_CONNECT_FIRST_S):
                        return await self._connect(address)
        failures: list[str] = []
        for address in addresses:
            try:
                return await self._connect(address)
            except ConnectionFailed as error:
                failures.append(str(error))
        raise ConnectionFailed("; ".join(failures))

    def _known_addresses(self) -> list[Address]:
        return list(dict.fromkeys((*self.metadata.brokers.values(), *self.bootstrap)))

    def avoid(self, addresses: Iterable[Address]) -> None:
        """From now on `any_broker` takes these only when nobody else answers."""
        self._avoided = frozenset(addresses)

    async def broker(self, node_id: int) -> Connection:
        """A connection to one broker by its id."""
        address = self.metadata.brokers.get(node_id)
        if address is None:
            await self.refresh([])
            address = self.metadata.brokers.get(node_id)
        if address is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not registered, or it is fenced")
        return await self._connect(address)

    async def at(self, address: Address) -> Connection:
        """A connection to whoever listens there, whatever the metadata says of it."""
        return await self._connect(address)

    async def controller(self) -> Connection:
        """Where changes of the cluster go; brokers forward them, so any will do when none is named."""
        if not self.metadata.brokers:
            await self.refresh([])
        address = self.metadata.brokers.get(self.metadata.controller_id)
        return await self.any_broker() if address is None else await self._connect(address)

    async def leader_of(self, topic: str, partition: int) -> int:
        """The broker id that leads a partition, from what is known or, if need be, asked for."""
        found = self.metadata.partition(topic, partition)
        if found is None or found.leader_id < 0:
            described = await self.topic(topic)
            found = self.metadata.partition(topic, partition)
            if found is None:
                raise ApiError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"{topic} has no partition {partition}, it has {len(described.partitions)}",
                )
        if found.leader_id < 0:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader")
        return found.leader_id

    async def coordinator(self, group: str) -> Connection:
        """A connection to the coordinator of a group."""
        address = self._coordinators.get(group)
        if address is None:
            connection = await self.any_broker()
            request = FindCoordinatorRequest(key=group, key_type=_GROUP_KEY_TYPE, coordinator_keys=[group])
            answer = await connection.request(request, FindCoordinatorResponse)
            if answer.coordinators:
                found = answer.coordinators[0]
                raise_for(found.error_code, found.error_message, what=f"coordinator of group {group!r}")
                address = Address(found.host, found.port)
            else:
                raise_for(answer.error_code, answer.error_message, what=f"coordinator of group {group!r}")
                address = Address(answer.host, answer.port)
            self._coordinators[group] = address
        return await self._connect(address)

    def forget_coordinator(self, group: str) -> None:
        self._coordinators.pop(group, None)

    # --- metadata ---

    async def refresh(self, topics: list[str] | None, *, allow_auto_create: bool = False) -> MetadataResponse:
        """Asks for metadata (`None`: of all topics) and remembers the answer."""
        connection = await self.any_broker()
        self._informant = connection.address
        asked = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=asked, allow_auto_topic_creation=allow_auto_create)
        try:
            answer = await connection.request(
                request, MetadataResponse, timeout_s=_METADATA_S if self._asks_around else None
            )
        except ConnectionFailed:
            if self._asks_around:
                self._avoid_informant()
            raise
        raise_for(answer.error_code, what="Metadata")
        self.metadata = self.metadata.updated(answer)
        return answer

    async def topic(self, name: str, *, allow_auto_create: bool = False) -> MetadataResponseTopic:
        """Fresh metadata of one topic; ApiError if there is none."""
        answer = await self.refresh([name], allow_auto_create=allow_auto_create)
        for topic in answer.topics:
            if topic.name == name:
                raise_for(topic.error_code, what=f"topic {name!r}")
                return topic
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")

    # --- again ---

    async def retrying(
        self,
        attempt: Callable[[], Awaitable[R]],
        *,
        timeout_s: float | None = None,
        passing: frozenset[ErrorCode] | None = None,
    ) -> R:
        """Runs `attempt` until it succeeds, fails with an error that is not `passing`, or the time is up.

        A cluster nobody has reached yet is not waited for: a wrong address should say so at once.
        """
        timeout_s = self.retry_timeout_s if timeout_s is None else timeout_s
        passing = self._passing if passing is None else passing
        if self.on_slow is None:
            return await self._until_success(attempt, timeout_s, passing)
        slow = asyncio.get_running_loop().call_later(self.slow_s, self.on_slow)
        try:
            return await self._until_success(attempt, timeout_s, passing)
        finally:
            slow.cancel()

    async def _until_success(
        self, attempt: Callable[[], Awaitable[R]], timeout_s: float, passing: frozenset[ErrorCode]
    ) -> R:
        loop = asyncio.get_running_loop()
        began = loop.time()
        deadline = began + timeout_s
        backoff = FIRST_BACKOFF_S
        while True:
            try:
                return await attempt()
            except ApiError as error:
                if error.code not in passing or loop.time() + backoff > deadline:
                    raise
                self.on_retry(error, loop.time() - began)
                if error.code in STALE_METADATA:
                    self.forget_leaders()
                    if self._asks_around:
                        self._avoid_informant()
            except ConnectionFailed as error:
                if not self._was_connected or loop.time() + backoff > deadline:
                    raise
                self.on_retry(error, loop.time() - began)
                self.forget_leaders()
            await asyncio.sleep(backoff * self._rng.uniform(0.8, 1.2))
            backoff = min(2 * backoff, MAX_BACKOFF_S)

    async def ask_any(self, request: Any, response: type[R]) -> R:
        """A request that every broker answers, tried again on another when the connection fails."""

        async def attempt() -> R:
            return await (await self.any_broker()).request(request, response)

        return await self.retrying(attempt)

    def forget_leaders(self) -> None:
        """The next look at a topic asks a broker again."""
        self.metadata = ClusterMetadata(
            cluster_id=self.metadata.cluster_id, controller_id=-1, brokers=self.metadata.brokers
        )
        self._coordinators.clear()

    def _avoid_informant(self) -> None:
        if self._informant is not None:
            avoided = self._avoided | {self._informant}
            # When all have been asked, a new round begins.
            self.avoid(avoided if set(self._known_addresses()) - avoided else {self._informant})

    async def _connect(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is not None and _is_usable(connection):
            return connection
        async with self._opening.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or not _is_usable(connection):
                made = await Connection.open(address, self._settings)
                self._connections[address] = made
                self._was_connected = True
                if connection is not None:
                    connection.retire()
                return made
            return connection


def _is_usable(connection: Connection) -> bool:
    return not connection.closed and not connection.expired


def _ignore_retry(error: Exception, waited_s: float) -> None:
    """For programs: the error that ends the retries is the one that counts."""


def one_line(error: Exception) -> str:
    """An error as a person reads it, without a code where there are words."""
    if isinstance(error, ApiError):
        return f"{error.message} ({error.code.name})" if error.message else error.code.name
    if isinstance(error, ClientError):
        return str(error)
    return f"{type(error).__name__}: {error}"
