"""One connection to one broker: requests pipelined, answers in order, everything bounded."""

import asyncio
import errno
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from tidelog import __version__
from tidelog.client.addresses import Address
from tidelog.client.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    ConnectionRefused,
    RequestTimedOut,
    Unsupported,
    is_refused,
    raise_for,
)
from tidelog.client.frames import FrameReader
from tidelog.client.sasl import authenticate
from tidelog.client.security import Security
from tidelog.client.tls import tls_context
from tidelog.wire.codec import RESPONSE_LIMITS, encode_frame, read_message
from tidelog.wire.errors import ApiError, ErrorCode, WireError
from tidelog.wire.headers import read_response_header, write_request_header
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.registry import API_VERSIONS_KEY, APIS
from tidelog.wire.schema import spec_of

R = TypeVar("R")

DEFAULT_REQUEST_TIMEOUT_S: Final = 30.0
DEFAULT_CONNECT_TIMEOUT_S: Final = 10.0
# What Kafka's own consumer asks for at most in one fetch, and a margin for one batch beyond it.
DEFAULT_MAX_RESPONSE_BYTES: Final = 128 * 1024 * 1024
DEFAULT_MAX_IN_FLIGHT: Final = 64
_API_VERSIONS_TRIED_FIRST: Final = 4
# The part of its time that an authenticated connection is used for: what is under way then is still answered.
_USED_LIFETIME: Final = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Bounds of a connection."""

    client_id: str = "tidelog"
    connect_timeout_s: float = DEFAULT_CONNECT_TIMEOUT_S
    request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S
    max_response_bytes: int = DEFAULT_MAX_RESPONSE_BYTES
    max_in_flight: int = DEFAULT_MAX_IN_FLIGHT
    # TLS, and who we are; nothing on a listener that speaks PLAINTEXT.
    security: Security | None = None
    # What stands between the connection and its transport; nothing, unless faults are injected there.
    through: "Callable[[asyncio.BaseTransport, Connection], asyncio.Transport] | None" = None


@dataclass(slots=True)
class _Waiting:
    correlation_id: int
    api_key: int
    version: int
    response: type[Any]
    answer: asyncio.Future[Any]


class Connection(asyncio.BufferedProtocol):
    """Made by `Connection.open`, which also learns the versions that both sides speak."""

    def __init__(self, address: Address, settings: ConnectionSettings) -> None:
        self.address = address
        self.versions: dict[int, tuple[int, int]] = {}
        self._settings = settings
        self._frames = FrameReader(settings.max_response_bytes, self._on_frame)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[_Waiting] = deque()
        self._next_correlation_id = 0
        self._in_flight = asyncio.Semaphore(settings.max_in_flight)
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost: ConnectionFailed | None = None
        self._gone = asyncio.Event()
        # When the broker wants to be shown anew who we are: whoever asks for a connection then gets another one.
        self._expires_s: float | None = None
        self._is_retired = False

    @classmethod
    async def open(cls, address: Address, settings: ConnectionSettings | None = None) -> "Connection":
        settings = settings or ConnectionSettings()
        loop = asyncio.get_running_loop()
        connection = cls(address, settings)
        try:
            async with asyncio.timeout(settings.connect_timeout_s):
                await connection._connect(loop)
                await connection._learn_versions()
                await connection._authenticate(loop)
        except TimeoutError as error:
            connection.abort("connecting took too long")
            raise ConnectionFailed(f"{address} does not answer") from error
        except ssl.SSLError as error:
            raise AuthenticationFailed(f"no TLS with {address}: {_tls_reason(error)}") from error
        except OSError as error:
            kind = ConnectionRefused if is_refused(error) else ConnectionFailed
            raise kind(f"cannot connect to {address}: {_reason(error)}") from error
        except BaseException:
            connection.abort("the connection attempt was cancelled")
            raise
        return connection

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> None:
        host, port, security = self.address.host, self.address.port, self._settings.security
        if security is None or security.tls is None:
            await loop.create_connection(lambda: self, host, port)
        else:
            context = tls_context(security.tls)
            await loop.create_connection(lambda: self, host, port, ssl=context, server_hostname=host)

    async def _authenticate(self, loop: asyncio.AbstractEventLoop) -> None:
        security = self._settings.security
        if security is not None and security.credentials is not None:
            lifetime_ms = await authenticate(self, security.credentials)
            if lifetime_ms > 0:
                self._expires_s = loop.time() + _USED_LIFETIME * lifetime_ms / 1000

    @property
    def closed(self) -> bool:
        return self._lost is not None

    @property
    def expired(self) -> bool:
        """The broker will soon ask again who we are (KIP-368), by closing the connection if nobody says so first."""
        return self._expires_s is not None and asyncio.get_running_loop().time() >= self._expires_s

    def version_of(self, request: type[Any], *, at_most: int | None = None) -> int:
        """The highest version of an API that the broker, we, and the caller can live with."""
        spec = spec_of(request)
        offered = self.versions.get(spec.api_key)
        name = APIS[spec.api_key].name
        if offered is None:
            raise Unsupported(f"the broker at {self.address} has no {name} API")
        high = min(offered[1], spec.versions.high, spec.versions.high if at_most is None else at_most)
        low = max(offered[0], spec.versions.low)
        if low > high:
            raise Unsupported(
                f"the broker at {self.address} speaks {name} v{offered[0]} to v{offered[1]}, which this client "
                "does not support"
            )
        return high

    async def request(
        self, request: Any, response: type[R], *, version: int | None = None, timeout_s: float | None = None
    ) -> R:
        """Sends a request and waits for its answer. Several may be under way; answers keep the order of requests."""
        version = self.version_of(type(request)) if version is None else version
        limit = self._settings.request_timeout_s if timeout_s is None else timeout_s
        loop = asyncio.get_running_loop()
        until_s = loop.time() + limit
        try:
            if self._in_flight.locked() or not self._writable.is_set():
                async with asyncio.timeout_at(until_s):
                    await self._may_send()
            else:
                await self._in_flight.acquire()
            # A timer of its own is all that an answer takes: `asyncio.timeout` costs as much as sending the request.
            answer: asyncio.Future[R] = loop.create_future()
            timer = loop.call_at(until_s, _time_out, answer)
            try:
                self._send(request, version, response, answer)
                return await answer
            finally:
                timer.cancel()
                self._in_flight.release()
        except TimeoutError as error:
            name = APIS[spec_of(type(request)).api_key].name
            self.abort(f"no answer to {name} within {limit:g} s")
            raise RequestTimedOut(f"{self.address} did not answer {name} within {limit:g} s") from error

    async def send_unanswered(self, request: Any, *, version: int | None = None) -> None:
        """For Produce with acks=0, the one request that has no answer."""
        await self._writable.wait()
        self._send(request, self.version_of(type(request)) if version is None else version)

    def abort(self, reason: str) -> None:
        """Ends the connection now; whoever waits learns the reason."""
        if self._lost is None:
            self._lost = ConnectionFailed(f"{self.address}: {reason}")
        if self._transport is not None:
            self._transport.abort()
        else:
            self._gone.set()

    async def close(self) -> None:
        """Ends the connection and waits until it is gone. Requests still waiting fail."""
        if self._lost is None:
            self._lost = ConnectionFailed(f"the connection to {self.address} is closed")
        if self._transport is None:
            return
        self._transport.close()
        await self._gone.wait()

    def rest(self) -> None:
        """Nobody uses the connection for a while: it ends if an answer is due, and gives up large buffers if not."""
        if self._waiting:
            self.abort("its task ended before the answer")
        else:
            self._frames.trim()

    async def is_answering(self, timeout_s: float) -> bool:
        """Ends the connection if the broker does not answer in time."""
        try:
            await self._learn_versions(timeout_s)
        except (ConnectionFailed, ApiError):
            return False
        return True

    def fileno(self) -> int | None:
        found = None if self._transport is None else self._transport.get_extra_info("socket")
        number = -1 if found is None else found.fileno()
        return None if number < 0 else number

    def retire(self) -> None:
        """Ends the connection as soon as all that is under way has been answered."""
        self._is_retired = True
        self._end_if_retired()

    def _end_if_retired(self) -> None:
        if self._is_retired and not self._waiting and self._lost is None and self._transport is not None:
            self._lost = ConnectionFailed(f"the connection to {self.address} exceeded its maximum age")
            self._transport.close()

    async def _may_send(self) -> None:
        """One more in flight, as soon as there is room for it here and on the way."""
        await self._in_flight.acquire()
        try:
            await self._writable.wait()
        except BaseException:
            self._in_flight.release()
            raise

    def _send(
        self,
        request: Any,
        version: int,
        response: type[Any] | None = None,
        answer: asyncio.Future[Any] | None = None,
    ) -> None:
        if self._lost is not None or self._transport is None:
            raise self._lost or ConnectionFailed(f"{self.address} is not connected")
        api_key = spec_of(type(request)).api_key
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFF_FFFF
        header = write_request_header(api_key, version, correlation_id, self._settings.client_id)
        frame = encode_frame(request, version, header)
        if response is not None and answer is not None:
            self._waiting.append(_Waiting(correlation_id, api_key, version, response, answer))
        if len(frame) == 1:
            self._transport.write(frame[0])
        else:
            self._transport.writelines(frame)

    async def _learn_versions(self, timeout_s: float | None = None) -> None:
        request = ApiVersionsRequest(client_software_name="tidelog", client_software_version=__version__)
        answer = await self.request(
            request, ApiVersionsResponse, version=_API_VERSIONS_TRIED_FIRST, timeout_s=timeout_s
        )
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            # Such an answer is encoded as v0 and lists what the broker speaks (KIP-511).
            offered = [api.max_version for api in answer.api_keys if api.api_key == API_VERSIONS_KEY]
            version = min(offered[0] if offered else 0, _API_VERSIONS_TRIED_FIRST)
            answer = await self.request(request, ApiVersionsResponse, version=version, timeout_s=timeout_s)
        raise_for(answer.error_code, what=f"ApiVersions of {self.address}")
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    # --- what the transport calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's is none by its class.
        through = self._settings.through
        self._transport = cast(asyncio.Transport, transport) if through is None else through(transport, self)
        if self._lost is not None:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._frames.advance(nbytes)
        except WireError as error:
            self.abort(f"it does not speak the Kafka protocol: {error}")

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._lost is None:
            reason = f": {_reason(exc)}" if exc is not None else ""
            self._lost = ConnectionFailed(f"the connection to {self.address} was closed by the broker{reason}")
        for waiting in self._waiting:
            if not waiting.answer.done():
                waiting.answer.set_exception(self._lost)
        self._waiting.clear()
        self._writable.set()
        self._frames.let_go()
        self._gone.set()

    def _on_frame(self, frame: memoryview) -> None:
        if not self._waiting:
            raise WireError("a response without a request")
        waiting = self._waiting.popleft()
        try:
            message = self._read(waiting, frame)
        except WireError as error:
            if not waiting.answer.done():
                waiting.answer.set_exception(ConnectionFailed(f"{self.address}: {error}"))
            raise
        if not waiting.answer.done():
            waiting.answer.set_result(message)
        self._end_if_retired()

    @staticmethod
    def _read(waiting: _Waiting, frame: memoryview) -> Any:
        correlation_id, position = read_response_header(waiting.api_key, waiting.version, frame)
        if correlation_id != waiting.correlation_id:
            raise WireError(f"response {correlation_id} instead of {waiting.correlation_id}")
        version = waiting.version
        if waiting.api_key == API_VERSIONS_KEY and _is_unsupported(frame, position):
            version = 0
        return read_message(waiting.response, version, frame, position=position, limits=RESPONSE_LIMITS)


def _time_out(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


def _is_unsupported(frame: memoryview, position: int) -> bool:
    return int.from_bytes(frame[position : position + 2], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION


def _tls_reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate was rejected: {error.verify_message}"
    words = (error.reason or "").lower().replace("_", " ") or str(error)
    return f"{words} (is the listener a TLS listener?)" if error.reason == "WRONG_VERSION_NUMBER" else words


def _reason(error: BaseException) -> str:
    # A name with several addresses fails with all of their errors in one text.
    if isinstance(error, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(error):
        return "connection refused"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
