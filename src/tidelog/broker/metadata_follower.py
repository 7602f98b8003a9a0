"""A broker follows the metadata log: each committed batch changes image, partitions and coordinators, in order.

Rule Q7: a broker serves from what it has replayed, and from nothing else.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import UUID

from tidelog.broker.appends import WakeSoon
from tidelog.broker.broker import Broker
from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import TopicPartition
from tidelog.metadata.compare import compare
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import EMPTY_IMAGE, ClusterImage
from tidelog.metadata.names import GROUP_OFFSETS_TOPIC
from tidelog.quorum.errors import QuorumError
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Leader
from tidelog.storage.manager import LogManager

log = logging.getLogger("tidelog.metadata")

# Longer than clients take to ask who leads after a connection broke.
ADDRESS_KEPT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Applying metadata or loading logs may hold the event loop for a slice at a time; then others have their turn."""

    slice_s: float = 0.02
    # On virtual time a slice takes none: there a slow machine is one that pauses after each.
    pause_s: float = 0.0


PACE: Final = Pace()


class MetadataFollower:
    """Applies committed metadata to a broker.

    Roles are taken from the moment that the metadata shows *this* incarnation unfenced: what it says of leaders before
    that is about an earlier process, and a new incarnation never goes on in an old epoch (E6).
    """

    def __init__(self, broker: Broker, logs: LogManager, incarnation_id: UUID, pace: Pace = PACE) -> None:
        self._broker = broker
        self._pace = pace
        self._logs = logs
        self._incarnation_id = incarnation_id
        self._registered = False
        self.has_roles = False
        # Published and not yet applied; the steps are those of the first.
        self._waiting: deque[tuple[ClusterImage, MetadataDelta]] = deque()
        self._steps: Iterator[None] | None = None
        self._scheduled = False
        # Told of each batch when it is applied, and of what ends this broker.
        self.on_applied: Callable[[ClusterImage, MetadataDelta], None] = lambda image, delta: None
        self.on_failure: Callable[[BaseException], None] = lambda error: None
        self._wake_soon = WakeSoon(broker)
        self.on_config: Callable[[NodeConfig], None] = lambda config: None
        # The controller lets a broker go when the others know of it: it should hear of it soon.
        self.on_shutdown_elsewhere: Callable[[], None] = lambda: None
        broker.replicas.on_leadership = self._leadership_changed
        broker.replicas.on_removed = self._leadership_changed
        broker.replicas.on_warning = lambda text: log.warning("%s", text)
        broker.replicas.on_config = self._config_changed
        logs.on_directory_offline = broker.replicas.on_directory_offline

    async def load(self, image: Callable[[], ClusterImage], directories: Mapping[UUID, str]) -> None:
        """At start: recovers every log of this broker and sets those aside of partitions that it does not have.

        The node votes and heartbeats meanwhile, and the metadata goes on: what it takes away before the end is deleted.
        """
        broker = self._broker
        broker.image = image()
        broker.replicas.configure(broker.image)
        first = broker.image
        steps = self._logs.load_stepwise(
            lambda topic: broker.replicas.topic_config(first, topic),
            broker.wall_clock.now_ms(),
            is_ours=partial(self._is_ours, first),
            home_of=lambda partition: directories.get(self._directory_of(first, partition)),
        )
        deadline_s = broker.loop.time() + self._pace.slice_s
        for _ in steps:
            if broker.loop.time() >= deadline_s:
                await asyncio.sleep(self._pace.pause_s)
                deadline_s = broker.loop.time() + self._pace.slice_s
        broker.image = image()
        if broker.image is not first:
            broker.replicas.configure(broker.image)
            for log_ in list(self._logs):
                if not self._is_ours(broker.image, log_.topic_partition, log_.topic_id):
                    self._logs.delete(log_.topic_partition)

    def _is_ours(self, image: ClusterImage, partition: TopicPartition, topic_id: UUID | None) -> bool:
        topic = image.topic(partition.topic)
        registration = image.partition(partition)
        known = topic is not None and topic_id in (None, topic.topic_id)
        if known and registration is not None and self._broker.node_id in registration.replicas:
            return True
        log.warning(
            "%s with topic id %s is no longer assigned to this broker; setting its log aside", partition, topic_id
        )
        return False

    def _directory_of(self, image: ClusterImage, partition: TopicPartition) -> UUID:
        registration = image.partition(partition)
        assert registration is not None, "asked of what is ours only"
        return registration.directory_of(self._broker.node_id)

    def on_metadata(self, image: ClusterImage, delta: MetadataDelta) -> None:
        """One committed batch, in the order of the log. A large one is applied in slices, and what follows waits."""
        self._check_not_replaced(image)
        self._broker.replicas.announce(image)
        self._waiting.append((image, delta))
        if not self._scheduled:
            self._work()

    def _work(self) -> None:
        """Others want their turn: a member of the quorum that is deaf for too long is taken for dead."""
        loop = self._broker.loop
        self._scheduled = False
        deadline_s = loop.time() + self._pace.slice_s
        while self._waiting:
            if self._steps is None:
                self._steps = self._apply(*self._waiting[0])
            for _ in self._steps:
                if loop.time() >= deadline_s:
                    self._scheduled = True
                    if self._pace.pause_s:
                        loop.call_later(self._pace.pause_s, self._go_on)
                    else:
                        loop.call_soon(self._go_on)
                    return
            self._steps = None
            self.on_applied(*self._waiting.popleft())

    def _go_on(self) -> None:
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - as in a turn of the quorum: it cannot go on half applied
            self.on_failure(error)

    def _apply(self, image: ClusterImage, delta: MetadataDelta) -> Iterator[None]:
        broker = self._broker
        if not self.has_roles:
            broker.image = image
            registered = image.broker(broker.node_id)
            if registered is None or registered.fenced or registered.incarnation_id != self._incarnation_id:
                return
            delta = compare(EMPTY_IMAGE, image)
        self._note_fenced(delta)
        offsets_topic = image.topic(GROUP_OFFSETS_TOPIC)
        if offsets_topic is not None:
            # Before the first coordinator begins: by a config that was changed since the topic was made, groups would
            # be looked for in other partitions than theirs, and be told that they have committed nothing.
            broker.groups.partition_count = len(offsets_topic.partitions)
        yield from broker.replicas.apply_stepwise(delta, broker.wall_clock.now_ms(), broker.loop.time())
        # Only now: it is by the image's offset that the controller is told how far this broker has applied, and of a
        # partition that has no log then, that its directory is lost.
        broker.image = image
        self.has_roles = True
        if any(each.after is not None and each.after.in_controlled_shutdown for each in delta.brokers.values()):
            self.on_shutdown_elsewhere()
        if delta.deleted_topics:
            broker.groups.on_topics_deleted([topic.name for topic in delta.deleted_topics])

    def _note_fenced(self, delta: MetadataDelta) -> None:
        """An address is told for a moment longer than the broker serves.

        librdkafka drops a broker that an answer does not list together with what it was about to send to that broker's
        successor, and looks again a second later: the answer that names a new leader should still list the old one.
        """
        for broker_id, change in delta.brokers.items():
            before, after = change.before, change.after
            same = before is not None and after is not None and before.epoch == after.epoch
            if same and before is not None and after is not None and after.fenced and not before.fenced:
                self._broker.fenced_until[broker_id] = self._broker.loop.time() + ADDRESS_KEPT_S
            else:
                self._broker.fenced_until.pop(broker_id, None)

    def _check_not_replaced(self, image: ClusterImage) -> None:
        """What the metadata gives to this broker's id is given to the process registered under it.

        One that was replaced while it was cut off or paused must not take it: it would lead beside its successor, in
        the same epoch, and where the ISR is the leader alone acknowledge what nobody else has.
        """
        registered = image.broker(self._broker.node_id)
        if registered is not None and registered.incarnation_id == self._incarnation_id:
            self._registered = True
        elif registered is not None and self._registered:
            raise QuorumError(f"another process registered as broker {registered.broker_id}; this process must stop")

    def close(self) -> None:
        self._waiting.clear()
        self._steps = None
        self._broker.groups.close()

    def _leadership_changed(self, partition: Partition) -> None:
        """Coordinators come and go with leadership, and whoever waits for this partition has to look again."""
        topic, number = partition.topic_partition
        if topic == GROUP_OFFSETS_TOPIC:
            if isinstance(partition.role, Leader):
                self._broker.groups.on_election(number, partition.role.epoch)
            else:
                self._broker.groups.on_resignation(number)
        self._wake_soon(partition)

    def _config_changed(self, config: NodeConfig) -> None:
        self._broker.config = config
        self.on_config(config)
