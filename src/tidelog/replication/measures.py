"""How replication stands on one broker, in Kafka's gauges (O3). A picture taken when somebody looks; nothing is kept.

As in Kafka only a leader measures the in-sync set, so that a sum over brokers counts each partition once.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass

from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import ClusterImage
from tidelog.replication import leading
from tidelog.replication.counters import ReplicationCounters
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Leader, Offline


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMeasures:
    """`kafka.cluster:type=Partition` and `kafka.log:type=Log` of a partition that this broker leads."""

    topic_partition: TopicPartition
    under_replicated: bool
    under_min_isr: bool
    at_min_isr: bool
    in_sync_replicas: int
    replicas: int
    last_stable_offset_lag: int
    log_start_offset: int
    log_end_offset: int
    size_bytes: int

    @property
    def is_troubled(self) -> bool:
        """Whether somebody may be looking for it by name. At its minimum ISR is also every partition without copies."""
        return self.under_replicated or self.under_min_isr or self.last_stable_offset_lag > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationMeasures:
    """`kafka.server:type=ReplicaManager` and `ReplicaFetcherManager`."""

    replicas: int
    leaders: int
    offline_replicas: int
    under_replicated_partitions: int
    under_min_isr_partitions: int
    at_min_isr_partitions: int
    isr_expands: int
    isr_shrinks: int
    failed_isr_updates: int
    # Committed records that the furthest behind of the followed partitions lacks.
    max_lag: int
    # In order: all that this broker leads or, where these are too many, as many as allowed of those in trouble.
    partitions: tuple[PartitionMeasures, ...]


def measure_stepwise(
    partitions: Iterable[Partition],
    image: ClusterImage,
    counters: ReplicationCounters,
    max_lag: int,
    *,
    named_at_most: int,
) -> Generator[None, None, ReplicationMeasures]:
    """A partition at a time: a broker may hold ten thousand, and others want their turn."""
    held = list(partitions)
    led = [each for each in held if isinstance(each.role, Leader)]
    names_all = len(led) <= named_at_most
    leaders = under_replicated = under_min_isr = at_min_isr = 0
    named: list[PartitionMeasures] = []
    for partition in led:
        # It may have lost its role while others had their turn.
        if isinstance(partition.role, Leader):
            found = _measure(partition, partition.role, image)
            leaders += 1
            under_replicated += found.under_replicated
            under_min_isr += found.under_min_isr
            at_min_isr += found.at_min_isr
            if names_all or (found.is_troubled and len(named) < named_at_most):
                named.append(found)
        yield
    offline = sum(isinstance(each.role, Offline) for each in held)
    return ReplicationMeasures(
        replicas=len(held) - offline,
        leaders=leaders,
        offline_replicas=offline,
        under_replicated_partitions=under_replicated,
        under_min_isr_partitions=under_min_isr,
        at_min_isr_partitions=at_min_isr,
        isr_expands=counters.isr_expands,
        isr_shrinks=counters.isr_shrinks,
        failed_isr_updates=counters.failed_isr_updates,
        max_lag=max_lag,
        partitions=tuple(sorted(named, key=lambda each: each.topic_partition)),
    )


def _measure(partition: Partition, role: Leader, image: ClusterImage) -> PartitionMeasures:
    log = partition.log
    registration = image.partition(partition.topic_partition)
    # Replicas that a reassignment adds cannot be in sync yet, and are not missed.
    adding = () if registration is None else registration.adding_replicas
    factor = sum(replica not in adding for replica in role.replicas)
    members = len(role.isr_state.isr)
    minimum = leading.effective_min_isr(role, log)
    return PartitionMeasures(
        topic_partition=partition.topic_partition,
        under_replicated=members < factor,
        under_min_isr=members < minimum,
        at_min_isr=members == minimum,
        in_sync_replicas=members,
        replicas=factor,
        last_stable_offset_lag=log.high_watermark - log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        size_bytes=log.size_bytes,
    )
