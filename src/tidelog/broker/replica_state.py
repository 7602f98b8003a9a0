"""What a replica tells of itself over the wire, and a leader of its followers (decision 12)."""

from math import inf

from tidelog.core.ids import BrokerId
from tidelog.replication.followers import FollowerState
from tidelog.replication.isr import Committed, IsrState
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Follower, Leader
from tidelog.wire.messages.describe_log_dirs import FollowerProgress, ReplicaRole, ReplicaState


def state_of(partition: Partition, now_s: float) -> ReplicaState:
    """The offsets of a replica that is offline are those at which it was left."""
    log = partition.log
    state = ReplicaState(
        role=ReplicaRole.OFFLINE,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_end_offset=log.log_end_offset,
    )
    role = partition.role
    if isinstance(role, Leader | Follower):
        state.role = ReplicaRole.FOLLOWER
        state.leader_id, state.leader_epoch = partition.leader_id, role.epoch
        state.partition_epoch = role.partition_epoch
    if isinstance(role, Leader):
        state.role = ReplicaRole.LEADER
        state.epoch_start_offset = role.epoch_start_offset
        state.isr = sorted(role.isr_state.isr)
        state.maximal_isr = sorted(role.isr_state.maximal_isr)
        state.proposed_isr = _proposed(role.isr_state)
        state.followers = [_progress(replica, each, now_s) for replica, each in sorted(role.followers.items())]
    return state


def _proposed(state: IsrState) -> list[int] | None:
    return None if isinstance(state, Committed) else sorted(state.proposed)


def _progress(replica: BrokerId, state: FollowerState, now_s: float) -> FollowerProgress:
    return FollowerProgress(
        broker_id=replica,
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        last_fetch_age_ms=_age_ms(state.last_fetch_s, now_s),
        last_caught_up_age_ms=_age_ms(state.last_caught_up_s, now_s),
    )


def _age_ms(instant_s: float, now_s: float) -> int:
    """Ages and not times: they come from the monotonic clock, which means nothing on another machine."""
    return -1 if instant_s == -inf else max(0, round((now_s - instant_s) * 1000))
