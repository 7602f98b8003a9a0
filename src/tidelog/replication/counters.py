"""Numbers of replication that only grow (O3); whoever shows metrics reads them."""

from dataclasses import dataclass


@dataclass(slots=True)
class ReplicationCounters:
    """Since this broker started."""

    isr_expands: int = 0
    isr_shrinks: int = 0
    failed_isr_updates: int = 0
