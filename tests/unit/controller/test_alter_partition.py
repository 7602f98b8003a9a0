"""AlterPartition: every check in its order with its error (C4), the ELR (C5), recovery (C6), reassignments (C8)."""

from collections.abc import Callable
from itertools import combinations
from typing import Any
from uuid import UUID

import pytest
from tests.unit.controller.harness import Harness, cluster, create_topic, directory_id, state, with_topic

from tidelog.core.events import LeaderElected
from tidelog.core.ids import TopicPartition
from tidelog.metadata.image import LeaderRecoveryState
from tidelog.metadata.records import PartitionChangeRecord
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

E = ErrorCode
Proposal = dict[str, Any]


def propose(harness: Harness, isr: list[int], **more: Any) -> AlterPartitionRequest:
    """What the leader of t-0 asks for, if it knows everything; `more` is what it has wrong."""
    partition = harness.partition()
    sender = more.pop("sender", partition.leader)
    epochs = more.pop("epochs", {})
    data = {
        "partition_index": 0,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "leader_recovery_state": partition.leader_recovery_state,
        "new_isr_with_epochs": [
            BrokerState(broker_id=each, broker_epoch=epochs.get(each, epoch_of(harness, each))) for each in isr
        ],
        **{key: value for key, value in more.items() if key not in ("topic_id", "broker_epoch")},
    }
    topic_id = more.get("topic_id", harness.image.topics_by_name["t"].topic_id)
    return AlterPartitionRequest(
        broker_id=sender,
        broker_epoch=more.get("broker_epoch", epoch_of(harness, sender)),
        topics=[TopicData(topic_id=topic_id, partitions=[PartitionData(**data)])],
    )


def epoch_of(harness: Harness, broker_id: int) -> int:
    broker = harness.image.brokers.get(broker_id)
    return -1 if broker is None else broker.epoch


def alter(harness: Harness, isr: list[int], **more: Any) -> Any:
    response = harness.send(propose(harness, isr, **more))
    assert response.error_code == 0
    return response.topics[0].partitions[0]


def shrunk_cluster() -> Harness:
    """t-0 on 2, 1, 3, led by 1 in leader epoch 1 and partition epoch 3, ISR 1 and 2; brokers 4 and 5 beside it."""
    harness = with_topic(2, 1, 3, others=(4, 5), min_insync_replicas="2")
    harness.fence(2)
    harness.unfence(2)
    assert alter(harness, [1, 3, 2]).error_code == 0
    assert alter(harness, [1, 2]).error_code == 0
    partition = harness.partition()
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 1, 3)
    return harness


# What is wrong with each proposal, in the order of the checks: whoever has several things wrong hears of the first.
WRONG: list[tuple[str, Proposal, ErrorCode]] = [
    ("an unknown topic", {"topic_id": UUID(int=7777)}, E.UNKNOWN_TOPIC_ID),
    ("the topic id of none", {"topic_id": UUID(int=0)}, E.UNKNOWN_TOPIC_ID),
    ("an unknown partition", {"partition_index": 1}, E.UNKNOWN_TOPIC_OR_PARTITION),
    ("a newer leader epoch", {"leader_epoch": 2}, E.NOT_CONTROLLER),
    ("a newer partition epoch", {"partition_epoch": 4}, E.NOT_CONTROLLER),
    ("an older leader epoch", {"leader_epoch": 0}, E.FENCED_LEADER_EPOCH),
    ("a sender that does not lead", {"sender": 2}, E.INVALID_REQUEST),
    ("an older partition epoch", {"partition_epoch": 2}, E.INVALID_UPDATE_VERSION),
    ("an empty ISR", {"isr": []}, E.INVALID_REQUEST),
    ("an ISR beyond the replicas", {"isr": [1, 2, 4]}, E.INVALID_REQUEST),
    ("a member twice", {"isr": [1, 2, 2]}, E.INVALID_REQUEST),
    ("an ISR without the leader", {"isr": [2]}, E.INVALID_REQUEST),
    ("recovering with several members", {"leader_recovery_state": 1}, E.INVALID_REQUEST),
    ("recovering though recovered", {"leader_recovery_state": 1, "isr": [1]}, E.INVALID_REQUEST),
    ("a state that does not exist", {"leader_recovery_state": 9}, E.INVALID_REQUEST),
    ("a member of another broker epoch", {"epochs": {3: 1}}, E.INELIGIBLE_REPLICA),
]

# Every pair that one request can have wrong at once.
TWICE_WRONG = [
    pytest.param(first, second, error, id=f"{name} before {other}")
    for (name, first, error), (other, second, _) in combinations(WRONG, 2)
    if first.keys().isdisjoint(second)
]


def wrong(harness: Harness, *proposals: Proposal) -> Any:
    values: Proposal = {}
    for proposal in reversed(proposals):
        values |= proposal
    return alter(harness, values.pop("isr", [1, 2, 3]), **values)


