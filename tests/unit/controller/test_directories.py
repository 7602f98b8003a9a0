"""Failed log directories and where replicas lie (C10)."""

from typing import Any
from uuid import UUID

import pytest
from tests.unit.controller.harness import Harness, cluster, create_topic, directory_id, state, with_topic

from tidelog.core.ids import DIR_LOST, DIR_UNASSIGNED, TopicPartition
from tidelog.metadata.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)

E = ErrorCode


def assign(harness: Harness, broker_id: int, directory: UUID, *indexes: int, **more: Any) -> list[int]:
    topic_id = more.pop("topic_id", harness.image.topics_by_name["t"].topic_id)
    topic = TopicData(topic_id=topic_id, partitions=[PartitionData(partition_index=index) for index in indexes or (0,)])
    request = AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=more.pop("broker_epoch", harness.epoch(broker_id)),
        directories=[DirectoryData(id_=directory, topics=[topic])],
    )
    response = harness.send(request)
    if response.error_code:
        return [response.error_code]
    return [each.error_code for each in response.directories[0].topics[0].partitions]


def two_directories(**config: str) -> Harness:
    """Brokers 1 and 2 with two directories each; t-0 and t-1 on both, led by 1, one in each directory."""
    harness = cluster(**config)
    for broker_id in (1, 2):
        harness.register(broker_id, directories=2)
        harness.unfence(broker_id)
    create_topic(harness, "t", [[1, 2], [1, 2]])
    for broker_id in (1, 2):
        for index in (0, 1):
            assert assign(harness, broker_id, directory_id(broker_id, index), index) == [E.NONE]
    return harness


class TestFailing:
    @pytest.mark.rule("C10")
    def test_only_the_partitions_in_it_move(self) -> None:
        harness = two_directories()
        answer = harness.heartbeat(1, offline_log_dirs=[directory_id(1, 0)])
        assert (answer.is_fenced, answer.error_code) == (False, E.NONE)
        change, registration = harness.records
        assert isinstance(change, PartitionChangeRecord)
        assert (change.partition_id, change.leader, change.isr) == (0, 2, [2])
        epoch = harness.epoch(1)
        assert registration == BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=epoch, log_dirs=[directory_id(1, 1)]
        )
        assert harness.partition(TopicPartition("t", 1)).isr == (1, 2)
        # it says so again with every heartbeat
        harness.heartbeat(1, offline_log_dirs=[directory_id(1, 0)])
        assert harness.records == []

    @pytest.mark.rule("C10")
    def test_a_replica_there_is_not_elected(self) -> None:
        harness = two_directories(min_insync_replicas="2")
        harness.heartbeat(1, offline_log_dirs=[directory_id(1, 0)])
        assert state(harness) == (2, (2,), (1,), (), 1)
        harness.fence(2)
        assert state(harness)[:2] == (-1, ())
        assert harness.partition(TopicPartition("t", 1)).leader == 1

    @pytest.mark.rule("C10")
    def test_the_last_directory_fences_the_broker(self) -> None:
        harness = with_topic(1, 2)
        answer = harness.heartbeat(1, offline_log_dirs=[directory_id(1)])
        assert answer.is_fenced and harness.image.brokers[1].fenced
        assert state(harness)[0] == 2
        again = harness.heartbeat(1, offline_log_dirs=[directory_id(1)])
        assert again.is_fenced and harness.records == []
        # It leads nothing any more: it may stop when it wants to, and need not wait for a directory to come back.
        assert harness.heartbeat(1, offline_log_dirs=[directory_id(1)], want_shut_down=True).should_shut_down

    @pytest.mark.rule("C10")
    def test_a_fenced_broker_is_not_unfenced_with_it(self) -> None:
        harness = two_directories()
        harness.fence(2, 1)
        assert harness.heartbeat(1, offline_log_dirs=[directory_id(1, 0)]).is_fenced
        assert state(harness)[0] == -1
        harness.heartbeat(1, offline_log_dirs=[directory_id(1, 0)])
        assert state(harness)[0] == -1, "its directory is offline"
        assert harness.partition(TopicPartition("t", 1)).leader == 1

    @pytest.mark.rule("C5")
    @pytest.mark.rule("C10")
    def test_who_comes_back_cleanly_but_without_it_is_no_longer_eligible_there(self) -> None:
        """Should the replica be there again one day, it is a new and empty one."""
        harness = two_directories()
        harness.fence(2, 1)
        epoch = harness.epoch(1)
        harness.register(1, incarnation=2, previous_broker_epoch=epoch, log_dirs=[directory_id(1, 1)])
        first, second = (harness.partition(TopicPartition("t", index)) for index in (0, 1))
        assert (first.elr, second.elr) == ((), (1,))

    @pytest.mark.rule("C5")
    @pytest.mark.rule("C10")
    @pytest.mark.parametrize(("brought", "eligible"), [((0, 1), (1,)), ((1,), ())])
    def test_a_replica_of_which_nobody_told_where_it_lay_may_lie_in_the_missing_one(
        self, brought: tuple[int, ...], eligible: tuple[int, ...]
    ) -> None:
        harness = cluster()
        harness.register(1, directories=2)
        harness.unfence(1)
        create_topic(harness, "t", [[1]])
        harness.fence(1)
        epoch, log_dirs = harness.epoch(1), [directory_id(1, number) for number in brought]
        harness.register(1, incarnation=2, previous_broker_epoch=epoch, log_dirs=log_dirs)
        assert harness.partition().elr == eligible


