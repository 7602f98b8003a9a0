"""What a client knows of the cluster, as of one Metadata answer."""

from dataclasses import dataclass, field
from uuid import UUID

from tidelog.client.addresses import Address
from tidelog.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """An immutable picture; a newer answer replaces it, topic by topic."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: dict[int, Address] = field(default_factory=dict)
    topics: dict[str, MetadataResponseTopic] = field(default_factory=dict)

    def partition(self, topic: str, partition: int) -> MetadataResponsePartition | None:
        found = self.topics.get(topic)
        if found is None:
            return None
        for candidate in found.partitions:
            if candidate.partition_index == partition:
                return candidate
        return None

    def topic_named(self, topic_id: UUID) -> str | None:
        for name, topic in self.topics.items():
            if topic.topic_id == topic_id:
                return name
        return None

    def updated(self, answer: MetadataResponse) -> "ClusterMetadata":
        """This picture with what `answer` says; a topic it reports as gone is forgotten."""
        topics = dict(self.topics)
        for topic in answer.topics:
            if topic.name is None:
                continue
            if topic.error_code == 0:
                topics[topic.name] = topic
            else:
                topics.pop(topic.name, None)
        return ClusterMetadata(
            cluster_id=answer.cluster_id,
            controller_id=answer.controller_id,
            brokers={broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers},
            topics=topics,
        )
