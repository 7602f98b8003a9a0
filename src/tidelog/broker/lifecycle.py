"""A broker's life in the cluster: it registers, is unfenced when it has caught up, heartbeats, leaves (C2, C9)."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import UUID

from tidelog.broker.logging_setup import BoundedLog
from tidelog.client.errors import ClientError
from tidelog.client.tasks import ended
from tidelog.core.config.node import NodeConfig
from tidelog.metadata.features import SUPPORTED_FEATURES
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)

log = logging.getLogger("tidelog.lifecycle")

RETRY_S: Final = 0.1
# A stop that finds no controller for so long goes on without one: its logs are closed cleanly all the same.
SHUTDOWN_PATIENCE_S: Final = 3.0
# And one whose controller answers, but cannot move everything: as long as Kafka's brokers wait.
SHUTDOWN_LIMIT_S: Final = 300.0
HEARTBEATS: Final = "heartbeat"
SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class ControllerLine(Protocol):
    """The way to the active controller."""

    async def send(self, request: Any, *, timeout_ms: int = ...) -> Any: ...

    async def send_once(self, request: Any, *, lane: str, timeout_s: float) -> Any:
        """Whoever leads now, and no second try: ClientError. A heartbeat that comes late is worth nothing."""
        ...


@dataclass(frozen=True, slots=True)
class AdvertisedListener:
    """Where clients are told to come."""

    name: str
    host: str
    port: int
    security_protocol: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who registers: one incarnation of one broker, with its directories."""

    cluster_id: str
    incarnation_id: UUID
    listeners: Sequence[AdvertisedListener]
    directory_ids: Sequence[UUID]
    # The epoch of the last life if it ended cleanly, -1 if not: then its disks may lack what it acknowledged (C5).
    previous_epoch: int


