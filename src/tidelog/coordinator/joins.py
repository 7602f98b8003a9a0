"""JoinGroup, v0-9: who may be a member, and who has to wait for whom.

KIP-394 (v4+): a dynamic member first gets an id and must come back with it. KIP-345 (v5+): a static member is known by
its group.instance.id; when it restarts it takes its old place, and whoever still uses the old member id is fenced.
KIP-814 (v9): a restarted static leader is told to leave the assignment as it is.
"""

from dataclasses import replace

from tidelog.coordinator.effects import Caller, StaticMemberStored, Turn
from tidelog.coordinator.group import Group, GroupState
from tidelog.coordinator.member import Member, Protocols
from tidelog.coordinator.offsets_records import fits
from tidelog.coordinator.rebalance import (
    answer_join,
    answer_sync,
    drop_member,
    generation_response,
    join_error,
    maybe_complete_join,
    prepare_rebalance,
    rebalance_or_complete,
    restart_session,
)
from tidelog.coordinator.state import CoordinatorState
from tidelog.core.ids import random_uuid
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.wire.messages.sync_group import SyncGroupResponse

FIRST_VERSION_WITH_REQUIRED_MEMBER_ID = 4
FIRST_VERSION_WITH_SKIP_ASSIGNMENT = 9
# An id must fit where strings have 16-bit lengths, however long the name it is made from.
MAX_MEMBER_ID_PREFIX = 1_000


def join_group(state: CoordinatorState, turn: Turn, request: JoinGroupRequest, caller: Caller) -> None:
    config = state.config
    if not request.group_id:
        turn.respond(caller.token, join_error(request.member_id, ErrorCode.INVALID_GROUP_ID))
        return
    if not (config.group_min_session_timeout_ms <= request.session_timeout_ms <= config.group_max_session_timeout_ms):
        turn.respond(caller.token, join_error(request.member_id, ErrorCode.INVALID_SESSION_TIMEOUT))
        return
    names = (protocol.name for protocol in request.protocols)
    if not fits(request.group_id, request.group_instance_id, request.protocol_type, *names):
        turn.respond(caller.token, join_error(request.member_id, ErrorCode.INVALID_REQUEST))
        return
    group = state.groups.get(request.group_id)
    if group is None:
        if request.member_id:
            turn.respond(caller.token, join_error(request.member_id, ErrorCode.UNKNOWN_MEMBER_ID))
            return
        # Not written to the log before it has a generation: until then there is nothing worth finding again.
        group = Group(request.group_id, state_since_ms=turn.now_ms)
        state.groups[request.group_id] = group
    _join(state, turn, group, request, caller)
    state.drop_if_forgotten(group)


def _join(state: CoordinatorState, turn: Turn, group: Group, request: JoinGroupRequest, caller: Caller) -> None:
    named: dict[str, bytes] = {}
    for protocol in request.protocols:
        named.setdefault(protocol.name, protocol.metadata)
    protocols: Protocols = tuple(named.items())
    error = ErrorCode.NONE
    if group.state is GroupState.DEAD:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    elif not _has_room(state, group, request):
        _expel(state, turn, group, request.member_id)
        turn.respond(caller.token, join_error("", ErrorCode.GROUP_MAX_SIZE_REACHED))
        return
    elif not group.supports(request.protocol_type, protocols):
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if error is not ErrorCode.NONE:
        turn.respond(caller.token, join_error(request.member_id, error))
    elif request.member_id:
        _rejoin(state, turn, group, request, protocols, caller)
    else:
        _join_first_time(state, turn, group, request, protocols, caller)


