"""The partitions of this broker, and how a metadata delta changes them (deletions first, then roles)."""

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Protocol
from uuid import UUID

from tidelog.core.config.node import NodeConfig
from tidelog.core.config.topic import TopicConfig
from tidelog.core.ids import NO_LEADER, BrokerId, LeaderEpoch, TopicPartition
from tidelog.metadata.delta import BrokerDelta, MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, ClusterImage, PartitionRegistration, ResourceType
from tidelog.replication.context import ReplicationContext
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Follower, Leader, Offline
from tidelog.replication.throttle import ReplicationThrottle
from tidelog.storage.directory import LogDirectory
from tidelog.storage.manager import LogManager
from tidelog.storage.ports import DiskError
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

PartitionListener = Callable[[Partition], None]


class Fetchers(Protocol):
    """Whoever fetches for the partitions that this broker follows. Told after the role has changed."""

    def assign(
        self, topic_partition: TopicPartition, partition: Partition, leader_id: BrokerId, leader_epoch: LeaderEpoch
    ) -> None:
        """Follow `leader_id` in this epoch, also if the partition was followed before."""
        ...

    def remove(self, topic_partition: TopicPartition) -> None:
        """Fetch no more for it: led here now, led by nobody, offline or gone. Also of one never assigned."""
        ...


class NoFetchers:
    """For a broker that stands alone, until somebody who fetches is put in its place."""

    def assign(
        self, topic_partition: TopicPartition, partition: Partition, leader_id: BrokerId, leader_epoch: LeaderEpoch
    ) -> None: ...

    def remove(self, topic_partition: TopicPartition) -> None: ...


