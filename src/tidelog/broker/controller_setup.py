"""A controller from a node's config and directories."""

import asyncio
import random
from collections.abc import Callable
from uuid import UUID

from tidelog.broker.controller_shell import ControllerShell
from tidelog.controller.controller import Controller
from tidelog.core.config.node import NodeConfig
from tidelog.core.events import EventSink
from tidelog.core.ports import Offload, WallClock
from tidelog.metadata.records import MetadataRecord, unframe
from tidelog.quorum.errors import QuorumError
from tidelog.quorum.formatting import BOOTSTRAP_CHECKPOINT, read_bootstrap
from tidelog.quorum.metadata_log import MetadataLogConfig
from tidelog.quorum.raft import Raft, RaftConfig
from tidelog.quorum.voters import ReplicaKey, Voter, VoterSet
from tidelog.storage.directory import LogDirectory
from tidelog.storage.ports import Disk
from tidelog.wire.errors import WireError


async def start_controller(
    disk: Disk,
    config: NodeConfig,
    *,
    cluster_id: str,
    directory_id: UUID,
    offload: Offload,
    wall_clock: WallClock,
    rng: random.Random,
    events: EventSink,
    on_fatal: Callable[[BaseException], None],
    directory: LogDirectory | None = None,
) -> ControllerShell:
    """The active controller of a quorum of one, with everything replayed. QuorumError, one line, if it must not start.

    `directory_id` is that of the metadata directory, whose lock the caller holds.
    """
    metadata_dir = config.metadata_log_dir
    quorum = Raft.open(
        disk,
        metadata_dir,
        node_id=config.node_id,
        directory_id=directory_id,
        config=raft_config(config),
        log_config=log_config(config),
        static_voters=static_voters(config),
        rng=rng,
        now_ms=wall_clock.now_ms(),
        now_s=asyncio.get_running_loop().time(),
        cluster_id=cluster_id,
        directory=directory,
    )
    controller = Controller(config, cluster_id, rng, local_broker_id=config.node_id if config.is_broker else None)
    shell = ControllerShell(
        quorum, controller, offload=offload, wall_clock=wall_clock, events=events, on_fatal=on_fatal
    )
    await shell.start(_bootstrap(disk, metadata_dir))
    return shell


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
