"""Changes of in-sync sets on their way to the controller: one request at a time for the whole broker (I5).

Pure: the shell sends what `next_request` gives and hands back the answer or the failure. A proposal is retried until it
is answered or its partition has moved on; a partition has at most one, so the queue is bounded by the partitions.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from tidelog.core.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicIdPartition
from tidelog.metadata.image import LeaderRecoveryState
from tidelog.replication.isr import Pending
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    ResponsePartitionData,
    TopicData,
)

# The controller decides a request in one go and hears no heartbeat meanwhile; the others go with the next one.
MAX_PARTITIONS_PER_REQUEST: Final = 1_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an answer did to a partition."""

    retry: bool = False
    # Nothing is pending any more: a follower may be proposed again, and the high watermark may have moved.
    is_over: bool = False


class Proposer(Protocol):
    """The partition that proposed."""

    def is_pending(self, pending: Pending) -> bool:
        """Whether the proposal still stands: neither answered nor overtaken by newer metadata."""
        ...

    def on_isr_answer(self, pending: Pending, answer: ResponsePartitionData, now_s: float) -> Outcome: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """One partition's proposal, with the epochs under which it was made."""

    partition: Proposer
    key: TopicIdPartition
    pending: Pending
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    # Each member with the broker epoch of its fetches; the leader's own is put in when it is sent.
    isr: tuple[tuple[BrokerId, int], ...]

    @property
    def stands(self) -> bool:
        return self.partition.is_pending(self.pending)


class IsrChanges:
    """Invariant: `_in_flight` is what the one request under way carries, empty when there is none."""

    def __init__(self) -> None:
        self._waiting: dict[TopicIdPartition, IsrProposal] = {}
        self._in_flight: dict[TopicIdPartition, IsrProposal] = {}
        # Called when there may be something to send.
        self.on_waiting: Callable[[], None] = lambda: None

    @property
    def is_in_flight(self) -> bool:
        return bool(self._in_flight)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    def offer(self, proposal: IsrProposal) -> None:
        """Takes the place of an older one of the same partition, which newer metadata has overtaken."""
        self._waiting[proposal.key] = proposal
        self.on_waiting()

    def next_request(self, broker_id: int, broker_epoch: int) -> AlterPartitionRequest | None:
        """Everything that waits, in one request; None while one is under way or nothing waits."""
        if self._in_flight:
            return None
        request = AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch)
        topics: dict[object, TopicData] = {}
        for key in list(self._waiting)[:MAX_PARTITIONS_PER_REQUEST]:
            proposal = self._waiting.pop(key)
            if not proposal.stands:
                continue
            self._in_flight[key] = proposal
            topic = topics.get(key.topic_id)
            if topic is None:
                topic = topics[key.topic_id] = TopicData(topic_id=key.topic_id)
                request.topics.append(topic)
            topic.partitions.append(_partition_data(proposal, broker_id, broker_epoch))
        return request if self._in_flight else None

    def on_response(self, response: AlterPartitionResponse, now_s: float) -> tuple[list[Proposer], bool]:
        """The partitions that have no change under way any more, and whether something has to be tried again."""
        if response.error_code != ErrorCode.NONE:
            self.on_failure()
            return [], True
        sent, self._in_flight = self._in_flight, {}
        over: list[Proposer] = []
        again: list[IsrProposal] = []
        for topic in response.topics:
            for answer in topic.partitions:
                proposal = sent.pop(TopicIdPartition(topic.topic_id, answer.partition_index), None)
                if proposal is None or not proposal.stands:
                    continue
                outcome = proposal.partition.on_isr_answer(proposal.pending, answer, now_s)
                if outcome.retry:
                    again.append(proposal)
                if outcome.is_over:
                    over.append(proposal.partition)
        # What was asked and not answered is not known: it is asked again.
        return over, self._try_again([*again, *sent.values()])

    def on_failure(self) -> None:
        """No answer, or one about the whole request: nothing is known of any proposal in it."""
        sent, self._in_flight = self._in_flight, {}
        self._try_again(sent.values())

    def _try_again(self, proposals: Iterable[IsrProposal]) -> bool:
        standing = [proposal for proposal in proposals if proposal.stands]
        for proposal in standing:
            self._waiting.setdefault(proposal.key, proposal)
        return bool(standing)


def _partition_data(proposal: IsrProposal, sender: int, sender_epoch: int) -> PartitionData:
    return PartitionData(
        partition_index=proposal.key.partition,
        leader_epoch=proposal.leader_epoch,
        new_isr=[member for member, _ in proposal.isr],
        new_isr_with_epochs=[
            BrokerState(broker_id=member, broker_epoch=sender_epoch if member == sender else epoch)
            for member, epoch in proposal.isr
        ],
        # Said with every change: who proposes one has recovered.
        leader_recovery_state=LeaderRecoveryState.RECOVERED,
        partition_epoch=proposal.partition_epoch,
    )
