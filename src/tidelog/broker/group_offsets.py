"""The shapes of OffsetCommit and OffsetFetch through the versions: topic ids from v10, several groups from v8.

Unknown topics and partitions are refused here, as Kafka's broker refuses them before its coordinator hears of them.
"""

from collections.abc import Sequence
from typing import Final, Protocol
from uuid import UUID

from tidelog.coordinator.offset_store import is_other_topic
from tidelog.core.ids import ZERO_UUID
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tidelog.wire.schema import changed

FIRST_VERSION_WITH_TOPIC_IDS: Final = 10
FIRST_FETCH_VERSION_WITH_ERROR: Final = 2
FIRST_FETCH_VERSION_WITH_GROUPS: Final = 8


class TopicDirectory(Protocol):
    """The topics of the cluster as this broker knows them now."""

    def topic_id(self, name: str) -> UUID | None: ...
    def topic_name(self, topic_id: UUID) -> str | None: ...
    def has_partition(self, name: str, partition: int) -> bool: ...


def resolve_commit(
    request: OffsetCommitRequest, api_version: int, topics: TopicDirectory
) -> tuple[OffsetCommitRequest, OffsetCommitResponse]:
    """The part of the request that concerns topics we know, with names and ids; and the refusal of the rest."""
    known: list[OffsetCommitRequestTopic] = []
    refused = OffsetCommitResponse()
    for topic in request.topics:
        if api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
            name, topic_id = topics.topic_name(topic.topic_id), topic.topic_id
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        else:
            topic_id = topics.topic_id(topic.name) or ZERO_UUID
            name = None if topic_id == ZERO_UUID else topic.name
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if name is None:
            refused.topics.append(_refused(topic.name, topic_id, topic.partitions, unknown))
            continue
        there = [p for p in topic.partitions if topics.has_partition(name, p.partition_index)]
        absent = [p for p in topic.partitions if not topics.has_partition(name, p.partition_index)]
        if there:
            known.append(OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=there))
        if absent:
            refused.topics.append(_refused(name, topic_id, absent, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return changed(request, topics=known), refused


def _refused(
    name: str, topic_id: UUID, partitions: Sequence[OffsetCommitRequestPartition], error: ErrorCode
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=name,
        topic_id=topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=error) for p in partitions
        ],
    )


def merge_commit(response: OffsetCommitResponse, refused: OffsetCommitResponse) -> OffsetCommitResponse:
    """One entry per topic, whether its partitions were refused or not."""
    by_topic = {(topic.name, topic.topic_id): topic for topic in response.topics}
    for topic in refused.topics:
        known = by_topic.get((topic.name, topic.topic_id))
        if known is None:
            response.topics.append(topic)
        else:
            known.partitions += topic.partitions
    return response


def fetch_groups(request: OffsetFetchRequest, api_version: int) -> list[OffsetFetchRequestGroup]:
    if api_version >= FIRST_FETCH_VERSION_WITH_GROUPS:
        return request.groups
    topics = request.topics
    return [
        OffsetFetchRequestGroup(
            group_id=request.group_id,
            topics=None
            if topics is None
            else [OffsetFetchRequestTopics(name=t.name, partition_indexes=t.partition_indexes) for t in topics],
        )
    ]


def resolve_fetch(
    request: OffsetFetchRequestGroup, api_version: int, topics: TopicDirectory
) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
    """As `resolve_commit`. Before topic ids a name is all that is told, and one that is unknown has no offset."""
    if request.topics is None:
        return request, []
    if api_version < FIRST_VERSION_WITH_TOPIC_IDS:
        # What was committed for a topic of that name that is deleted means nothing to this one.
        named = [changed(topic, topic_id=topics.topic_id(topic.name) or ZERO_UUID) for topic in request.topics]
        return changed(request, topics=named), []
    known: list[OffsetFetchRequestTopics] = []
    refused: list[OffsetFetchResponseTopics] = []
    for topic in request.topics:
        name = topics.topic_name(topic.topic_id)
        if name is None:
            refused.append(
                OffsetFetchResponseTopics(
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetFetchResponsePartitions(
                            partition_index=index,
                            committed_offset=-1,
                            metadata="",
                            error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                        )
                        for index in topic.partition_indexes
                    ],
                )
            )
        else:
            known.append(changed(topic, name=name))
    return changed(request, topics=known), refused


def merge_fetch(
    response: OffsetFetchResponseGroup,
    refused: list[OffsetFetchResponseTopics],
    api_version: int,
    topics: TopicDirectory,
) -> OffsetFetchResponseGroup:
    if response.error_code != ErrorCode.NONE:
        return response
    response.topics = _of_topics_now(response.topics, topics)
    if api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
        for topic in response.topics:
            # Committed by a client, or a broker, that did not know ids.
            if topic.topic_id == ZERO_UUID:
                topic.topic_id = topics.topic_id(topic.name) or ZERO_UUID
        # All that a client can be told of a topic is its id; one that is deleted has none.
        response.topics = [topic for topic in response.topics if topic.topic_id != ZERO_UUID]
    response.topics += refused
    return response


def _of_topics_now(
    found: Sequence[OffsetFetchResponseTopics], topics: TopicDirectory
) -> list[OffsetFetchResponseTopics]:
    """One entry for each name, without offsets in an earlier topic of that name."""
    by_name: dict[str, OffsetFetchResponseTopics] = {}
    for topic in found:
        if is_other_topic(topic.topic_id, topics.topic_id(topic.name) or ZERO_UUID):
            continue
        known = by_name.setdefault(topic.name, topic)
        if known is not topic:
            known.topic_id = topic.topic_id if known.topic_id == ZERO_UUID else known.topic_id
            known.partitions += topic.partitions
    return list(by_name.values())


def fetch_response(
    request: OffsetFetchRequest, api_version: int, answers: Sequence[OffsetFetchResponseGroup]
) -> OffsetFetchResponse:
    if api_version >= FIRST_FETCH_VERSION_WITH_GROUPS:
        return OffsetFetchResponse(groups=list(answers))
    answer = answers[0]
    if answer.error_code == ErrorCode.NONE:
        topics = [
            OffsetFetchResponseTopic(name=t.name, partitions=[_old_shape(p) for p in t.partitions])
            for t in answer.topics
        ]
        return OffsetFetchResponse(topics=topics)
    if api_version >= FIRST_FETCH_VERSION_WITH_ERROR:
        return OffsetFetchResponse(error_code=answer.error_code)
    # v1 has no place for an error but the partitions.
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=-1, metadata="", error_code=answer.error_code
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ]
    )


def _old_shape(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )
