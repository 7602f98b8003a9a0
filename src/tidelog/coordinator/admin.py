"""DescribeGroups (v0-6), ListGroups (v0-5), DeleteGroups (v0-2)."""

from collections.abc import Sequence
from typing import Final

from tidelog.coordinator.effects import Caller, Turn
from tidelog.coordinator.group import Group, GroupState
from tidelog.coordinator.offset_commits import tombstone_group
from tidelog.coordinator.state import CoordinatorState
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.delete_groups import DeletableGroupResult
from tidelog.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from tidelog.wire.messages.list_groups import ListedGroup

GROUP_TYPE: Final = "classic"
FIRST_VERSION_WITH_NOT_FOUND: Final = 6


def describe_group(state: CoordinatorState, group_id: str, api_version: int) -> DescribedGroup:
    group = state.groups.get(group_id)
    if group is None:
        described = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if api_version >= FIRST_VERSION_WITH_NOT_FOUND:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} not found."
        return described
    # Metadata and assignments belong to a finished generation.
    protocol = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=b"" if protocol is None else member.metadata(protocol),
                member_assignment=b"" if protocol is None else member.assignment,
            )
            for member in group.members.values()
        ],
    )


def list_groups(
    state: CoordinatorState, states_filter: Sequence[str], types_filter: Sequence[str]
) -> list[ListedGroup]:
    """An empty filter lets everything through; names count without regard to case."""
    states = {name.strip().lower() for name in states_filter}
    types = {name.strip().lower() for name in types_filter}
    if types and GROUP_TYPE not in types:
        return []
    return [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=GROUP_TYPE,
        )
        for group in state.groups.values()
        if not states or group.state.value.lower() in states
    ]


def delete_groups(state: CoordinatorState, turn: Turn, group_ids: Sequence[str], caller: Caller) -> None:
    """Answers with the list of results; the shell joins those of several shards into one response."""
    results = []
    for group_id in dict.fromkeys(group_ids):
        group = state.groups.get(group_id)
        error = _delete_error(group_id, group)
        if group is not None and error is ErrorCode.NONE:
            tombstone_group(state, turn, group)
        results.append(DeletableGroupResult(group_id=group_id, error_code=error))
    turn.respond_when_stored(
        caller.token,
        results,
        lambda failed: [DeletableGroupResult(group_id=r.group_id, error_code=r.error_code or failed) for r in results],
    )


def _delete_error(group_id: str, group: Group | None) -> ErrorCode:
    if not group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP
