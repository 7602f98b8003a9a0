"""The one replay: records onto an image, giving the next image and what changed (rule C1).

The active controller replays what it decides, brokers replay what is committed, a snapshot is replayed onto nothing:
all through `apply_records`, so that they cannot disagree.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar
from uuid import UUID

from tidelog.metadata.delta import BrokerDelta, MetadataDelta, TopicDelta
from tidelog.metadata.image import (
    EMPTY,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    PartitionRegistration,
    Provenance,
    ResourceType,
    TopicImage,
)
from tidelog.metadata.names import collision_form
from tidelog.metadata.partition_change import merge_change, partition_from_record
from tidelog.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from tidelog.metadata.registrations import broker_from_record, controller_from_record, merge_registration_change

K = TypeVar("K")
V = TypeVar("V")


class ReplayError(Exception):
    """A record that does not fit the image: the log is not the history of this image."""


def apply_records(
    image: ClusterImage, records: Iterable[MetadataRecord], provenance: Provenance | None = None
) -> tuple[ClusterImage, MetadataDelta]:
    """The image after `records`, and the delta. `provenance` tells where the last of them stands in the log."""
    builder = _Builder(image)
    for record in records:
        builder.replay(record)
    return builder.build(image.provenance if provenance is None else provenance)


class _TopicDraft:
    """A topic under change. `partitions` is its own copy; `changed` lists what differs from `before`."""

    __slots__ = ("before", "changed", "name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: UUID, before: TopicImage | None) -> None:
        self.name = name
        self.topic_id = topic_id
        self.before = before
        self.partitions: dict[int, PartitionRegistration] = {} if before is None else dict(before.partitions)
        self.changed: dict[int, None] = {}

    def put(self, index: int, partition: PartitionRegistration) -> None:
        self.partitions[index] = partition
        self.changed[index] = None


class _Builder:
    """Drafts of what changes; everything else is taken over from the image as it is."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._topics: dict[UUID, _TopicDraft] = {}
        self._drafted_names: dict[str, UUID] = {}
        self._deleted: dict[UUID, TopicImage] = {}
        self._brokers: dict[int, BrokerRegistration | None] = {}
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self._features: dict[str, int | None] = {}
        self._changes: dict[str, Any] = {}

    def replay(self, record: MetadataRecord) -> None:
        _REPLAY[type(record)](self, record)

    # --- topics ---

    def _draft(self, topic_id: UUID, what: MetadataRecord) -> _TopicDraft:
        draft = self._topics.get(topic_id)
        if draft is None:
            before = None if topic_id in self._deleted else self._image.topics_by_id.get(topic_id)
            if before is None:
                raise ReplayError(f"{what} names a topic id that does not exist")
            draft = self._topics[topic_id] = _TopicDraft(before.name, topic_id, before)
            self._drafted_names[before.name] = topic_id
        return draft

    def _topic_id(self, name: str) -> UUID | None:
        topic_id = self._drafted_names.get(name)
        if topic_id is None:
            topic = self._image.topics_by_name.get(name)
            topic_id = None if topic is None or topic.topic_id in self._deleted else topic.topic_id
        return topic_id

    def topic(self, record: TopicRecord) -> None:
        known = record.topic_id in self._topics or record.topic_id in self._image.topics_by_id
        if known or self._topic_id(record.name) is not None:
            raise ReplayError(f"{record} creates a topic that exists")
        self._topics[record.topic_id] = _TopicDraft(record.name, record.topic_id, None)
        self._drafted_names[record.name] = record.topic_id

    def partition(self, record: PartitionRecord) -> None:
        self._draft(record.topic_id, record).put(record.partition_id, partition_from_record(record))

    def partition_change(self, record: PartitionChangeRecord) -> None:
        draft = self._draft(record.topic_id, record)
        partition = draft.partitions.get(record.partition_id)
        if partition is None:
            raise ReplayError(f"{record} names a partition that does not exist")
        draft.put(record.partition_id, merge_change(partition, record))

    def remove_topic(self, record: RemoveTopicRecord) -> None:
        draft = self._draft(record.topic_id, record)
        del self._topics[record.topic_id]
        del self._drafted_names[draft.name]
        if draft.before is not None:
            self._deleted[record.topic_id] = draft.before
        resource = ConfigResource(ResourceType.TOPIC, draft.name)
        if self._config_draft(resource):
            self._configs[resource] = {}

    def clear_elr(self, record: ClearElrRecord) -> None:
        if record.topic_name:
            topic_id = self._topic_id(record.topic_name)
            if topic_id is None:
                raise ReplayError(f"{record} names a topic that does not exist")
            self._clear_elr(topic_id, record)
            return
        drafted = list(self._topics)
        for topic_id in self._image.topics_by_id:
            if topic_id not in self._topics and topic_id not in self._deleted:
                self._clear_elr(topic_id, record)
        for topic_id in drafted:
            self._clear_elr(topic_id, record)

    def _clear_elr(self, topic_id: UUID, record: ClearElrRecord) -> None:
        draft = self._topics.get(topic_id)
        partitions = self._image.topics_by_id[topic_id].partitions if draft is None else draft.partitions
        stale = [index for index, partition in partitions.items() if partition.elr or partition.last_known_elr]
        for index in stale:
            cleared = PartitionChangeRecord(eligible_leader_replicas=[], last_known_elr=[])
            self._draft(topic_id, record).put(index, merge_change(partitions[index], cleared))

    # --- nodes ---

    def _broker(self, broker_id: int, epoch: int, what: MetadataRecord) -> BrokerRegistration:
        broker = self._brokers[broker_id] if broker_id in self._brokers else self._image.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise ReplayError(f"{what} does not match the registration {broker}")
        return broker

    def register_broker(self, record: RegisterBrokerRecord) -> None:
        self._brokers[record.broker_id] = broker_from_record(record)

    def unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch, record)
        self._brokers[record.broker_id] = None

    def change_registration(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch, record)
        self._brokers[record.broker_id] = merge_registration_change(broker, record)

    def fence(self, record: FenceBrokerRecord) -> None:
        self._brokers[record.id] = replace(self._broker(record.id, record.epoch, record), fenced=True)

    def unfence(self, record: UnfenceBrokerRecord) -> None:
        self._brokers[record.id] = replace(self._broker(record.id, record.epoch, record), fenced=False)

    def register_controller(self, record: RegisterControllerRecord) -> None:
        controllers = dict(self._changes.get("controllers", self._image.controllers))
        controllers[record.controller_id] = controller_from_record(record)
        self._changes["controllers"] = controllers

    # --- the cluster ---

    def _config_draft(self, resource: ConfigResource) -> dict[str, str]:
        draft = self._configs.get(resource)
        return dict(self._image.configs(resource)) if draft is None else draft

    def config(self, record: ConfigRecord) -> None:
        resource = ConfigResource(ResourceType(record.resource_type), record.resource_name)
        draft = self._configs[resource] = self._config_draft(resource)
        if record.value is None:
            draft.pop(record.name, None)
        else:
            draft[record.name] = record.value

    def feature_level(self, record: FeatureLevelRecord) -> None:
        self._features[record.name] = record.feature_level or None

    def client_quota(self, record: ClientQuotaRecord) -> None:
        entity = tuple(sorted(((e.entity_type, e.entity_name) for e in record.entity), key=lambda e: e[0]))
        quotas = dict(self._changes.get("client_quotas", self._image.client_quotas))
        values = dict(quotas.get(entity, EMPTY))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            quotas[entity] = values
        else:
            quotas.pop(entity, None)
        self._changes["client_quotas"] = quotas

    def producer_ids(self, record: ProducerIdsRecord) -> None:
        self._changes["next_producer_id"] = record.next_producer_id

    def nothing(self, record: MetadataRecord) -> None:
        """NoOp changes nothing; the marks of a transaction are the loader's business."""

    # --- the result ---

    def build(self, provenance: Provenance) -> tuple[ClusterImage, MetadataDelta]:
        before = self._image
        changes = dict(self._changes)
        topics = self._build_topics(changes)
        if self._brokers:
            changes["brokers"] = _overlaid(before.brokers, self._brokers)
        if self._configs:
            configs = {resource: values or None for resource, values in self._configs.items()}
            changes["configs_by_resource"] = before.configs_by_resource.updated(configs)
        if self._features:
            changes["features"] = _overlaid(before.features, self._features)
        after = replace(before, provenance=provenance, **changes)
        delta = MetadataDelta(
            before=before,
            after=after,
            topics=topics,
            deleted_topics=tuple(self._deleted.values()),
            configs=self._configs,
            brokers={
                broker_id: BrokerDelta(before.brokers.get(broker_id), broker)
                for broker_id, broker in self._brokers.items()
                if broker is not None or broker_id in before.brokers
            },
            features=self._features,
        )
        return after, delta

    def _build_topics(self, changes: dict[str, Any]) -> dict[UUID, TopicDelta]:
        if not self._topics and not self._deleted:
            return {}
        names: dict[str, TopicImage | None] = {topic.name: None for topic in self._deleted.values()}
        ids: dict[UUID, TopicImage | None] = dict.fromkeys(self._deleted)
        deltas = {}
        for topic_id, draft in self._topics.items():
            after = TopicImage(draft.name, topic_id, draft.partitions)
            names[draft.name] = ids[topic_id] = after
            changed = {index: draft.partitions[index] for index in draft.changed}
            deltas[topic_id] = TopicDelta(draft.before, after, changed)
        changes["topics_by_name"] = self._image.topics_by_name.updated(names)
        changes["topics_by_id"] = self._image.topics_by_id.updated(ids)
        collisions = self._build_collisions()
        if collisions:
            changes["colliding_names"] = self._image.colliding_names.updated(collisions)
        return deltas

    def _build_collisions(self) -> dict[str, tuple[str, ...] | None]:
        changed: dict[str, set[str]] = {}

        def names_like(name: str) -> set[str]:
            form = collision_form(name)
            if form is None:
                return set()
            return changed.setdefault(form, set(self._image.colliding_names.get(form, ())))

        for topic in self._deleted.values():
            names_like(topic.name).discard(topic.name)
        for draft in self._topics.values():
            if draft.before is None:
                names_like(draft.name).add(draft.name)
        return {form: tuple(sorted(names)) or None for form, names in changed.items()}


