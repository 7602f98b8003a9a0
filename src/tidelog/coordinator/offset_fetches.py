"""OffsetFetch, v1-10, for one group: chosen partitions, or all (topics null, v2+)."""

from uuid import UUID

from tidelog.coordinator.group import GroupState
from tidelog.coordinator.offset_store import is_other_topic
from tidelog.coordinator.offsets_records import OffsetCommitValue
from tidelog.coordinator.state import CoordinatorState
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NO_OFFSET = -1


def offset_fetch(state: CoordinatorState, request: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    """A group that does not exist has no offsets, which is no error."""
    response = OffsetFetchResponseGroup(group_id=request.group_id)
    group = state.groups.get(request.group_id)
    is_alive = group is not None and group.state is not GroupState.DEAD
    stored = state.offsets.topics(request.group_id) if is_alive else {}
    if request.topics is None:
        for name, partitions in stored.items():
            # Apart by id: which of them is the topic that has this name now, the shell knows.
            by_id: dict[UUID, OffsetFetchResponseTopics] = {}
            for index, stored_value in partitions.items():
                topic_id = stored_value.topic_id
                known = by_id.get(topic_id)
                if known is None:
                    known = by_id[topic_id] = OffsetFetchResponseTopics(name=name, topic_id=topic_id)
                known.partitions.append(_partition(index, stored_value))
            response.topics += by_id.values()
        return response
    for topic in request.topics:
        of_topic = stored.get(topic.name, {})
        result = OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id)
        response.topics.append(result)
        for index in topic.partition_indexes:
            value = of_topic.get(index)
            if value is not None and is_other_topic(value.topic_id, topic.topic_id):
                value = None
            result.partitions.append(_partition(index, value))
    return response


def _partition(index: int, value: OffsetCommitValue | None) -> OffsetFetchResponsePartitions:
    if value is None:
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, metadata="")
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )


def fetch_refusal(request: OffsetFetchRequestGroup, error: ErrorCode) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=request.group_id, error_code=error)