class TestAssigning:
    @pytest.mark.rule("C10")
    def test_where_a_replica_lies(self) -> None:
        harness = cluster()
        harness.register(1, directories=2)
        harness.unfence(1)
        create_topic(harness, "t", [[1]])
        assert harness.partition().directories == (DIR_UNASSIGNED,)
        assert assign(harness, 1, directory_id(1, 1)) == [E.NONE]
        topic_id = harness.image.topics_by_name["t"].topic_id
        assert harness.records == [
            PartitionChangeRecord(partition_id=0, topic_id=topic_id, directories=[directory_id(1, 1)])
        ]
        assert assign(harness, 1, directory_id(1, 1)) == [E.NONE] and harness.records == []

    @pytest.mark.rule("C10")
    @pytest.mark.parametrize("directory", [DIR_LOST, directory_id(1, 9)])
    def test_in_one_that_is_offline_it_leaves_isr_and_leadership(self, directory: UUID) -> None:
        harness = with_topic(1, 2)
        assert assign(harness, 1, directory) == [E.NONE]
        assert state(harness) == (2, (2,), (), (), 1)
        harness.fence(2)
        assert state(harness)[0] == -1

    @pytest.mark.rule("C5")
    @pytest.mark.rule("C10")
    def test_made_anew_elsewhere_it_is_not_eligible(self) -> None:
        harness = two_directories(min_insync_replicas="2")
        harness.heartbeat(2, offline_log_dirs=[directory_id(2, 0)])
        assert state(harness)[1:3] == ((1,), (2,))
        assert assign(harness, 2, directory_id(2, 1)) == [E.NONE]
        assert state(harness)[1:3] == ((1,), ())

    @pytest.mark.rule("C10")
    def test_refusals(self) -> None:
        harness = with_topic(1, others=(2,))
        directory = directory_id(1)
        assert assign(harness, 1, directory, topic_id=UUID(int=7777)) == [E.UNKNOWN_TOPIC_ID]
        assert assign(harness, 1, directory, 3, 0) == [E.UNKNOWN_TOPIC_OR_PARTITION, E.NONE]
        assert assign(harness, 2, directory_id(2)) == [E.NOT_LEADER_OR_FOLLOWER]
        assert assign(harness, 1, directory, broker_epoch=99) == [E.STALE_BROKER_EPOCH]
        assert harness.records == []
