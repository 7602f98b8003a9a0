"""CreateTopics and DeleteTopics."""

from collections import Counter
from collections.abc import Iterable
from uuid import UUID

from tidelog.controller.decision import Decision, Situation
from tidelog.controller.partitions import MAX_PARTITIONS_PER_REQUEST, check_assignment, new_partition, placer_for
from tidelog.controller.topic_configs import validated_overrides
from tidelog.core.events import Event, TopicCreated, TopicDeleted
from tidelog.core.ids import METADATA_TOPIC, ZERO_UUID, random_uuid
from tidelog.metadata.image import ResourceType
from tidelog.metadata.names import collision_form, why_illegal
from tidelog.metadata.records import ConfigRecord, MetadataRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)


def create_topics(situation: Situation, request: CreateTopicsRequest) -> Decision[CreateTopicsResponse]:
    """One bad topic does not fail the others; all good ones are made in one batch, or with `validate_only` none."""
    names = Counter(topic.name for topic in request.topics)
    _check_total(request, situation.config.num_partitions)
    draft = _Creation(situation)
    results: list[CreatableTopicResult] = []
    answered: set[str] = set()
    for topic in request.topics:
        if topic.name in answered:
            continue
        answered.add(topic.name)
        try:
            if names[topic.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            results.append(draft.create(topic))
        except ApiError as error:
            results.append(_failure(topic.name, error))
    response = CreateTopicsResponse(topics=results)
    if request.validate_only:
        return Decision(response=response)
    return Decision(response=response, records=draft.records, events=draft.events)


def _failure(name: str, error: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


def _check_total(request: CreateTopicsRequest, default_partitions: int) -> None:
    asked = (
        len(t.assignments) or (t.num_partitions if t.num_partitions != -1 else default_partitions)
        for t in request.topics
    )
    if sum(max(0, count) for count in asked) > MAX_PARTITIONS_PER_REQUEST:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


class _Creation:
    """The topics of one request, each seeing those made before it."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._placer = placer_for(situation.image, situation.rng)
        self._forms: dict[str, str] = {}
        self.records: list[MetadataRecord] = []
        self.events: list[Event] = []

    def create(self, topic: CreatableTopic) -> CreatableTopicResult:
        self._check_name(topic.name)
        overrides = validated_overrides(topic)
        described = self._situation.described.of(overrides)
        image = self._situation.image
        topic_id = random_uuid(self._situation.rng)
        while topic_id in image.topics_by_id:
            topic_id = random_uuid(self._situation.rng)
        partitions = [
            new_partition(image, topic_id, index, replicas) for index, replicas in enumerate(self._assignments(topic))
        ]
        self.records.append(TopicRecord(name=topic.name, topic_id=topic_id))
        self.records += [
            ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=key, value=value)
            for key, value in overrides.items()
        ]
        self.records += partitions
        form = collision_form(topic.name)
        if form is not None:
            self._forms[form] = topic.name
        factor = len(partitions[0].replicas)
        self.events.append(_created(topic.name, partitions))
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(partitions),
            replication_factor=factor,
            configs=described,
        )

    def _check_name(self, name: str) -> None:
        reason = why_illegal(name)
        if reason is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")
        if name == METADATA_TOPIC:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        if self._situation.image.topic(name) is not None:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        form = collision_form(name)
        if form is None:
            return
        taken = self._situation.image.colliding_names.get(form, ())
        other = taken[0] if taken else self._forms.get(form)
        if other is not None:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")

    def _assignments(self, topic: CreatableTopic) -> list[list[int]]:
        if topic.assignments:
            return self._manual_assignments(topic)
        config = self._situation.config
        count = config.num_partitions if topic.num_partitions == -1 else topic.num_partitions
        factor = config.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
        if count <= 0:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        if factor <= 0:
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        return [self._placer.place(factor) for _ in range(count)]

    def _manual_assignments(self, topic: CreatableTopic) -> list[list[int]]:
        for value, what in ((topic.num_partitions, "numPartitions"), (topic.replication_factor, "replication factor")):
            if value != -1:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"A manual partition assignment was specified, but {what} was not set to -1.",
                )
        assigned: dict[int, list[int]] = {}
        for entry in topic.assignments:
            if entry.partition_index in assigned:
                raise ApiError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Found multiple manual partition assignments for partition {entry.partition_index}",
                )
            factor = len(next(iter(assigned.values()))) if assigned else None
            check_assignment(self._situation.image, entry.broker_ids, factor)
            assigned[entry.partition_index] = entry.broker_ids
        if sorted(assigned) != list(range(len(assigned))):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
            )
        return [assigned[index] for index in range(len(assigned))]


def _created(name: str, partitions: list[PartitionRecord]) -> TopicCreated:
    first = partitions[0]
    return TopicCreated(
        topic=name,
        topic_id=first.topic_id,
        partitions=len(partitions),
        replication_factor=len(first.replicas),
    )


def delete_topics(situation: Situation, request: DeleteTopicsRequest) -> Decision[DeleteTopicsResponse]:
    """By name or, from v6, by id. A topic named in two ways is refused in both: the request is not what was meant."""
    asked = [*(DeleteTopicState(name=name) for name in request.topic_names), *request.topics]
    named_twice = _duplicates(situation, asked)
    responses: list[DeletableTopicResult] = []
    records: list[MetadataRecord] = []
    events: list[Event] = []
    refused: set[tuple[str | None, object]] = set()
    for state in asked:
        try:
            name, topic_id = _resolve(situation, state)
            if topic_id in named_twice:
                # One answer for all its mentions.
                if (state.name, state.topic_id) in refused:
                    continue
                refused.add((state.name, state.topic_id))
                raise ApiError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {'name' if state.name else 'id'}.")
            if not situation.config.delete_topic_enable:
                raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false.")
            records.append(RemoveTopicRecord(topic_id=topic_id))
            events.append(TopicDeleted(topic=name, topic_id=topic_id))
            responses.append(DeletableTopicResult(name=name, topic_id=topic_id))
        except ApiError as error:
            responses.append(
                DeletableTopicResult(
                    name=state.name, topic_id=state.topic_id, error_code=error.code, error_message=error.message
                )
            )
    return Decision(response=DeleteTopicsResponse(responses=responses), records=records, events=events)


def _resolve(situation: Situation, state: DeleteTopicState) -> tuple[str, UUID]:
    if state.name is not None and state.topic_id != ZERO_UUID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if state.name is None and state.topic_id == ZERO_UUID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    image = situation.image
    topic = image.topic_by_id(state.topic_id) if state.name is None else image.topic(state.name)
    if topic is None and state.name is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return topic.name, topic.topic_id


def _duplicates(situation: Situation, asked: Iterable[DeleteTopicState]) -> set[UUID]:
    seen: Counter[UUID] = Counter()
    for state in asked:
        topic = situation.image.topic(state.name) if state.name else situation.image.topic_by_id(state.topic_id)
        if topic is not None and (state.name is None or state.topic_id == ZERO_UUID):
            seen[topic.topic_id] += 1
    return {topic_id for topic_id, count in seen.items() if count > 1}
