"""The broker in a node: its logs, its place in the cluster, its upkeep; started and stopped in order by `node.py`."""

import asyncio
import logging
import random
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from tidelog.broker.assembly import assemble_broker
from tidelog.broker.broker import Broker
from tidelog.broker.control_plane import ControlPlane
from tidelog.broker.directory_shell import DirectoryShell
from tidelog.broker.isr_shell import IsrShell
from tidelog.broker.lifecycle import AdvertisedListener, BrokerLifecycle, Identity
from tidelog.broker.links import Links
from tidelog.broker.maintenance import Maintenance
from tidelog.broker.measures import BrokerMeasures
from tidelog.broker.metadata_follower import PACE, MetadataFollower, Pace
from tidelog.broker.peers import Peers, replication_settings
from tidelog.broker.recording import Recording
from tidelog.broker.replica_fetchers import ReplicaFetchers, replication_address
from tidelog.core.config.node import NodeConfig
from tidelog.core.events import EventSink
from tidelog.core.ids import random_uuid
from tidelog.core.ports import Offload, WallClock
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import ClusterImage
from tidelog.replication.measures import measure_stepwise
from tidelog.storage.directory import LogDirectory
from tidelog.storage.manager import LogManager
from tidelog.storage.ports import Disk, DiskError

log = logging.getLogger("tidelog.broker")

# Longer than a follower takes to try its leader again (`replica.fetch.backoff.ms`).
REFUSAL_S: Final = 2.0


class BrokerRole:
    """Made when the metadata is there. `broker` is what its handlers serve with."""

    def __init__(
        self,
        config: NodeConfig,
        control: ControlPlane,
        logs: LogManager,
        *,
        directory_ids: Mapping[str, UUID],
        disk: Disk,
        wall_clock: WallClock,
        offload: Offload,
        rng: random.Random,
        on_event: EventSink,
        on_fatal: Callable[[DiskError], None],
        links: Links | None = None,
        pace: Pace = PACE,
    ) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._config = config
        self._control = control
        self._logs = logs
        self._directory_ids = directory_ids
        self._disk = disk
        self._wall_clock = wall_clock
        self._offload = offload
        self._on_fatal = on_fatal
        self.broker: Broker = assemble_broker(
            loop, config, control.cluster_id, logs, control.router, wall_clock, offload, rng, on_event
        )
        self._incarnation_id = random_uuid(rng)
        self.follower = MetadataFollower(self.broker, logs, self._incarnation_id, pace)
        self._maintenance: Maintenance | None = None
        self.lifecycle = BrokerLifecycle(
            loop,
            config,
            control.router,
            metadata_offset=lambda: self.broker.image.provenance.offset,
            offline_directories=self._offline_directories,
        )
        self._recording = Recording(
            self.broker,
            address=lambda: replication_address(self.broker.image, config.node_id, config.inter_broker_listener_name),
            rng=rng,
        )
        on_event = self._recording.beside(on_event)
        self._isr = IsrShell(self.broker, lambda: self.lifecycle.epoch, on_event)
        self._directories = DirectoryShell(
            self.broker, lambda: self.lifecycle.epoch, lambda: self.follower.has_roles, directory_ids
        )
        self._peers = Peers(
            loop,
            config.node_id,
            address_of=lambda node: replication_address(self.broker.image, node, config.inter_broker_listener_name),
            settings=replication_settings(config),
            links=links,
        )
        self._fetchers = ReplicaFetchers(
            loop,
            self._peers,
            config,
            broker_epoch=lambda: self.lifecycle.epoch,
            wall_clock=wall_clock,
            on_event=on_event,
            on_contact=self._leader_contacted,
        )
        self.broker.replicas.fetchers = self._fetchers
        control.on_leader_change = self.lifecycle.heartbeat_soon
        self.follower.on_shutdown_elsewhere = self.lifecycle.heartbeat_soon
        logs.on_directory_offline = self._directory_failed

    async def load(self) -> None:
        """Recovers the logs and follows the metadata from here on."""
        directories = {directory_id: path for path, directory_id in self._directory_ids.items()}
        await self.follower.load(lambda: self._control.image, directories)
        self.follower.on_applied = self._metadata_applied
        self.follower.on_failure = self._control.quorum.fail
        self._control.publisher.subscribe(self.follower.on_metadata)

    def _metadata_applied(self, image: ClusterImage, delta: MetadataDelta) -> None:
        self._directories.on_metadata(image, delta)
        self.lifecycle.metadata_applied()

    async def join(self, listeners: Sequence[AdvertisedListener]) -> None:
        """Registers, and serves from the moment it is unfenced; the listeners are bound by now."""
        clean_epoch = self._logs.clean_shutdown_epoch
        await self.lifecycle.register(
            Identity(
                cluster_id=self._control.cluster_id,
                incarnation_id=self._incarnation_id,
                listeners=listeners,
                directory_ids=[i for path, i in self._directory_ids.items() if self._logs.is_online(path)],
                previous_epoch=-1 if clean_epoch is None else clean_epoch,
            )
        )
        self._isr.start()
        await self.lifecycle.unfence()
        self._directories.start()
        self._recording.start()
        self._maintenance = Maintenance(
            self._loop, self._config, self._disk, self._logs, self._wall_clock, self._offload
        )

    def measure_stepwise(self) -> Generator[None, None, BrokerMeasures]:
        """How it stands, a partition at a time."""
        broker = self.broker
        replication = yield from measure_stepwise(
            broker.replicas,
            broker.image,
            broker.replicas.context.counters,
            self._fetchers.max_lag(),
            named_at_most=self._config.tidelog_metrics_partitions_max,
        )
        return BrokerMeasures(replication=replication, traffic=replace(broker.traffic))

    def apply_config(self, config: NodeConfig) -> None:
        """Dynamic configs of the broker."""
        self._config = config
        self._fetchers.apply_config(config)
        throttle = self.broker.replicas.context.leader_throttle
        throttle.set_rate(config.leader_replication_throttled_rate, self._loop.time())
        if self._maintenance is not None:
            self._maintenance.apply_config(config)
        self._logs.apply_config(config)
        self._recording.apply_config(config)

    async def leave(self) -> None:
        """Gives leadership up while it still serves (C9)."""
        await self._recording.stop()
        await self.lifecycle.shut_down()

    async def stop(self) -> None:
        """No request is served any more. What it holds of the disk is for the caller to close."""
        await self._recording.stop()
        await self._fetchers.close()
        await self._peers.close()
        await self._isr.stop()
        await self._directories.stop()
        await self.lifecycle.stop()
        if self._maintenance is not None:
            await self._maintenance.stop()
            self._maintenance = None
        self.follower.close()

    def _leader_contacted(self, leader_id: int, refused: bool) -> None:
        if refused:
            self.broker.refusing[leader_id] = self._loop.time() + REFUSAL_S
        else:
            self.broker.refusing.pop(leader_id, None)

    def _offline_directories(self) -> list[UUID]:
        return [each for path, each in self._directory_ids.items() if not self._logs.is_online(path)]

    def _directory_failed(self, directory: LogDirectory, error: DiskError) -> None:
        """A failed directory takes its own partitions with it, and if the metadata lies in it or no other is left, the
        node (C10).
        """
        self.broker.replicas.on_directory_offline(directory, error)
        if directory.path == self._config.metadata_log_dir or not self._logs.any_online:
            self._on_fatal(error)
        else:
            # The controller moves what this broker led there.
            self._directories.look_at_all()
            self.lifecycle.heartbeat_soon()
