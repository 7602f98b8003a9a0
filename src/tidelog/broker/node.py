"""One node: starts its parts in order, keeps them going, stops them in order.

Start: directories checked and locked, the metadata log replayed, logs recovered, listeners bound, the broker registered
and unfenced. Stop is the same backwards: no new requests, those in flight answered, leadership given up, logs flushed
and marked clean. Everything runs over the ports that are handed in, so the same node runs under simulation.
"""

import asyncio
import logging
import random
from collections.abc import Sequence

from tidelog.broker.api.table import broker_dispatch, controller_dispatch
from tidelog.broker.assembly import assemble_broker
from tidelog.broker.broker import Broker
from tidelog.broker.controller_setup import start_controller
from tidelog.broker.controller_shell import ControllerShell
from tidelog.broker.dispatch import Dispatch
from tidelog.broker.event_log import log_event
from tidelog.broker.format import check_formatted
from tidelog.broker.lifecycle import AdvertisedListener, BrokerLifecycle, Identity
from tidelog.broker.limits import ConnectionLimits
from tidelog.broker.maintenance import Maintenance
from tidelog.broker.metadata_follower import MetadataFollower
from tidelog.broker.periodic import Periodic
from tidelog.broker.server import Listener, ListenError, Server
from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import random_uuid
from tidelog.core.ports import Offload, WallClock
from tidelog.quorum.errors import QuorumError
from tidelog.storage.checkpoints import MetaProperties
from tidelog.storage.directory import LogDirectory
from tidelog.storage.manager import LogManager
from tidelog.storage.ports import Disk, DiskError, Lock
from tidelog.wire.errors import ApiError

log = logging.getLogger("tidelog.node")

# How long requests in flight may take to be answered when the node stops.
DRAIN_S = 5.0
FENCE_CHECK_S = 0.5
METADATA_LOCK = ".lock"


class NodeError(Exception):
    """Why the node cannot start or go on; one line for whoever runs it."""


