"""What a replica is at the moment: leader of an epoch, follower in an epoch, or without a log directory.

Roles are values, not flags: a partition holds exactly one, and everything a role needs stands in it.
"""

from dataclasses import dataclass

from tidelog.core.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The in-sync set as the controller has it, nothing pending: the maximal ISR is the ISR (I4)."""

    isr: frozenset[BrokerId]

    @property
    def maximal_isr(self) -> frozenset[BrokerId]:
        return self.isr


@dataclass(slots=True, kw_only=True)
class Leader:
    """Invariant: epoch_start_offset <= the log's end offset; high watermark moves forward only (W2)."""

    epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    epoch_start_offset: Offset
    replicas: tuple[BrokerId, ...]
    isr_state: Committed
    # What each follower has told by its fetch offset (F2); the leader's own end is the log's.
    follower_end_offsets: dict[BrokerId, Offset]


@dataclass(slots=True, kw_only=True)
class Follower:
    """A replica of a partition that `leader` leads (-1: nobody)."""

    epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    leader: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Offline:
    """The log directory failed; nothing is read or written until the replica is placed anew (C10)."""

    reason: str


Role = Leader | Follower | Offline
