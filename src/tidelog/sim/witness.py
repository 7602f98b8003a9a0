"""Tells a trace of every election and every change of an in-sync set, once, by whichever node published it first; and
of every snapshot of the metadata, by whom it was written or fetched.
"""

from collections.abc import Callable
from functools import partial
from typing import Final
from uuid import UUID

from tidelog.core.ids import NO_LEADER
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, ClusterImage, LeaderRecoveryState, PartitionRegistration, Provenance
from tidelog.metadata.records import unframe
from tidelog.metadata.replay import apply_records
from tidelog.quorum.roles import Follower
from tidelog.quorum.snapshot_files import SnapshotId, SnapshotReader
from tidelog.sim.checks.metadata import is_unclean
from tidelog.sim.cluster import SimCluster
from tidelog.sim.trace import METADATA, Trace
from tidelog.storage.memory import MemoryDisk


class Witness:
    """One of those who hear `SimCluster.on_metadata`."""

    def __init__(self, trace: Trace) -> None:
        self.elections = 0
        """How often a partition got another leader, or one again: neither the first of its life, nor none."""
        self.unclean = 0
        """Of them those that had to take whoever was there; not those of one that has not recovered from that yet."""
        self._trace = trace
        # By the topic's id: one that is made anew under the same name begins with epoch 0 again.
        self._known: dict[tuple[UUID, int], PartitionRegistration] = {}

    def __call__(self, node_id: int, image: ClusterImage, delta: MetadataDelta) -> None:
        for changed in delta.topics.values():
            name, topic_id = changed.after.name, changed.after.topic_id
            for index, partition in changed.partitions.items():
                before = self._known.get((topic_id, index))
                if before is not None and partition.partition_epoch <= before.partition_epoch:
                    continue
                self._known[topic_id, index] = partition
                if before is None or partition.leader_epoch > before.leader_epoch:
                    unclean = partition.leader_recovery_state is LeaderRecoveryState.RECOVERING
                    if before is not None and partition.leader not in (NO_LEADER, before.leader):
                        self.elections += 1
                        self.unclean += is_unclean(before, partition)
                    self._trace.record(
                        METADATA,
                        "unclean" if unclean else "leader",
                        topic=name,
                        partition=index,
                        leader=partition.leader,
                        epoch=partition.leader_epoch,
                        replicas=partition.replicas,
                        isr=partition.isr,
                        elr=partition.elr,
                    )
                elif partition.isr != before.isr:
                    self._trace.record(
                        METADATA,
                        "isr",
                        topic=name,
                        partition=index,
                        replicas=partition.replicas,
                        isr=partition.isr,
                        elr=partition.elr,
                    )


SNAPSHOT_WRITTEN: Final = "snapshot_written"
SNAPSHOT_FETCHED: Final = "snapshot_fetched"


class SnapshotWitness:
    """Reads every snapshot when it gets its name, from the disk, for `on_snapshot`: what it says has to be what its log
    says.
    """

    def __init__(self, cluster: SimCluster, trace: Trace, on_snapshot: Callable[[int, ClusterImage], None]) -> None:
        self._cluster = cluster
        self._trace = trace
        self._on_snapshot = on_snapshot
        for node_id, node in cluster.nodes.items():
            node.machine.disk.on_rename = partial(self._renamed, node_id)

    def _renamed(self, node_id: int, path: str) -> None:
        snapshot = SnapshotId.parse(path.rpartition("/")[2])
        if snapshot is None:
            return
        node = self._cluster.nodes[node_id].node
        role = None if node is None or node.control is None else node.control.raft.role
        fetched = isinstance(role, Follower) and role.download is not None and role.download.snapshot == snapshot
        self._trace.record(
            METADATA,
            SNAPSHOT_FETCHED if fetched else SNAPSHOT_WRITTEN,
            node=node_id,
            end_offset=snapshot.end_offset,
            epoch=snapshot.epoch,
        )
        disk = MemoryDisk()
        disk.make_dirs("/")
        disk.write_atomic("/snapshot", self._cluster.machine(node_id).disk.peek(path, 0, 1 << 40))
        reader = SnapshotReader(disk, "/snapshot")
        at = Provenance(snapshot.end_offset - 1, snapshot.epoch, reader.head.last_contained_timestamp)
        image, _ = apply_records(EMPTY_IMAGE, (unframe(value) for value in reader.values()), at)
        self._on_snapshot(node_id, image)