class TestChecks:
    @pytest.mark.rule("C4")
    @pytest.mark.parametrize(("proposal", "error"), [pytest.param(p, e, id=name) for name, p, e in WRONG])
    def test_each_error(self, proposal: Proposal, error: ErrorCode) -> None:
        harness = shrunk_cluster()
        before = harness.image
        result = wrong(harness, proposal)
        assert (result.error_code, result.partition_index) == (error, proposal.get("partition_index", 0))
        assert harness.records == [] and harness.image is before

    @pytest.mark.rule("C4")
    @pytest.mark.parametrize(("first", "second", "error"), TWICE_WRONG)
    def test_the_order(self, first: Proposal, second: Proposal, error: ErrorCode) -> None:
        assert wrong(shrunk_cluster(), first, second).error_code == error

    @pytest.mark.rule("C4")
    @pytest.mark.parametrize("how", [{"broker_epoch": 1}, {"sender": 9}])
    def test_a_stale_broker_epoch_refuses_the_whole_before_all_else(self, how: Proposal) -> None:
        harness = shrunk_cluster()
        response = harness.send(propose(harness, [1, 2, 3], topic_id=UUID(int=7777), **how))
        assert (response.error_code, response.topics, harness.records) == (E.STALE_BROKER_EPOCH, [], [])

    @pytest.mark.rule("C4")
    @pytest.mark.parametrize(
        "became",
        [
            pytest.param(lambda harness: harness.heartbeat(3, want_fence=True), id="fenced"),
            pytest.param(lambda harness: shutting_down(harness, 3), id="shutting down"),
            pytest.param(lambda harness: restarted(harness, 3), id="restarted"),
            pytest.param(lambda harness: failed_directory(harness, 3), id="without its directory"),
        ],
    )
    def test_ineligible_replicas(self, became: Callable[[Harness], object]) -> None:
        harness = shrunk_cluster()
        epoch = epoch_of(harness, 3)
        became(harness)
        result = alter(harness, [1, 2, 3], epochs={3: epoch})
        assert (result.error_code, harness.records) == (E.INELIGIBLE_REPLICA, [])

    @pytest.mark.rule("C4")
    def test_version_2_names_no_epochs(self) -> None:
        harness = shrunk_cluster()
        assert alter(harness, [], new_isr=[1, 2, 3]).isr == [1, 2, 3]

    @pytest.mark.rule("C4")
    def test_each_partition_is_decided_by_itself(self) -> None:
        harness = cluster(1, 2)
        create_topic(harness, "t", [[1, 2], [1, 2]])
        request = propose(harness, [1])
        stale = PartitionData(partition_index=1, leader_epoch=9, new_isr_with_epochs=[])
        request.topics[0].partitions.append(stale)
        first, second = harness.send(request).topics[0].partitions
        assert (first.error_code, second.error_code) == (E.NONE, E.NOT_CONTROLLER)
        assert harness.partition(TopicPartition("t", 0)).isr == (1,)
        assert harness.partition(TopicPartition("t", 1)).isr == (1, 2)


def shutting_down(harness: Harness, broker_id: int) -> None:
    """It leads something, so that it does not stop at once."""
    create_topic(harness, "led", [[broker_id, 4]])
    harness.heartbeat(broker_id, want_shut_down=True)
    assert harness.image.brokers[broker_id].in_controlled_shutdown


def restarted(harness: Harness, broker_id: int) -> None:
    harness.now_s += 10
    harness.register(broker_id, incarnation=2)
    harness.unfence(broker_id)


def failed_directory(harness: Harness, broker_id: int) -> None:
    """The registration says that it has another one now."""
    harness.register(broker_id, log_dirs=[directory_id(broker_id, 5)])


