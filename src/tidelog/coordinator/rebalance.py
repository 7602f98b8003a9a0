"""The join phase: it begins when the membership must change and ends with a new generation.

Any change of members leads into PreparingRebalance, where each member's JoinGroup waits. The phase ends when all have
joined, or when the largest rebalance timeout has passed: dynamic members that have not joined are then out, static ones
stay (their session timeout is what removes them).
"""

from tidelog.coordinator.effects import Turn
from tidelog.coordinator.group import Group, GroupState, InitialJoin
from tidelog.coordinator.member import Member
from tidelog.coordinator.state import CoordinatorState
from tidelog.core.events import GroupMemberRemoved, GroupRebalanced
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.join_group import JoinGroupResponse
from tidelog.wire.messages.sync_group import SyncGroupResponse


def join_error(member_id: str, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id)


def generation_response(group: Group, member: Member) -> JoinGroupResponse:
    """What a member is told of the generation it is part of; the leader also who else is."""
    is_leader = group.leader_id == member.member_id
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=group.joined_members() if is_leader else [],
    )


def answer_join(turn: Turn, group: Group, member: Member, response: JoinGroupResponse) -> bool:
    token = group.set_awaiting_join(member, None)
    if token is not None:
        turn.respond(token, response)
    return token is not None


def answer_sync(turn: Turn, member: Member, response: SyncGroupResponse) -> bool:
    token, member.awaiting_sync = member.awaiting_sync, None
    if token is not None:
        turn.respond(token, response)
    return token is not None


def restart_session(turn: Turn, group: Group, member: Member, timeout_ms: int | None = None) -> None:
    turn.start_timer(
        group.heartbeat_key(member.member_id), member.session_timeout_ms if timeout_ms is None else timeout_ms
    )


def remove_member(turn: Turn, group: Group, member: Member, reason: str) -> None:
    """Takes a member out; if it waits for a join it is told to start over."""
    answer_join(turn, group, member, join_error("", ErrorCode.UNKNOWN_MEMBER_ID))
    answer_sync(turn, member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    drop_member(turn, group, member.member_id, reason)


def drop_member(turn: Turn, group: Group, member_id: str, reason: str) -> None:
    """As `remove_member`, of one that waits for nothing."""
    group.remove(member_id)
    turn.cancel_timer(group.heartbeat_key(member_id))
    turn.tell(GroupMemberRemoved(group_id=group.group_id, member_id=member_id, reason=reason))


def propagate_assignments(turn: Turn, group: Group, error: ErrorCode) -> None:
    """Answers every waiting SyncGroup from the members' assignments, or with the error."""
    failed = error is not ErrorCode.NONE
    for member in group.members.values():
        response = SyncGroupResponse(
            error_code=error,
            protocol_type=None if failed else group.protocol_type,
            protocol_name=None if failed else group.protocol_name,
            assignment=member.assignment,
        )
        if answer_sync(turn, member, response):
            # A session that ran out while we held the member's request did not count; it counts from here.
            restart_session(turn, group, member)


def rebalance_or_complete(state: CoordinatorState, turn: Turn, group: Group, reason: str) -> None:
    """The membership has changed: starts a join phase, or looks whether the running one is complete."""
    if group.can_rebalance:
        prepare_rebalance(state, turn, group, reason)
    else:
        maybe_complete_join(state, turn, group)


def prepare_rebalance(state: CoordinatorState, turn: Turn, group: Group, reason: str) -> None:
    group.rebalance_reason = reason
    if group.state is GroupState.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
        propagate_assignments(turn, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    turn.cancel_timer(group.sync_key)

    was_empty = group.state is GroupState.EMPTY
    group.transition_to(GroupState.PREPARING_REBALANCE, turn.now_ms)
    if was_empty:
        # Members of a new group start together: waiting a little saves a rebalance for each of them.
        delay_ms = state.config.group_initial_rebalance_delay_ms
        group.initial_join = InitialJoin(delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        turn.start_timer(group.join_key, delay_ms)
    elif group.has_all_joined:
        complete_join(state, turn, group)
    else:
        turn.start_timer(group.join_key, group.rebalance_timeout_ms)


def maybe_complete_join(state: CoordinatorState, turn: Turn, group: Group) -> None:
    """Ends the join phase if everybody is there; a first phase ends by its own timer only."""
    if group.state is GroupState.PREPARING_REBALANCE and group.initial_join is None and group.has_all_joined:
        complete_join(state, turn, group)


def on_join_timer(state: CoordinatorState, turn: Turn, group: Group) -> None:
    if group.state is not GroupState.PREPARING_REBALANCE:
        return
    initial = group.initial_join
    if initial is not None and initial.member_added and initial.remaining_ms > 0:
        delay_ms = min(state.config.group_initial_rebalance_delay_ms, initial.remaining_ms)
        group.initial_join = InitialJoin(delay_ms, max(initial.remaining_ms - initial.delay_ms, 0))
        turn.start_timer(group.join_key, delay_ms)
        return
    complete_join(state, turn, group)


def complete_join(state: CoordinatorState, turn: Turn, group: Group) -> None:
    """Ends the join phase with the members that are there."""
    turn.cancel_timer(group.join_key)
    group.initial_join = None
    for member in [m for m in group.members.values() if m.awaiting_join is None and not m.is_static]:
        drop_member(turn, group, member.member_id, "it did not rejoin in time")

    if group.members and not group.elect_joined_leader():
        # Only static members are left and none has rejoined: they keep their places until their sessions end.
        turn.start_timer(group.join_key, group.rebalance_timeout_ms)
        return

    group.next_generation(turn.now_ms)
    group.storing_generation = None
    turn.tell(
        GroupRebalanced(
            group_id=group.group_id,
            generation=group.generation_id,
            members=len(group.members),
            reason=group.rebalance_reason,
        )
    )
    if group.state is GroupState.EMPTY:
        # Nobody waits for this record. Should it fail, the log shows the last generation with members, whose
        # sessions a new coordinator would let run out.
        turn.records.append(group.stored())
        return
    for member in group.members.values():
        answer_join(turn, group, member, generation_response(group, member))
        restart_session(turn, group, member)
        member.is_new = False
        group.pending_sync[member.member_id] = None
    turn.start_timer(group.sync_key, group.rebalance_timeout_ms)


def on_sync_timer(state: CoordinatorState, turn: Turn, group: Group) -> None:
    """Members that took their generation and never sent SyncGroup would hold their partitions unread: they are out."""
    if group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) or not group.pending_sync:
        return
    for member_id in list(group.pending_sync):
        remove_member(turn, group, group.members[member_id], "it never requested its assignment")
    prepare_rebalance(state, turn, group, "members never requested their assignments")


def on_heartbeat_timer(state: CoordinatorState, turn: Turn, group: Group, member_id: str) -> None:
    """A session, or a new member's first wait, has ended."""
    if group.state is GroupState.DEAD:
        return
    if member_id in group.pending_join:
        group.remove(member_id)
        if group.state is GroupState.PREPARING_REBALANCE and group.has_all_joined:
            complete_join(state, turn, group)
        elif group.state is GroupState.EMPTY:
            state.drop_if_forgotten(group)
        return
    member = group.members.get(member_id)
    if member is None or member.is_waiting:
        return
    reason = f"no heartbeat for {member.session_timeout_ms} ms"
    remove_member(turn, group, member, reason)
    if group.can_rebalance:
        prepare_rebalance(state, turn, group, "a member's session timed out")
    elif group.has_all_joined:
        complete_join(state, turn, group)
