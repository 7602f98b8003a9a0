"""What the partitions of one broker share: the brokers as the metadata has them, the queue of ISR changes, counters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from tidelog.core.events import EventSink
from tidelog.core.ids import DIR_LOST, RESERVED_UUIDS
from tidelog.metadata.image import BrokerRegistration, nothing
from tidelog.replication.counters import ReplicationCounters
from tidelog.replication.isr_changes import IsrChanges
from tidelog.replication.throttle import ReplicationThrottle


@dataclass(slots=True)
class ReplicationContext:
    """Written by the manager alone, as it applies metadata."""

    brokers: Mapping[int, BrokerRegistration] = field(default_factory=nothing)
    # replica.lag.time.max.ms
    lag_s: float = 30.0
    changes: IsrChanges = field(default_factory=IsrChanges)
    counters: ReplicationCounters = field(default_factory=ReplicationCounters)
    on_event: EventSink = lambda event: None
    # What this broker, as a leader, sends to followers that are not in sync (C8).
    leader_throttle: ReplicationThrottle = field(default_factory=ReplicationThrottle.unlimited)

    def is_acceptable(self, broker_id: int, broker_epoch: int, directory: UUID) -> bool:
        """Unfenced, not shutting down, its directory online, and still the process that has fetched (I3, KIP-903)."""
        broker = self.brokers.get(broker_id)
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

    def is_alive(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced

    def epoch_of(self, broker_id: int) -> int:
        """The broker epoch in force as far as this broker has replayed; -1 if there is none."""
        broker = self.brokers.get(broker_id)
        return -1 if broker is None else broker.epoch
