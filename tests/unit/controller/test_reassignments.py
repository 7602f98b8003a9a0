"""AlterPartitionReassignments and ListPartitionReassignments (C8), and what they never do (Reassignment)."""

from typing import Any

import pytest
from tests.unit.controller.harness import Harness, cluster, create_topic, directory_id, with_topic
from tests.unit.controller.test_alter_partition import alter

from tidelog.core.ids import DIR_UNASSIGNED
from tidelog.metadata.image import LeaderRecoveryState
from tidelog.metadata.records import PartitionChangeRecord
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

E = ErrorCode


def reassign(harness: Harness, replicas: list[int] | None, *, name: str = "t", index: int = 0, **more: Any) -> Any:
    wanted = ReassignablePartition(partition_index=index, replicas=replicas)
    topics = [ReassignableTopic(name=name, partitions=[wanted])]
    response = harness.send(AlterPartitionReassignmentsRequest(topics=topics, **more))
    assert response.error_code == E.NONE
    return response.responses[0].partitions[0]


def shape(harness: Harness) -> tuple[Any, ...]:
    """(replicas, adding, removing, isr, leader, leader epoch)"""
    p = harness.partition()
    return p.replicas, p.adding_replicas, p.removing_replicas, p.isr, p.leader, p.leader_epoch


class TestMoving:
    def test_from_one_broker_to_another(self) -> None:
        harness = with_topic(1, 2, others=(3,))
        assert reassign(harness, [3, 2]).error_code == E.NONE
        (record,) = harness.records
        assert record == PartitionChangeRecord(
            partition_id=0,
            topic_id=harness.image.topics_by_name["t"].topic_id,
            replicas=[3, 2, 1],
            adding_replicas=[3],
            removing_replicas=[1],
            directories=[directory_id(3), directory_id(2), directory_id(1)],
        )
        assert shape(harness) == ((3, 2, 1), (3,), (1,), (1, 2), 1, 0)
        assert alter(harness, [1, 2, 3]).error_code == E.NEW_LEADER_ELECTED
        assert shape(harness) == ((3, 2), (), (), (2, 3), 3, 1)

    @pytest.mark.parametrize(
        ("replicas", "expected"),
        [
            pytest.param([2, 1, 3], ((2, 1, 3), (), (), (1, 2, 3), 1, 0), id="another order"),
            pytest.param([1, 2], ((1, 2), (), (), (1, 2), 1, 1), id="fewer"),
            pytest.param([2, 3], ((2, 3), (), (), (2, 3), 2, 1), id="without the leader"),
            pytest.param([1, 2, 3], ((1, 2, 3), (), (), (1, 2, 3), 1, 0), id="the same"),
            pytest.param([1, 2, 3, 4], ((1, 2, 3, 4), (4,), (), (1, 2, 3), 1, 0), id="more"),
        ],
    )
    def test_what_the_isr_allows_at_once(self, replicas: list[int], expected: tuple[Any, ...]) -> None:
        harness = with_topic(1, 2, 3, others=(4,))
        assert reassign(harness, replicas).error_code == E.NONE
        assert shape(harness) == expected

    def test_it_waits_for_every_target(self) -> None:
        """Only catching up adds to the ISR, and nobody leaves before the last one has."""
        harness = with_topic(1, 2, 3, others=(4, 5), min_insync_replicas="2")
        alter(harness, [1, 3])
        reassign(harness, [2, 4])
        assert shape(harness) == ((2, 4, 1, 3), (4,), (1, 3), (1, 3), 1, 0)
        alter(harness, [1, 3, 4])
        assert shape(harness)[2:] == ((1, 3), (1, 3, 4), 1, 0)
        # a target that drops out again is waited for again
        alter(harness, [1, 3])
        alter(harness, [1, 2, 3])
        assert shape(harness)[2:] == ((1, 3), (1, 2, 3), 1, 0)
        assert alter(harness, [1, 2, 3, 4]).error_code == E.NEW_LEADER_ELECTED
        assert shape(harness) == ((2, 4), (), (), (2, 4), 2, 1)

    def test_the_directory_of_a_new_replica_is_for_its_broker_to_choose(self) -> None:
        harness = with_topic(1)
        harness.register(2, directories=2)
        harness.unfence(2)
        reassign(harness, [1, 2])
        assert harness.partition().directories == (directory_id(1), DIR_UNASSIGNED)

    @pytest.mark.parametrize(
        ("second", "expected"),
        [
            # The first added 4 and removed 3.
            pytest.param([1, 2, 5], ((1, 2, 5, 3, 4), (5,), (3, 4), (1, 2, 3), 1, 0), id="to others"),
            pytest.param([1, 2, 4, 5], ((1, 2, 4, 5, 3), (4, 5), (3,), (1, 2, 3), 1, 0), id="to more"),
            pytest.param([1, 2, 3, 4], ((1, 2, 3, 4), (4,), (), (1, 2, 3), 1, 0), id="keeping who was to go"),
            pytest.param([1, 2, 3], ((1, 2, 3), (), (), (1, 2, 3), 1, 1), id="back"),
        ],
    )
    def test_a_later_one_replaces_an_earlier(self, second: list[int], expected: tuple[Any, ...]) -> None:
        harness = with_topic(1, 2, 3, others=(4, 5))
        reassign(harness, [1, 2, 4])
        assert reassign(harness, second).error_code == E.NONE
        assert shape(harness) == expected


