"""What a leader decides from what it knows: where the high watermark may stand, who joins, who has to go.

Functions over the role and the log; only `advance_high_watermark` changes anything.
"""

from uuid import UUID

from tidelog.core.ids import NO_OFFSET, BrokerId, LeaderEpoch, Offset, PartitionEpoch
from tidelog.metadata.image import LeaderRecoveryState, PartitionRegistration
from tidelog.replication.context import ReplicationContext
from tidelog.replication.followers import FollowerState, followers_of_new_epoch
from tidelog.replication.isr import Committed, Pending, PendingExpand, PendingRecovery, PendingShrink
from tidelog.replication.roles import Leader, Role
from tidelog.storage.log import Log


def new_epoch(registration: PartitionRegistration, local_id: BrokerId, log: Log, now_s: float, before: Role) -> Leader:
    """The role of a leader whose epoch begins at the end of its log (E4)."""
    replicas = replicas_of(registration)
    committed = committed_of(registration)
    epoch = LeaderEpoch(registration.leader_epoch)
    return Leader(
        epoch=epoch,
        first_epoch=before.first_epoch if isinstance(before, Leader) and before.epoch + 1 == epoch else epoch,
        partition_epoch=PartitionEpoch(registration.partition_epoch),
        epoch_start_offset=Offset(log.log_end_offset),
        replicas=replicas,
        directories=directories_of(registration),
        isr_state=committed,
        followers=followers_of_new_epoch(replicas, committed.isr, local_id, now_s),
    )


def take_assignment(leader: Leader, registration: PartitionRegistration, local_id: BrokerId) -> None:
    """Replicas come and go within an epoch; a new one is known by nothing, those that stay by their fetches."""
    leader.replicas = replicas_of(registration)
    leader.directories = directories_of(registration)
    leader.followers = {
        replica: leader.followers.get(replica) or FollowerState() for replica in leader.replicas if replica != local_id
    }


def replicas_of(registration: PartitionRegistration) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(replica) for replica in registration.replicas)


def directories_of(registration: PartitionRegistration) -> dict[BrokerId, UUID]:
    return {BrokerId(replica): registration.directory_of(replica) for replica in registration.replicas}


def committed_of(registration: PartitionRegistration) -> Committed:
    return Committed(
        isr=frozenset(BrokerId(replica) for replica in registration.isr),
        recovering=registration.leader_recovery_state is LeaderRecoveryState.RECOVERING,
    )


def effective_min_isr(leader: Leader, log: Log) -> int:
    return min(log.config.min_insync_replicas, len(leader.replicas))


def is_under_min_isr(leader: Leader, log: Log) -> bool:
    return len(leader.isr_state.isr) < effective_min_isr(leader, log)


def advance_high_watermark(leader: Leader, log: Log, context: ReplicationContext, now_s: float) -> bool:
    """W1 and W2; whether it moved. Runs at every append and every fetch of a follower: nothing is built here."""
    if is_under_min_isr(leader, log):
        return False
    candidate = end = log.log_end_offset
    maximal_isr = leader.isr_state.maximal_isr
    for replica, state in leader.followers.items():
        if state.log_end_offset < candidate and (
            replica in maximal_isr
            # About to join: if the high watermark ran ahead of it now, it would never get in under a steady load.
            or (state.is_caught_up(end, now_s, context.lag_s) and _is_eligible(leader, replica, state, context))
        ):
            candidate = state.log_end_offset
    if candidate <= log.high_watermark:
        return False
    log.update_high_watermark(candidate)
    return True


def low_watermark(leader: Leader, log: Log, context: ReplicationContext) -> int:
    """Below it no live replica has a record: what DeleteRecords waits for.

    What a follower's last process had deleted does not count: a kill may have brought it back.
    """
    starts = [
        state.log_start_offset if state.broker_epoch in (-1, context.epoch_of(replica)) else NO_OFFSET
        for replica, state in leader.followers.items()
        if context.is_alive(replica)
    ]
    return min([log.log_start_offset, *starts])


def expansion(leader: Leader, replica: BrokerId, log: Log, context: ReplicationContext) -> PendingExpand | None:
    """I3: a replica joins with all that is committed and all of earlier epochs, and as the process that fetched."""
    committed = leader.isr_state
    if not isinstance(committed, Committed) or committed.recovering or replica in committed.isr:
        return None
    state = leader.followers[replica]
    if state.log_end_offset < max(log.high_watermark, leader.epoch_start_offset):
        return None
    if not _is_eligible(leader, replica, state, context):
        return None
    return PendingExpand(
        committed=committed, newcomer=replica, reason=f"broker {replica} has caught up at offset {state.log_end_offset}"
    )


def shrinkage(leader: Leader, log: Log, context: ReplicationContext, now_s: float) -> PendingShrink | None:
    """I2: looked for by a timer, so that who fetches no more is found like who fetches too slowly."""
    committed = leader.isr_state
    if not isinstance(committed, Committed):
        return None
    end = log.log_end_offset
    late = [
        replica
        for replica, state in leader.followers.items()
        if replica in committed.isr and not state.is_caught_up(end, now_s, context.lag_s)
    ]
    if not late:
        return None
    stories = (_lag_story(replica, leader.followers[replica], now_s) for replica in late)
    return PendingShrink(committed=committed, leavers=frozenset(late), reason="; ".join(stories))


def recovery(leader: Leader) -> PendingRecovery | None:
    committed = leader.isr_state
    return PendingRecovery(committed=committed) if isinstance(committed, Committed) and committed.recovering else None


def members_with_epochs(
    leader: Leader, pending: Pending, context: ReplicationContext
) -> tuple[tuple[BrokerId, int], ...]:
    """In the order of the assignment, each with the broker epoch that its fetches had.

    A member that has not fetched in this leader epoch is named as the metadata knows it: if it has registered again
    since, the controller refuses (KIP-903).
    """
    return tuple(
        (replica, _broker_epoch(leader.followers.get(replica), replica, context))
        for replica in leader.replicas
        if replica in pending.proposed
    )


def _broker_epoch(state: FollowerState | None, replica: BrokerId, context: ReplicationContext) -> int:
    return state.broker_epoch if state is not None and state.broker_epoch >= 0 else context.epoch_of(replica)


def _is_eligible(leader: Leader, replica: BrokerId, state: FollowerState, context: ReplicationContext) -> bool:
    return context.is_acceptable(replica, state.broker_epoch, leader.directories[replica])


def _lag_story(replica: BrokerId, state: FollowerState, now_s: float) -> str:
    since = now_s - state.last_caught_up_s
    told = f"{since:.1f} s behind" if since < float("inf") else "never caught up in this epoch"
    return f"broker {replica} at offset {state.log_end_offset} is {told}"
