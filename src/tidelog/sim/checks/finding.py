"""Finds the replicas in the nodes of a simulated cluster, and keeps what each partition has promised through them."""

from collections.abc import Callable, Iterable
from uuid import UUID

from tidelog.broker.node import Node
from tidelog.core.ids import TopicIdPartition, TopicPartition
from tidelog.metadata.image import ClusterImage
from tidelog.replication.roles import Leader, Offline
from tidelog.sim.checks.history import PartitionHistory
from tidelog.sim.checks.look import ReplicaLook
from tidelog.sim.checks.mirror import LogMirror
from tidelog.sim.cluster import SimCluster, SimNode
from tidelog.sim.disk import SimDisk
from tidelog.sim.machine import State
from tidelog.storage.log import Log


class Replicas:
    """Every replica that is there or was last seen, by partition and node."""

    def __init__(self, cluster: SimCluster) -> None:
        self.of: dict[TopicPartition, dict[int, ReplicaLook]] = {}
        self.truncations = 0
        self.disks = {node_id: _disk_of(node) for node_id, node in cluster.nodes.items()}
        self._cluster = cluster
        self._histories: dict[TopicIdPartition, PartitionHistory] = {}
        self._lost_epochs: dict[tuple[int, TopicPartition], int | None] = {}
        """Where a file of leader epochs was damaged: the end of the log that was loaded with it, once it is loaded."""
        self._stale: dict[int, None] = {}
        """Nodes whose logs and registration have to be looked for again."""
        self._seen: dict[int, tuple[object, object, object]] = {}

    def history_of(self, topic_id: UUID, index: int) -> PartitionHistory:
        key = TopicIdPartition(topic_id, index)
        history = self._histories.get(key)
        if history is None:
            history = self._histories[key] = PartitionHistory()
        return history

    def on_epochs_lost(self, node_id: int, partition: TopicPartition) -> None:
        self._lost_epochs[node_id, partition] = None

    def look_again(self, node_ids: Iterable[int]) -> None:
        """When they are next asked for."""
        self._stale.update(dict.fromkeys(node_ids))

    def find_stale(self, partition: TopicPartition, image: ClusterImage) -> None:
        """Those, and nodes that have another log of this partition by now: one may be deleted and made anew."""
        known = self.of.get(partition, {})
        for node_id, node in self._cluster.nodes.items():
            running = node.node
            logs = None if running is None or node.machine.state is State.OFF else running._logs
            log = None if logs is None else logs.get(partition)
            replica = known.get(node_id)
            if node_id in self._stale or (log is not None and (replica is None or replica.log is not log)):
                self._find(node_id, image)

    def find_changed(self, image: ClusterImage) -> None:
        """The same, and nodes that have another process, other logs or another broker than they had."""
        for node_id, node in self._cluster.nodes.items():
            running = node.node
            seen = (running, None, None) if running is None else (running, running._logs, running.broker)
            if node_id in self._stale or seen != self._seen.get(node_id):
                self._find(node_id, image)

    def _find(self, node_id: int, image: ClusterImage) -> None:
        """Which logs the node has now, and in which process."""
        self._stale.pop(node_id, None)
        node = self._cluster.nodes[node_id]
        running = node.node
        logs = None if running is None or node.machine.state is State.OFF else running._logs
        broker = None if running is None else running.broker
        self._seen[node_id] = (running, logs, broker)
        registered = running is not None and _is_registered(running, node_id, image)
        there: dict[TopicPartition, None] = {}
        for log in logs or ():
            partition = log.topic_partition
            there[partition] = None
            replicas = self.of.setdefault(partition, {})
            known = replicas.get(node_id)
            if known is None or known.log is not log:
                known = replicas[node_id] = ReplicaLook(
                    node_id=node_id,
                    process=node.machine.starts,
                    topic_partition=partition,
                    log=log,
                    mirror=LogMirror(log, self.disks[node_id]),
                    epochs_from=self._whole_epochs(node_id, log),
                )
            self.find_role(known)
            known.registered = registered
        for partition, replicas in self.of.items():
            known = replicas.get(node_id)
            if known is not None and known.alive and partition not in there and known.log.directory.online:
                known.alive = False

    def find_role(self, replica: ReplicaLook) -> None:
        """A slow node takes its roles one by one, some time after it has told of the metadata that gave them."""
        node, partition = self._cluster.nodes[replica.node_id].node, replica.topic_partition
        held = None if node is None or node.broker is None else node.broker.replicas.get(partition)
        if held is not replica.partition:
            replica.partition = held
            replica.history = None if held is None else self.history_of(held.topic_id, partition.partition)

    def _whole_epochs(self, node_id: int, log: Log) -> int:
        """From which offset on its epochs have to be right: those of before may have been lost with their file."""
        key = (node_id, log.topic_partition)
        if key not in self._lost_epochs:
            return 0
        known = self._lost_epochs[key]
        if known is None:
            known = self._lost_epochs[key] = log.log_end_offset
        return known

    def note_exposure(self, replica: ReplicaLook) -> None:
        """What it has shown as a leader so far is promised."""
        partition, mirror = replica.partition, replica.mirror
        role = None if partition is None else partition.role
        leader = role if isinstance(role, Leader) else None
        replica.leader = leader
        if leader is None and isinstance(role, Offline):
            # It led until its directory failed; its high watermark stayed what it was.
            leader = replica.last_leader
        before = mirror.rebuilt
        if mirror.refresh():
            self.truncations += mirror.rebuilt - before
        # It may have shown more between the last look at it and its stepping down.
        deposed, replica.last_leader = replica.last_leader, leader
        leader = leader or deposed
        history = replica.history
        if leader is not None and history is not None:
            high_watermark = replica.log.high_watermark
            # Also of an earlier era: who still follows it takes its word.
            history.highest_hw = max(history.highest_hw, high_watermark)
            if high_watermark > history.true_hw and leader.epoch >= history.first_epoch:
                history.expose(mirror, high_watermark, f"shown by {replica.name} in epoch {leader.epoch}")

    def on_end(self, node_id: int) -> None:
        """Its process is about to be gone: the last look at what it has shown."""
        for replicas in self.of.values():
            replica = replicas.get(node_id)
            if replica is not None and replica.alive:
                if replica.partition is None:
                    self.find_role(replica)
                if replica.last_leader is not None or isinstance(replica.role, Leader):
                    self.note_exposure(replica)
                replica.alive = False


def _is_registered(node: Node, node_id: int, image: ClusterImage) -> bool:
    """Under the incarnation of this process."""
    role, registered = node._role, image.broker(node_id)
    return role is not None and registered is not None and registered.incarnation_id == role._incarnation_id


def _disk_of(node: SimNode) -> Callable[[], SimDisk]:
    machine = node.machine
    return lambda: machine.disk
