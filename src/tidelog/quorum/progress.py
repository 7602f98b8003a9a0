"""What a leader knows of one replica, voter or observer."""

from dataclasses import dataclass
from math import inf

from tidelog.quorum.voters import ReplicaKey


@dataclass(slots=True)
class ReplicaProgress:
    """`end_offset` is durable there. Caught up at a time: it then held everything the leader had (as I1 counts)."""

    key: ReplicaKey
    end_offset: int = 0
    last_fetch_s: float = -inf
    last_caught_up_s: float = -inf
    # The leader's end when this replica last fetched; -1 before that.
    leader_end_at_fetch: int = -1
    # The high watermark of the last answer.
    told_high_watermark: int = -1

    def on_fetch(self, fetch_offset: int, leader_end_offset: int, now_s: float) -> None:
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_s = now_s
        elif 0 <= self.leader_end_at_fetch <= fetch_offset:
            self.last_caught_up_s = self.last_fetch_s
        self.last_fetch_s = now_s
        self.leader_end_at_fetch = leader_end_offset
