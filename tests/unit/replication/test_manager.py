"""A metadata delta over the partitions of one broker: roles, fetchers, logs, and who is told."""

import random
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from tests.unit.replication.leader_kit import NOW, batch, broker, brokers, epoch_of

from tidelog.core.config.node import NodeConfig
from tidelog.core.ids import BrokerId, LeaderEpoch, TopicPartition
from tidelog.metadata.compare import compare
from tidelog.metadata.delta import MetadataDelta
from tidelog.metadata.image import (
    EMPTY_IMAGE,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    PartitionRegistration,
    ResourceType,
    TopicImage,
)
from tidelog.replication.manager import ReplicaManager
from tidelog.replication.partition import Partition
from tidelog.replication.roles import Follower, Leader
from tidelog.storage.manager import LogManager
from tidelog.storage.memory import MemoryDisk
from tidelog.wire.errors import ErrorCode

PROPERTIES = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.dirs": "/data",
}
ORDERS = TopicPartition("orders", 0)
TOPIC_ID = UUID(int=500)


class Fetchers:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.followed: dict[TopicPartition, tuple[int, int]] = {}
        self.told: list[tuple[str, TopicPartition]] = []

    def assign(
        self, topic_partition: TopicPartition, partition: Partition, leader_id: BrokerId, leader_epoch: LeaderEpoch
    ) -> None:
        assert isinstance(partition.role, Follower)
        self.followed[topic_partition] = (leader_id, leader_epoch)
        self.told.append(("assign", topic_partition))

    def remove(self, topic_partition: TopicPartition) -> None:
        self.followed.pop(topic_partition, None)
        self.told.append(("remove", topic_partition))


class Host:
    """A broker's replicas, fed with images."""

    def __init__(self) -> None:
        disk = MemoryDisk()
        disk.make_dirs("/data")
        config, _ = NodeConfig.parse(PROPERTIES)
        self.logs = LogManager(disk, config, random.Random(1))
        self.logs.open()
        self.logs.load(lambda topic: self.replicas.topic_config(EMPTY_IMAGE, topic), NOW)
        self.replicas = ReplicaManager(BrokerId(1), config, self.logs)
        self.fetchers = self.replicas.fetchers = Fetchers()
        self.leadership: list[TopicPartition] = []
        self.progress: list[TopicPartition] = []
        self.replicas.on_leadership = lambda partition: self.leadership.append(partition.topic_partition)
        self.replicas.on_progress = lambda partition: self.progress.append(partition.topic_partition)
        self.image = EMPTY_IMAGE
        self.now_s = 0.0

    @property
    def partition(self) -> Partition:
        return self.replicas.partition(ORDERS)

    def see(
        self,
        registration: PartitionRegistration | None,
        *,
        topic_id: UUID = TOPIC_ID,
        known: Mapping[int, BrokerRegistration] | None = None,
        config: Mapping[str, str] | None = None,
        partitions: int = 1,
    ) -> None:
        """The metadata from now on: one topic, its partitions alike, or none."""
        delta = self.delta(registration, topic_id=topic_id, known=known, config=config, partitions=partitions)
        self.leadership.clear()
        self.progress.clear()
        self.fetchers.told.clear()
        self.replicas.apply(delta, NOW, self.now_s)

    def delta(
        self,
        registration: PartitionRegistration | None,
        *,
        topic_id: UUID = TOPIC_ID,
        known: Mapping[int, BrokerRegistration] | None = None,
        config: Mapping[str, str] | None = None,
        partitions: int = 1,
    ) -> MetadataDelta:
        after = ClusterImage(brokers=brokers(1, 2, 3) if known is None else known)
        if registration is not None:
            topic = TopicImage("orders", topic_id, dict.fromkeys(range(partitions), registration))
            resource = ConfigResource(ResourceType.TOPIC, "orders")
            after = ClusterImage(
                brokers=after.brokers,
                topics_by_name=after.topics_by_name.updated({"orders": topic}),
                topics_by_id=after.topics_by_id.updated({topic_id: topic}),
                configs_by_resource=after.configs_by_resource.updated({resource: dict(config)})
                if config
                else after.configs_by_resource,
            )
        delta = compare(self.image, after)
        self.image = after
        return delta

    def write(self) -> int:
        return self.partition.append_as_leader(batch(), 1, NOW, self.now_s).last_offset + 1

    def fetch(self, replica: int, offset: int) -> None:
        epoch = self.partition.leader_epoch
        self.partition.on_follower_fetch(replica, epoch_of(replica), offset, 0, epoch, self.now_s)


