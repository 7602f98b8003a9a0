"""What a run of records changed: the delta between two images."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import (
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    PartitionRegistration,
    TopicImage,
    nothing,
)


@dataclass(frozen=True, slots=True)
class TopicDelta:
    """A topic that is new or of which some partitions are new or changed."""

    before: TopicImage | None
    after: TopicImage
    # the new or changed partitions, as they are now
    partitions: Mapping[int, PartitionRegistration]

    @property
    def created(self) -> bool:
        return self.before is None

    def previous(self, partition: int) -> PartitionRegistration | None:
        return None if self.before is None else self.before.partitions.get(partition)


@dataclass(frozen=True, slots=True)
class BrokerDelta:
    """A registration that came, changed or went."""

    before: BrokerRegistration | None
    after: BrokerRegistration | None


@dataclass(frozen=True, slots=True)
class LocalChange:
    """A partition with a replica on this broker: what it was and what it is now."""

    topic_partition: TopicPartition
    topic_id: UUID
    before: PartitionRegistration | None
    after: PartitionRegistration


@dataclass(frozen=True, slots=True)
class LocalChanges:
    """A delta from where one broker stands (rule Q7: it serves from what it has replayed).

    `deletes` come first when it is applied: a topic made again under the same name is another topic.
    """

    deletes: tuple[tuple[TopicPartition, UUID], ...]
    leaders: tuple[LocalChange, ...]
    followers: tuple[LocalChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataDelta:
    """From `before` to `after`. A topic deleted and made again stands in both `deleted_topics` and `topics`."""

    before: ClusterImage
    after: ClusterImage
    topics: Mapping[UUID, TopicDelta] = field(default_factory=nothing)
    deleted_topics: tuple[TopicImage, ...] = ()
    # as they are now; a resource that lost its last config maps to nothing
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=nothing)
    brokers: Mapping[int, BrokerDelta] = field(default_factory=nothing)
    # None: the feature was taken away
    features: Mapping[str, int | None] = field(default_factory=nothing)

    @property
    def created_topics(self) -> tuple[TopicImage, ...]:
        return tuple(topic.after for topic in self.topics.values() if topic.created)

    @property
    def is_empty(self) -> bool:
        return not (self.topics or self.deleted_topics or self.configs or self.brokers or self.features)

    def local_changes(self, broker_id: int) -> LocalChanges:
        """What this delta asks of one broker: replicas to drop, to lead, to follow."""
        deletes = [
            (TopicPartition(topic.name, index), topic.topic_id)
            for topic in self.deleted_topics
            for index, registration in topic.partitions.items()
            if broker_id in registration.replicas
        ]
        leaders: list[LocalChange] = []
        followers: list[LocalChange] = []
        for topic_id, topic in self.topics.items():
            for index, registration in topic.partitions.items():
                tp = TopicPartition(topic.after.name, index)
                previous = topic.previous(index)
                if broker_id not in registration.replicas:
                    if previous is not None and broker_id in previous.replicas:
                        deletes.append((tp, topic_id))
                    continue
                change = LocalChange(tp, topic_id, previous, registration)
                (leaders if registration.leader == broker_id else followers).append(change)
        return LocalChanges(tuple(deletes), tuple(leaders), tuple(followers))
