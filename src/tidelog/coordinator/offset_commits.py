"""OffsetCommit (v2-10), OffsetDelete (v0) and the expiry of offsets nobody needs any more.

A commit changes nothing until its record is committed: then it is replayed, like everything in the log. Up to then it
only counts as being in flight.
"""

from collections.abc import Sequence

from tidelog.coordinator.effects import Caller, GroupDeleted, Turn
from tidelog.coordinator.group import Group, GroupState
from tidelog.coordinator.offsets_records import (
    OffsetCommitValue,
    fits,
    group_tombstone,
    offset_record,
    offset_tombstone,
)
from tidelog.coordinator.rebalance import restart_session
from tidelog.coordinator.state import CoordinatorState
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

FIRST_VERSION_WITH_GROUP_NOT_FOUND = 9
FOR_EVER_MS = 2**63 - 1


def offset_commit(state: CoordinatorState, turn: Turn, request: OffsetCommitRequest, caller: Caller) -> None:
    """Topics come with name and id both set (the shell resolves one from the other)."""
    group = state.groups.get(request.group_id)
    error = _commit_error(group, request, caller)
    if error is not ErrorCode.NONE:
        turn.respond(caller.token, commit_refusal(request, error))
        return
    if group is not None and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
        restart_session(turn, group, group.members[request.member_id])

    # v2-4: the client may say how long to keep the offset; the largest number there is means for ever.
    expire_ms = -1 if request.retention_time_ms < 0 else min(turn.now_ms + request.retention_time_ms, FOR_EVER_MS)
    response = OffsetCommitResponse()
    for topic in request.topics:
        result = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(result)
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            error = ErrorCode.NONE
            if len(metadata) > state.config.offset_metadata_max_bytes:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata,
                    commit_timestamp=turn.now_ms,
                    expire_timestamp=expire_ms,
                    topic_id=topic.topic_id,
                )
                turn.records.append(offset_record(request.group_id, topic.name, partition.partition_index, value))
            result.partitions.append(
                OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
            )
    turn.respond_when_stored(caller.token, response, lambda failed: commit_refusal(request, failed))