class TestRefusals:
    @pytest.mark.parametrize(
        ("replicas", "where", "code"),
        [
            ([], {}, E.INVALID_REPLICA_ASSIGNMENT),
            ([2, 2], {}, E.INVALID_REPLICA_ASSIGNMENT),
            ([1, 9], {}, E.INVALID_REPLICA_ASSIGNMENT),
            ([1], {"name": "nope"}, E.UNKNOWN_TOPIC_OR_PARTITION),
            ([1], {"index": 4}, E.UNKNOWN_TOPIC_OR_PARTITION),
            (None, {}, E.NO_REASSIGNMENT_IN_PROGRESS),
            (None, {"name": "nope"}, E.UNKNOWN_TOPIC_OR_PARTITION),
            ([1], {"allow_replication_factor_change": False}, E.INVALID_REPLICATION_FACTOR),
            ([1, 3], {"allow_replication_factor_change": False}, E.NONE),
        ],
    )
    def test_table(self, replicas: list[int] | None, where: dict[str, Any], code: ErrorCode) -> None:
        harness = with_topic(1, 2, others=(3,))
        result = reassign(harness, replicas, **where)
        assert (result.error_code, bool(result.error_message)) == (code, code is not E.NONE)
        assert bool(harness.records) == (code is E.NONE)

    def test_the_factor_is_compared_with_where_it_is_going(self) -> None:
        harness = with_topic(1, 2, 3, others=(4,))
        reassign(harness, [1, 4])
        assert reassign(harness, [1, 2, 3], allow_replication_factor_change=False).error_code == (
            E.INVALID_REPLICATION_FACTOR
        )
        assert reassign(harness, [4, 2], allow_replication_factor_change=False).error_code == E.NONE

    def test_one_bad_partition_does_not_fail_the_others(self) -> None:
        harness = cluster(1, 2)
        create_topic(harness, "t", [[1], [1]])
        partitions = [ReassignablePartition(partition_index=index, replicas=[9 - 7 * index]) for index in (0, 1)]
        topics = [ReassignableTopic(name="t", partitions=partitions)]
        response = harness.send(AlterPartitionReassignmentsRequest(topics=topics))
        codes = [each.error_code for each in response.responses[0].partitions]
        assert codes == [E.INVALID_REPLICA_ASSIGNMENT, E.NONE] and len(harness.records) == 1

    def test_too_many(self) -> None:
        harness = with_topic(1)
        partitions = [ReassignablePartition(partition_index=0, replicas=[1])] * 10_001
        topics = [ReassignableTopic(name="t", partitions=partitions)]
        response = harness.send(AlterPartitionReassignmentsRequest(topics=topics))
        assert response.error_code == E.POLICY_VIOLATION
        assert response.responses[0].partitions[0].error_code == E.POLICY_VIOLATION


class TestCancelling:
    def test_back_to_what_was(self) -> None:
        harness = with_topic(1, 2, 3, others=(4, 5))
        reassign(harness, [4, 5])
        alter(harness, [1, 2, 3, 4])
        assert reassign(harness, None).error_code == E.NONE
        assert shape(harness) == ((1, 2, 3), (), (), (1, 2, 3), 1, 1)

    def test_never_below_the_minimum_by_itself(self) -> None:
        """The replicas that were added hold what was acknowledged since; two of three would go."""
        harness = with_topic(1, 2, 3, others=(4, 5), min_insync_replicas="2")
        reassign(harness, [4, 5, 1])
        alter(harness, [1, 2, 3, 4])
        harness.fence(2, 3)
        assert shape(harness)[3] == (1, 4)
        assert reassign(harness, None).error_code == E.INVALID_REPLICA_ASSIGNMENT
        assert harness.records == []

    def test_where_it_was_below_before_it_may(self) -> None:
        harness = with_topic(1, 2, 3, others=(4,), min_insync_replicas="2")
        reassign(harness, [4, 2, 3])
        harness.fence(2, 3)
        assert reassign(harness, None).error_code == E.NONE
        # the replicas of before, not their order
        assert shape(harness)[:4] == ((2, 3, 1), (), (), (1,))
        assert harness.partition().elr == (3,)

    def test_the_last_complete_copy_goes_only_where_unclean_elections_are_allowed(self) -> None:
        for allowed in (False, True):
            harness = with_topic(1, others=(2, 3), unclean_leader_election_enable=str(allowed).lower())
            reassign(harness, [2, 3])
            alter(harness, [1, 2])
            harness.fence(1)
            harness.unfence(1)
            result = reassign(harness, None)
            if not allowed:
                assert result.error_code == E.INVALID_REPLICA_ASSIGNMENT
                continue
            assert shape(harness) == ((1,), (), (), (1,), 1, 2)
            assert harness.partition().leader_recovery_state is LeaderRecoveryState.RECOVERING


class TestListing:
    def listed(self, harness: Harness, *topics: ListPartitionReassignmentsTopics) -> list[Any]:
        response = harness.send(ListPartitionReassignmentsRequest(topics=list(topics) or None))
        assert (response.error_code, harness.records) == (E.NONE, [])
        return [
            (topic.name, each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
            for topic in response.topics
            for each in topic.partitions
        ]

    def test_what_is_under_way(self) -> None:
        harness = cluster(1, 2)
        create_topic(harness, "a", [[1], [1]])
        create_topic(harness, "b", [[1]])
        assert self.listed(harness) == []
        reassign(harness, [2], name="a", index=1)
        expected = [("a", 1, [2, 1], [2], [1])]
        assert self.listed(harness) == expected
        ask = ListPartitionReassignmentsTopics
        assert self.listed(harness, ask(name="a", partition_indexes=[0, 1, 9]), ask(name="nope")) == expected
        assert self.listed(harness, ask(name="a", partition_indexes=[0]), ask(name="b", partition_indexes=[0])) == []
