"""In which of its directories a broker's replicas lie, and what of that the controller does not know (C10, KIP-858).

The controller has to know it to move what a failed directory held, and nothing else. A broker with one directory is
asked nothing: its replicas are placed there when they are made.
"""

from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from tidelog.core.ids import DIR_LOST, RESERVED_UUIDS, BrokerId, TopicIdPartition, TopicPartition
from tidelog.metadata.image import BrokerRegistration, ClusterImage, PartitionRegistration, TopicImage
from tidelog.replication.manager import ReplicaManager
from tidelog.replication.roles import Offline
from tidelog.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)

# As Kafka; the others go with the next request.
MAX_ASSIGNMENTS_PER_REQUEST: Final = 2000


class ReplicaDirectories:
    """Invariant: `untold` are replicas of this broker that lay elsewhere than the metadata had them when looked at."""

    def __init__(self, local_id: BrokerId, replicas: ReplicaManager, directory_ids: Mapping[str, UUID]) -> None:
        self._local_id = local_id
        self._replicas = replicas
        self._directory_ids = directory_ids
        self._untold: dict[TopicIdPartition, UUID] = {}

    def __len__(self) -> int:
        return len(self._untold)

    def look_at_all(self, image: ClusterImage) -> None:
        """When the broker has taken its roles, and when a directory has failed."""
        self._untold.clear()
        for topic in image.topics_by_id.values():
            for index, registration in topic.partitions.items():
                self.look(image, TopicPartition(topic.name, index), topic.topic_id, registration)

    def look(
        self, image: ClusterImage, topic_partition: TopicPartition, topic_id: UUID, registration: PartitionRegistration
    ) -> None:
        """One partition, as the metadata has it now."""
        key = TopicIdPartition(topic_id, topic_partition.partition)
        self._untold.pop(key, None)
        broker = image.broker(self._local_id)
        if broker is None or self._local_id not in registration.replicas:
            return
        told = registration.directory_of(self._local_id)
        actual = self._directory_of(topic_partition, topic_id, broker, told)
        if actual != told:
            self._untold[key] = actual

    def forget(self, topic: TopicImage) -> None:
        """It was deleted."""
        for index in topic.partitions:
            self._untold.pop(TopicIdPartition(topic.topic_id, index), None)

    def _directory_of(
        self, topic_partition: TopicPartition, topic_id: UUID, broker: BrokerRegistration, told: UUID
    ) -> UUID:
        partition = self._replicas.get(topic_partition)
        if partition is not None and partition.topic_id == topic_id:
            directory = partition.log.directory
            # Offline by itself: its log cannot be used, and nobody knows but this broker.
            alone = isinstance(partition.role, Offline) and directory.online
            return DIR_LOST if alone else self._directory_ids[directory.path]
        # No log, because the directory it should be in has failed. The controller knows that if it knows the directory.
        return told if told not in RESERVED_UUIDS and told not in broker.log_dirs else DIR_LOST

    def next_request(self, broker_epoch: int) -> AssignReplicasToDirsRequest | None:
        """All that the controller does not know, or None. What it has understood comes back as metadata."""
        if not self._untold:
            return None
        some = list(self._untold.items())[:MAX_ASSIGNMENTS_PER_REQUEST]
        return AssignReplicasToDirsRequest(
            broker_id=self._local_id, broker_epoch=broker_epoch, directories=_by_directory(some)
        )


def _by_directory(assignments: Iterable[tuple[TopicIdPartition, UUID]]) -> list[DirectoryData]:
    directories: dict[UUID, dict[UUID, TopicData]] = {}
    for key, directory in assignments:
        topics = directories.setdefault(directory, {})
        topic = topics.setdefault(key.topic_id, TopicData(topic_id=key.topic_id))
        topic.partitions.append(PartitionData(partition_index=key.partition))
    return [DirectoryData(id_=directory, topics=list(topics.values())) for directory, topics in directories.items()]