class ReplicaManager:
    """One mutating door for cluster state: `apply`. Everything else reads, or writes records into a log."""

    def __init__(self, local_id: BrokerId, config: NodeConfig, logs: LogManager) -> None:
        self._local_id = local_id
        self._config = config
        self._logs = logs
        self._partitions: dict[TopicPartition, Partition] = {}
        self.context = ReplicationContext(
            lag_s=config.replica_lag_time_max_ms / 1000,
            leader_throttle=ReplicationThrottle(local_id, config.leader_replication_throttled_rate),
        )
        self.fetchers: Fetchers = NoFetchers()
        # Told of every partition whose leadership came or went, or that is gone.
        self.on_leadership: PartitionListener = lambda partition: None
        self.on_removed: PartitionListener = lambda partition: None
        # Told of every partition where who waits should look again: the high watermark moved, a follower is gone, or a
        # change of the ISR is over.
        self.on_progress: PartitionListener = lambda partition: None
        # Told when dynamic broker configs changed what is in force, and of stored values that cannot be used.
        self.on_config: Callable[[NodeConfig], None] = lambda config: None
        self.on_warning: Callable[[str], None] = lambda text: None

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def get(self, topic_partition: TopicPartition) -> Partition | None:
        return self._partitions.get(topic_partition)

    def partition(self, topic_partition: TopicPartition) -> Partition:
        """The partition, or the refusal a client understands."""
        found = self._partitions.get(topic_partition)
        if found is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"this broker has no replica of {topic_partition}")
        return found

    def announce(self, image: ClusterImage) -> None:
        """What is committed and will be applied, perhaps after much else: who leaves is not proposed meanwhile."""
        self.context.announced = image.brokers

    def apply(self, delta: MetadataDelta, now_ms: int, now_s: float) -> None:
        """Follows the metadata. A topic made again under an old name is first removed with its log."""
        for _ in self.apply_stepwise(delta, now_ms, now_s):
            pass

    def apply_stepwise(self, delta: MetadataDelta, now_ms: int, now_s: float) -> Iterator[None]:
        """The same, a partition at a time: making ten thousand logs takes seconds, and others want their turn."""
        self.context.brokers = delta.after.brokers
        changes = delta.local_changes(self._local_id)
        for topic_partition, topic_id in changes.deletes:
            self._remove(topic_partition, topic_id)
            yield
        roles = (*changes.leaders, *changes.followers)
        self._reconfigure_changed(delta, frozenset(change.topic_partition for change in roles), now_s)
        configs: dict[str, TopicConfig] = {}
        for change in roles:
            topic = change.topic_partition.topic
            config = configs.get(topic)
            if config is None:
                config = configs[topic] = self.topic_config(delta.after, topic)
            # At start everything looks new, and may lie in a directory that is offline.
            is_new = delta.before is not EMPTY_IMAGE and (
                change.before is None or self._local_id not in change.before.replicas
            )
            partition = self._ensure(change.topic_partition, change.topic_id, config, now_ms, is_new=is_new)
            if partition is not None:
                # In one step: neither may a smaller ISR be counted by the minimum from before it, nor a smaller minimum
                # commit what a leader holds that is none any more.
                partition.log.config = config
                self._take_role(partition, change.after, now_s)
                self._advance(partition, now_s)
            yield
        if delta.brokers:
            self._look_again(delta.brokers, now_s)

    def _take_role(self, partition: Partition, registration: PartitionRegistration, now_s: float) -> None:
        change = partition.apply(registration, now_s)
        if change.following:
            role = partition.role
            if isinstance(role, Follower) and role.leader != NO_LEADER:
                self.fetchers.assign(partition.topic_partition, partition, role.leader, role.epoch)
            else:
                self.fetchers.remove(partition.topic_partition)
            # Asked again: a log that is damaged where it has to be cut is not followed with.
            if isinstance(partition.role, Offline):
                self.on_warning(f"{partition.topic_partition} is offline: {partition.role.reason}")
        if change.leadership:
            self.on_leadership(partition)
        elif change.high_watermark_moved or change.isr_decided:
            self.on_progress(partition)

    def _look_again(self, brokers: Mapping[int, BrokerDelta], now_s: float) -> None:
        """A follower that is fenced or gone holds up nobody who waits for it outside the ISR (W1)."""
        for partition in list(self._partitions.values()):
            role = partition.role
            if isinstance(role, Leader) and not role.followers.keys().isdisjoint(brokers):
                partition.advance_high_watermark(now_s)
                self.on_progress(partition)

    # --- the in-sync sets

    def check_isr(self, now_s: float) -> None:
        """By a timer, at half of `replica.lag.time.max.ms` (I2)."""
        for partition in list(self._partitions.values()):
            if partition.check_isr(now_s):
                self.on_progress(partition)

    def next_isr_request(self, broker_epoch: int) -> AlterPartitionRequest | None:
        """What to send to the controller now; None while a request is under way or nothing waits (I5)."""
        return self.context.changes.next_request(self._local_id, broker_epoch)

    def on_isr_response(self, response: AlterPartitionResponse, now_s: float) -> bool:
        """Whether something of it has to be tried again, after a pause."""
        over, again = self.context.changes.on_response(response, now_s)
        for partition in over:
            assert isinstance(partition, Partition)
            self.on_progress(partition)
        return again

    # --- configs

    def topic_config(self, image: ClusterImage, topic: str) -> TopicConfig:
        """The values in force: the topic's own over this broker's, which may be dynamic, over the defaults."""
        return TopicConfig.resolve(self._config, image.topic_configs(topic))

    def configure(self, image: ClusterImage) -> None:
        """Takes the dynamic broker configs of an image."""
        self._config, warnings = self._config.with_dynamic(
            cluster=image.broker_configs(None), broker=image.broker_configs(self._local_id)
        )
        for warning in warnings:
            self.on_warning(warning)
        self.context.lag_s = self._config.replica_lag_time_max_ms / 1000
        self.on_config(self._config)

    def _reconfigure_changed(self, delta: MetadataDelta, besides: Set[TopicPartition], now_s: float) -> None:
        """Of every partition but those whose role changes as well."""
        if any(resource.type is ResourceType.BROKER for resource in delta.configs):
            self.configure(delta.after)
            for topic in sorted({topic_partition.topic for topic_partition in self._partitions}):
                self._reconfigure(delta.after, topic, besides, now_s)
            return
        for resource in delta.configs:
            if resource.type is ResourceType.TOPIC:
                self._reconfigure(delta.after, resource.name, besides, now_s)

    def _reconfigure(self, image: ClusterImage, topic: str, besides: Set[TopicPartition], now_s: float) -> None:
        found = image.topics_by_name.get(topic)
        if found is None:
            return
        config = self.topic_config(image, topic)
        for number in sorted(found.partitions):
            topic_partition = TopicPartition(topic, number)
            partition = self._partitions.get(topic_partition)
            if partition is not None and topic_partition not in besides:
                partition.log.config = config
                self._advance(partition, now_s)

    def _advance(self, partition: Partition, now_s: float) -> None:
        """`min.insync.replicas` may have held the high watermark up."""
        if partition.advance_high_watermark(now_s):
            self.on_progress(partition)

    # --- logs

    def _ensure(
        self, topic_partition: TopicPartition, topic_id: UUID, config: TopicConfig, now_ms: int, *, is_new: bool
    ) -> Partition | None:
        partition = self._partitions.get(topic_partition)
        if partition is not None and partition.topic_id == topic_id:
            return partition
        if partition is not None:
            self._remove(topic_partition, partition.topic_id)
        try:
            log = self._logs.get_or_create(topic_partition, topic_id, config, now_ms, is_new=is_new)
        except DiskError as error:
            # The directory is offline from here on (its watcher is told); the partition has no replica on this broker.
            self.on_warning(f"{topic_partition} has no usable log: {error}")
            return None
        partition = Partition(topic_partition, topic_id, self._local_id, log, self.context)
        self._partitions[topic_partition] = partition
        return partition

    def _remove(self, topic_partition: TopicPartition, topic_id: UUID) -> None:
        partition = self._partitions.get(topic_partition)
        if partition is None or partition.topic_id != topic_id:
            return
        del self._partitions[topic_partition]
        self.fetchers.remove(topic_partition)
        # Who waits for a record here looks for another leader, as who asks only now does (P3, P6).
        partition.go_offline("the partition was removed from this broker", ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.on_removed(partition)
        try:
            self._logs.delete(topic_partition)
        except DiskError as error:
            self.on_warning(f"the log of {topic_partition} could not be deleted: {error}")

    def on_directory_offline(self, directory: LogDirectory, error: DiskError) -> None:
        """Takes a failed directory's partitions offline; the others go on (C10)."""
        for partition in list(self._partitions.values()):
            if partition.log.directory is directory:
                self.fetchers.remove(partition.topic_partition)
                partition.go_offline(f"log directory {directory.path} failed: {error}")
                self.on_leadership(partition)
