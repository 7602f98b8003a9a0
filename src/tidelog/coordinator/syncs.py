"""SyncGroup (v0-5): the leader's assignment goes into the log, then to all. Heartbeat (v0-4): a session goes on."""

from tidelog.coordinator.effects import AssignmentStored, Caller, Turn
from tidelog.coordinator.group import Group, GroupState
from tidelog.coordinator.rebalance import prepare_rebalance, propagate_assignments, restart_session
from tidelog.coordinator.state import CoordinatorState
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_VERSION_WITH_PROTOCOL = 5


def sync_group(state: CoordinatorState, turn: Turn, request: SyncGroupRequest, caller: Caller) -> None:
    group = state.groups.get(request.group_id)
    error = _sync_error(group, request, caller)
    if error is not ErrorCode.NONE:
        turn.respond(caller.token, SyncGroupResponse(error_code=error))
        return
    assert group is not None
    member = group.members[request.member_id]
    group.pending_sync.pop(member.member_id, None)
    if not group.pending_sync:
        turn.cancel_timer(group.sync_key)
    if group.state is GroupState.STABLE:
        turn.respond(
            caller.token,
            SyncGroupResponse(
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                assignment=member.assignment,
            ),
        )
        return
    superseded, member.awaiting_sync = member.awaiting_sync, caller.token
    if superseded is not None:
        turn.respond(superseded, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    if group.leader_id == member.member_id and group.storing_generation is None:
        _store_assignment(turn, group, request)


def _sync_error(group: Group | None, request: SyncGroupRequest, caller: Caller) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if caller.api_version >= FIRST_VERSION_WITH_PROTOCOL and (
        request.protocol_type is None or request.protocol_name is None
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group is None or group.state is GroupState.EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
        None,
        group.protocol_name,
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _store_assignment(turn: Turn, group: Group, request: SyncGroupRequest) -> None:
    from_leader = {a.member_id: a.assignment for a in request.assignments}
    # Members the leader forgot get an empty assignment; ids it made up are dropped.
    assignments = {member_id: from_leader.get(member_id, b"") for member_id in group.members}
    group.storing_generation = group.generation_id
    turn.records.append(group.stored(assignments))
    turn.outcomes.append(AssignmentStored(group.group_id, group.generation_id, assignments))


def on_assignment_stored(state: CoordinatorState, turn: Turn, outcome: AssignmentStored, error: ErrorCode) -> None:
    group = state.groups.get(outcome.group_id)
    if (
        group is None
        or group.generation_id != outcome.generation_id
        or group.state is not GroupState.COMPLETING_REBALANCE
    ):
        # A member came or went meanwhile and a rebalance has begun: everybody has been told so.
        return
    group.storing_generation = None
    if error is not ErrorCode.NONE:
        for member in group.members.values():
            member.assignment = b""
        propagate_assignments(turn, group, error)
        prepare_rebalance(state, turn, group, "storing the assignment failed")
        return
    for member_id, member in group.members.items():
        member.assignment = outcome.assignments[member_id]
    propagate_assignments(turn, group, ErrorCode.NONE)
    group.transition_to(GroupState.STABLE, turn.now_ms)


def heartbeat(state: CoordinatorState, turn: Turn, request: HeartbeatRequest, caller: Caller) -> None:
    group = state.groups.get(request.group_id)
    error = _heartbeat_error(group, request)
    if error is ErrorCode.NONE:
        assert group is not None
        restart_session(turn, group, group.members[request.member_id])
        if group.state is GroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
    turn.respond(caller.token, HeartbeatResponse(error_code=error))


def _heartbeat_error(group: Group | None, request: HeartbeatRequest) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if request.generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE
