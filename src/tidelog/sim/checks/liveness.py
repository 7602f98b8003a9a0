"""Once faults stop, everything that can happen must happen: what still has not, in words."""

from collections.abc import Iterator

from tidelog.metadata.compare import compare
from tidelog.replication.isr import Committed
from tidelog.sim.checks.look import PartitionLook
from tidelog.sim.checks.watch import Watch
from tidelog.sim.cluster import SimCluster


class Unsettled(Exception):
    """Faults are over for long, and something has still not happened."""


class Liveness:
    """Once faults stop: every node running, every AlterPartition resolved, metadata converged, every write answered,
    every acknowledged record on every replica, reassignments complete, a controller elected.
    """

    def __init__(self, cluster: SimCluster, watch: Watch) -> None:
        self._cluster = cluster
        self._watch = watch

    @classmethod
    def statement(cls) -> str:
        return " ".join((cls.__doc__ or "").split())

    def missing(self) -> str | None:
        """The first thing that is not yet as it must be."""
        return next(self._missing(), None)

    def _missing(self) -> Iterator[str]:
        yield from self._of_nodes()
        for look in self._watch.looks():
            yield from self._of_partition(look)

    def _of_nodes(self) -> Iterator[str]:
        active = []
        for node_id, node in self._cluster.nodes.items():
            running = node.node
            if running is None or running.control is None or not node.serves:
                yield f"node {node_id} is not serving"
                return
            control = running.control
            if control.controller is not None and control.controller.is_active:
                active.append(node_id)
            difference = compare(control.image, self._watch.image)
            if not difference.is_empty:
                yield f"node {node_id} has replayed metadata that differs from the newest: {difference}"
            if running.broker is not None and running.broker.replicas.context.changes.is_in_flight:
                yield f"an AlterPartition of node {node_id} is still in flight"
        if len(active) != 1:
            yield f"{len(active)} active controllers"
        for broker in self._watch.image.brokers.values():
            if not broker.active:
                yield f"broker {broker.broker_id} is fenced or shutting down"

    def _of_partition(self, look: PartitionLook) -> Iterator[str]:
        registration, name = look.registration, look.topic_partition
        if registration.adding_replicas or registration.removing_replicas:
            yield f"{name} is being reassigned"
        if registration.leader < 0:
            yield f"{name} has no leader"
        if set(registration.isr) != set(registration.replicas):
            yield f"{name} has the ISR {list(registration.isr)} of {list(registration.replicas)}"
        leader = look.leader
        if leader is None or leader.leader is None:
            yield f"{name}: broker {registration.leader} does not lead it in epoch {registration.leader_epoch}"
            return
        if not isinstance(leader.leader.isr_state, Committed):
            yield f"{name}: an ISR change is still pending on {leader.name}"
        end = leader.log.log_end_offset
        for node_id in registration.replicas:
            replica = look.of(node_id)
            if replica is None or not replica.is_running:
                yield f"{name} has no running replica on {node_id}"
            elif (replica.log.log_end_offset, replica.log.high_watermark) != (end, end):
                log = replica.log
                yield f"{name} on {node_id}: LEO {log.log_end_offset} HW {log.high_watermark}, the leader has LEO {end}"
