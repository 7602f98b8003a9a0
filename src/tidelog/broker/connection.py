"""One client connection: frames in, responses out in the order of the requests.

    bytes -> FrameReader -> header -> route -> handler -> response, or a slot that waits for one -> bytes

What a client can make us hold is bounded, and the bound is kept by not reading: see the reasons below. Data that
is not Kafka's protocol ends the connection with one log line; nothing a client sends reaches other connections.
"""

import asyncio
import logging
import math
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final, cast

from tidelog.broker.budget import Share
from tidelog.broker.dispatch import CloseConnection, Dispatch, RequestContext, Route
from tidelog.broker.links import node_of_client_id
from tidelog.broker.network import Network
from tidelog.wire.buffers import Buffer
from tidelog.wire.codec import encode_frame
from tidelog.wire.errors import ErrorCode, WireError
from tidelog.wire.frames import FrameReader
from tidelog.wire.headers import RequestHeader, read_request_header, write_response_header
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.registry import API_VERSIONS_KEY

logger = logging.getLogger("tidelog.network")

# Below this many bytes a response is joined into one buffer: cheaper than a scattered write.
_JOIN_BYTES: Final = 4096
_FLUSH_BYTES: Final = 64 * 1024
# Taking a request apart costs by the byte (100,000 array entries: a tenth of a second), but for records.
_BYTES_OF_ONE: Final = 2 * 1024
# What is read of a connection whose requests are not served for the moment.
_READ_AHEAD_BYTES: Final = 64 * 1024


# Why a connection is not served and not read: bits, and plain ints, since enum flags are slow and every frame asks.
_TURN: Final = 1  # it had its share of this turn of the event loop
_IN_FLIGHT: Final = 2  # as many of its requests are unanswered as may be
_OUTBOUND: Final = 4  # its client does not take the responses
_BUDGET: Final = 8  # all connections together hold as many request bytes as they may
_CLOSING: Final = 16
_LINK: Final = 32  # it is another node's, and what that node sends must not arrive


class _Slot:
    """A response's place in line."""

    __slots__ = ("answer", "api_version", "correlation_id", "done", "held_bytes", "route")

    def __init__(self, route: Route, api_version: int, correlation_id: int) -> None:
        self.route = route
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.held_bytes = 0
        self.answer: Any = None
        self.done = False


