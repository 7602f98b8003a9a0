"""What must hold after every command of a story, each a class with its statement."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from tidelog.core.ids import TopicPartition
from tidelog.sim.scenario.replication.looking import PartitionView, ReplicaView
from tidelog.sim.scenario.replication.process import Write


class InvariantBroken(AssertionError):
    """A story went where no story may go."""


class Invariant(Protocol):
    def check(self, views: Iterable[PartitionView]) -> None: ...


@dataclass(slots=True)
class HighWatermarkHolds:
    """On a leader, within its epoch, the high watermark never goes back; nowhere does it pass the log's end (W2)."""

    _seen: dict[tuple[TopicPartition, int, int], int] = field(default_factory=dict)

    def check(self, views: Iterable[PartitionView]) -> None:
        for view in views:
            for broker in view.brokers:
                replica = broker.replica
                if replica is None:
                    continue
                where = f"{view.topic_partition} on {broker.broker_id}: {replica}"
                if replica.high_watermark > replica.log_end_offset:
                    raise InvariantBroken(f"the high watermark passed the log's end: {where}")
                if replica.leads:
                    key = (view.topic_partition, broker.broker_id, replica.leader_epoch)
                    if replica.high_watermark < self._seen.get(key, 0):
                        raise InvariantBroken(f"the high watermark went back from {self._seen[key]}: {where}")
                    self._seen[key] = replica.high_watermark


@dataclass(slots=True)
class OneLeaderPerEpoch:
    """No two replicas ever lead in the same leader epoch."""

    _leaders: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)

    def check(self, views: Iterable[PartitionView]) -> None:
        for view in views:
            for broker in view.brokers:
                if broker.replica is not None and broker.replica.leads:
                    key = (view.topic_partition, broker.replica.leader_epoch)
                    if self._leaders.setdefault(key, broker.broker_id) != broker.broker_id:
                        raise InvariantBroken(f"{self._leaders[key]} and {broker.broker_id} lead in one epoch: {view}")


@dataclass(slots=True)
class LogsMatch:
    """An offset written in one epoch holds the same record on every replica, now and ever (E6)."""

    _written: dict[tuple[TopicPartition, int, int], str] = field(default_factory=dict)

    def check(self, views: Iterable[PartitionView]) -> None:
        for view in views:
            for broker in view.brokers:
                for entry in broker.replica.entries if broker.replica else ():
                    key = (view.topic_partition, entry.offset, entry.epoch)
                    if self._written.setdefault(key, entry.value) != entry.value:
                        raise InvariantBroken(f"{entry} was {self._written[key]} before: {view}")


@dataclass(slots=True)
class AcknowledgedIsKept:
    """What was acknowledged with acks=all is in the log of every leader that the controller elects from then on.

    Stories that are about losing records say so (`loss=expected`), and tell what is lost, as they do with acks=1.
    """

    loss_expected: bool
    lost: list[str] = field(default_factory=list)
    _acknowledged: dict[tuple[TopicPartition, int], tuple[str, int]] = field(default_factory=dict)

    def on_ack(self, write: Write, first_offset: int) -> None:
        for offset, value in enumerate(write.values, first_offset):
            self._acknowledged[write.topic_partition, offset] = (value, write.acks)

    def values_acknowledged(self, topic_partition: TopicPartition) -> dict[int, str]:
        """With acks=all, by offset."""
        return {
            offset: value
            for (where, offset), (value, acks) in self._acknowledged.items()
            if where == topic_partition and acks == -1
        }

    def check(self, views: Iterable[PartitionView]) -> None:
        for view in views:
            leader = _elected(view)
            if leader is None:
                continue
            there = {entry.offset: entry.value for entry in leader.entries}
            for (where, offset), (value, acks) in list(self._acknowledged.items()):
                if where != view.topic_partition or offset < leader.log_start_offset or there.get(offset) == value:
                    continue
                del self._acknowledged[where, offset]
                how = "acks=all" if acks == -1 else f"acks={acks}"
                if acks == -1 and not self.loss_expected:
                    raise InvariantBroken(f"{where}: lost {value} at {offset}, acknowledged with {how}: {view}")
                self.lost.append(f"{where}: lost {value} at offset {offset}, acknowledged with {how}")


def _elected(view: PartitionView) -> ReplicaView | None:
    """The leader that the controller means, if it knows of it."""
    for broker in view.brokers:
        replica = broker.replica
        if replica is not None and replica.leads and replica.leader_epoch == view.registration.leader_epoch:
            return replica
    return None
