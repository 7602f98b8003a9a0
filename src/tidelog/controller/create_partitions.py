"""CreatePartitions: more partitions for a topic."""

from collections import Counter

from tidelog.controller.decision import Decision, Situation
from tidelog.controller.partitions import MAX_PARTITIONS_PER_REQUEST, check_assignment, new_partition, placer_for
from tidelog.metadata.image import TopicImage
from tidelog.metadata.names import GROUP_OFFSETS_TOPIC
from tidelog.metadata.records import MetadataRecord, PartitionRecord
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def create_partitions(situation: Situation, request: CreatePartitionsRequest) -> Decision[CreatePartitionsResponse]:
    """One bad topic does not fail the others."""
    names = Counter(topic.name for topic in request.topics)
    results: list[CreatePartitionsTopicResult] = []
    records: list[MetadataRecord] = []
    answered: set[str] = set()
    for topic in request.topics:
        if topic.name in answered:
            continue
        answered.add(topic.name)
        try:
            if names[topic.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            records += _added(situation, topic, MAX_PARTITIONS_PER_REQUEST - len(records))
            results.append(CreatePartitionsTopicResult(name=topic.name))
        except ApiError as error:
            results.append(
                CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message or None)
            )
    return Decision(
        response=CreatePartitionsResponse(results=results), records=[] if request.validate_only else records
    )


def _added(situation: Situation, wanted: CreatePartitionsTopic, room: int) -> list[PartitionRecord]:
    topic = situation.image.topic(wanted.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if wanted.name == GROUP_OFFSETS_TOPIC:
        # A group's partition is its name's hash modulo their number: with another one its offsets would be looked for
        # where they are not, and be taken for never committed.
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The number of partitions of {wanted.name} cannot be changed: it determines which partition holds "
            "the offsets of each group.",
        )
    present = len(topic.partitions)
    if wanted.count == present:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if wanted.count < present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {wanted.name} currently has {present} partition(s); {wanted.count} would not be an increase.",
        )
    if wanted.count - present > room:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    assignments = _assignments(situation, topic, wanted)
    return [
        new_partition(situation.image, topic.topic_id, present + number, replicas)
        for number, replicas in enumerate(assignments)
    ]


def _assignments(situation: Situation, topic: TopicImage, wanted: CreatePartitionsTopic) -> list[list[int]]:
    additional = wanted.count - len(topic.partitions)
    # All partitions of a topic have as many replicas as the first one.
    factor = len(topic.partitions[0].replicas)
    if not wanted.assignments:
        placer = placer_for(situation.image, situation.rng)
        return [placer.place(factor) for _ in range(additional)]
    if len(wanted.assignments) != additional:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only {len(wanted.assignments)} "
            "assignment(s) were specified.",
        )
    for assignment in wanted.assignments:
        check_assignment(situation.image, assignment.broker_ids, factor)
    return [assignment.broker_ids for assignment in wanted.assignments]
