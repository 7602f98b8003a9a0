"""The delta of two images that no run of records connects: a snapshot was loaded over an older image."""

from collections.abc import Mapping
from typing import TypeVar
from uuid import UUID

from tidelog.metadata.delta import BrokerDelta, MetadataDelta, TopicDelta
from tidelog.metadata.image import ClusterImage

K = TypeVar("K")
V = TypeVar("V")


def compare(before: ClusterImage, after: ClusterImage) -> MetadataDelta:
    """What changed, found by comparing everything."""
    topics: dict[UUID, TopicDelta] = {}
    for topic_id, topic in after.topics_by_id.items():
        old = before.topics_by_id.get(topic_id)
        if old is topic:
            continue
        known: Mapping[int, object] = {} if old is None else old.partitions
        changed = {index: value for index, value in topic.partitions.items() if known.get(index) != value}
        if old is None or changed:
            topics[topic_id] = TopicDelta(old, topic, changed)
    return MetadataDelta(
        before=before,
        after=after,
        topics=topics,
        deleted_topics=tuple(t for topic_id, t in before.topics_by_id.items() if topic_id not in after.topics_by_id),
        configs={
            resource: after.configs(resource)
            for resource in _changed_keys(before.configs_by_resource, after.configs_by_resource)
        },
        brokers={
            broker_id: BrokerDelta(before.brokers.get(broker_id), after.brokers.get(broker_id))
            for broker_id in _changed_keys(before.brokers, after.brokers)
        },
        features={name: after.features.get(name) for name in _changed_keys(before.features, after.features)},
    )


def _changed_keys(before: Mapping[K, V], after: Mapping[K, V]) -> list[K]:
    """Keys whose value differs or which stand on one side only; in the order of the images, never of a set."""
    changed = [key for key, value in after.items() if before.get(key) != value]
    return changed + [key for key in before if key not in after]
