"""What the partitions of one broker share: the brokers as the metadata has them, the queue of ISR changes, counters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from tidelog.core.events import EventSink
from tidelog.core.ids import DIR_LOST, RESERVED_UUIDS
from tidelog.metadata.image import BrokerRegistration, nothing
from tidelog.replication.counters import ReplicationCounters
from tidelog.replication.isr_changes import IsrChanges
from tidelog.replication.refusals import Refusals
from tidelog.replication.throttle import ReplicationThrottle


@dataclass(slots=True)
class ReplicationContext:
    """Written by the manager alone, as it applies metadata."""

    brokers: Mapping[int, BrokerRegistration] = field(default_factory=nothing)
    # As the newest committed metadata has them, which may wait behind a large batch to be applied; None if unknown.
    announced: Mapping[int, BrokerRegistration] | None = None
    # replica.lag.time.max.ms
    lag_s: float = 30.0
    changes: IsrChanges = field(default_factory=IsrChanges)
    refusals: Refusals = field(default_factory=Refusals)
    counters: ReplicationCounters = field(default_factory=ReplicationCounters)
    on_event: EventSink = lambda event: None
    # What this broker, as a leader, sends to followers that are not in sync (C8).
    leader_throttle: ReplicationThrottle = field(default_factory=ReplicationThrottle.unlimited)

    @property
    def newest_brokers(self) -> Mapping[int, BrokerRegistration]:
        return self.brokers if self.announced is None else self.announced

    def is_acceptable(self, broker_id: int, broker_epoch: int, directory: UUID) -> bool:
        """Unfenced, not shutting down, its directory online, and still the process that has fetched (I3, KIP-903).

        By what was applied, and by what is known to come: the controller would refuse it by that.
        """
        applied, newest = self.brokers.get(broker_id), self.newest_brokers.get(broker_id)
        return _is_acceptable(applied, broker_epoch, directory) and (
            newest is applied or _is_acceptable(newest, broker_epoch, directory)
        )

    def is_alive(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def epoch_of(self, broker_id: int) -> int:
        """The broker epoch in force as far as this broker has replayed; -1 if there is none."""
        broker = self.brokers.get(broker_id)
        return -1 if broker is None else broker.epoch


def _is_acceptable(broker: BrokerRegistration | None, broker_epoch: int, directory: UUID) -> bool:
    return (
        broker is not None
        and broker.active
        and broker.epoch == broker_epoch
        and (
            directory != DIR_LOST
            if directory in RESERVED_UUIDS
            else not broker.log_dirs or directory in broker.log_dirs
        )
    )