class BrokerLifecycle:
    """Invariant: `epoch` is that of this incarnation, or -1 before it registered."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        config: NodeConfig,
        controller: ControllerLine,
        metadata_offset: Callable[[], int],
        offline_directories: Callable[[], list[UUID]],
    ) -> None:
        self._loop = loop
        self._config = config
        self._controller = controller
        self._metadata_offset = metadata_offset
        self._offline_directories = offline_directories
        self._beating: asyncio.Task[None] | None = None
        self._soon = asyncio.Event()
        # A broker that is not registered any more, or whose epoch another process took over, is refused until it stops.
        self._refusals = BoundedLog(log, loop.time, burst=1, period_s=60.0)
        self.epoch = -1
        self.fenced = True
        # The metadata offset of the last heartbeat.
        self._reported_offset = -1

    async def register(self, identity: Identity) -> None:
        """Until the controller takes us: an earlier incarnation's session may have to run out first."""
        request = BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=identity.cluster_id,
            incarnation_id=identity.incarnation_id,
            listeners=[
                Listener(
                    name=at.name,
                    host=at.host,
                    port=at.port,
                    security_protocol=SECURITY_PROTOCOLS[at.security_protocol],
                )
                for at in identity.listeners
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
            ],
            rack=self._config.broker_rack,
            log_dirs=sorted(identity.directory_ids),
            previous_broker_epoch=identity.previous_epoch,
        )
        deadline = self._loop.time() + self._config.initial_broker_registration_timeout_ms / 1000
        while True:
            response: BrokerRegistrationResponse = await self._controller.send(request)
            if response.error_code == ErrorCode.NONE:
                self.epoch = response.broker_epoch
                log.info("registered broker %d with epoch %d", self._config.node_id, self.epoch)
                return
            code = ErrorCode(response.error_code)
            # The controller may be on its way to another node, and an earlier process of this broker on its way out.
            passing = code in (ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.REQUEST_TIMED_OUT)
            if not passing or self._loop.time() >= deadline:
                raise ApiError(code, f"the controller refused the registration: {code.name}")
            await asyncio.sleep(RETRY_S)

    async def unfence(self) -> None:
        """Heartbeats until the controller lets clients come, and from then on."""
        while self.fenced:
            taken = await self._try_heartbeat()
            if self.fenced:
                await self._until_soon(RETRY_S / 5 if taken else RETRY_S)
        self._beating = self._loop.create_task(self._beat_on(), name="heartbeats")

    def heartbeat_soon(self) -> None:
        """There is news that the controller waits for, or another controller."""
        self._soon.set()

    def metadata_applied(self) -> None:
        """The controller unfences a broker that has applied its own registration: report it at once."""
        if self.fenced and self._reported_offset < self.epoch <= self._metadata_offset():
            self._soon.set()

    async def _until_soon(self, delay_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._soon.wait()
            self._soon.clear()

    async def heartbeat(self) -> bool:
        """One, now; whether the controller took it. ClientError if none answers."""
        response = await self._beat(want_shut_down=False)
        if response.error_code == ErrorCode.NONE:
            if response.is_fenced != self.fenced:
                log.info("broker %d is %s", self._config.node_id, "fenced" if response.is_fenced else "unfenced")
            self.fenced = response.is_fenced
            return True
        if response.error_code != ErrorCode.NOT_CONTROLLER:
            code = ErrorCode(response.error_code).name
            self._refusals.warning(
                f"heartbeat of broker {self._config.node_id} with epoch {self.epoch} refused: {code}"
            )
        return False

    async def _beat_on(self) -> None:
        while True:
            # A new controller counts on hearing from everybody soon: whoever it has not heard of, it cannot miss.
            taken = await self._try_heartbeat()
            delay_s = self._config.broker_heartbeat_interval_ms / 1000 if taken else RETRY_S
            if self.fenced:
                delay_s = min(delay_s, RETRY_S)
            await self._until_soon(delay_s)

    async def _try_heartbeat(self) -> bool:
        try:
            return await self.heartbeat()
        except ClientError as error:
            log.debug("no heartbeat: %s", error)
            return False
        except Exception:
            # Whatever it was: without this task the broker would be fenced for good, and nobody would know why.
            log.exception("a heartbeat failed; retrying")
            return False

    async def stop(self) -> None:
        """Ends the heartbeats without a word."""
        if self._beating is not None:
            self._beating.cancel()
            await ended([self._beating])
            self._beating = None

    async def shut_down(self) -> None:
        """Asks to be let go, until the controller has moved what can be moved (C9)."""
        await self.stop()
        if self.epoch < 0 or not self._config.controlled_shutdown_enable:
            return
        last_answer_s = self._loop.time()
        limit_s = last_answer_s + SHUTDOWN_LIMIT_S
        while self._loop.time() < last_answer_s + SHUTDOWN_PATIENCE_S:
            if self._loop.time() >= limit_s:
                log.warning(
                    "the controller did not move this broker's leaders within %g s; stopping anyway", SHUTDOWN_LIMIT_S
                )
                return
            try:
                response = await self._beat(want_shut_down=True)
            except ClientError as error:
                log.debug("no answer to the controlled shutdown: %s", error)
                await asyncio.sleep(RETRY_S)
                continue
            if response.should_shut_down:
                return
            if response.error_code == ErrorCode.NONE:
                last_answer_s = self._loop.time()
            elif response.error_code != ErrorCode.NOT_CONTROLLER:
                log.warning("controlled shutdown refused: %s", ErrorCode(response.error_code).name)
                return
            await asyncio.sleep(RETRY_S / 5)
        log.warning(
            "no controller answered for %g s; stopping without moving this broker's leaders", SHUTDOWN_PATIENCE_S
        )

    async def _beat(self, *, want_shut_down: bool) -> BrokerHeartbeatResponse:
        self._reported_offset = self._metadata_offset()
        request = BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._reported_offset,
            want_shut_down=want_shut_down,
            offline_log_dirs=self._offline_directories(),
        )
        # Half a session: whoever does not answer by then is asked again while there is time.
        response: BrokerHeartbeatResponse = await self._controller.send_once(
            request, lane=HEARTBEATS, timeout_s=self._config.broker_session_timeout_ms / 2000
        )
        return response
