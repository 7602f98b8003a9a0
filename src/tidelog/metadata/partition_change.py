"""What a PartitionRecord or a PartitionChangeRecord makes of a partition, and how a partition is written back."""

from uuid import UUID

from tidelog.core.ids import DIR_UNASSIGNED
from tidelog.metadata.image import LeaderRecoveryState, PartitionRegistration
from tidelog.metadata.records import (
    LEADER_UNCHANGED,
    RECOVERY_STATE_UNCHANGED,
    PartitionChangeRecord,
    PartitionRecord,
)


def partition_from_record(record: PartitionRecord) -> PartitionRegistration:
    """A whole partition."""
    replicas = tuple(record.replicas)
    return PartitionRegistration(
        replicas=replicas,
        directories=tuple(record.directories) or (DIR_UNASSIGNED,) * len(replicas),
        isr=tuple(record.isr),
        elr=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
        adding_replicas=tuple(record.adding_replicas),
        removing_replicas=tuple(record.removing_replicas),
        leader=record.leader,
        leader_recovery_state=LeaderRecoveryState(record.leader_recovery_state),
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
    )


def partition_to_record(topic_id: UUID, index: int, partition: PartitionRegistration) -> PartitionRecord:
    """The inverse of `partition_from_record`."""
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        # Kafka leaves out an empty ELR, so that a record without one is the same in every version.
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def merge_change(partition: PartitionRegistration, record: PartitionChangeRecord) -> PartitionRegistration:
    """The partition after a change. Writing the leader field bumps the leader epoch, even to the same leader (C3)."""
    replicas, directories = partition.replicas, partition.directories
    if record.replicas is not None:
        known = dict(zip(replicas, directories, strict=False))
        replicas = tuple(record.replicas)
        directories = tuple(known.get(replica, DIR_UNASSIGNED) for replica in replicas)
    if record.directories is not None:
        directories = tuple(record.directories)
    leader, leader_epoch = partition.leader, partition.leader_epoch
    if record.leader != LEADER_UNCHANGED:
        leader, leader_epoch = record.leader, leader_epoch + 1
    recovery_state = partition.leader_recovery_state
    if record.leader_recovery_state != RECOVERY_STATE_UNCHANGED:
        recovery_state = LeaderRecoveryState(record.leader_recovery_state)
    return PartitionRegistration(
        replicas=replicas,
        directories=directories,
        isr=_changed(record.isr, partition.isr),
        elr=_changed(record.eligible_leader_replicas, partition.elr),
        last_known_elr=_changed(record.last_known_elr, partition.last_known_elr),
        adding_replicas=_changed(record.adding_replicas, partition.adding_replicas),
        removing_replicas=_changed(record.removing_replicas, partition.removing_replicas),
        leader=leader,
        leader_recovery_state=recovery_state,
        leader_epoch=leader_epoch,
        partition_epoch=partition.partition_epoch + 1,
    )


def _changed(new: list[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else tuple(new)