def _commit_error(group: Group | None, request: OffsetCommitRequest, caller: Caller) -> ErrorCode:
    generation = request.generation_id_or_member_epoch
    if not fits(request.group_id):
        return ErrorCode.INVALID_GROUP_ID
    if group is None:
        # A consumer without group management, or an administrator: its first commit makes the group.
        if generation < 0:
            return ErrorCode.NONE
        knows_not_found = caller.api_version >= FIRST_VERSION_WITH_GROUP_NOT_FOUND
        return ErrorCode.GROUP_ID_NOT_FOUND if knows_not_found else ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        # An outsider must not move the offsets of a group that has members.
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not ErrorCode.NONE:
        return error
    if generation != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The generation is right but it has no assignment yet: let the consumer finish the rebalance first.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def commit_refusal(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def offset_delete(state: CoordinatorState, turn: Turn, request: OffsetDeleteRequest, caller: Caller) -> None:
    group = state.groups.get(request.group_id)
    error = ErrorCode.NONE
    if not request.group_id:
        error = ErrorCode.INVALID_GROUP_ID
    elif group is None or group.state is GroupState.DEAD:
        error = ErrorCode.GROUP_ID_NOT_FOUND
    elif group.state is not GroupState.EMPTY and not group.is_consumer_group:
        # What a group of another kind is subscribed to cannot be known.
        error = ErrorCode.NON_EMPTY_GROUP
    if error is not ErrorCode.NONE:
        turn.respond(caller.token, OffsetDeleteResponse(error_code=error))
        return
    assert group is not None
    response = OffsetDeleteResponse()
    for topic in request.topics:
        subscribed = group.is_subscribed_to(topic.name)
        result = OffsetDeleteResponseTopic(name=topic.name)
        response.topics.append(result)
        for index in (partition.partition_index for partition in topic.partitions):
            result.partitions.append(
                OffsetDeleteResponsePartition(
                    partition_index=index,
                    error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE,
                )
            )
            if not subscribed and (
                state.offsets.get(group.group_id, topic.name, index) is not None
                or state.offsets.is_in_flight(group.group_id, topic.name, index)
            ):
                turn.records.append(offset_tombstone(group.group_id, topic.name, index))
    turn.respond_when_stored(caller.token, response, lambda failed: OffsetDeleteResponse(error_code=failed))


def tombstone_group(state: CoordinatorState, turn: Turn, group: Group) -> None:
    """Deletes an Empty group with all its offsets; it is Dead from here on, and gone when the log has it."""
    partitions = {(topic, partition): None for topic, partition, _ in state.offsets.items(group.group_id)}
    partitions |= dict.fromkeys(state.offsets.in_flight(group.group_id))
    for topic, partition in partitions:
        turn.records.append(offset_tombstone(group.group_id, topic, partition))
    turn.records.append(group_tombstone(group.group_id))
    turn.outcomes.append(GroupDeleted(group.group_id, group.state_since_ms))
    group.transition_to(GroupState.DEAD, turn.now_ms)


def on_group_deleted(state: CoordinatorState, outcome: GroupDeleted, error: ErrorCode) -> None:
    group = state.groups.get(outcome.group_id)
    if group is None:
        # Replay of the tombstone took it.
        return
    assert group.state is GroupState.DEAD
    if error is not ErrorCode.NONE:
        state.groups[outcome.group_id] = group.revived(outcome.empty_since_ms)


def forget_topics(state: CoordinatorState, turn: Turn, topics: Sequence[str]) -> None:
    """Also what is on its way: the tombstone comes behind it in the log."""
    stored = (
        (group_id, topic, partition)
        for group_id in state.groups
        for topic in topics
        for partition in state.offsets.topics(group_id).get(topic, {})
    )
    for group_id, topic, partition in dict.fromkeys((*stored, *state.offsets.in_flight_of(topics))):
        turn.records.append(offset_tombstone(group_id, topic, partition))


def expire_offsets(state: CoordinatorState, turn: Turn) -> None:
    """Writes tombstones for what has outlived `offsets.retention.minutes`; a group that has nothing left goes too."""
    for group in list(state.groups.values()):
        if len(turn.records) >= state.config.max_tombstones_per_pass:
            return
        if group.state is not GroupState.DEAD:
            _expire_group(state, turn, group)


def _expire_group(state: CoordinatorState, turn: Turn, group: Group) -> None:
    expired = [
        (topic, partition)
        for topic, partition, value in state.offsets.items(group.group_id)
        if not group.is_subscribed_to(topic)
        and not state.offsets.is_in_flight(group.group_id, topic, partition)
        and _is_expired(state, group, value, turn.now_ms)
    ]
    kept = sum(len(partitions) for partitions in state.offsets.topics(group.group_id).values()) - len(expired)
    is_idle = group.state is GroupState.EMPTY and not group.pending_join
    if is_idle and not kept and not state.offsets.in_flight(group.group_id):
        tombstone_group(state, turn, group)
        return
    for topic, partition in expired:
        turn.records.append(offset_tombstone(group.group_id, topic, partition))


def _is_expired(state: CoordinatorState, group: Group, value: OffsetCommitValue, now_ms: int) -> bool:
    """Where the retention counts from (KIP-211): an Empty group's from when it became so; for a consumer that never
    joins, and for topics a Stable group has dropped, from the commit. In between, nothing expires."""
    if value.expire_timestamp >= 0:
        return now_ms >= value.expire_timestamp and _since_ms(group, value) is not None
    since_ms = _since_ms(group, value)
    return since_ms is not None and now_ms - since_ms >= state.config.offsets_retention_ms


def _since_ms(group: Group, value: OffsetCommitValue) -> int | None:
    if group.protocol_type is None:
        return value.commit_timestamp
    if group.state is GroupState.EMPTY:
        # Groups written before value version 2 do not tell since when.
        return value.commit_timestamp if group.state_since_ms is None else group.state_since_ms
    if group.state is GroupState.STABLE and group.is_consumer_group and group.subscribed is not None:
        return value.commit_timestamp
    return None