def led(**changes: Any) -> PartitionRegistration:
    given: dict[str, Any] = {"replicas": (1, 2), "directories": (), "isr": (1, 2), "leader": 1, "leader_epoch": 3}
    return PartitionRegistration(**(given | changes))


def followed(**changes: Any) -> PartitionRegistration:
    return led(leader=2, **changes)


def test_roles_come_and_go_and_the_fetchers_are_told() -> None:
    host = Host()
    host.see(followed())
    assert host.fetchers.followed == {ORDERS: (2, 3)}
    assert host.leadership == []
    host.see(followed(partition_epoch=1, isr=(2,)))
    assert host.fetchers.told == []  # the same leader in the same epoch
    host.see(followed(partition_epoch=2, leader_epoch=4))
    assert host.fetchers.followed == {ORDERS: (2, 4)}
    host.see(led(partition_epoch=3, leader_epoch=5))
    assert (host.fetchers.followed, host.leadership) == ({}, [ORDERS])
    host.see(led(partition_epoch=4, leader_epoch=6, leader=-1, isr=()))
    assert (host.fetchers.followed, host.leadership) == ({}, [ORDERS])
    host.see(followed(partition_epoch=5, leader_epoch=7))
    assert (host.fetchers.followed, host.leadership) == ({ORDERS: (2, 7)}, [])


@pytest.mark.rule("E5")
def test_a_leader_is_none_from_the_moment_that_the_metadata_says_so() -> None:
    host = Host()
    host.see(led())
    end = host.write()
    epoch = host.partition.leader_epoch
    host.see(followed(partition_epoch=1, leader_epoch=4, isr=(2,)))
    assert host.partition.acknowledged(epoch, end) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert host.fetchers.followed == {ORDERS: (2, 4)}
    assert host.leadership == [ORDERS]


