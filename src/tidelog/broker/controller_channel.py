"""The way from a broker to the active controller, wherever that is: in this process or at another node.

Over the wire the plain request goes to the controller's own listener. A controller that is none any more, a broken
connection and a quorum without a leader pass: the request is tried again until its time is over. That a request was
decided and its answer lost cannot be told from here, so the second try may be answered by what the first one did
(TOPIC_ALREADY_EXISTS), as with Kafka's brokers.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final, Protocol

from tidelog.broker.peers import Peers
from tidelog.client.errors import ConnectionFailed
from tidelog.controller.failures import error_response, is_not_controller
from tidelog.core.ids import NO_LEADER
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.update_features import UpdateFeaturesRequest
from tidelog.wire.registry import APIS
from tidelog.wire.schema import spec_of

FIRST_BACKOFF_S: Final = 0.02
LONGEST_BACKOFF_S: Final = 0.2
# A client that gives no time wants the decision nevertheless; this much is for getting there.
LEAST_PATIENCE_S: Final = 1.0
# How long the old leader may still answer once there is a new one. If it can be reached it answers at once.
OLD_LEADER_GRACE_S: Final = 0.5
# The controller counts the same time, from a little later on: its own word on what became of the request is worth this.
LATE_ANSWER_S: Final = 0.5
DEFAULT_MAX_WAITING: Final = 500

# Version 2 of these answers names no single features, and the client may have asked in an older one.
_AT_MOST: Final[dict[type, int]] = {UpdateFeaturesRequest: 1}


class LocalController(Protocol):
    """The controller of this process."""

    @property
    def is_active(self) -> bool: ...

    async def send(self, request: Any, *, timeout_ms: int = ...) -> Any: ...


class NoController(ConnectionFailed):
    """Nobody is known to lead the quorum at the moment."""


class ControllerRouter:
    """A `ControllerChannel` that knows several nodes. Each API has a lane of its own: a slow one holds up no other."""

    def __init__(
        self,
        *,
        leader: Callable[[], int],
        local: LocalController | None,
        peers: Peers,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        max_waiting: int = DEFAULT_MAX_WAITING,
    ) -> None:
        self._leader = leader
        self._local = local
        self._peers = peers
        self._loop = loop
        self._rng = rng
        self._max_waiting = max_waiting
        self._waiting = 0
        self._changed: asyncio.Future[None] = loop.create_future()
        # Requests under way to other nodes, by what ends their wait.
        self._asked: dict[asyncio.Timeout, int] = {}

    def leader_changed(self) -> None:
        """There is another leader, none, or the local controller has become active."""
        changed, self._changed = self._changed, self._loop.create_future()
        changed.set_result(None)
        leader = self._leader()
        for patience, node in self._asked.items():
            if not patience.expired():
                patience.reschedule(None if node == leader else self._loop.time() + OLD_LEADER_GRACE_S)

    async def send(self, request: Any, *, timeout_ms: int = 30_000) -> Any:
        """The active controller's answer; REQUEST_TIMED_OUT in the request's own shape if none came."""
        if self._waiting >= self._max_waiting:
            return _timed_out(request, f"{self._waiting} requests are already waiting for the active controller.")
        self._waiting += 1
        try:
            return await self._send(request, max(timeout_ms / 1000, LEAST_PATIENCE_S), timeout_ms)
        finally:
            self._waiting -= 1

    async def send_once(self, request: Any, *, lane: str, timeout_s: float) -> Any:
        """The answer of whoever leads now, whatever it is. ConnectionFailed if there is none."""
        if self._local is not None and self._local.is_active:
            return await self._local.send(request, timeout_ms=int(timeout_s * 1000))
        return await self._peers.request(
            self._remote_leader(), request, lane=lane, version=_AT_MOST.get(type(request)), timeout_s=timeout_s
        )

    async def _send(self, request: Any, patience_s: float, timeout_ms: int) -> Any:
        deadline_s = self._loop.time() + patience_s
        backoff_s = FIRST_BACKOFF_S
        while True:
            changed = self._changed
            try:
                left_s = max(0.0, deadline_s - self._loop.time())
                if self._local is not None and self._local.is_active:
                    response = await self._local.send(request, timeout_ms=min(timeout_ms, round(left_s * 1000)))
                else:
                    response = await self._ask(self._remote_leader(), request, left_s + LATE_ANSWER_S)
                if not is_not_controller(response):
                    return response
                reason = "the controller that received the request is not active"
            except ConnectionFailed as error:
                reason = str(error)
            left_s = deadline_s - self._loop.time()
            if left_s > 0:
                # A change that came meanwhile ends the wait at once.
                await asyncio.wait([changed], timeout=min(left_s, backoff_s * self._rng.uniform(0.5, 1.0)))
            if self._loop.time() >= deadline_s:
                return _timed_out(request, f"No active controller answered within {patience_s:g} s: {reason}.")
            backoff_s = min(2 * backoff_s, LONGEST_BACKOFF_S)

    def _remote_leader(self) -> int:
        leader = self._leader()
        if leader == NO_LEADER:
            raise NoController("the metadata quorum has no known leader")
        if leader == self._peers.node_id:
            raise NoController("this node leads the metadata quorum but its controller is not active yet")
        return leader

    async def _ask(self, node: int, request: Any, timeout_s: float) -> Any:
        """Asks over the wire. A leader that was replaced and does not answer is given up: it may be frozen."""
        lane = APIS[spec_of(type(request)).api_key].name
        version = _AT_MOST.get(type(request))
        patience = asyncio.timeout(None)
        self._asked[patience] = node
        try:
            async with patience:
                return await self._peers.request(node, request, lane=lane, version=version, timeout_s=timeout_s)
        except TimeoutError as error:
            self._peers.drop(node, lane)
            raise ConnectionFailed(f"node {node} no longer leads the quorum and did not answer") from error
        finally:
            del self._asked[patience]


def _timed_out(request: Any, message: str) -> Any:
    return error_response(request, ApiError(ErrorCode.REQUEST_TIMED_OUT, message))
