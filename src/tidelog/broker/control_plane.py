"""A node's part in the metadata quorum: voter or observer, the controller if it is one, and the way to the others.

Put together from a node's config and its metadata directory. A broker alone has everything here but the controller.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from tidelog.broker.broker_dialler import dial
from tidelog.broker.controller_channel import ControllerRouter
from tidelog.broker.controller_shell import ControllerShell
from tidelog.broker.links import Links
from tidelog.broker.metadata_publisher import MetadataPublisher
from tidelog.broker.peers import Peers
from tidelog.broker.quorum_shell import QuorumShell
from tidelog.client.addresses import Address
from tidelog.client.connection import ConnectionSettings
from tidelog.controller.controller import Controller
from tidelog.controller.counters import ElectionCounters
from tidelog.controller.fast_fence import DialOutcome
from tidelog.controller.measures import ControllerMeasures, measure_stepwise
from tidelog.core.config.node import NodeConfig
from tidelog.core.events import EventSink, QuorumLeaderChanged
from tidelog.core.ports import Offload, WallClock
from tidelog.metadata.image import ClusterImage
from tidelog.metadata.records import MetadataRecord, unframe
from tidelog.quorum.errors import QuorumError
from tidelog.quorum.formatting import BOOTSTRAP_CHECKPOINT, read_bootstrap
from tidelog.quorum.metadata_log import MetadataLogConfig
from tidelog.quorum.raft import Raft, RaftConfig
from tidelog.quorum.recovery import refuse_forgotten_vote
from tidelog.quorum.voters import ReplicaKey, Voter, VoterSet
from tidelog.storage.directory import LogDirectory
from tidelog.storage.ports import Disk
from tidelog.wire.errors import WireError

log = logging.getLogger("tidelog.quorum")

# Bootstrap servers have no node ids: they are asked under numbers that no node can have, as Kafka's are.
_FIRST_BOOTSTRAP_ID: Final = -2
# How often a node that waits for the quorum says so.
_PATIENCE_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlanePorts:
    """What the world hands in."""

    disk: Disk
    offload: Offload
    wall_clock: WallClock
    rng: random.Random
    events: EventSink
    on_fatal: Callable[[BaseException], None]


class ControlPlane:
    """`controller` is None on a node that is a broker only."""

    def __init__(
        self,
        config: NodeConfig,
        ports: ControlPlanePorts,
        *,
        cluster_id: str,
        directory_id: UUID,
        directory: LogDirectory | None = None,
        host_name: str = "localhost",
        links: Links | None = None,
    ) -> None:
        """QuorumError, one line, if what is on disk must not take part.

        `directory_id` is that of the metadata directory, whose lock the caller holds.
        """
        self._loop = loop = asyncio.get_running_loop()
        self._config = config
        self._host_name = host_name
        self._links = links
        self._events = ports.events
        self.cluster_id = cluster_id
        self.raft = raft = self._open_raft(ports, directory_id, directory)
        # A member that is slow to accept must not use up the time of an election.
        settings = ConnectionSettings(connect_timeout_s=config.controller_quorum_request_timeout_ms / 1000)
        self.peers = Peers(loop, config.node_id, address_of=self._address_of, settings=settings, links=links)
        self.quorum = QuorumShell(
            raft,
            self.peers,
            offload=ports.offload,
            wall_clock=ports.wall_clock,
            request_timeout_s=config.controller_quorum_request_timeout_ms / 1000,
            on_fatal=ports.on_fatal,
        )
        # The order matters: first everybody on this node hears what is committed, then requests are answered.
        self.publisher = MetadataPublisher(self.quorum, offload=ports.offload, wall_clock=ports.wall_clock)
        self.election_counters = ElectionCounters()
        self.publisher.subscribe(self.election_counters.on_metadata)
        self.controller = self._new_controller(ports) if config.is_controller else None
        self.router = ControllerRouter(
            leader=lambda: raft.leader_id,
            local=self.controller,
            peers=self.peers,
            loop=loop,
            rng=ports.rng,
            max_waiting=config.queued_max_requests,
        )
        self._known_leader: tuple[int, int, bool] = (-1, -1, False)
        self.on_leader_change: Callable[[], None] = lambda: None
        self.quorum.watch(self._look_for_leader)

    def _open_raft(self, ports: ControlPlanePorts, directory_id: UUID, directory: LogDirectory | None) -> Raft:
        config = self._config
        servers = config.controller_quorum_bootstrap_servers
        if config.is_controller:
            refuse_forgotten_vote(ports.disk, config.metadata_log_dir)
        return Raft.open(
            ports.disk,
            config.metadata_log_dir,
            node_id=config.node_id,
            directory_id=directory_id,
            config=raft_config(config),
            log_config=log_config(config),
            static_voters=static_voters(config),
            rng=ports.rng,
            now_ms=ports.wall_clock.now_ms(),
            now_s=self._loop.time(),
            cluster_id=self.cluster_id,
            endpoints=self._own_endpoints(),
            bootstrap=tuple(_FIRST_BOOTSTRAP_ID - index for index in range(len(servers))),
            directory=directory,
            may_vote=config.is_controller,
        )

    def _new_controller(self, ports: ControlPlanePorts) -> ControllerShell:
        config = self._config
        local_broker_id = config.node_id if config.is_broker else None
        return ControllerShell(
            self.quorum,
            self.publisher,
            Controller(config, self.cluster_id, ports.rng, local_broker_id=local_broker_id),
            bootstrap=_bootstrap(ports.disk, config.metadata_log_dir),
            wall_clock=ports.wall_clock,
            events=ports.events,
            dial=self._dial,
        )

    # --- life ---

    @property
    def image(self) -> ClusterImage:
        return self.publisher.image

    def measure_stepwise(self) -> Generator[None, None, ControllerMeasures | None]:
        """How the cluster stands, a partition at a time; None on a node that is no controller."""
        if self.controller is None:
            return None
        return (yield from measure_stepwise(self.image, self.election_counters, active=self.controller.is_active))

    def start(self) -> None:
        """Takes part from now on; the controller's listener should be bound, or nobody can answer."""
        self.quorum.start()

    async def until_caught_up(self) -> None:
        """Until a leader is known and all that it knew to be committed is replayed here. Patient, and says so."""
        waiting = asyncio.ensure_future(self.quorum.until(lambda: self.publisher.is_caught_up))
        try:
            while not (await asyncio.wait([waiting], timeout=_PATIENCE_S))[0]:
                voters = ", ".join(map(str, self.raft.voters.ids)) or "unknown"
                log.warning("waiting for the metadata quorum (voters %s, leader %d)", voters, self.raft.leader_id)
            waiting.result()
        finally:
            waiting.cancel()

    async def stop(self) -> None:
        """First what was decided, then the leadership of the quorum, then the connections."""
        if self.controller is not None:
            await self.controller.stop()
        await self.quorum.stop()
        await self.peers.close()

    def _look_for_leader(self) -> None:
        active = self.controller is not None and self.controller.is_active
        leader = (self.raft.leader_id, self.raft.epoch, active)
        if leader != self._known_leader:
            before, self._known_leader = self._known_leader, leader
            if leader[:2] != before[:2]:
                self._events(QuorumLeaderChanged(leader=self.raft.leader_id, epoch=self.raft.epoch))
            self.router.leader_changed()
            self.on_leader_change()

    # --- where everybody is ---

    def _address_of(self, node_id: int) -> Address | None:
        if node_id <= _FIRST_BOOTSTRAP_ID:
            return Address(*self._config.controller_quorum_bootstrap_servers[_FIRST_BOOTSTRAP_ID - node_id])
        endpoint = self.raft.endpoint(node_id)
        return None if endpoint is None else Address(*endpoint)

    def _own_endpoints(self) -> tuple[tuple[str, str, int], ...]:
        if not self._config.is_controller:
            return ()
        return tuple(
            (at.listener_name, at.host or self._host_name, at.port)
            for at in self._config.advertised_controller_listeners
        )

    async def _dial(self, broker_id: int, host: str, port: int, timeout_s: float) -> DialOutcome:
        if self._links is not None and self._links.is_cut(broker_id):
            return DialOutcome.SILENT
        return await dial(self._loop, Address(host, port), timeout_s)


