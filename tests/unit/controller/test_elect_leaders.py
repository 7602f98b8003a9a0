"""ElectLeaders and the timer that balances leaders (C7)."""

from typing import Any

import pytest
from tests.unit.controller.harness import Harness, cluster, create_topic, state, with_topic

from tidelog.controller import elect_leaders as module
from tidelog.core.events import LeaderElected
from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import LeaderRecoveryState
from tidelog.metadata.records import PartitionChangeRecord
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

E = ErrorCode
PREFERRED, UNCLEAN = 0, 1


def elect(harness: Harness, kind: int, *partitions: tuple[str, int]) -> list[tuple[str, int, int]]:
    wanted = [TopicPartitions(topic=topic, partitions=[index]) for topic, index in partitions]
    response = harness.send(ElectLeadersRequest(election_type=kind, topic_partitions=wanted or None))
    assert response.error_code == E.NONE
    return results(response)


def results(response: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.topic, each.partition_id, each.error_code)
        for topic in response.replica_election_results
        for each in topic.partition_result
    ]


def rejoin(harness: Harness, name: str = "t", index: int = 0) -> None:
    """The leader takes everybody who is there back into the ISR."""
    topic = harness.image.topics_by_name[name]
    partition = topic.partitions[index]
    data = PartitionData(
        partition_index=index,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=[
            BrokerState(broker_id=each, broker_epoch=harness.epoch(each))
            for each in partition.replicas
            if harness.image.brokers[each].active
        ],
    )
    request = AlterPartitionRequest(
        broker_id=partition.leader,
        broker_epoch=harness.epoch(partition.leader),
        topics=[TopicData(topic_id=topic.topic_id, partitions=[data])],
    )
    assert harness.send(request).topics[0].partitions[0].error_code == E.NONE


class TestPreferred:
    @pytest.mark.rule("C7")
    def test_the_first_replica_leads_again(self) -> None:
        harness = with_topic(1, 2, 3)
        harness.fence(1)
        harness.unfence(1)
        assert elect(harness, PREFERRED, ("t", 0)) == [("t", 0, E.PREFERRED_LEADER_NOT_AVAILABLE)]
        assert harness.records == []
        rejoin(harness)
        assert elect(harness, PREFERRED, ("t", 0)) == [("t", 0, E.NONE)]
        (record,) = harness.records
        topic_id = harness.image.topics_by_name["t"].topic_id
        assert record == PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=1)
        assert state(harness) == (1, (1, 2, 3), (), (), 2)
        assert elect(harness, PREFERRED, ("t", 0)) == [("t", 0, E.ELECTION_NOT_NEEDED)]

    @pytest.mark.rule("C7")
    def test_what_is_not_there(self) -> None:
        harness = with_topic(1)
        assert elect(harness, PREFERRED, ("nope", 0), ("t", 7)) == [
            ("nope", 0, E.UNKNOWN_TOPIC_OR_PARTITION),
            ("t", 7, E.UNKNOWN_TOPIC_OR_PARTITION),
        ]

    @pytest.mark.rule("C7")
    def test_all_partitions_leaves_out_those_that_need_nothing(self) -> None:
        harness = cluster(1, 2)
        create_topic(harness, "a", [[1, 2], [2, 1]])
        create_topic(harness, "b", [[2, 1]])
        harness.fence(1)
        harness.unfence(1)
        rejoin(harness, "a", 0)
        assert elect(harness, PREFERRED) == [("a", 0, E.NONE)]
        assert elect(harness, PREFERRED) == []

    @pytest.mark.rule("C7")
    def test_one_partition_twice(self) -> None:
        harness = with_topic(1, 2)
        harness.fence(1)
        harness.unfence(1)
        rejoin(harness)
        answers = elect(harness, PREFERRED, ("t", 0), ("t", 0))
        assert [code for _, _, code in answers] == [E.NONE, E.ELECTION_NOT_NEEDED]
        assert len(harness.records) == 1

    def test_an_unknown_kind(self) -> None:
        harness = with_topic(1)
        wanted = [TopicPartitions(topic="t", partitions=[0])]
        response = harness.send(ElectLeadersRequest(election_type=7, topic_partitions=wanted))
        assert response.error_code == E.INVALID_REQUEST
        assert results(response) == [("t", 0, E.INVALID_REQUEST)]


class TestUnclean:
    @pytest.mark.rule("C7")
    def test_anybody_leads_though_the_config_forbids_it(self) -> None:
        harness = with_topic(1, 2)
        assert elect(harness, UNCLEAN, ("t", 0)) == [("t", 0, E.ELECTION_NOT_NEEDED)]
        harness.fence(2, 1)
        assert elect(harness, UNCLEAN, ("t", 0)) == [("t", 0, E.ELIGIBLE_LEADERS_NOT_AVAILABLE)]
        harness.unfence(2)
        assert state(harness) == (-1, (), (1,), (1,), 1)
        assert elect(harness, UNCLEAN, ("t", 0)) == [("t", 0, E.NONE)]
        assert state(harness) == (2, (2,), (), (), 2)
        assert harness.partition().leader_recovery_state is LeaderRecoveryState.RECOVERING
        (told,) = harness.decision.events
        assert isinstance(told, LeaderElected) and told.unclean
        assert told.reason.startswith(
            "unclean election requested; "
        ) and "complete before: 1, last known leader: 1" in (told.reason)


class TestBalance:
    def balance(self, harness: Harness) -> bool:
        decision = harness.controller.balance_leaders(next_offset=harness.next_offset, now_s=harness.now_s)
        return bool(harness.take(decision))

    @pytest.mark.rule("C7")
    def test_preferred_leaders_come_back_where_they_can(self) -> None:
        harness = cluster(1, 2, 3)
        create_topic(harness, "t", [[1, 2, 3], [1, 3, 2], [2, 3, 1]])
        assert not self.balance(harness) and harness.records == []
        harness.fence(1)
        harness.unfence(1)
        assert not self.balance(harness) and harness.records == []
        rejoin(harness, "t", 1)
        assert not self.balance(harness)
        leaders = [harness.partition(TopicPartition("t", index)).leader for index in range(3)]
        assert leaders == [2, 1, 2]
        (told,) = harness.decision.events
        assert isinstance(told, LeaderElected) and told.reason == "preferred leader"

    @pytest.mark.rule("C7")
    def test_so_many_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MAX_ELECTIONS_PER_ROUND", 2)
        harness = cluster(1, 2)
        create_topic(harness, "t", [[1, 2]] * 5)
        harness.fence(1)
        harness.unfence(1)
        for index in range(5):
            rejoin(harness, "t", index)
        rounds = []
        for _ in range(3):
            rounds.append((self.balance(harness), len(harness.records)))
        assert rounds == [(True, 2), (True, 2), (False, 1)]
