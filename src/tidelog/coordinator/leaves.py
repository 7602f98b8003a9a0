"""LeaveGroup, v0-5: one member up to v2, a batch from v3 on (also how an administrator removes static members)."""

from tidelog.coordinator.effects import Caller, Turn
from tidelog.coordinator.group import Group, GroupState
from tidelog.coordinator.rebalance import maybe_complete_join, rebalance_or_complete, remove_member
from tidelog.coordinator.state import CoordinatorState
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

FIRST_VERSION_WITH_BATCH = 3


def leave_group(state: CoordinatorState, turn: Turn, request: LeaveGroupRequest, caller: Caller) -> None:
    is_batch = caller.api_version >= FIRST_VERSION_WITH_BATCH
    leaving = request.members if is_batch else [MemberIdentity(member_id=request.member_id)]
    group = state.groups.get(request.group_id)
    if not request.group_id or (group is not None and group.state is GroupState.DEAD):
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if request.group_id else ErrorCode.INVALID_GROUP_ID
        turn.respond(caller.token, LeaveGroupResponse(error_code=error))
        return
    members_before = 0 if group is None else len(group.members)
    results = []
    for identity in leaving:
        error = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _remove(turn, group, identity)
        results.append(
            MemberResponse(
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                error_code=error,
            )
        )
    if group is not None:
        if len(group.members) < members_before:
            rebalance_or_complete(state, turn, group, "a member left")
        else:
            # At most ids that were never used are gone: the join phase may have waited for them.
            maybe_complete_join(state, turn, group)
            state.drop_if_forgotten(group)
    if is_batch:
        response = LeaveGroupResponse(members=results)
    else:
        response = LeaveGroupResponse(error_code=results[0].error_code)
    turn.respond_when_stored(caller.token, response, lambda error: LeaveGroupResponse(error_code=error))


def _remove(turn: Turn, group: Group, identity: MemberIdentity) -> ErrorCode:
    member_id = identity.member_id
    if member_id in group.pending_join:
        group.remove(member_id)
        turn.cancel_timer(group.heartbeat_key(member_id))
        return ErrorCode.NONE
    if not member_id and identity.group_instance_id is not None:
        # An administrator knows the instance, not the member id it happens to have.
        member_id = group.static_members.get(identity.group_instance_id, "")
    error = group.validate_member(member_id, identity.group_instance_id)
    if error is ErrorCode.NONE:
        remove_member(turn, group, group.members[member_id], "it left")
    return error