def log_config(config: NodeConfig) -> MetadataLogConfig:
    """The keys of the metadata log."""
    return MetadataLogConfig(
        segment_bytes=config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
        retention_bytes=config.metadata_max_retention_bytes,
        retention_ms=config.metadata_max_retention_ms,
        max_batch_bytes=config.internal_metadata_max_batch_size_in_bytes,
        max_bytes_between_snapshots=config.metadata_log_max_record_bytes_between_snapshots,
        max_snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
    )


def raft_config(config: NodeConfig) -> RaftConfig:
    """The keys of the quorum."""
    return RaftConfig(
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
        fetch_snapshot_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
        listener_name=config.controller_listener_names[0],
    )


def static_voters(config: NodeConfig) -> VoterSet | None:
    """Those of `controller.quorum.voters`; None when it is not set."""
    if not config.controller_quorum_voters:
        return None
    name = config.controller_listener_names[0]
    return VoterSet.of(
        Voter(ReplicaKey(voter.node_id), ((name, voter.host, voter.port),)) for voter in config.controller_quorum_voters
    )


def _bootstrap(disk: Disk, metadata_dir: str) -> list[MetadataRecord]:
    try:
        return [unframe(value) for value in read_bootstrap(disk, metadata_dir) or ()]
    except WireError as error:
        raise QuorumError(f"{metadata_dir}/{BOOTSTRAP_CHECKPOINT} cannot be read: {error}") from error
