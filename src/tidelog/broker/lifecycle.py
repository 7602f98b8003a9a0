"""A broker's life in the cluster: it registers, is unfenced when it has caught up, heartbeats, leaves (C2, C9)."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from tidelog.broker.broker import ControllerChannel
from tidelog.broker.periodic import Periodic
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

RETRY_S = 0.1
SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


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
        controller: ControllerChannel,
        metadata_offset: Callable[[], int],
        offline_directories: Callable[[], list[UUID]],
    ) -> None:
        self._loop = loop
        self._config = config
        self._controller = controller
        self._metadata_offset = metadata_offset
        self._offline_directories = offline_directories
        self._heartbeats: Periodic | None = None
        self.epoch = -1
        self.fenced = True

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
            if code is not ErrorCode.DUPLICATE_BROKER_REGISTRATION or self._loop.time() >= deadline:
                raise ApiError(code, "the controller refused the registration")
            await asyncio.sleep(RETRY_S)

    async def unfence(self) -> None:
        """Heartbeats until the controller lets clients come."""
        while self.fenced:
            await self.heartbeat()
            if self.fenced:
                await asyncio.sleep(RETRY_S)
        self._heartbeats = Periodic(
            self._loop, "heartbeat", self._config.broker_heartbeat_interval_ms / 1000, self.heartbeat
        )

    async def heartbeat(self) -> None:
        response = await self._beat(want_shut_down=False)
        if response.error_code == ErrorCode.NONE:
            if response.is_fenced != self.fenced:
                log.info("broker %d is %s", self._config.node_id, "fenced" if response.is_fenced else "unfenced")
            self.fenced = response.is_fenced
        else:
            log.warning("heartbeat refused: %s", ErrorCode(response.error_code).name)

    async def stop(self) -> None:
        """Ends the heartbeats without a word."""
        if self._heartbeats is not None:
            await self._heartbeats.stop()

    async def shut_down(self) -> None:
        """Asks to be let go, until the controller has moved what can be moved (C9)."""
        await self.stop()
        if self.epoch < 0 or not self._config.controlled_shutdown_enable:
            return
        while True:
            response = await self._beat(want_shut_down=True)
            if response.error_code != ErrorCode.NONE:
                log.warning("controlled shutdown refused: %s", ErrorCode(response.error_code).name)
                return
            if response.should_shut_down:
                return
            await asyncio.sleep(RETRY_S)

    async def _beat(self, *, want_shut_down: bool) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata_offset(),
            want_shut_down=want_shut_down,
            offline_log_dirs=self._offline_directories(),
        )
        response: BrokerHeartbeatResponse = await self._controller.send(request)
        return response
