"""The partitions that one decision changes: each change sees the ones before it, and becomes one record."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from tidelog.controller.decision import Situation
from tidelog.controller.elections import Acceptable, PartitionRules
from tidelog.controller.partition_rules import rules_for
from tidelog.controller.partition_targets import Target, change
from tidelog.controller.partitions import is_online
from tidelog.metadata.image import PartitionRegistration, TopicImage
from tidelog.metadata.partition_change import merge_change
from tidelog.metadata.records import MetadataRecord, PartitionChangeRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A record and what it changes, for whoever tells of it."""

    topic: TopicImage
    index: int
    before: PartitionRegistration
    record: PartitionChangeRecord
    unclean: bool

    @property
    def after(self) -> PartitionRegistration:
        return merge_change(self.before, self.record)


class PartitionDrafts:
    """A broker may lead if it is active and its directory is online. By this decision `gone` brokers no longer are,

    and the `returning` one is unfenced.
    """

    def __init__(self, situation: Situation, *, gone: Iterable[int] = (), returning: int | None = None) -> None:
        self._image = situation.image
        self._rules_of = rules_for(situation.image, situation.config)
        self._rules: dict[UUID, PartitionRules] = {}
        self._gone = frozenset(gone)
        self._returning = returning
        self._changed: dict[tuple[UUID, int], Change] = {}
        self.changes: list[Change] = []

    @property
    def records(self) -> list[MetadataRecord]:
        return [each.record for each in self.changes]

    def rules(self, topic: TopicImage) -> PartitionRules:
        rules = self._rules.get(topic.topic_id)
        if rules is None:
            rules = self._rules[topic.topic_id] = self._rules_of(topic)
        return rules

    def partition(self, topic: TopicImage, index: int) -> PartitionRegistration | None:
        """As this decision leaves it so far."""
        changed = self._changed.get((topic.topic_id, index))
        return topic.partitions.get(index) if changed is None else changed.after

    def change(self, topic: TopicImage, index: int, target: Target) -> Change | None:
        """Makes it so; None if it is so already."""
        before = self.partition(topic, index)
        assert before is not None, f"{topic.name}-{index} is changed without being there"
        acceptable = self._acceptance(before, target)
        changed = change(topic.topic_id, index, before, target, acceptable, self.rules(topic))
        if changed is None:
            return None
        made = Change(topic=topic, index=index, before=before, record=changed.record, unclean=changed.unclean)
        self._changed[topic.topic_id, index] = made
        self.changes.append(made)
        return made

    def _acceptance(self, partition: PartitionRegistration, target: Target) -> Acceptable:
        def acceptable(broker_id: int) -> bool:
            broker = self._image.brokers.get(broker_id)
            if broker is None or broker_id in self._gone:
                return False
            if not (broker.active or (broker_id == self._returning and not broker.in_controlled_shutdown)):
                return False
            directory = target.directories.get(broker_id)
            if directory is None and broker_id in partition.replicas:
                directory = partition.directory_of(broker_id)
            return directory is None or is_online(broker, directory)

        return acceptable
