"""What clients were told, compared with what the replicas have and with what was said before."""

from abc import ABC, abstractmethod

from tidelog.core.ids import TopicPartition
from tidelog.replication.roles import Leader
from tidelog.sim.checks.clients import ConsistentRead, GroupCommits
from tidelog.sim.checks.finding import Replicas
from tidelog.sim.checks.history import PartitionHistory
from tidelog.sim.checks.invariant import InvariantBroken
from tidelog.sim.checks.leaders import HighWatermark
from tidelog.sim.checks.logs import Idempotence
from tidelog.sim.checks.look import PartitionLook
from tidelog.sim.checks.replicas import LeaderCompleteness


class Told(ABC):
    """The part of `Watch` that workloads talk to."""

    _found: Replicas

    @abstractmethod
    def _history(self, partition: TopicPartition) -> PartitionHistory: ...

    @abstractmethod
    def _look(self, partition: TopicPartition) -> None: ...

    @abstractmethod
    def _look_of(self, partition: TopicPartition) -> PartitionLook | None: ...

    @abstractmethod
    def _fail(self, broken: InvariantBroken, look: PartitionLook | None) -> None: ...

    def on_acknowledged(self, partition: TopicPartition, offset: int, value: bytes, era: int) -> None:
        """A client was told, acks=all: it has to be committed by now. `era` is that in which it was sent."""
        history = self._history(partition)
        if history.era != era or offset < 0 or self._may_be_past(partition, history, offset):
            return
        self._look(partition)
        if offset >= history.true_hw:
            broken = LeaderCompleteness().broken(
                f"{partition}: {offset} was acknowledged, but no leader had a high watermark above {history.true_hw}"
            )
            self._fail(broken, self._look_of(partition))
        history.acknowledged_end = max(history.acknowledged_end, offset + 1)
        self._same_value(partition, offset, value)

    def on_read(self, partition: TopicPartition, position: int, offset: int, value: bytes, era: int) -> None:
        """A consumer at `position` was given the record at `offset`; `era` is that in which it began to read."""
        history = self._history(partition)
        if history.era != era or self._may_be_past(partition, history, offset):
            return
        if offset >= history.true_hw:
            self._look(partition)
        what = None
        if offset >= history.true_hw:
            what = f"{offset} was read, but no leader had a high watermark above {history.true_hw}"
        elif offset != position:
            what = f"the next offset to read was {position}, but {offset} was read"
        if what is not None:
            self._fail(ConsistentRead().broken(f"{partition}: {what}"), self._look_of(partition))
        self._same_value(partition, offset, value)

    def _may_be_past(self, partition: TopicPartition, history: PartitionHistory, offset: int) -> bool:
        """Whether it may have been said by a leader from before an unclean election that it has not heard of yet."""
        return history.era > 0 and any(
            replica.alive
            and isinstance(replica.role, Leader)
            and replica.role.epoch < history.first_epoch
            and replica.log.high_watermark > offset
            for replica in self._found.of.get(partition, {}).values()
        )

    def _same_value(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        known = self._history(partition).values.setdefault(offset, value)
        if known != value:
            what = f"{partition}: {offset} was {known!r} before and is {value!r} now"
            self._fail(ConsistentRead().broken(what), self._look_of(partition))

    def latest_of(self, partition: TopicPartition) -> tuple[int, int]:
        """Leader epoch and offset of the last answer of ListOffsets(latest) so far."""
        return self._history(partition).latest

    def on_latest(
        self, partition: TopicPartition, leader_epoch: int, offset: int, before: tuple[int, int], era: int
    ) -> None:
        """ListOffsets(latest) was answered; `before` is the answer that was known when it was asked."""
        history = self._history(partition)
        if history.era != era or leader_epoch < history.first_epoch:
            return
        if (offset < before[1]) if leader_epoch >= before[0] else (offset > before[1]):
            what = (
                f"{partition}: ListOffsets returned {before[1]} in epoch {before[0]}, then {offset} in {leader_epoch}"
            )
            self._fail(HighWatermark().broken(what), self._look_of(partition))
        history.latest = max(history.latest, (leader_epoch, offset))

    def on_commit_lost(self, stored: TopicPartition, partition: TopicPartition, committed: int, found: int) -> None:
        """`stored` is where the group's commits stand."""
        what = f"the group committed {committed} of {partition}, but now has {found}: see {stored}"
        self._fail(GroupCommits().broken(what, stored), None)

    def on_sequence_refused(self, partition: TopicPartition, what: str) -> None:
        """An idempotent client sent what comes next, or what it could not know to be written, and was refused."""
        look = self._look_of(partition)
        self._fail(Idempotence().broken(f"{partition}: {what}", partition), look)

    def leader_of(self, partition: TopicPartition) -> tuple[int, int] | None:
        """Who leads in the epoch that the committed metadata has, and that epoch, if it has heard of it and runs."""
        look = self._look_of(partition)
        leader = None if look is None else look.leader
        return None if look is None or leader is None else (leader.node_id, look.registration.leader_epoch)

    def end_of(self, partition: TopicPartition) -> int:
        """The highest high watermark that a leader has shown."""
        return self._history(partition).true_hw

    def era_of(self, partition: TopicPartition) -> int:
        return self._history(partition).era

    def first_epoch_of(self, partition: TopicPartition) -> int:
        """Leaders of earlier epochs are from before the last unclean election."""
        return self._history(partition).first_epoch
