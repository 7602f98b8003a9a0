"""How replication has been doing: of each partition, and window by window."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from tidelog.metadata.names import REPLICATION_EVENTS_TOPIC, is_internal

TOPIC: Final = REPLICATION_EVENTS_TOPIC


@dataclass(slots=True, kw_only=True)
class Figures:
    """Of a partition, or of all; then seconds are partition-seconds. Lag is in records, of all followers together."""

    shrinks: int = 0
    expands: int = 0
    leader_moves: int = 0
    unclean_elections: int = 0
    records_lost: int = 0
    under_replicated_s: float = 0.0
    stalled_s: float = 0.0
    lag_p50: int = 0
    lag_p95: int = 0
    lag_p99: int = 0
    lag_max: int = 0


@dataclass(slots=True, kw_only=True)
class PartitionHealth(Figures):
    """One partition over the whole time."""

    topic: str
    partition: int

    @property
    def trouble(self) -> tuple[float, ...]:
        """To sort by: who needs to be looked at comes first."""
        return (
            self.records_lost,
            self.unclean_elections,
            self.under_replicated_s + self.stalled_s,
            self.shrinks + self.leader_moves,
            self.lag_p99,
        )


@dataclass(slots=True, kw_only=True)
class InternalHealth(Figures):
    """All partitions of internal topics in one: sums, and the largest of each lag."""

    partitions: int = 0


@dataclass(slots=True, kw_only=True)
class WindowHealth(Figures):
    """All partitions in one window of time, which begins at `start_ms`."""

    start_ms: int


@dataclass(slots=True, kw_only=True)
class Health:
    """The whole report."""

    window_s: float
    events: int = 0
    first_ms: int = 0
    last_ms: int = 0
    brokers: Sequence[int] = ()
    # Events that brokers could not publish.
    dropped: int = 0
    # Samples in which a list is as long as a broker makes it: what it left out is not in the figures.
    full_samples: int = 0
    partitions: list[PartitionHealth] = field(default_factory=list)
    windows: list[WindowHealth] = field(default_factory=list)
    # In place of their partitions, once `fold_internal` was called.
    internal: InternalHealth | None = None

    def fold_internal(self) -> None:
        """Replaces the partitions of internal topics by one summary."""
        folded = [each for each in self.partitions if is_internal(each.topic)]
        if not folded:
            return
        figures: dict[str, Any] = {}
        for each in fields(Figures):
            values = [getattr(partition, each.name) for partition in folded]
            figures[each.name] = max(values) if each.name.startswith("lag_") else sum(values)
        self.internal = InternalHealth(partitions=len(folded), **figures)
        self.partitions = [each for each in self.partitions if not is_internal(each.topic)]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"brokers": list(self.brokers)}