class Node:
    """See the module. `failed` is set when the node cannot go on: its metadata directory is gone (C10)."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        disk: Disk,
        wall_clock: WallClock,
        offload: Offload,
        rng: random.Random,
        warnings: Sequence[str] = (),
        host_name: str = "localhost",
    ) -> None:
        self.config = config
        self.failed = asyncio.Event()
        # What it serves with, once it has started; simulation looks into it.
        self.broker: Broker | None = None
        self._disk = disk
        self._wall_clock = wall_clock
        self._offload = offload
        self._rng = rng
        self._warnings = warnings
        self._host_name = host_name
        self._metadata_lock: Lock | None = None
        self._logs: LogManager | None = None
        self._controller: ControllerShell | None = None
        self._server: Server | None = None
        self._lifecycle: BrokerLifecycle | None = None
        self._maintenance: Maintenance | None = None
        self._fencing: Periodic | None = None
        self._follower: MetadataFollower | None = None

    @property
    def listeners(self) -> list[str]:
        """What is bound, as ``NAME://host:port``."""
        return [] if self._server is None else [str(listener) for listener in self._server.listeners.values()]

    def port(self, listener_name: str) -> int:
        assert self._server is not None
        return self._server.port(listener_name)

    # --- starting

    async def start(self) -> None:
        """Serves when it returns. If it cannot, it says why in one line and leaves nothing open."""
        for warning in self._warnings:
            log.warning("%s", warning)
        try:
            await self._start(asyncio.get_running_loop())
        except (QuorumError, ListenError, ApiError) as error:
            await self._release()
            raise NodeError(str(error)) from error
        except BaseException:
            await self._release()
            raise

    async def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        config = self.config
        metas = check_formatted(self._disk, config)
        meta = metas[config.metadata_log_dir]
        self._logs = LogManager(self._disk, config, self._rng, on_event=log_event)
        self._logs.open()
        if config.metadata_log_dir not in config.log_dirs:
            self._metadata_lock = self._disk.lock(f"{config.metadata_log_dir}/{METADATA_LOCK}")
        self._controller = await self._start_controller(meta)
        self.broker = broker = assemble_broker(
            loop, config, meta.cluster_id, self._logs, self._controller, self._wall_clock, self._offload, self._rng
        )
        incarnation_id = random_uuid(self._rng)
        self._follower = MetadataFollower(broker, self._logs, incarnation_id)
        self._logs.on_directory_offline = self._directory_failed
        self._follower.load(self._controller.image)
        if self.failed.is_set():
            raise NodeError(f"{config.metadata_log_dir} holds the metadata log and cannot be trusted; see the log")
        self._controller.subscribe(self._follower.on_metadata)
        self._server = Server(ConnectionLimits.from_config(config), loop=loop)
        self._follower.on_config = self._apply_config
        await self._listen(broker_dispatch(broker), controller_dispatch(broker))
        directory_ids = {path: metas[path].directory_id for path in config.log_dirs}
        lifecycle = BrokerLifecycle(
            loop,
            config,
            self._controller,
            metadata_offset=lambda: broker.image.provenance.offset,
            offline_directories=lambda: [
                directory_id for path, directory_id in directory_ids.items() if not self._is_online(path)
            ],
        )
        self._lifecycle = lifecycle
        clean_epoch = self._logs.clean_shutdown_epoch
        await lifecycle.register(
            Identity(
                cluster_id=meta.cluster_id,
                incarnation_id=incarnation_id,
                listeners=self._advertised(),
                directory_ids=[i for path, i in directory_ids.items() if self._is_online(path)],
                previous_epoch=-1 if clean_epoch is None else clean_epoch,
            )
        )
        await lifecycle.unfence()
        self._maintenance = Maintenance(loop, config, self._disk, self._logs, self._wall_clock, self._offload)
        self._fencing = Periodic(loop, "fencing", FENCE_CHECK_S, self._controller.fence_stale_brokers)
        log.info("node %d of cluster %s serves %s", config.node_id, meta.cluster_id, ", ".join(self.listeners))

    async def _start_controller(self, meta: MetaProperties) -> ControllerShell:
        config = self.config
        assert self._logs is not None
        shares_directory = config.metadata_log_dir in config.log_dirs
        return await start_controller(
            self._disk,
            config,
            cluster_id=meta.cluster_id,
            directory_id=meta.directory_id,
            offload=self._offload,
            wall_clock=self._wall_clock,
            rng=self._rng,
            events=log_event,
            on_fatal=self._on_fatal,
            directory=self._logs.health(config.metadata_log_dir) if shares_directory else None,
        )

    async def _listen(self, for_clients: Dispatch, for_controllers: Dispatch) -> None:
        assert self._server is not None
        for endpoint in self.config.listeners:
            dispatch = for_controllers if endpoint in self.config.controller_listeners else for_clients
            await self._server.listen(Listener(endpoint.listener_name, endpoint.host, endpoint.port), dispatch)

    def _advertised(self) -> list[AdvertisedListener]:
        """What clients are told; an empty host is this machine's name, port 0 the port that was bound."""
        assert self._server is not None
        return [
            AdvertisedListener(
                at.listener_name,
                at.host or self._host_name,
                at.port or self._server.port(at.listener_name),
                at.security_protocol,
            )
            for at in self.config.advertised_broker_listeners
        ]

    def _is_online(self, path: str) -> bool:
        return self._logs is not None and self._logs.is_online(path)

    def _apply_config(self, config: NodeConfig) -> None:
        """Dynamic configs that concern the node itself and not a topic."""
        self.config = config
        if self._server is not None:
            self._server.update_limits(ConnectionLimits.from_config(config))
        if self._maintenance is not None:
            self._maintenance.apply_config(config)
        if self._logs is not None:
            self._logs.apply_config(config)

    def _directory_failed(self, directory: LogDirectory, error: DiskError) -> None:
        """A failed directory takes its own partitions with it, and if the metadata lies in it, the node (C10)."""
        assert self.broker is not None
        self.broker.replicas.on_directory_offline(directory, error)
        if directory.path == self.config.metadata_log_dir:
            self._on_fatal(error)

    def _on_fatal(self, error: BaseException) -> None:
        log.error("the metadata log's directory failed, the node stops: %s", error)
        self.failed.set()

    # --- stopping

    async def stop(self) -> None:
        """In order: no new requests, leadership given up, everything flushed and marked clean."""
        log.info("node %d is stopping", self.config.node_id)
        clean = not self.failed.is_set()
        if self._lifecycle is not None and clean:
            await self._lifecycle.shut_down()
        if self._server is not None:
            await self._server.stop(DRAIN_S)
        for part in (self._fencing, self._maintenance):
            if part is not None:
                await part.stop()
        if self._follower is not None:
            self._follower.close()
        if self._controller is not None:
            await self._controller.stop()
            self._controller = None
        if self._logs is not None and clean and self._lifecycle is not None:
            await self._offload(
                self._logs.close_cleanly,
                self._lifecycle.epoch,
                self._wall_clock.now_ms(),
                run_all=self._offload.run_all,
            )
            self._logs = None
        await self._release()
        log.info("node %d has stopped", self.config.node_id)

    async def _release(self) -> None:
        """Gives back what is held, whatever state the start reached."""
        if self._server is not None:
            await self._server.stop(0.0)
        for part in (self._fencing, self._maintenance, self._lifecycle):
            if part is not None:
                await part.stop()
        if self._controller is not None:
            await self._controller.stop()
            self._controller = None
        if self._logs is not None:
            self._logs.release()
            self._logs = None
        if self._metadata_lock is not None:
            self._metadata_lock.release()
            self._metadata_lock = None