def _overlaid(base: Mapping[K, V], overlay: Mapping[K, V | None]) -> dict[K, V]:
    """`base` with what `overlay` sets, and without what it maps to None."""
    result = dict(base)
    for key, value in overlay.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = value
    return result


_REPLAY: Final[dict[type[MetadataRecord], Any]] = {
    TopicRecord: _Builder.topic,
    PartitionRecord: _Builder.partition,
    PartitionChangeRecord: _Builder.partition_change,
    RemoveTopicRecord: _Builder.remove_topic,
    ClearElrRecord: _Builder.clear_elr,
    RegisterBrokerRecord: _Builder.register_broker,
    UnregisterBrokerRecord: _Builder.unregister_broker,
    BrokerRegistrationChangeRecord: _Builder.change_registration,
    FenceBrokerRecord: _Builder.fence,
    UnfenceBrokerRecord: _Builder.unfence,
    RegisterControllerRecord: _Builder.register_controller,
    ConfigRecord: _Builder.config,
    FeatureLevelRecord: _Builder.feature_level,
    ClientQuotaRecord: _Builder.client_quota,
    ProducerIdsRecord: _Builder.producer_ids,
    NoOpRecord: _Builder.nothing,
    BeginTransactionRecord: _Builder.nothing,
    EndTransactionRecord: _Builder.nothing,
    AbortTransactionRecord: _Builder.nothing,
}
