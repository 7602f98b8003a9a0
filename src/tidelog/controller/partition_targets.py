"""From what a partition is meant to become to the record that makes it so (rules C3, C5, C6, C8).

Every change of a partition goes through `change`: it completes a reassignment whose targets are all in the ISR, elects,
and keeps the ELR, the last known leader and the recovery state by their rules.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from tidelog.controller.elections import Acceptable, Candidates, Elected, Election, PartitionRules, elect
from tidelog.core.ids import DIR_UNASSIGNED, NO_LEADER
from tidelog.metadata.image import LeaderRecoveryState, PartitionRegistration, nothing
from tidelog.metadata.records import PartitionChangeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is meant to be; None: as it is.

    `directories` are those of replicas that are new or move. An uncleanly restarted replica may have lost records: it
    leaves the ELR as well.
    """

    election: Election
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    recovery_state: LeaderRecoveryState | None = None
    directories: Mapping[int, UUID] = field(default_factory=nothing)
    uncleanly_restarted: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Changed:
    """The record, and whether it makes a leader of a replica that may lack acknowledged records (C6)."""

    record: PartitionChangeRecord
    unclean: bool


@dataclass(frozen=True, slots=True)
class _Assignment:
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    isr: tuple[int, ...]


def change(
    topic_id: UUID,
    index: int,
    partition: PartitionRegistration,
    target: Target,
    acceptable: Acceptable,
    rules: PartitionRules,
) -> Changed | None:
    """None if nothing changes."""
    wanted = _completed(_assignment(partition, target))
    isr, replicas = wanted.isr, wanted.replicas
    if not isr and not rules.elr_enabled:
        # Without an ELR the last member stays in the ISR: it is all that is known of where the records are.
        isr = tuple(replica for replica in partition.isr if replica in replicas)
    elr = _new_elr(partition, target, replicas, isr, rules)
    candidates = Candidates(
        leader=partition.leader, replicas=replicas, isr=isr, elr=elr, last_known_elr=partition.last_known_elr
    )
    elected = elect(candidates, target.election, acceptable, elr_enabled=rules.elr_enabled)
    if elected.unclean:
        # Of before nothing is known to be complete any more.
        elr = ()
    elif elected.isr != isr:
        elr = _new_elr(partition, target, replicas, elected.isr, rules)
    after = partition._replace(
        replicas=replicas,
        directories=_new_directories(partition, target, replicas),
        isr=elected.isr,
        elr=elr,
        last_known_elr=_new_last_known(partition, elected, rules),
        adding_replicas=wanted.adding,
        removing_replicas=wanted.removing,
        leader=elected.leader,
        leader_recovery_state=_new_recovery_state(partition, target, elected),
    )
    record = _difference(topic_id, index, partition, after)
    return None if record is None else Changed(record, elected.unclean)


def _assignment(partition: PartitionRegistration, target: Target) -> _Assignment:
    return _Assignment(
        replicas=partition.replicas if target.replicas is None else target.replicas,
        adding=partition.adding_replicas if target.adding is None else target.adding,
        removing=partition.removing_replicas if target.removing is None else target.removing,
        isr=partition.isr if target.isr is None else target.isr,
    )


def _completed(wanted: _Assignment) -> _Assignment:
    """A reassignment is done when every replica of its target is in the ISR; whoever was to go is then gone (C8)."""
    if not wanted.adding and not wanted.removing:
        return wanted
    targets = tuple(replica for replica in wanted.replicas if replica not in wanted.removing)
    if not targets or not set(targets) <= set(wanted.isr):
        return wanted
    isr = tuple(replica for replica in wanted.isr if replica not in wanted.removing)
    return _Assignment(targets, (), (), isr)


def _new_directories(partition: PartitionRegistration, target: Target, replicas: tuple[int, ...]) -> tuple[UUID, ...]:
    if replicas == partition.replicas and not target.directories:
        return partition.directories
    known = dict(zip(partition.replicas, partition.directories, strict=False)) | dict(target.directories)
    return tuple(known.get(replica, DIR_UNASSIGNED) for replica in replicas)


def _new_elr(
    partition: PartitionRegistration,
    target: Target,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    rules: PartitionRules,
) -> tuple[int, ...]:
    """Who still has every committed record though not in the ISR: needed only while the ISR is under the minimum."""
    if not rules.elr_enabled or len(isr) >= rules.effective_min_isr(replicas):
        return ()
    out = {*isr, *target.uncleanly_restarted}
    return tuple(
        each for each in dict.fromkeys((*partition.isr, *partition.elr)) if each in replicas and each not in out
    )


def _new_last_known(partition: PartitionRegistration, elected: Elected, rules: PartitionRules) -> tuple[int, ...]:
    if not rules.elr_enabled or elected.leader != NO_LEADER:
        return ()
    # The first time it is without a leader: whoever led last knew the most.
    return (partition.leader,) if partition.leader != NO_LEADER else partition.last_known_elr


def _new_recovery_state(partition: PartitionRegistration, target: Target, elected: Elected) -> LeaderRecoveryState:
    if elected.unclean:
        return LeaderRecoveryState.RECOVERING
    return partition.leader_recovery_state if target.recovery_state is None else target.recovery_state


def _difference(
    topic_id: UUID, index: int, before: PartitionRegistration, after: PartitionRegistration
) -> PartitionChangeRecord | None:
    if before == after:
        return None
    record = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
    if after.isr != before.isr:
        record.isr = list(after.isr)
    if after.leader != before.leader or not set(before.replicas) <= set(after.replicas):
        # Written also when the same leader stays but a replica leaves: it must not fetch on in this leader epoch (C3).
        record.leader = after.leader
    if after.replicas != before.replicas:
        record.replicas = list(after.replicas)
    if after.adding_replicas != before.adding_replicas:
        record.adding_replicas = list(after.adding_replicas)
    if after.removing_replicas != before.removing_replicas:
        record.removing_replicas = list(after.removing_replicas)
    if after.leader_recovery_state is not before.leader_recovery_state:
        record.leader_recovery_state = after.leader_recovery_state
    if after.directories != before.directories:
        record.directories = list(after.directories)
    if after.elr != before.elr:
        record.eligible_leader_replicas = list(after.elr)
    if after.last_known_elr != before.last_known_elr:
        record.last_known_elr = list(after.last_known_elr)
    return record
