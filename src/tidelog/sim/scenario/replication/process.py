"""One process of a broker: its replicas, its fetchers, its place in the metadata log, the writes that wait in it."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from tidelog.core.config.node import NodeConfig
from tidelog.core.event import Event
from tidelog.core.events import FollowingStarted, IsrChangeProposed, LeadershipTaken
from tidelog.core.ids import BrokerId, LeaderEpoch, TopicPartition
from tidelog.metadata.compare import compare
from tidelog.metadata.image import EMPTY_IMAGE, ClusterImage
from tidelog.metadata.loader import MetadataLoader
from tidelog.replication.fetcher import Fetcher, FetcherConfig
from tidelog.replication.manager import ReplicaManager
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Follower, Leader
from tidelog.replication.throttle import ReplicationThrottle
from tidelog.sim.scenario.replication.metadata import Batch, Tell
from tidelog.sim.scenario.replication.values import shortened
from tidelog.storage.manager import LogManager
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ErrorCode

# The wall clock of every story, which moves with its time.
EPOCH_MS = 1_700_000_000_000
# A story shows roles and proposals itself: the roles as they end up, the proposals as messages.
_TOLD_OTHERWISE = (FollowingStarted, IsrChangeProposed, LeadershipTaken)


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A produce request: one batch for one partition."""

    topic_partition: TopicPartition
    values: tuple[str, ...]
    acks: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1

    def __str__(self) -> str:
        return f"produce {' '.join(shortened(self.values))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parked:
    """A write with acks=all that waits for the high watermark (P3)."""

    write: Write
    leader_epoch: LeaderEpoch
    first_offset: int
    required_offset: int
    due_s: float


class Process:
    """`epoch` is -1 until it is registered. Roles are taken once the metadata shows this incarnation unfenced (E6)."""

    def __init__(
        self,
        broker_id: int,
        incarnation_id: UUID,
        disk: MemoryDisk,
        config: NodeConfig,
        *,
        rng: random.Random,
        tell: Tell,
        now_s: Callable[[], float],
    ) -> None:
        self.broker_id = BrokerId(broker_id)
        self.incarnation_id = incarnation_id
        self.epoch = -1
        self.fenced = True
        self.parked: list[Parked] = []
        self.fetchers: dict[BrokerId, Fetcher] = {}
        self.logs = LogManager(disk, config, rng, on_event=self._on_event)
        self.replicas = ReplicaManager(self.broker_id, config, self.logs)
        self.replicas.fetchers = self
        self.replicas.context.on_event = self._on_event
        self.replicas.on_warning = lambda text: self._tell(f"{broker_id}: {text}")
        self._config = config
        self._loader = MetadataLoader()
        self._tell = tell
        self._now_s = now_s
        self._has_roles = False
        self._throttle = ReplicationThrottle(self.broker_id, config.follower_replication_throttled_rate)
        self._homes: dict[TopicPartition, BrokerId] = {}
        self._check_isr_at_s = self._checkpoint_at_s = now_s()
        self.ask_isr_at_s = now_s()

    @property
    def image(self) -> ClusterImage:
        return self._loader.image

    @property
    def now_ms(self) -> int:
        return EPOCH_MS + int(self._now_s() * 1000)

    def _on_event(self, event: Event) -> None:
        if not isinstance(event, _TOLD_OTHERWISE):
            self._tell(f"{self.broker_id}: {event.text()}")

    # --- life ---

    def load(self, batches: list[Batch]) -> None:
        """Reads the metadata and recovers the logs; it has no role yet."""
        for batch in batches:
            self._loader.load_batch(batch.records, batch.provenance)
        image = self.image
        self.logs.open()
        self.replicas.configure(image)
        self.logs.load(lambda topic: self.replicas.topic_config(image, topic), self.now_ms)

    def apply(self, batch: Batch) -> None:
        before = self._roles()
        delta = self._loader.load_batch(batch.records, batch.provenance)
        if not self._has_roles:
            registered = self.image.broker(self.broker_id)
            if registered is None or registered.fenced or registered.incarnation_id != self.incarnation_id:
                return
            self._has_roles = True
            delta = compare(EMPTY_IMAGE, self.image)
        self.replicas.apply(delta, self.now_ms, self._now_s())
        for topic_partition, role in self._roles().items():
            if before.get(topic_partition) != role:
                self._tell(f"{self.broker_id}: {role}")

    def _roles(self) -> dict[TopicPartition, str]:
        return {partition.topic_partition: _role(partition) for partition in self.replicas}

    def close_cleanly(self) -> None:
        self.logs.close_cleanly(self.epoch, self.now_ms)

    # --- time ---

    def on_time(self) -> None:
        now_s = self._now_s()
        if now_s >= self._check_isr_at_s:
            self._check_isr_at_s = now_s + self.replicas.context.lag_s / 2
            self.replicas.check_isr(now_s)
        if now_s >= self._checkpoint_at_s:
            self._checkpoint_at_s = now_s + self._config.replica_high_watermark_checkpoint_interval_ms / 1000
            self.logs.checkpoint_high_watermarks()

    def finished(self) -> list[tuple[Parked, ErrorCode]]:
        """The parked writes that wait no more, and how they end (P3)."""
        done: list[tuple[Parked, ErrorCode]] = []
        still: list[Parked] = []
        for parked in self.parked:
            partition = self.replicas.get(parked.write.topic_partition)
            code: ErrorCode | None = ErrorCode.NOT_LEADER_OR_FOLLOWER
            if partition is not None:
                code = partition.acknowledged(parked.leader_epoch, parked.required_offset)
            if code is None and self._now_s() >= parked.due_s:
                code = ErrorCode.REQUEST_TIMED_OUT
            if code is None:
                still.append(parked)
            else:
                done.append((parked, code))
        self.parked = still
        return done

    # --- `replication.manager.Fetchers` ---

    def assign(
        self, topic_partition: TopicPartition, partition: Partition, leader_id: BrokerId, leader_epoch: LeaderEpoch
    ) -> None:
        if self._homes.get(topic_partition, leader_id) != leader_id:
            self.remove(topic_partition)
        fetcher = self.fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self.fetchers[leader_id] = Fetcher(
                self.broker_id, leader_id, self.epoch, FetcherConfig.of(self._config), self._throttle
            )
        for event in fetcher.assign(partition, leader_epoch, self.now_ms):
            self._on_event(event)
        self._homes[topic_partition] = leader_id

    def remove(self, topic_partition: TopicPartition) -> None:
        leader_id = self._homes.pop(topic_partition, None)
        if leader_id is not None:
            self.fetchers[leader_id].remove(topic_partition)
            if leader_id not in self._homes.values():
                del self.fetchers[leader_id]


def _role(partition: Partition) -> str:
    role = partition.role
    if isinstance(role, Leader):
        return f"leads {partition.topic_partition} in epoch {role.epoch} from offset {role.epoch_start_offset}"
    if isinstance(role, Follower):
        if role.leader < 0:
            return f"{partition.topic_partition} has no leader in epoch {role.epoch}"
        return f"follows {role.leader} for {partition.topic_partition} in epoch {role.epoch}"
    return f"{partition.topic_partition} is offline: {role.reason}"
