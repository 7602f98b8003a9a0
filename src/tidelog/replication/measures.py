"""How replication stands on one broker, in Kafka's gauges (O3). A picture taken when somebody looks; nothing is kept.

As in Kafka only a leader measures the in-sync set, so that a sum over brokers counts each partition once.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import ClusterImage
from tidelog.replication import leading
from tidelog.replication.counters import ReplicationCounters
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Leader, Offline


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMeasures:
    """`kafka.cluster:type=Partition`; of a replica that does not lead all but the last are 0."""

    topic_partition: TopicPartition
    leads: bool
    under_replicated: bool
    under_min_isr: bool
    at_min_isr: bool
    in_sync_replicas: int
    replicas: int
    last_stable_offset_lag: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationMeasures:
    """`kafka.server:type=ReplicaManager` and `ReplicaFetcherManager`."""

    partitions: tuple[PartitionMeasures, ...]
    offline_replicas: int
    isr_expands: int
    isr_shrinks: int
    failed_isr_updates: int
    # Committed records that the furthest behind of the followed partitions lacks.
    max_lag: int

    @property
    def leaders(self) -> int:
        return sum(each.leads for each in self.partitions)

    @property
    def under_replicated_partitions(self) -> int:
        return sum(each.under_replicated for each in self.partitions)

    @property
    def under_min_isr_partitions(self) -> int:
        return sum(each.under_min_isr for each in self.partitions)

    @property
    def at_min_isr_partitions(self) -> int:
        return sum(each.at_min_isr for each in self.partitions)


def measure(
    partitions: Iterable[Partition], image: ClusterImage, counters: ReplicationCounters, max_lag: int
) -> ReplicationMeasures:
    held = sorted(partitions, key=lambda each: each.topic_partition)
    return ReplicationMeasures(
        partitions=tuple(_measure(each, image) for each in held if not isinstance(each.role, Offline)),
        offline_replicas=sum(isinstance(each.role, Offline) for each in held),
        isr_expands=counters.isr_expands,
        isr_shrinks=counters.isr_shrinks,
        failed_isr_updates=counters.failed_isr_updates,
        max_lag=max_lag,
    )


def _measure(partition: Partition, image: ClusterImage) -> PartitionMeasures:
    log, role = partition.log, partition.role
    leads = isinstance(role, Leader)
    members = minimum = factor = 0
    if isinstance(role, Leader):
        registration = image.partition(partition.topic_partition)
        # Replicas that a reassignment adds cannot be in sync yet, and are not missed.
        adding = () if registration is None else registration.adding_replicas
        factor = sum(replica not in adding for replica in role.replicas)
        members = len(role.isr_state.isr)
        minimum = leading.effective_min_isr(role, log)
    return PartitionMeasures(
        topic_partition=partition.topic_partition,
        leads=leads,
        under_replicated=leads and members < factor,
        under_min_isr=leads and members < minimum,
        at_min_isr=leads and members == minimum,
        in_sync_replicas=members,
        replicas=factor,
        last_stable_offset_lag=log.high_watermark - log.last_stable_offset,
    )