def test_a_topic_made_again_under_its_name_begins_with_an_empty_log() -> None:
    host = Host()
    host.see(led())
    host.write()
    old = host.partition
    host.see(followed(leader_epoch=0, partition_epoch=0), topic_id=UUID(int=501))
    assert host.partition is not old
    assert (host.partition.topic_id, host.partition.log.log_end_offset) == (UUID(int=501), 0)
    assert host.fetchers.told == [("remove", ORDERS), ("assign", ORDERS)]
    assert old.acknowledged(LeaderEpoch(3), 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.rule("P3")
def test_a_write_that_waits_where_the_replica_is_taken_away_hears_that_the_leader_moved() -> None:
    host = Host()
    host.see(led())
    end = host.write()
    old = host.partition
    host.see(followed(partition_epoch=1, leader_epoch=4, replicas=(2, 3), isr=(2,)))
    assert old.acknowledged(LeaderEpoch(3), end) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_replica_that_is_assigned_elsewhere_is_removed_with_its_log() -> None:
    host = Host()
    host.see(followed())
    host.see(followed(partition_epoch=1, replicas=(2, 3), isr=(2,)))
    assert (host.replicas.get(ORDERS), host.logs.get(ORDERS), host.fetchers.followed) == (None, None, {})
    # And back: the old log is not taken up again.
    host.see(followed(partition_epoch=2, leader_epoch=5))
    assert host.fetchers.followed == {ORDERS: (2, 5)}
    assert host.partition.log.log_end_offset == 0


def test_a_deleted_topic_is_gone() -> None:
    host = Host()
    host.see(led())
    host.see(None)
    assert (host.replicas.get(ORDERS), host.logs.get(ORDERS)) == (None, None)


@pytest.mark.rule("W1")
def test_a_fenced_follower_outside_the_isr_holds_nobody_up() -> None:
    host = Host()
    host.see(led(isr=(1,)))
    host.write()
    host.fetch(2, 1)
    assert host.replicas.next_isr_request(11) is not None
    host.see(led(isr=(1,), partition_epoch=1))  # decided otherwise
    host.write()
    assert host.partition.log.high_watermark == 1  # broker 2 had everything a moment ago, and may join
    host.see(led(isr=(1,), partition_epoch=1), known={**brokers(1, 3), 2: broker(2, fenced=True)})
    assert (host.partition.log.high_watermark, host.progress) == (2, [ORDERS])


@pytest.mark.rule("W1")
def test_a_smaller_set_lets_the_high_watermark_go_on_and_who_waits_is_told() -> None:
    host = Host()
    host.see(led())
    host.write()
    host.see(led(isr=(1,), partition_epoch=1))
    assert (host.partition.log.high_watermark, host.progress, host.leadership) == (1, [ORDERS], [])


@pytest.mark.rule("W1")
def test_a_smaller_minimum_lets_the_high_watermark_go_on() -> None:
    host = Host()
    host.see(led(isr=(1,)), config={"min.insync.replicas": "2"})
    host.write()
    assert host.partition.log.high_watermark == 0
    host.see(led(isr=(1,)), config={"min.insync.replicas": "1"})
    assert (host.partition.log.high_watermark, host.progress) == (1, [ORDERS])


@pytest.mark.rule("W1", "E5")
def test_a_smaller_minimum_commits_nothing_where_the_same_delta_ends_the_leadership() -> None:
    """What waited under the old minimum was never committed: the new leader, eligible by that minimum, may lack it."""
    host = Host()
    host.see(led(isr=(1,), elr=(2,)), config={"min.insync.replicas": "2"})
    host.write()
    host.see(followed(isr=(2,), leader_epoch=4, partition_epoch=2), config={"min.insync.replicas": "1"})
    assert (host.partition.log.high_watermark, host.progress) == (0, [])


@pytest.mark.rule("W1")
def test_between_two_steps_a_partition_has_its_minimum_and_its_role_of_the_same_metadata() -> None:
    host = Host()
    host.see(led(isr=(1,)), config={"min.insync.replicas": "2"}, partitions=2)
    delta = host.delta(led(partition_epoch=1), config={"min.insync.replicas": "1"}, partitions=2)
    seen = []
    for _ in host.replicas.apply_stepwise(delta, NOW, host.now_s):
        seen.append(
            [(len(each.require_leader().isr_state.isr), each.config.min_insync_replicas) for each in host.replicas]
        )
    assert seen == [[(2, 1), (1, 2)], [(2, 1), (2, 1)]]


@pytest.mark.rule("I2")
def test_the_timer_looks_at_every_partition_and_tells_who_waits() -> None:
    host = Host()
    host.see(led(isr=(1,)))
    host.write()
    host.fetch(2, 1)
    # What was asked for is decided, so whoever waits looks again: the follower may be proposed by its next fetch.
    host.see(led(isr=(1,), partition_epoch=1))
    assert host.progress == [ORDERS]
    host.progress.clear()
    host.write()
    host.now_s = 31.0
    host.replicas.check_isr(host.now_s)
    assert (host.partition.log.high_watermark, host.progress) == (2, [ORDERS])
    host.see(led(partition_epoch=2))
    host.now_s = 62.1
    host.write()
    host.replicas.check_isr(host.now_s)
    request = host.replicas.next_isr_request(11)
    assert request is not None
    assert [each.broker_id for each in request.topics[0].partitions[0].new_isr_with_epochs] == [1]


def test_a_stale_delta_changes_nothing() -> None:
    host = Host()
    host.see(led(partition_epoch=5, leader_epoch=6))
    host.see(followed(partition_epoch=4, leader_epoch=5))
    assert isinstance(host.partition.role, Leader)
    assert (host.leadership, host.fetchers.told) == ([], [])