def _has_room(state: CoordinatorState, group: Group, request: JoinGroupRequest) -> bool:
    """A member that is counted already keeps its place; a newcomer needs a free one."""
    member = group.members.get(request.member_id)
    max_size = state.config.group_max_size
    if group.state is GroupState.EMPTY:
        has_room = True
    elif group.state is GroupState.PREPARING_REBALANCE:
        # Those who have joined are counted, not the members: if the limit was lowered, the last to come are out.
        is_counted = member is not None and member.awaiting_join is not None
        has_room = is_counted or group.awaiting_joins < max_size
    else:
        has_room = member is not None or len(group.members) < max_size
    takes_new_id = not request.member_id and request.group_instance_id is None
    return has_room and not (takes_new_id and len(group.pending_join) >= state.config.max_pending_members)


def _expel(state: CoordinatorState, turn: Turn, group: Group, member_id: str) -> None:
    if member_id in group.members:
        drop_member(turn, group, member_id, "the group is full")
    elif member_id in group.pending_join:
        group.remove(member_id)
        turn.cancel_timer(group.heartbeat_key(member_id))
    else:
        return
    maybe_complete_join(state, turn, group)


def _join_first_time(
    state: CoordinatorState,
    turn: Turn,
    group: Group,
    request: JoinGroupRequest,
    protocols: Protocols,
    caller: Caller,
) -> None:
    instance_id = request.group_instance_id
    prefix = (caller.client_id if instance_id is None else instance_id)[:MAX_MEMBER_ID_PREFIX]
    member_id = f"{prefix}-{random_uuid(state.rng)}"
    if instance_id is not None and instance_id in group.static_members:
        _replace_static(state, turn, group, request, protocols, member_id, caller)
    elif instance_id is None and caller.api_version >= FIRST_VERSION_WITH_REQUIRED_MEMBER_ID:
        group.pending_join[member_id] = None
        turn.start_timer(group.heartbeat_key(member_id), request.session_timeout_ms)
        turn.respond(caller.token, join_error(member_id, ErrorCode.MEMBER_ID_REQUIRED))
    else:
        _add_member(state, turn, group, request, protocols, member_id, caller)


def _add_member(
    state: CoordinatorState,
    turn: Turn,
    group: Group,
    request: JoinGroupRequest,
    protocols: Protocols,
    member_id: str,
    caller: Caller,
) -> None:
    if group.initial_join is not None:
        group.initial_join.member_added = True
    member = Member(
        member_id=member_id,
        group_instance_id=request.group_instance_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        rebalance_timeout_ms=_rebalance_timeout(request),
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=protocols,
        awaiting_join=caller.token,
        is_new=True,
    )
    group.add(member)
    # A client that gives up and joins again gets another id each time; the old ones must not stay for ever.
    restart_session(turn, group, member, state.config.new_member_join_timeout_ms)
    rebalance_or_complete(state, turn, group, "a member joined")