class TestAccepted:
    @pytest.mark.rule("C4")
    def test_growing(self) -> None:
        harness = shrunk_cluster()
        result = alter(harness, [1, 2, 3])
        assert (result.error_code, result.leader_id, result.isr) == (E.NONE, 1, [1, 2, 3])
        assert (result.leader_epoch, result.partition_epoch, result.leader_recovery_state) == (1, 4, 0)
        topic_id = harness.image.topics_by_name["t"].topic_id
        assert harness.records == [PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1, 2, 3])]

    @pytest.mark.rule("C4")
    def test_the_same_once_more_is_refused_and_changes_nothing(self) -> None:
        """The leader does not know whether its first was committed: the refusal leaves it pending (I5)."""
        harness = shrunk_cluster()
        request = propose(harness, [1, 2, 3])
        assert harness.send(request).topics[0].partitions[0].error_code == E.NONE
        assert harness.send(request).topics[0].partitions[0].error_code == E.INVALID_UPDATE_VERSION
        assert harness.records == []

    @pytest.mark.rule("C4")
    def test_twice_in_one_request(self) -> None:
        harness = shrunk_cluster()
        request = propose(harness, [1, 2, 3])
        request.topics[0].partitions *= 2
        errors = [each.error_code for each in harness.send(request).topics[0].partitions]
        assert errors == [E.NONE, E.INVALID_UPDATE_VERSION] and len(harness.records) == 1

    @pytest.mark.rule("C4")
    def test_what_is_so_already_writes_nothing(self) -> None:
        harness = shrunk_cluster()
        result = alter(harness, [1, 2])
        assert (result.error_code, result.isr, result.partition_epoch, harness.records) == (E.NONE, [1, 2], 3, [])

    @pytest.mark.rule("C5")
    def test_the_elr_follows_the_isr(self) -> None:
        harness = shrunk_cluster()
        table = [
            # the new ISR, the ELR then: who was complete and left while the ISR is under the minimum of two
            ([1], (2,)),
            ([1, 3], ()),
            ([1], (3,)),
            ([1, 2], ()),
            ([1], (2,)),
            ([1, 2, 3], ()),
        ]
        for isr, elr in table:
            assert alter(harness, isr).error_code == E.NONE
            assert (harness.partition().isr, harness.partition().elr) == (tuple(isr), elr)
        assert state(harness)[4] == 1, "no change of leader, no leader epoch"

    @pytest.mark.rule("C5")
    def test_who_restarts_uncleanly_is_in_neither_until_it_has_caught_up(self) -> None:
        harness = shrunk_cluster()
        alter(harness, [1])
        assert state(harness)[1:3] == ((1,), (2,))
        restarted(harness, 2)
        assert state(harness)[1:3] == ((1,), ())
        alter(harness, [1, 2])
        assert state(harness)[1:3] == ((1, 2), ())


class TestRecovery:
    def recovering(self) -> Harness:
        harness = with_topic(1, 2)
        harness.fence(2)
        harness.now_s += 10
        harness.register(1, incarnation=2)
        harness.unfence(1, 2)
        assert state(harness) == (1, (1,), (), (), 2)
        assert harness.partition().leader_recovery_state is LeaderRecoveryState.RECOVERING
        return harness

    def test_the_isr_does_not_grow_while_the_leader_recovers(self) -> None:
        harness = self.recovering()
        assert alter(harness, [1, 2]).error_code == E.INVALID_REQUEST
        still = alter(harness, [1])
        assert (still.error_code, still.leader_recovery_state, harness.records) == (E.NONE, 1, [])

    @pytest.mark.parametrize("isr", [[1], [1, 2]])
    def test_until_it_says_that_it_has_recovered(self, isr: list[int]) -> None:
        harness = self.recovering()
        result = alter(harness, isr, leader_recovery_state=0)
        assert (result.error_code, result.leader_recovery_state, result.isr) == (E.NONE, 0, isr)
        assert harness.partition().leader_recovery_state is LeaderRecoveryState.RECOVERED
        assert alter(harness, [1], leader_recovery_state=1).error_code == E.INVALID_REQUEST


class TestReassignment:
    def reassign(self, harness: Harness, *replicas: int) -> None:
        wanted = ReassignablePartition(partition_index=0, replicas=list(replicas))
        topics = [ReassignableTopic(name="t", partitions=[wanted])]
        response = harness.send(AlterPartitionReassignmentsRequest(topics=topics))
        assert response.responses[0].partitions[0].error_code == E.NONE

    @pytest.mark.rule("C4")
    def test_completing_one_that_takes_the_leader_away(self) -> None:
        harness = with_topic(1, 2, 3, others=(4, 5))
        self.reassign(harness, 4, 5)
        assert alter(harness, [1, 2, 3, 4]).error_code == E.NONE
        result = alter(harness, [1, 2, 3, 4, 5])
        assert result.error_code == E.NEW_LEADER_ELECTED
        partition = harness.partition()
        assert (partition.replicas, partition.isr, partition.leader) == ((4, 5), (4, 5), 4)
        assert (partition.adding_replicas, partition.removing_replicas, partition.leader_epoch) == ((), (), 1)
        (told,) = harness.decision.events
        assert isinstance(told, LeaderElected) and not told.unclean and told.leader == 4

    @pytest.mark.rule("C3")
    def test_completing_one_that_keeps_the_leader(self) -> None:
        """The leader epoch grows although the leader stays: a replica has left."""
        harness = with_topic(1, 2, 3, others=(4,))
        self.reassign(harness, 2, 1, 4)
        result = alter(harness, [1, 2, 3, 4])
        assert (result.error_code, result.leader_id, result.leader_epoch) == (E.NONE, 1, 1)
        assert (result.isr, harness.partition().replicas) == ([1, 2, 4], (2, 1, 4))
