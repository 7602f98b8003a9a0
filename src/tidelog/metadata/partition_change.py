"""What a PartitionRecord or a PartitionChangeRecord makes of a partition, and how a partition is written back."""

from dataclasses import replace
from typing import Any
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
    changes: dict[str, Any] = {"partition_epoch": partition.partition_epoch + 1}
    if record.replicas is not None:
        changes["replicas"] = tuple(record.replicas)
    if record.directories is not None:
        changes["directories"] = tuple(record.directories)
    elif record.replicas is not None:
        known = dict(zip(partition.replicas, partition.directories, strict=False))
        changes["directories"] = tuple(known.get(replica, DIR_UNASSIGNED) for replica in record.replicas)
    if record.isr is not None:
        changes["isr"] = tuple(record.isr)
    if record.eligible_leader_replicas is not None:
        changes["elr"] = tuple(record.eligible_leader_replicas)
    if record.last_known_elr is not None:
        changes["last_known_elr"] = tuple(record.last_known_elr)
    if record.adding_replicas is not None:
        changes["adding_replicas"] = tuple(record.adding_replicas)
    if record.removing_replicas is not None:
        changes["removing_replicas"] = tuple(record.removing_replicas)
    if record.leader != LEADER_UNCHANGED:
        changes["leader"] = record.leader
        changes["leader_epoch"] = partition.leader_epoch + 1
    if record.leader_recovery_state != RECOVERY_STATE_UNCHANGED:
        changes["leader_recovery_state"] = LeaderRecoveryState(record.leader_recovery_state)
    return replace(partition, **changes)
