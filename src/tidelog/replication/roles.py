"""What a replica is at the moment: leader of an epoch, follower in an epoch, or without a log directory.

Roles are values, not flags: a partition holds exactly one, and everything a role needs stands in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from tidelog.core.ids import BrokerId, LeaderEpoch, Offset, PartitionEpoch
from tidelog.replication.followers import FollowerState
from tidelog.replication.isr import IsrState
from tidelog.wire.errors import ErrorCode


@dataclass(slots=True, kw_only=True)
class Leader:
    """Invariants: epoch_start_offset <= the log's end offset; the high watermark moves forward only (W2);
    `followers` has every replica but this one; first_epoch <= epoch.
    """

    epoch: LeaderEpoch
    # Where this leadership began: an epoch may follow the other without another leader in between, such as when a
    # replica leaves the assignment. Nothing was cut since, so what waits from an earlier one waits on.
    first_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    epoch_start_offset: Offset
    replicas: tuple[BrokerId, ...]
    directories: Mapping[BrokerId, UUID]
    isr_state: IsrState
    followers: dict[BrokerId, FollowerState]


@dataclass(slots=True, kw_only=True)
class Follower:
    """A replica of a partition that `leader` leads (-1: nobody)."""

    epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    leader: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Offline:
    """No log to read or write: its directory failed (C10), or the replica was taken from this broker.

    `error` is what whoever asks, or waited, is told.
    """

    reason: str
    error: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR


Role = Leader | Follower | Offline


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleChange:
    """What applying metadata did to a partition."""

    # Leadership came, went, or begins a new epoch.
    leadership: bool = False
    # Follows another leader, in another epoch, or nobody any more.
    following: bool = False
    high_watermark_moved: bool = False
    # What was asked of the ISR is decided: the next change may be asked for.
    isr_decided: bool = False


UNCHANGED = RoleChange()
