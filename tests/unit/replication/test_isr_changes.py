"""The queue of proposals: one request at a time for the whole broker, with everything that waits (I5)."""

from dataclasses import dataclass, field
from uuid import UUID

import pytest

from tidelog.core.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicIdPartition
from tidelog.replication.isr import Committed, Pending, PendingExpand
from tidelog.replication.isr_changes import IsrChanges, IsrProposal, Outcome
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)

ORDERS, PAYMENTS = UUID(int=100), UUID(int=200)
ONE = frozenset({BrokerId(1)})


@dataclass
class Toy:
    """A partition that believes what it is told to."""

    pending: Pending | None = None
    outcome: Outcome = field(default_factory=Outcome)
    heard: list[int] = field(default_factory=list)

    def is_pending(self, pending: Pending) -> bool:
        return self.pending is pending

    def on_isr_answer(self, pending: Pending, answer: ResponsePartitionData, now_s: float) -> Outcome:
        assert self.is_pending(pending)
        self.heard.append(answer.error_code)
        return self.outcome


def propose(changes: IsrChanges, toy: Toy, topic_id: UUID = ORDERS, partition: int = 0, epoch: int = 3) -> None:
    toy.pending = PendingExpand(committed=Committed(isr=ONE), newcomer=BrokerId(2), reason="")
    changes.offer(
        IsrProposal(
            partition=toy,
            key=TopicIdPartition(topic_id, partition),
            pending=toy.pending,
            leader_epoch=LeaderEpoch(7),
            partition_epoch=PartitionEpoch(epoch),
            isr=((BrokerId(1), -1), (BrokerId(2), 22)),
        )
    )


def sent(request: AlterPartitionRequest | None) -> list[tuple[UUID, int, int]]:
    assert request is not None
    return [(t.topic_id, p.partition_index, p.partition_epoch) for t in request.topics for p in t.partitions]


def answer(*partitions: int, error: int = 0, topic_id: UUID = ORDERS) -> AlterPartitionResponse:
    answers = [ResponsePartitionData(partition_index=each, error_code=error) for each in partitions]
    return AlterPartitionResponse(topics=[ResponseTopicData(topic_id=topic_id, partitions=answers)])


@pytest.mark.rule("I5")
def test_one_request_carries_everything_that_waits() -> None:
    changes = IsrChanges()
    rings: list[int] = []
    changes.on_waiting = lambda: rings.append(1)
    toys = [Toy(), Toy(), Toy(), Toy()]
    propose(changes, toys[0], ORDERS, 0)
    propose(changes, toys[1], PAYMENTS, 5)
    propose(changes, toys[2], ORDERS, 1)
    request = changes.next_request(1, 11)
    assert sent(request) == [(ORDERS, 0, 3), (ORDERS, 1, 3), (PAYMENTS, 5, 3)]
    assert request is not None
    data = request.topics[0].partitions[0]
    # The sender's own epoch is the one it sends with.
    assert [(each.broker_id, each.broker_epoch) for each in data.new_isr_with_epochs] == [(1, 11), (2, 22)]
    assert (request.broker_id, request.broker_epoch, data.leader_epoch) == (1, 11, 7)
    propose(changes, toys[3], PAYMENTS, 6)
    assert (changes.next_request(1, 11), len(rings)) == (None, 4)
    changes.on_failure()
    assert len(sent(changes.next_request(1, 11))) == 4


@pytest.mark.rule("I5")
def test_an_error_of_the_whole_request_asks_again() -> None:
    changes, toy = IsrChanges(), Toy()
    propose(changes, toy)
    changes.next_request(1, 11)
    moved, again = changes.on_response(AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH), 0.0)
    assert (moved, again, toy.heard) == ([], True, [])
    assert sent(changes.next_request(1, 12)) == [(ORDERS, 0, 3)]


@pytest.mark.rule("I5")
def test_each_partition_hears_its_own_answer_and_only_what_must_is_asked_again() -> None:
    changes = IsrChanges()
    done, again, forgotten = Toy(outcome=Outcome(is_over=True)), Toy(outcome=Outcome(retry=True)), Toy()
    for number, toy in enumerate((done, again, forgotten)):
        propose(changes, toy, partition=number)
    changes.next_request(1, 11)
    moved, retry = changes.on_response(answer(0, 1, 9), 0.0)
    assert (moved, retry) == ([done], True)
    assert (done.heard, again.heard, forgotten.heard) == ([0], [0], [])
    assert sent(changes.next_request(1, 11)) == [(ORDERS, 1, 3), (ORDERS, 2, 3)]


@pytest.mark.rule("I5")
def test_what_newer_metadata_has_overtaken_is_neither_sent_nor_answered_nor_retried() -> None:
    changes, toy = IsrChanges(), Toy()
    propose(changes, toy)
    toy.pending = None
    assert changes.next_request(1, 11) is None
    propose(changes, toy)
    changes.next_request(1, 11)
    toy.pending = None
    assert changes.on_response(answer(0, error=ErrorCode.NOT_CONTROLLER), 0.0) == ([], False)
    assert (toy.heard, len(changes)) == ([], 0)


@pytest.mark.rule("I5")
def test_a_newer_proposal_waits_for_the_answer_to_the_older_one_and_replaces_it() -> None:
    changes, toy = IsrChanges(), Toy()
    propose(changes, toy, epoch=3)
    changes.next_request(1, 11)
    propose(changes, toy, epoch=4)
    assert changes.next_request(1, 11) is None
    assert changes.on_response(answer(0), 0.0) == ([], False)
    assert toy.heard == []
    assert sent(changes.next_request(1, 11)) == [(ORDERS, 0, 4)]
