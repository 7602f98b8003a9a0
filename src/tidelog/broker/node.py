"""One node: starts its parts in order, keeps them going, stops them in order.

Start: directories checked and locked, the metadata log opened, the controller's listener bound, the quorum joined and
caught up with; then, for a broker, logs recovered, listeners bound, the broker registered and unfenced. Stop is the
same backwards: leadership given up, no new requests, those in flight answered, logs flushed and marked clean, the
quorum left last. Everything runs over the ports that are handed in, so the same node runs under simulation.
"""

import asyncio
import logging
import random
from collections.abc import Coroutine, Generator, Mapping, Sequence
from typing import Any, Final

from tidelog.broker.api.table import broker_dispatch, quorum_dispatch
from tidelog.broker.broker import Broker
from tidelog.broker.broker_role import BrokerRole
from tidelog.broker.control_plane import ControlPlane, ControlPlanePorts
from tidelog.broker.controller_api.services import ControllerServices
from tidelog.broker.dispatch import Dispatch
from tidelog.broker.event_log import log_event
from tidelog.broker.format import check_formatted
from tidelog.broker.lifecycle import AdvertisedListener
from tidelog.broker.limits import ConnectionLimits
from tidelog.broker.links import Links
from tidelog.broker.measures import NodeMeasures
from tidelog.broker.metadata_follower import PACE, Pace
from tidelog.broker.server import Listener, ListenError, Server
from tidelog.client.tasks import ended
from tidelog.core.config.listeners import Endpoint
from tidelog.core.config.node import NodeConfig
from tidelog.core.events import EventSink, NodeStarted, NodeStopped, NodeStopping
from tidelog.core.ports import Offload, WallClock
from tidelog.quorum.errors import QuorumError
from tidelog.storage.checkpoints import MetaProperties
from tidelog.storage.manager import LogManager
from tidelog.storage.ports import Disk, DiskError, Lock
from tidelog.wire.errors import ApiError

log = logging.getLogger("tidelog.node")

