"""What a run does: the topic, the load, the faults, and what it takes to be believed."""

from dataclasses import dataclass, field
from typing import Final

from tidelog.client.security import Security
from tidelog.verify.verdict import Thresholds

DEFAULT_PARTITIONS: Final = 12
DEFAULT_REPLICATION_FACTOR: Final = 3
DEFAULT_MIN_ISR: Final = 2


class VerifyError(Exception):
    """The run could not be made; the message is one clear line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The load on one new topic."""

    bootstrap: str
    security: Security | None = None
    topic: str
    partitions: int = DEFAULT_PARTITIONS
    # None: 3, and 2 in sync, or what a smaller cluster can hold.
    replication_factor: int | None = None
    min_isr: int | None = None
    acks: str = "all"
    idempotent: bool = True
    producers: int = 2
    consumers: int = 2
    # Records per second of all producers together; 0 for as fast as they are acknowledged.
    rate: int = 2_000
    record_bytes: int = 100
    # Where the producers stop: a history takes about 40 bytes a record.
    max_records: int = 20_000_000
    keep_topic: bool = False

    def replicas(self, brokers: int) -> int:
        return self.replication_factor or min(DEFAULT_REPLICATION_FACTOR, brokers)

    def in_sync(self, brokers: int) -> int:
        return self.min_isr or min(DEFAULT_MIN_ISR, self.replicas(brokers))

    @property
    def max_message_bytes(self) -> int:
        """`max.message.bytes` of the topic: room for every batch of ours, and low enough to be overstepped cheaply."""
        return max(64 * 1024, 2 * self.record_bytes)

    @property
    def batch_bytes(self) -> int:
        return self.max_message_bytes // 4

    def topic_config(self, brokers: int) -> dict[str, str]:
        return {
            "min.insync.replicas": str(self.in_sync(brokers)),
            "max.message.bytes": str(self.max_message_bytes),
            # What is gone was lost: nothing may leave the log by age or size while we look.
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "cleanup.policy": "delete",
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """Rounds of `fault, hold, heal, wait until the ISRs are whole` over the kinds in shuffled order."""

    kinds: tuple[str, ...] = ()
    # None: as many as the time allows.
    rounds: int | None = None
    seed: int = 0
    # Seconds a fault lasts, drawn between the two; None: what the kind says.
    hold_s: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """Everything `run` wants to know."""

    workload: Workload
    seconds: float
    faults: FaultPlan = field(default_factory=FaultPlan)
    thresholds: Thresholds = field(default_factory=Thresholds)
    # How long the end may take: the answers to the last writes, the last ISR, the slowest consumer, the final read.
    settle_s: float = 120.0
