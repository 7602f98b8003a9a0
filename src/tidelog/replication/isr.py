"""The in-sync set as its leader sees it: what is committed, and the one change that may be on its way (I4, I5).

    Committed -- a follower caught up ------> PendingExpand    the maximal ISR has the newcomer already
    Committed -- a follower fell behind ----> PendingShrink    the maximal ISR has the leaver still
    Committed -- unclean election is over --> PendingRecovery  the ISR stays as it is (C6)
    Pending   -- accepted, taken back, or overtaken by newer metadata --> Committed

While a change is pending nobody here knows whether the controller has committed it, so the high watermark counts the
larger of both sets: whoever may be elected has what was acknowledged.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from tidelog.core.ids import BrokerId
from tidelog.wire.errors import ErrorCode

Isr = frozenset[BrokerId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """As the controller has it, nothing pending. `recovering`: elected uncleanly and not yet told RECOVERED."""

    isr: Isr
    recovering: bool = False

    @property
    def maximal_isr(self) -> Isr:
        return self.isr


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PendingExpand:
    """Proposed: the newcomer joins."""

    committed: Committed
    newcomer: BrokerId
    reason: str
    isr: Isr = field(init=False)
    maximal_isr: Isr = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "isr", self.committed.isr)
        object.__setattr__(self, "maximal_isr", self.committed.isr | {self.newcomer})

    @property
    def proposed(self) -> Isr:
        return self.maximal_isr


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PendingShrink:
    """Proposed: the leavers go. They count until that is committed: one of them may be elected before."""

    committed: Committed
    leavers: Isr
    reason: str
    isr: Isr = field(init=False)
    maximal_isr: Isr = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "isr", self.committed.isr)
        object.__setattr__(self, "maximal_isr", self.committed.isr)

    @property
    def proposed(self) -> Isr:
        return self.committed.isr - self.leavers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PendingRecovery:
    """Proposed: the same ISR, and RECOVERED. Until then the ISR does not grow (C6)."""

    committed: Committed
    reason: str = "the leader of an unclean election has recovered"
    isr: Isr = field(init=False)
    maximal_isr: Isr = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "isr", self.committed.isr)
        object.__setattr__(self, "maximal_isr", self.committed.isr)

    @property
    def proposed(self) -> Isr:
        return self.isr


# Pending states are compared by identity: an answer is about this very proposal or it is stale.
Pending = PendingExpand | PendingShrink | PendingRecovery
IsrState = Committed | Pending


class Verdict(Enum):
    """What an answer to AlterPartition does to the proposal it is about."""

    ACCEPT = "accept"
    # The controller has the partition epoch we have, and did not do it: nor will any other controller.
    TAKE_BACK = "take back"
    # It may have been committed by an earlier copy of the same request: only newer metadata tells.
    LEAVE_PENDING = "leave pending"
    RETRY = "retry"


_VERDICTS: Final[dict[int, Verdict]] = {
    ErrorCode.NONE: Verdict.ACCEPT,
    ErrorCode.INELIGIBLE_REPLICA: Verdict.TAKE_BACK,
    ErrorCode.OPERATION_NOT_ATTEMPTED: Verdict.TAKE_BACK,
    ErrorCode.FENCED_LEADER_EPOCH: Verdict.LEAVE_PENDING,
    ErrorCode.INVALID_UPDATE_VERSION: Verdict.LEAVE_PENDING,
    ErrorCode.INVALID_REQUEST: Verdict.LEAVE_PENDING,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Verdict.LEAVE_PENDING,
    ErrorCode.UNKNOWN_TOPIC_ID: Verdict.LEAVE_PENDING,
    ErrorCode.NEW_LEADER_ELECTED: Verdict.LEAVE_PENDING,
}


def verdict(error_code: int) -> Verdict:
    """I5, in one table; an error that is not in it says nothing about the proposal."""
    return _VERDICTS.get(error_code, Verdict.RETRY)
