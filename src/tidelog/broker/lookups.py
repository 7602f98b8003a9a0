"""Small questions that several handlers ask of the metadata."""

from typing import Final
from uuid import UUID

from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import ClusterImage
from tidelog.wire.errors import ErrorCode

# Kafka's "debugging" reader sees what a consumer does, on any replica: audits compare them with it.
DEBUGGING_REPLICA: Final = -2


def topic_name(image: ClusterImage, topic_id: UUID) -> str:
    """The name behind an id; empty when there is none."""
    topic = image.topics_by_id.get(topic_id)
    return "" if topic is None else topic.name


def absent_partition_error(image: ClusterImage, topic: str, partition: int) -> ErrorCode:
    """Why this broker has no such partition: it lives elsewhere, or nowhere."""
    if image.partition(TopicPartition(topic, partition)) is not None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