class Connection(asyncio.BufferedProtocol):
    """The protocol of one client socket.

    Invariants: slots are in request order and only the first ones are ever written; the transport reads only while no
    reason not to is set, or a little; `_waiting_bytes` is the sum of the slots' `held_bytes`.
    """

    def __init__(self, network: Network, dispatch: Dispatch, listener_name: str) -> None:
        self._network = network
        self._loop = network.loop
        self._limits = network.limits
        self._dispatch = dispatch
        self._listener_name = listener_name
        self._reader = FrameReader(network.pool, network.limits.max_request_bytes)
        self._share = Share(network.budget, self._budget_freed)
        self._transport: asyncio.Transport | None = None
        self._pauses = 0
        self._reading = True
        self._turn_scheduled = False
        self._slots: deque[_Slot] = deque()
        self._waiting_bytes = 0
        self._resume_at = 0
        self._outgoing: list[Buffer] = []
        self._outgoing_bytes = 0
        # A task is only kept alive by whoever holds it.
        self._tasks: dict[asyncio.Future[Any], None] = {}
        self._close_callbacks: dict[object, Callable[[], object]] = {}
        self._frame_since: float | None = None
        self._frame_timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._last_activity = 0.0
        # Until its first request tells; never, where nobody injects faults between nodes.
        self._may_be_node = network.links is not None
        self._ended = False
        self._eof = False
        self._cut = False
        self.client_host = ""
        self.peer = ""
        self.closed = False
        self.ended_by_peer = False
        self.client_software: tuple[str, str] | None = None

    # --- the transport's calls ------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._name_peer()
        refused = self._network.admit(self)
        if refused:
            self.closed = True
            self._network.log.warning(f"refused a connection from {self.peer} on {self._listener_name}: {refused}")
            self._transport.abort()
            return
        self._tune_socket()
        self._transport.set_write_buffer_limits(high=self._limits.write_high_bytes)
        self._last_activity = self._loop.time()
        if self._limits.max_idle_s < math.inf:
            self._idle_timer = self._loop.call_later(self._limits.max_idle_s, self._check_idle)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.writable()

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.received(nbytes)
        self._last_activity = self._loop.time()
        self._process()

    def eof_received(self) -> bool:
        # As Kafka: what the client sent is served (an acks=0 produce has no other witness), and nothing waited for.
        self._eof = not self.closed
        self._ended = self._reader.pending > 0 and self._pauses > 0
        return self._ended

    def pause_writing(self) -> None:
        self._pause(_OUTBOUND)

    def resume_writing(self) -> None:
        self._last_activity = self._loop.time()
        self._unpause(_OUTBOUND)
        self._drain()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended_by_peer = self._eof or not (self.closed or self._cut)
        self.closed = True
        self._pauses |= _CLOSING
        self._transport = None
        for timer in (self._frame_timer, self._idle_timer, self._linger_timer):
            if timer is not None:
                timer.cancel()
        self._slots.clear()
        self._outgoing.clear()
        self._reader.release()
        self._share.close()
        self._network.forget(self)
        callbacks, self._close_callbacks = self._close_callbacks, {}
        for callback in callbacks.values():
            self._loop.call_soon(callback)

    # --- for handlers and the server ------------------------------------------------------------------------

    def on_close(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Calls back once when the connection is gone; returns how to take that back."""
        if self.closed:
            self._loop.call_soon(callback)
            return lambda: None
        token = object()
        self._close_callbacks[token] = callback

        def forget() -> None:
            self._close_callbacks.pop(token, None)

        return forget

    def finish(self) -> None:
        """Reads nothing more, and closes once everything in flight is answered."""
        self._pause(_CLOSING)
        if not self._slots:
            self._close()

    def abort(self) -> None:
        self._cut = True
        if self._transport is not None:
            self._transport.abort()

    # --- requests -------------------------------------------------------------------------------------------

    def _process(self) -> None:
        """Serves the frames that are there, as far as this turn and the limits let it."""
        reader = self._reader
        left = self._limits.frames_per_turn
        frame_done = False
        try:
            while not self._pauses:
                if left <= 0:
                    self._end_turn()
                    break
                frame = reader.next_frame()
                if frame is None:
                    break
                cost = self._serve(frame)
                frame_done = frame_done or cost > 0
                left -= cost
        except WireError as error:
            self._refuse(str(error))
        except CloseConnection as reason:
            self._refuse(str(reason))
        self._flush()
        if not self.closed:
            self._settle(frame_done=frame_done)

    def _serve(self, frame: memoryview) -> int:
        """Serves one request, and tells how much of the turn it took: a long one without records counts for many.

        0 when its time has not come: it stays in the buffer.
        """
        header = read_request_header(frame)
        if self._may_be_node:
            self._link(header.client_id)
            if self._pauses & _LINK:
                self._reader.unread(frame)
                return 0
        route = self._dispatch.find(header.api_key)
        if route is None:
            raise WireError(f"unknown API key {header.api_key}")
        if not route.serves(header.api_version):
            self._answer_unsupported(route, header)
            return 1
        if self._slots and not (route.overlaps and self._slots[-1].route.overlaps):
            self._reader.unread(frame)
            self._pause_until(0)
            return 0
        context = RequestContext(
            header.api_key,
            header.api_version,
            header.correlation_id,
            header.client_id,
            self.client_host,
            self._listener_name,
            self,
        )
        future: asyncio.Future[Any] | None = None
        try:
            request = route.read(header.api_version, frame, header.body_position, self._limits.message)
            answer = route.handler(context, request)
            if answer is not None and not isinstance(answer, route.api.response):
                if isinstance(answer, asyncio.Future):
                    future = answer
                else:
                    future = asyncio.ensure_future(answer, loop=self._loop)
        except (WireError, CloseConnection):
            raise
        except Exception:
            logger.exception(self._story(route, header.api_version, header.correlation_id))
            self._close()
            return 1
        cost = 1 + len(frame) // _BYTES_OF_ONE if route.retains_request else 1
        if answer is None:
            return cost
        slot = _Slot(route, header.api_version, header.correlation_id)
        if future is None:
            self._answer(slot, answer)
        else:
            slot.held_bytes = len(frame) if route.retains_request else 0
            self._tasks[future] = None
            future.add_done_callback(lambda done: self._answered(slot, done))
            self._enqueue(slot)
        return cost

    def _link(self, client_id: str | None) -> None:
        """The first request says whose connection this is; that of another node may be cut off or slow."""
        self._may_be_node = False
        node, links = node_of_client_id(client_id), self._network.links
        if node is not None and links is not None and self._transport is not None:
            self._transport = links.through(node, self._transport, self, self._hear)

    def _hear(self, heard: bool) -> None:
        if heard:
            self._unpause(_LINK)
        else:
            self._pause(_LINK)

    def _answer(self, slot: _Slot, answer: Any) -> None:
        """Answers at once, if nothing stands before it."""
        slot.answer = answer
        if self._slots or self._pauses & _OUTBOUND:
            slot.done = True
            self._enqueue(slot)
        else:
            self._write(slot)

    def _enqueue(self, slot: _Slot) -> None:
        self._slots.append(slot)
        self._waiting_bytes += slot.held_bytes
        if not slot.route.overlaps:
            self._pause_until(0)
        elif len(self._slots) >= self._limits.max_in_flight:
            self._pause_until(self._limits.max_in_flight // 2)

    def _answered(self, slot: _Slot, future: asyncio.Future[Any]) -> None:
        del self._tasks[future]
        if future.cancelled():
            if not self.closed:
                self._refuse(f"{slot.route.api.name} was cancelled")
            return
        error = future.exception()
        if isinstance(error, CloseConnection):
            self._refuse(str(error))
        elif error is not None:
            logger.error(self._story(slot.route, slot.api_version, slot.correlation_id), exc_info=error)
            self._close()
        elif not self.closed:
            slot.answer = future.result()
            slot.done = True
            self._drain()

    def _answer_unsupported(self, route: Route, header: RequestHeader) -> None:
        """ApiVersions alone is answered at a version we do not have: with v0, which every client reads (KIP-511)."""
        if route.key != API_VERSIONS_KEY:
            raise WireError(f"{route.api.name} v{header.api_version} is not supported")
        served = ApiVersion(api_key=route.key, min_version=route.min_version, max_version=route.max_version)
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[served])
        self._answer(_Slot(route, 0, header.correlation_id), response)

    # --- responses ------------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Writes the answers that are there up to the first that is not, unless the client does not take them."""
        slots = self._slots
        while slots and slots[0].done and not self._pauses & _OUTBOUND:
            slot = slots.popleft()
            self._waiting_bytes -= slot.held_bytes
            if slot.answer is not None:
                self._write(slot)
        self._flush()
        if self.closed:
            return
        if self._pauses & _IN_FLIGHT and len(slots) <= self._resume_at:
            self._unpause(_IN_FLIGHT)
        self._settle(frame_done=False)
        if self._pauses & _CLOSING and not slots:
            self._close()

    def _write(self, slot: _Slot) -> None:
        api = slot.route.api
        header = write_response_header(api.key, slot.api_version, slot.correlation_id)
        try:
            buffers = encode_frame(slot.answer, slot.api_version, header)
        except Exception:
            logger.exception(self._story(slot.route, slot.api_version, slot.correlation_id))
            self._close()
            return
        self._outgoing += buffers
        self._outgoing_bytes += len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        if self._outgoing_bytes >= _FLUSH_BYTES:
            # Now and not at the end of the turn: the transport may say that this is enough.
            self._flush()

    def _flush(self) -> None:
        outgoing = self._outgoing
        if not outgoing or self._transport is None:
            return
        joined = self._outgoing_bytes <= _JOIN_BYTES
        self._outgoing = []
        self._outgoing_bytes = 0
        self._last_activity = self._loop.time()
        if len(outgoing) == 1:
            self._transport.write(outgoing[0])
        elif joined:
            self._transport.write(b"".join(outgoing))
        else:
            self._transport.writelines(outgoing)

    # --- when to read ---------------------------------------------------------------------------------------

    def _pause(self, reason: int) -> None:
        self._pauses |= reason
        if self._reading and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def _unpause(self, reason: int) -> None:
        if not self._pauses & reason:
            return
        self._pauses &= ~reason
        # One that its client has ended is closed by a turn, when everything is answered.
        idle = self._reading and not self._reader.pending and not self._ended
        if self._pauses or self._turn_scheduled or idle:
            return
        # Frames may have come whole before the pause. Served later, not now: this may run inside a handler.
        self._turn_scheduled = True
        self._loop.call_soon(self._next_turn)

    def _pause_until(self, in_flight: int) -> None:
        """Serves nothing more until so few of its requests are in flight.

        A little is still read, so that a client that goes away while its fetch waits is missed at once.
        """
        self._resume_at = in_flight
        self._pauses |= _IN_FLIGHT

    def _next_turn(self) -> None:
        self._turn_scheduled = False
        self._pauses &= ~_TURN
        if not self._pauses:
            self._process()
        if self._pauses or self.closed:
            return
        if self._ended:
            self._close()
        elif not self._reading and self._transport is not None:
            self._reading = True
            self._transport.resume_reading()

    def _end_turn(self) -> None:
        self._pause(_TURN)
        if not self._turn_scheduled:
            self._turn_scheduled = True
            self._loop.call_soon(self._next_turn)

    def _budget_freed(self) -> None:
        self._loop.call_soon(self._unpause, _BUDGET)

    def _settle(self, *, frame_done: bool) -> None:
        """Gives back what is not needed, and accounts for what is: bytes, and the time of an unfinished frame."""
        reader = self._reader
        reader.settle()
        pending = reader.pending
        if self._pauses and pending >= _READ_AHEAD_BYTES:
            self._pause(self._pauses)
        mid_frame = pending > 0
        if not mid_frame:
            self._frame_since = None
        elif self._frame_since is None or frame_done:
            self._frame_since = self._last_activity
            if self._frame_timer is None:
                self._frame_timer = self._loop.call_later(self._limits.frame_timeout_s, self._check_frame)
        held = self._waiting_bytes + (reader.capacity if mid_frame else 0)
        if (not held and not self._share.held_bytes) or self._share.may_read(
            held, mid_frame=mid_frame, frame_done=frame_done
        ):
            if self._pauses & _BUDGET:
                self._unpause(_BUDGET)
        else:
            self._pause(_BUDGET)

    # --- time -----------------------------------------------------------------------------------------------

    def _check_frame(self) -> None:
        """Ends a half-sent frame. One timer serves many frames: it looks how old the present one is."""
        self._frame_timer = None
        if self._frame_since is None or self.closed:
            return
        timeout = self._limits.frame_timeout_s
        if self._pauses:
            # It is we who do not read.
            self._frame_since = self._loop.time()
        left = self._frame_since + timeout - self._loop.time()
        if left > 0:
            self._frame_timer = self._loop.call_later(left, self._check_frame)
        else:
            self._refuse(f"a frame was not complete after {timeout:g} s ({self._reader.pending} bytes came)")

    def _check_idle(self) -> None:
        idle = self._limits.max_idle_s
        if self._slots and not self._pauses & _OUTBOUND:
            self._last_activity = self._loop.time()
        left = self._last_activity + idle - self._loop.time()
        if left > 0:
            self._idle_timer = self._loop.call_later(left, self._check_idle)
        else:
            logger.debug("closing %s on %s: idle for %g s", self.peer, self._listener_name, idle)
            self._close()

    # --- the end --------------------------------------------------------------------------------------------

    def _refuse(self, why: str) -> None:
        if not self.closed:
            self._network.log.warning(f"closing {self.peer} on {self._listener_name}: {why}")
            self._close()

    def _story(self, route: Route, api_version: int, correlation_id: int) -> str:
        """Of a bug of ours. The client gets a closed connection: it will retry, and is told nothing untrue."""
        return (
            f"{route.api.name} v{api_version} of {self.peer} on {self._listener_name} "
            f"(correlation id {correlation_id}) failed; closing the connection"
        )

    def _close(self) -> None:
        """Sends what was answered, for a while, and closes."""
        if self.closed:
            return
        self._flush()
        self.closed = True
        self._pauses |= _CLOSING
        self._slots.clear()
        self._waiting_bytes = 0
        if self._transport is not None:
            self._linger_timer = self._loop.call_later(self._limits.linger_s, self.abort)
            self._transport.close()

    def _name_peer(self) -> None:
        assert self._transport is not None
        name = self._transport.get_extra_info("peername")
        if isinstance(name, tuple) and len(name) >= 2:
            self.client_host = str(name[0])
            self.peer = f"[{name[0]}]:{name[1]}" if ":" in self.client_host else f"{name[0]}:{name[1]}"
        else:
            self.client_host = self.peer = "unknown"

    def _tune_socket(self) -> None:
        assert self._transport is not None
        raw = self._transport.get_extra_info("socket")
        if raw is None:
            return
        for option, size in (
            (socket.SO_SNDBUF, self._limits.send_buffer_bytes),
            (socket.SO_RCVBUF, self._limits.receive_buffer_bytes),
        ):
            if size > 0:
                raw.setsockopt(socket.SOL_SOCKET, option, size)