# How long requests in flight may take to be answered when the node stops.
DRAIN_S: Final = 5.0
# How long a controller that stops waits for brokers that are stopping too: they need it to leave in order.
OTHERS_LEAVE_S: Final = 5.0
OTHERS_ANNOUNCE_S: Final = 0.25
METADATA_LOCK: Final = ".lock"


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
        links: Links | None = None,
        on_event: EventSink = log_event,
        pace: Pace = PACE,
    ) -> None:
        self.config = config
        self._pace = pace
        self.failed = asyncio.Event()
        # What it runs on, once it has started; simulation looks into it.
        self.control: ControlPlane | None = None
        self._disk = disk
        self._wall_clock = wall_clock
        self._offload = offload
        self._rng = rng
        self._warnings = warnings
        self._host_name = host_name
        # Faults between nodes, where a supervisor may ask for them.
        self._links = links
        self._on_event = on_event
        self._failure: BaseException | None = None
        self._serves = False
        self._metadata_lock: Lock | None = None
        self._logs: LogManager | None = None
        self._server: Server | None = None
        self._role: BrokerRole | None = None

    @property
    def broker(self) -> Broker | None:
        """What it serves clients with; None before it does, and on a node that is a controller only."""
        return None if self._role is None else self._role.broker

    def measure_stepwise(self) -> Generator[None, None, NodeMeasures]:
        """How it stands (O3), a partition at a time, so that whoever asks can let others have their turn."""
        role, control = self._role, self.control
        return NodeMeasures(
            broker=None if role is None else (yield from role.measure_stepwise()),
            controller=None if control is None else (yield from control.measure_stepwise()),
        )

    @property
    def listeners(self) -> list[str]:
        """What is bound, as ``NAME://host:port``, in the order of the config."""
        bound = {} if self._server is None else self._server.listeners
        return [str(bound[at.listener_name]) for at in self.config.listeners if at.listener_name in bound]

    def port(self, listener_name: str) -> int:
        assert self._server is not None
        return self._server.port(listener_name)

    # --- starting

    async def start(self) -> None:
        """Serves when it returns. If it cannot, it says why in one line and leaves nothing open."""
        for warning in self._warnings:
            log.warning("%s", warning)
        try:
            await self._start()
        except (QuorumError, ListenError, ApiError) as error:
            await self._release()
            raise NodeError(str(error)) from error
        except BaseException:
            await self._release()
            raise

    async def _start(self) -> None:
        config = self.config
        metas, unreadable = check_formatted(self._disk, config)
        meta = metas[config.metadata_log_dir]
        self._take_directories(unreadable)
        self._server = Server(ConnectionLimits.from_config(config), loop=asyncio.get_running_loop(), links=self._links)
        self.control = control = self._open_control_plane(meta)
        services = ControllerServices(
            quorum=control.quorum,
            controller=control.controller,
            cluster_id=meta.cluster_id,
            node_id=config.node_id,
            image=lambda: control.image,
        )
        await self._listen(config.controller_listeners, quorum_dispatch(services))
        control.start()
        await control.until_caught_up()
        if config.is_broker:
            await self._start_broker(control, metas)
        self._serves = True
        self._on_event(
            NodeStarted(
                node_id=config.node_id,
                cluster_id=meta.cluster_id,
                roles=tuple(config.process_roles),
                listeners=tuple(self.listeners),
            )
        )

    def _take_directories(self, unreadable: Mapping[str, DiskError]) -> None:
        """Nobody else may write there; a broker's logs hold their directories' locks."""
        config = self.config
        for error in unreadable.values():
            log.warning("continuing without a log directory that cannot be read: %s", error)
        if config.is_broker:
            self._logs = LogManager(self._disk, config, self._rng, on_event=self._on_event)
            self._logs.open(unreadable)
        if self._logs is None or config.metadata_log_dir not in config.log_dirs:
            self._metadata_lock = self._disk.lock(f"{config.metadata_log_dir}/{METADATA_LOCK}")

    def _open_control_plane(self, meta: MetaProperties) -> ControlPlane:
        config = self.config
        shares_directory = self._logs is not None and config.metadata_log_dir in config.log_dirs
        return ControlPlane(
            config,
            ControlPlanePorts(
                disk=self._disk,
                offload=self._offload,
                wall_clock=self._wall_clock,
                rng=self._rng,
                events=self._on_event,
                on_fatal=self._on_fatal,
            ),
            cluster_id=meta.cluster_id,
            directory_id=meta.directory_id,
            directory=self._logs.health(config.metadata_log_dir) if self._logs and shares_directory else None,
            host_name=self._host_name,
            links=self._links,
        )

    async def _start_broker(self, control: ControlPlane, metas: dict[str, MetaProperties]) -> None:
        config = self.config
        assert self._logs is not None
        self._role = role = BrokerRole(
            config,
            control,
            self._logs,
            directory_ids={path: metas[path].directory_id for path in config.log_dirs if path in metas},
            disk=self._disk,
            wall_clock=self._wall_clock,
            offload=self._offload,
            rng=self._rng,
            on_event=self._on_event,
            on_fatal=self._on_fatal,
            links=self._links,
            pace=self._pace,
        )
        role.follower.on_config = self._apply_config
        await role.load()
        self._check_failure()
        await self._listen(
            config.broker_listeners, broker_dispatch(role.broker, lambda: control.raft.voters.kraft_version)
        )
        await self._unless_failed(role.join(self._advertised()))

    async def _unless_failed(self, work: Coroutine[Any, Any, None]) -> None:
        await self._until_failed(work)
        self._check_failure()

    async def _until_failed(self, work: Coroutine[Any, Any, None]) -> None:
        """Waits for what needs the cluster. A node whose metadata log has failed follows no controller any more, so it
        would wait for ever: to be caught up, to be unfenced, to be let go.
        """
        working, failed = asyncio.ensure_future(work), asyncio.ensure_future(self.failed.wait())
        try:
            await asyncio.wait((working, failed), return_when=asyncio.FIRST_COMPLETED)
            if self._failure is None:
                await working
        finally:
            for each in (working, failed):
                each.cancel()
            await ended([working, failed])

    def _check_failure(self) -> None:
        if self._failure is not None:
            raise NodeError(f"the node cannot continue: {self._failure}")

    async def _listen(self, endpoints: Sequence[Endpoint], dispatch: Dispatch) -> None:
        assert self._server is not None
        for endpoint in endpoints:
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

    def _apply_config(self, config: NodeConfig) -> None:
        """Dynamic configs that concern the node itself and not a topic."""
        self.config = config
        if self._server is not None:
            self._server.update_limits(ConnectionLimits.from_config(config))
        if self._role is not None:
            self._role.apply_config(config)

    def _on_fatal(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
            # While it starts, whoever starts it is told.
            if self._serves:
                log.error("the node cannot continue and stops: %s", error)
            self.failed.set()

    # --- stopping

    async def stop(self) -> None:
        """In order: leadership given up, no new requests, everything flushed and marked clean, the quorum left."""
        reason = "requested" if self._failure is None else str(self._failure)
        self._on_event(NodeStopping(node_id=self.config.node_id, reason=reason))
        # It may also fail while it stops.
        if self._role is not None and self._failure is None:
            await self._until_failed(self._role.leave())
        if self.control is not None and self._failure is None:
            await self._until_failed(self._let_others_leave(self.control))
        if self._server is not None:
            await self._server.stop(DRAIN_S)
        if self._role is not None:
            await self._role.stop()
        if self.control is not None:
            await self.control.stop()
        if self._logs is not None and self._role is not None and self._failure is None:
            await self._offload(
                self._logs.close_cleanly,
                self._role.lifecycle.epoch,
                self._wall_clock.now_ms(),
                run_all=self._offload.run_all,
            )
            self._logs = None
        await self._release()
        self._on_event(NodeStopped(node_id=self.config.node_id))

    async def _let_others_leave(self, control: ControlPlane) -> None:
        """A cluster that stops as a whole: the controller stays until the other brokers have been let go."""
        controller = control.controller
        if controller is None or not controller.is_active:
            return
        loop = asyncio.get_running_loop()
        heard_all_s = loop.time() + OTHERS_ANNOUNCE_S
        loop.call_later(OTHERS_ANNOUNCE_S, control.quorum.wake)

        def all_gone() -> bool:
            others = [each for each in control.image.brokers.values() if each.broker_id != self.config.node_id]
            leaving = any(each.in_controlled_shutdown and not each.fenced for each in others)
            # Those that were told to stop together with this node may not have said so yet.
            done = all(each.fenced for each in others) or (not leaving and loop.time() >= heard_all_s)
            return done or not controller.is_active

        try:
            async with asyncio.timeout(OTHERS_LEAVE_S):
                await control.quorum.until(all_gone)
        except (TimeoutError, QuorumError) as error:
            log.warning("other brokers are still shutting down: %s", error)

    async def _release(self) -> None:
        """Gives back what is held, whatever state the start reached."""
        if self._server is not None:
            await self._server.stop(0.0)
        if self._role is not None:
            await self._role.stop()
        if self.control is not None:
            await self.control.stop()
        if self._logs is not None:
            self._logs.release()
            self._logs = None
        if self._metadata_lock is not None:
            self._metadata_lock.release()
            self._metadata_lock = None
