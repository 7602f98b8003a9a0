"""The state of every replica at one moment, as plain values: whoever shows or checks it needs nothing else."""

from dataclasses import dataclass

from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import LeaderRecoveryState, PartitionRegistration
from tidelog.replication.isr import Committed
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Leader, Offline
from tidelog.sim.scenario.picture import Entry as Entry
from tidelog.sim.scenario.replication.cluster import Machine, ReplicationCluster
from tidelog.storage.log import Log
from tidelog.wire.records.plain import iter_batches


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrView:
    """The in-sync set as its leader has it; `maximal` is None while nothing is pending (I4)."""

    isr: tuple[int, ...]
    maximal: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaView:
    """A replica that runs. `leader` is -1 for nobody; `isr` is set on a leader only."""

    leads: bool
    offline: bool
    leader: int
    leader_epoch: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    epochs: tuple[tuple[int, int], ...]
    entries: tuple[Entry, ...]
    isr: IsrView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerView:
    """`replica` is None if its process is down, or has no such replica (yet)."""

    broker_id: int
    running: bool
    fenced: bool
    replica: ReplicaView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """What the controller has decided, and what each broker has made of it so far."""

    topic_partition: TopicPartition
    registration: PartitionRegistration
    brokers: tuple[BrokerView, ...]

    @property
    def recovering(self) -> bool:
        return self.registration.leader_recovery_state is LeaderRecoveryState.RECOVERING


def look(cluster: ReplicationCluster) -> list[PartitionView]:
    """Every partition there is, by name."""
    views: list[PartitionView] = []
    image = cluster.controller.image
    for topic in sorted(image.topics_by_name):
        for index, registration in sorted(image.topics_by_name[topic].partitions.items()):
            topic_partition = TopicPartition(topic, index)
            brokers = [
                _broker(cluster, machine, topic_partition)
                for machine in cluster.machines.values()
                if machine.broker_id in registration.replicas or _replica_on(machine, topic_partition)
            ]
            views.append(
                PartitionView(topic_partition=topic_partition, registration=registration, brokers=tuple(brokers))
            )
    return views


def entries(log: Log) -> tuple[Entry, ...]:
    """All records, over all segments."""
    return tuple(
        Entry(record.offset, header.partition_leader_epoch, (record.value or b"").decode())
        for segment in log.segments
        for header, records in iter_batches(segment.log.pread(segment.size, 0))
        for record in records
        if log.log_start_offset <= record.offset < log.log_end_offset
    )


def _replica_on(machine: Machine, topic_partition: TopicPartition) -> Partition | None:
    return None if machine.process is None else machine.process.replicas.get(topic_partition)


def _broker(cluster: ReplicationCluster, machine: Machine, topic_partition: TopicPartition) -> BrokerView:
    registered = cluster.controller.image.broker(machine.broker_id)
    partition = _replica_on(machine, topic_partition)
    return BrokerView(
        broker_id=machine.broker_id,
        running=machine.process is not None,
        fenced=registered is None or registered.fenced,
        replica=None if partition is None else _replica(partition),
    )


def _replica(partition: Partition) -> ReplicaView:
    log, role = partition.log, partition.role
    isr: IsrView | None = None
    if isinstance(role, Leader):
        state = role.isr_state
        maximal = None if isinstance(state, Committed) else tuple(sorted(state.maximal_isr))
        isr = IsrView(isr=tuple(sorted(state.isr)), maximal=maximal)
    return ReplicaView(
        leads=isinstance(role, Leader),
        offline=isinstance(role, Offline),
        leader=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        high_watermark=log.high_watermark,
        epochs=tuple((entry.epoch, entry.start_offset) for entry in log.epochs.entries),
        entries=entries(log),
        isr=isr,
    )