def _rebalance_timeout(request: JoinGroupRequest) -> int:
    """v0 has only one timeout for both."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms


def _rejoin(
    state: CoordinatorState,
    turn: Turn,
    group: Group,
    request: JoinGroupRequest,
    protocols: Protocols,
    caller: Caller,
) -> None:
    member_id = request.member_id
    if member_id in group.pending_join and request.group_instance_id is None:
        _add_member(state, turn, group, request, protocols, member_id, caller)
        return
    error = group.validate_member(member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        turn.respond(caller.token, join_error(member_id, error))
        return
    member = group.members[member_id]
    unchanged = member.protocols == protocols
    if group.state is GroupState.COMPLETING_REBALANCE and unchanged:
        # Its JoinGroup response got lost; the generation is still the same.
        turn.respond(caller.token, generation_response(group, member))
    elif group.state is GroupState.STABLE and unchanged and group.leader_id != member_id:
        # A follower only wants to hear of the generation. (A leader that rejoins asks for a rebalance: the topics
        # may have changed, which only it sees.)
        turn.respond(caller.token, generation_response(group, member))
    else:
        _update_member(turn, group, member, request, protocols, caller)
        rebalance_or_complete(state, turn, group, "a member rejoined")


def _update_member(
    turn: Turn, group: Group, member: Member, request: JoinGroupRequest, protocols: Protocols, caller: Caller
) -> None:
    group.update_protocols(member, protocols)
    member.rebalance_timeout_ms = _rebalance_timeout(request)
    member.session_timeout_ms = request.session_timeout_ms
    superseded = group.set_awaiting_join(member, caller.token)
    if superseded is not None:
        # The client has given the older request up; it must not hold its connection for ever.
        turn.respond(superseded, join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS))


def _replace_static(
    state: CoordinatorState,
    turn: Turn,
    group: Group,
    request: JoinGroupRequest,
    protocols: Protocols,
    new_member_id: str,
    caller: Caller,
) -> None:
    assert request.group_instance_id is not None
    old_member_id = group.static_members[request.group_instance_id]
    leader_before = group.leader_id
    old = group.members[old_member_id]
    before = replace(old, awaiting_join=None, awaiting_sync=None)
    answer_join(turn, group, old, join_error(old_member_id, ErrorCode.FENCED_INSTANCE_ID))
    answer_sync(turn, old, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    turn.cancel_timer(group.heartbeat_key(old_member_id))

    member = group.rename(old_member_id, new_member_id)
    _update_member(turn, group, member, request, protocols, caller)
    member.client_id, member.client_host = caller.client_id, caller.client_host
    restart_session(turn, group, member)

    if group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
        # Same place, same assignment, no rebalance; but the new id must be in the log before its owner hears it.
        turn.records.append(group.stored())
        group.storing_members += 1
        turn.outcomes.append(
            StaticMemberStored(
                group.group_id,
                group.generation_id,
                before,
                new_member_id,
                leader_before,
                caller.api_version,
                caller.token,
            )
        )
    elif group.can_rebalance:
        # In CompletingRebalance the leader is assigning to the old id: the new one would get nothing.
        prepare_rebalance(state, turn, group, "a static member rejoined")
    else:
        maybe_complete_join(state, turn, group)


def on_static_member_stored(state: CoordinatorState, turn: Turn, outcome: StaticMemberStored, error: ErrorCode) -> None:
    group = state.groups.get(outcome.group_id)
    if group is None:
        return
    group.storing_members -= 1
    if group.state is not GroupState.STABLE or group.generation_id != outcome.generation_id:
        # The member is gone (and was answered), or takes part in a rebalance that will answer it.
        return
    member = group.members.get(outcome.new_member_id)
    is_waiting = member is not None and member.awaiting_join == outcome.token
    if error is ErrorCode.NONE:
        if member is not None and is_waiting:
            answer_join(turn, group, member, _stored_response(group, member, outcome))
            restart_session(turn, group, member)
        return
    if member is not None and is_waiting:
        # The log does not know the new id, so nobody may use it: back to the one it knows.
        turn.cancel_timer(group.heartbeat_key(outcome.new_member_id))
        answer_join(turn, group, member, join_error("", error))
        before = outcome.before
        group.rename(outcome.new_member_id, before.member_id)
        group.update_protocols(member, before.protocols)
        member.rebalance_timeout_ms = before.rebalance_timeout_ms
        member.session_timeout_ms = before.session_timeout_ms
        member.client_id, member.client_host = before.client_id, before.client_host
        restart_session(turn, group, member)
    if group.storing_members or not is_waiting:
        # The next record on its way has in it what was just taken back, or would go back to what the log never knew.
        # A rebalance writes everything anew in the end.
        prepare_rebalance(state, turn, group, "storing a rejoined static member failed")


def _stored_response(group: Group, member: Member, outcome: StaticMemberStored) -> JoinGroupResponse:
    response = generation_response(group, member)
    if outcome.api_version >= FIRST_VERSION_WITH_SKIP_ASSIGNMENT:
        response.skip_assignment = group.leader_id == member.member_id
    else:
        # An older client cannot be told to skip: hearing of a leader that is not itself, it only syncs.
        response.members = []
        response.leader = outcome.leader_before or ""
    return response
